/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the allocator, counted in slow paths only. Their public names are
 * "tcmalloc." followed by the field's name.
 *
 * Threads: relaxed atomics; each counter only rises, but a copy of all is not
 * of one moment.
 */
#ifndef TCM_CORE_CORE_STATS_H
#define TCM_CORE_CORE_STATS_H

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

/* Counters of the page heap except for those that its shards count; the other
   counters are 0 here. Defined in run_set.c, as are the next two. */
extern struct tcm_stats tcm_stats;

/* Number of thread caches, set by their registry: with more than one, threads
   are kept from sharing cache lines and locks. A hint, read relaxed. */
extern uint32_t tcm_cache_count;

/* Counters of the page heap's operations. Their public names are
   "tcmalloc.pageheap_" followed by the field's name. */
struct tcm_page_stats {
    uint64_t reserve_count;  /* growths */
    uint64_t commit_count;   /* times that RELEASED pages came into use */
    uint64_t decommit_count; /* runs returned to the system */
    uint64_t scavenge_count; /* returns that were not requested */
};
extern struct tcm_page_stats tcm_page_stats;

/* Adds N to a counter of rare events, which all shards share. */
static inline void tcm_page_event(uint64_t *counter, uint64_t n) {
    (void)tcm_add_relaxed(counter, n);
}

/* Counts BYTES that the system took back. */
static inline void tcm_page_returned(uint64_t bytes) {
    tcm_page_event(&tcm_stats.system_bytes_returned, bytes);
    tcm_page_event(&tcm_page_stats.decommit_count, 1);
}

#endif
