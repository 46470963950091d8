/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's address ranges: reserved ahead without memory, then given access
 * from the low end up, in multiples of TCM_GROW_STEP. A range belongs to one
 * shard of the page heap. Those of shard 0 are reserved one by one; those of
 * the others are cut off the high end of the first.
 *
 * Invariants: start and committed part of a range are multiples of
 * TCM_GROW_STEP. Reservations are aligned to their length where that is a power
 * of two, so that offsets are aligned as addresses are. Ranges are numbered in
 * the order in which they were made. The first one begins with the class map
 * (page_map.h) if it has full length, and ends with addresses for leaves of
 * the page map and for records; start and length are of the rest.
 *
 * Threads: the table is changed by the thread that makes the heap grow, with
 * the growth lock, `committed` also with the lock of the range's shard. So
 * either lock is enough to read it. start and shard never change, and a range
 * is complete before the count says that it is there: the owner of a block in
 * it, who was handed the block later, needs no lock to read them.
 */
#ifndef TCM_CORE_ADDRESS_RANGE_H
#define TCM_CORE_ADDRESS_RANGE_H

#include "core/core_config.h"

#define TCM_MAX_RANGES 256

struct tcm_range {
    uintptr_t start;
    size_t length;    /* reserved */
    size_t committed; /* from the start: accessible, page map covers it */
    uint32_t shard;
};

struct tcm_range_table {
    uint32_t count;
    /* RLIMIT_AS when the first range was made; UINT64_MAX: none. Then it is not
       asked for again: a program may have confined itself since
       (doc/containers.md). */
    uint64_t address_limit;
    struct tcm_range range[TCM_MAX_RANGES];
};

extern struct tcm_range_table tcm_ranges;

/* Reserves the first range. If the address space has no room for it, a later
   request tries again. */
void tcm_range_init(struct tcm_range_table *table);

/* Index of the first range of SHARD in which BYTES more can be committed; a new
   one is made if there is none. -1: no room. */
int tcm_range_with_room(struct tcm_range_table *table, uint32_t shard,
                        size_t bytes);

/* Commits BYTES, a multiple of TCM_GROW_STEP, after the committed part, and
   covers them in page map and class map; the caller then adds BYTES to
   `committed`. The growth lock is held, the page heap lock is not. false: no
   room, or the system has no memory. */
bool tcm_range_commit(const struct tcm_range *range, size_t bytes);

/* Unmaps the newest range, unless part of it is committed or it is the first,
   or a part of that. */
void tcm_range_drop_unused(struct tcm_range_table *table);

static inline uintptr_t tcm_range_frontier(const struct tcm_range *range) {
    return range->start + range->committed;
}

#endif
