/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Returning the memory of FREE runs to the system.
 *
 * Invariants: only whole pages of the system are returned; where those are
 * larger than the heap's, the ends of a run stay FREE. While the lock is
 * dropped the run is BUSY and in the heap's list of busy runs.
 *
 * Threads: the page heap lock is held, and dropped where that is said.
 */
#ifndef TCM_CORE_PAGE_RELEASE_H
#define TCM_CORE_PAGE_RELEASE_H

#include "core/span.h"

/* Pages to be freed before the first release. */
#define TCM_FIRST_RELEASE_WAIT ((uint64_t)1 << 12)

/*
 * Returns RUN, FREE and in its set, or its upper end of at least PAGES, to the
 * system. With UNLOCK the lock is dropped meanwhile, and the caller's view of
 * the heap is stale afterwards. The number of pages returned; 0: the system
 * refused, or no memory for a record.
 */
size_t tcm_page_release_run(struct tcm_span *run, size_t pages, bool unlock);

/* Returns FREE runs, longest first, until PAGES are returned or none is left.
   The number of pages returned. UNLOCK as above. */
size_t tcm_page_release_locked(size_t pages, bool unlock);

/* Counts FREED pages, and returns some if it is time. Drops the lock. */
void tcm_page_scavenge(size_t freed);

#endif
