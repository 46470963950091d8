/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of the heap by class and by block, for statistics.
 *
 * Threads: any. Changes by other threads during a count may be counted or
 * not.
 */
#ifndef TCM_CORE_HEAP_CENSUS_H
#define TCM_CORE_HEAP_CENSUS_H

#include "core/core_config.h"

struct tcm_thread_cache;

/* Numbers of a class's objects. Its spans have `slots` objects; those that are
   free in none of the three places are in use. */
struct tcm_class_figures {
    uint64_t size;
    uint64_t spans;
    uint64_t slots;
    uint64_t central;
    uint64_t transfer;
    uint64_t cached;
    uint64_t in_use;
};

/* Objects in thread caches, by class. */
void tcm_census_cached(uint64_t cached[TCM_MAX_CLASSES]);
/* Fills OUT. CACHED: the element of the class from tcm_census_cached. */
void tcm_census_class(unsigned size_class, uint64_t cached,
                      struct tcm_class_figures *out);

/* Blocks in use. */
struct tcm_census {
    uint64_t blocks;
    uint64_t bytes;         /* usable */
    uint64_t histogram[64]; /* blocks by the bits of their usable size */
};
void tcm_census_blocks(struct tcm_census *out);

/* Calls VISIT for each large block, and for each slot of a class, of more than
   ABOVE bytes, in the order of addresses, with its object word (0: none). The
   block may be freed and its word change meanwhile. VISIT takes no lock. */
typedef void tcm_word_visit(void *ctx, uintptr_t start, size_t bytes,
                            uint64_t word);
void tcm_census_words(size_t above, tcm_word_visit *visit, void *ctx);

/* Free runs of the page heap, spare spans among the FREE ones: their number,
   and the pages of the longest. */
struct tcm_run_figures {
    uint64_t runs;
    uint64_t longest_pages;
};
void tcm_census_runs(struct tcm_run_figures *free,
                     struct tcm_run_figures *released);

/* Bytes of free objects in CACHE. */
uint64_t tcm_census_cache_bytes(const struct tcm_thread_cache *cache);

/* True if a block starts at PTR that is not known to be free; a block in a
   thread cache or a transfer cache counts as well. */
bool tcm_census_is_block(const void *ptr);

#endif
