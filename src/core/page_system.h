/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the page heap takes from the system and returns to it.
 *
 * Invariants: only whole pages of the system are returned; where those are
 * larger than the heap's, the ends of a run stay FREE. While the system takes
 * a run back, the run is BUSY and in the heap's list of busy runs.
 *
 * Threads: the shard's lock is held, and dropped while the system is asked: the
 * caller's view of the shard is stale afterwards. For growth the growth lock is
 * held too.
 */
#ifndef TCM_CORE_PAGE_SYSTEM_H
#define TCM_CORE_PAGE_SYSTEM_H

#include "core/run_set.h"

/* Makes HEAP grow so that there is a chain of PAGES at the end of a range,
   unless another thread takes some meanwhile. Returns the index of the range,
   or -1. */
int tcm_page_grow(struct tcm_page_heap *heap, size_t pages);
/* Commits BYTES more (a multiple of TCM_GROW_STEP) of the range INDEX, as
   RELEASED pages. false: no room, or the system refused. */
bool tcm_page_extend(uint32_t index, size_t bytes);

/* Returns RUN, which is FREE and in its set, or its upper end of at least
   PAGES, to the system. Returns the number of pages; 0: the system refused, or
   there is no memory for a record. */
size_t tcm_page_release_run(struct tcm_span *run, size_t pages);

/* Returns FREE runs of HEAP to the system, longest first, until PAGES are
   returned or none is left. Returns the number of pages. */
size_t tcm_page_release_locked(struct tcm_page_heap *heap, size_t pages);

/* Counts PAGES of HEAP that are about to be freed, and returns other pages to
   the system when a window ends. Returns true then. */
bool tcm_page_scavenge(struct tcm_page_heap *heap, size_t pages);
/* Called without a lock when a window of HEAP has ended: ends one of another
   shard, each in its turn, if no pages of that were allocated or freed since
   its last turn. */
void tcm_page_scavenge_asleep(const struct tcm_page_heap *heap);

#endif
