/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving free memory back to the system.
 *
 * Invariants: only whole pages of the system go back; where those are larger
 * than ours, the ends of a run stay FREE. A run that is given back without the
 * lock is BUSY meanwhile and in the heap's list of those.
 *
 * Threads: the page heap lock is held, and dropped where it is said.
 */
#ifndef TCM_CORE_PAGE_RELEASE_H
#define TCM_CORE_PAGE_RELEASE_H

#include "base/atomic.h"
#include "core/core_stats.h"
#include "core/span.h"

/* Pages to be freed before the first release. */
#define TCM_FIRST_RELEASE_WAIT ((uint64_t)1 << 12)

/* Counters of the page heap have one writer at a time, the lock's holder. */
static inline void tcm_page_count(uint64_t *counter, uint64_t n) {
    tcm_store_relaxed(counter, *counter + n);
}

/* BYTES of RELEASED pages come into use. */
static inline void tcm_page_taken(uint64_t bytes) {
    tcm_page_count(&tcm_stats.system_bytes_taken, bytes);
    tcm_page_count(&tcm_page_stats.commit_count, 1);
}

/*
 * Gives RUN, FREE and in its set, or its upper end of at least PAGES, back to
 * the system. With UNLOCK the lock is dropped meanwhile; the caller's view of
 * the heap is stale afterwards. Pages given back; 0: the system or a missing
 * record refused.
 */
size_t tcm_page_release_run(struct tcm_span *run, size_t pages, bool unlock);

/* Gives back FREE runs, largest first, until PAGES are back or none is left;
   how many. UNLOCK as above. */
size_t tcm_page_release_locked(size_t pages, bool unlock);

/* After FREED pages were freed: gives some back if it is time. Drops the
   lock. */
void tcm_page_scavenge(size_t freed);

#endif
