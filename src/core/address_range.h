/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's address ranges: reserved ahead without memory, then given access
 * from the low end up, in multiples of TCM_GROW_STEP.
 *
 * Invariants: start and committed part of a range are multiples of
 * TCM_GROW_STEP. Reservations are aligned to their length where that is a power
 * of two, so that offsets are aligned as addresses are. Ranges are numbered in
 * the order in which they were made. The first one begins with the class map
 * (class_map.h) if it has full length; start and length are of the rest.
 *
 * Threads: the page heap lock is held, and for changes the growth lock too,
 * unless said otherwise.
 */
#ifndef TCM_CORE_ADDRESS_RANGE_H
#define TCM_CORE_ADDRESS_RANGE_H

#include "core/core_config.h"

#define TCM_MAX_RANGES 256

struct tcm_range {
    uintptr_t start;
    size_t length;    /* reserved */
    size_t committed; /* from the start: accessible, page map covers it */
};

struct tcm_range_table {
    uint32_t count;
    struct tcm_range range[TCM_MAX_RANGES];
};

/* Reserves the first range. If the address space has no room for it, a later
   request tries again. */
void tcm_range_init(struct tcm_range_table *table);

/* Index of the first range in which BYTES more can be committed; a new one is
   reserved if there is none. -1: no room. */
int tcm_range_with_room(struct tcm_range_table *table, size_t bytes);

/* Commits BYTES, a multiple of TCM_GROW_STEP, after the committed part, and
   covers them in page map and class map; the caller then adds BYTES to
   `committed`. The growth lock is held, the page heap lock is not. false: no
   room, or the system has no memory. */
bool tcm_range_commit(const struct tcm_range *range, size_t bytes);

/* Unmaps the newest range, unless it is the first or part of it is
   committed. */
void tcm_range_drop_unused(struct tcm_range_table *table);

static inline uintptr_t tcm_range_frontier(const struct tcm_range *range) {
    return range->start + range->committed;
}

#endif
