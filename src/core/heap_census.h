/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of the heap by class and by block, for statistics.
 *
 * Threads: any. What other threads change meanwhile is counted as of before or
 * after the change.
 */
#ifndef TCM_CORE_HEAP_CENSUS_H
#define TCM_CORE_HEAP_CENSUS_H

#include "core/core_config.h"

struct tcm_thread_cache;

/* Objects of a class: SLOTS are those of its spans; those that are not free in
   one of three places are in use. */
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
/* CACHED: of the class, from the above. */
void tcm_census_class(unsigned size_class, uint64_t cached,
                      struct tcm_class_figures *out);

/* Blocks in use: how many, their usable bytes, and by the number of bits that
   their usable size has. */
struct tcm_census {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t histogram[64];
};
void tcm_census_blocks(struct tcm_census *out);

/* Free runs of the page heap: how many, and the pages of the longest. */
struct tcm_run_figures {
    uint64_t runs;
    uint64_t longest_pages;
};
void tcm_census_runs(struct tcm_run_figures *free,
                     struct tcm_run_figures *released);

/* Bytes of free objects in CACHE. */
uint64_t tcm_census_cache_bytes(const struct tcm_thread_cache *cache);

/* True if a block starts at PTR that is not known to be free; one in a thread
   cache or a transfer cache still counts as a block. */
bool tcm_census_is_block(const void *ptr);

#endif
