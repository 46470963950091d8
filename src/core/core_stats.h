/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the allocator, counted in slow paths only. Names outside are
 * "tcmalloc." followed by the field's name.
 *
 * Threads: relaxed atomics; a reader sees each monotone, not all of one moment.
 */
#ifndef TCM_CORE_STATS_H
#define TCM_CORE_STATS_H

#include "base/atomic.h"
#include "base/compiler.h"

#define TCM_STATS(X)                                                           \
    X(thread_cache_misses)                                                     \
    X(thread_cache_overflows)                                                  \
    X(central_fetches)                                                         \
    X(central_returns)                                                         \
    X(transfer_cache_hits)                                                     \
    X(spans_made)                                                              \
    X(spans_freed)                                                             \
    X(system_bytes_taken)                                                      \
    X(system_bytes_returned)

struct tcm_stats {
#define X(name) uint64_t name;
    TCM_STATS(X)
#undef X
};

/* Those of the page heap, written under its lock; the others are 0 here. */
extern struct tcm_stats tcm_stats;

/* A copy of all counters. */
void tcm_stats_read(struct tcm_stats *out);

/* How often the page heap did what; written under its lock. Names outside are
   "tcmalloc.pageheap_" followed by the field's name. */
struct tcm_page_stats {
    uint64_t reserve_count;  /* growths */
    uint64_t commit_count;   /* times that RELEASED pages came into use */
    uint64_t decommit_count; /* runs given back to the system */
    uint64_t scavenge_count; /* releases that nobody had asked for */
};
extern struct tcm_page_stats tcm_page_stats;

#endif
