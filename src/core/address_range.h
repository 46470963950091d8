/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's address ranges: reserved ahead without memory, then given access
 * from the low end up, in multiples of TCM_GROW_STEP.
 *
 * Invariants: a range's start is a multiple of TCM_GROW_STEP, and of its length
 * where that is a power of two, so that offsets are aligned as addresses are.
 * Ranges are numbered in the order of their making. The first one begins with
 * the class map (class_map.h) if it is of full length; its start and length are
 * those of the rest.
 *
 * Threads: the page heap lock is held, and for changes the growth lock.
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

/* Reserves the first range, before anything else is asked for. If there is no
   room for one, a later request tries again. */
void tcm_range_init(struct tcm_range_table *table);

/* Lowest range in which BYTES more can be committed; a new one is reserved if
   need be. Its index, or -1. */
int tcm_range_with_room(struct tcm_range_table *table, size_t bytes);

/* Commits BYTES, a multiple of TCM_GROW_STEP, after the committed part, and
   makes its places in page map and class map; the caller then adds BYTES to
   `committed`. Only one thread at a time does so, without the page heap lock.
   false: no room, or the system has no memory. */
bool tcm_range_commit(const struct tcm_range *range, size_t bytes);

/* Gives up the newest range, but not the first, if nothing of it is
   committed. */
void tcm_range_drop_unused(struct tcm_range_table *table);

static inline uintptr_t tcm_range_frontier(const struct tcm_range *range) {
    return range->start + range->committed;
}

#endif
