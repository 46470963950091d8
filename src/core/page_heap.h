/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page heap: spans of pages in address ranges. run_set.h has its state and
 * splits and merges free runs; page_system.h makes it grow into the ranges and
 * returns memory to the system.
 *
 *    range  |<----- committed ----->|<--- not mapped ---> ...
 *           [used][FREE][used][REL.]
 *
 * Invariants: the spans of a range cover its committed part without gaps. The
 * page map holds a span at its first and last page, a SMALL one at every page,
 * and nothing between. No two FREE runs, and no two RELEASED runs, are
 * neighbours inside a range (a FREE and a RELEASED one may be). Position means
 * range index, then offset: no choice depends on absolute addresses, except for
 * alignments above TCM_GROW_STEP.
 *
 * Threads: the heap is divided into shards, each with ranges, free runs and a
 * lock of its own, rank PAGE_HEAP; all but the first are opened when threads
 * meet at a lock. The lock is dropped while the system gives memory or takes it
 * back. A thread that makes the heap grow holds the growth lock, rank
 * GROWTH, for which only threads wait that find no pages. All locks of shards
 * are held together only by a thread that holds the growth lock.
 */
#ifndef TCM_CORE_PAGE_HEAP_H
#define TCM_CORE_PAGE_HEAP_H

#include "core/run_set.h"
#include "core/span.h"

void tcm_page_heap_init(void);

/*
 * Allocates a span of PAGES pages whose start is a multiple of ALIGN_PAGES (a
 * power of two), in STATE (MOVING or LARGE), with a record of BIT_WORDS words;
 * the page map has it at its ends. *ZEROED, unless NULL, becomes true if all
 * bytes are 0. The caller holds no lock of core. NULL: out of memory.
 */
struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed);
/* Allocates a MOVING span of FREE pages of the thread's shard, as
   tcm_page_heap_alloc does. NULL: there are too few. */
struct tcm_span *tcm_page_heap_alloc_idle(size_t pages, unsigned bit_words);
/* Allocates a LARGE span of PAGES pages, all bytes 0, of RELEASED pages of the
   thread's shard. NULL: FREE pages would serve the request, or there are too
   few pages without growth. */
struct tcm_span *tcm_page_heap_alloc_zeroed(size_t pages);
/* Frees a MOVING or LARGE span, which the page map has at its ends only and
   without entries. */
void tcm_page_heap_free(struct tcm_span *span);
/* Resizes a LARGE span to PAGES in place. false: not possible there. */
bool tcm_page_heap_resize(struct tcm_span *span, size_t pages);
/* Returns at least PAGES FREE pages to the system, if there are that many.
   Returns the number of pages. */
size_t tcm_page_heap_release(size_t pages);

/* Settings of all shards: the bound on memory in use (0: none), the rate at
   which FREE pages are returned, in thousandths, and whether they are returned
   at once. */
void tcm_page_heap_set_limit(uint64_t pages);
void tcm_page_heap_set_rate(uint32_t milli);
void tcm_page_heap_set_at_once(bool at_once);

/* Figures in pages, except for the number of blocks; all of one moment. */
struct tcm_page_figures {
    uint64_t committed, free, released, busy, large, large_blocks;
};
void tcm_page_heap_figures(struct tcm_page_figures *out);

/* All locks, around fork. */
void tcm_page_heap_lock_all(void);
/* tcm_lock_is_stuck for any of these locks. */
bool tcm_page_heap_is_stuck(uint64_t ns);
void tcm_page_heap_unlock_all(void);
/* Called in the child of fork with the locks held. */
void tcm_page_heap_fork_child(void);

/* The span of any state that covers ADDRESS, or NULL; slow. */
struct tcm_span *tcm_page_heap_find(const void *address);

#endif
