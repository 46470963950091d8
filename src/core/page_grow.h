/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More pages than any run has: chains of FREE and RELEASED neighbours, and
 * growth of the page heap.
 *
 * Threads: the page heap lock is held. For growth the growth lock is held too;
 * the page heap lock is dropped while the system is asked, so the caller's view
 * of the heap is stale afterwards.
 */
#ifndef TCM_CORE_PAGE_GROW_H
#define TCM_CORE_PAGE_GROW_H

#include "core/span.h"

/* Grows so that a chain of PAGES exists at the end of a range, unless another
   thread takes of it meanwhile. The range's index, or -1. */
int tcm_page_grow(size_t pages);
/* Commits BYTES more of a range, a multiple of TCM_GROW_STEP, which become
   RELEASED pages. false: no room, or the system refused. */
bool tcm_page_extend(uint32_t index, size_t bytes);

/* A FREE run of PAGES or more, made of a chain around one of the longest FREE
   runs: the RELEASED parts that are needed become FREE. NULL: none. */
struct tcm_span *tcm_page_join_somewhere(size_t pages);
/* The same with the chain at the end of a range. */
struct tcm_span *tcm_page_join_at_end(uint32_t index, size_t pages);

#endif
