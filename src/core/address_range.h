/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's address ranges: reserved ahead without memory, then given access
 * from the low end up, in multiples of TCM_GROW_STEP. A range belongs to one
 * shard of the page heap. Ranges of shard 0 are reserved one by one; ranges of
 * other shards are cut off the high end of the first range.
 *
 * Invariants: start and committed part of a range are multiples of
 * TCM_GROW_STEP. Reservations are aligned to their length where that is a power
 * of two, so that offsets are aligned as addresses are. Ranges are numbered in
 * the order in which they were made. If the first range has full length, it
 * begins with the class map (page_map.h) and ends with addresses for leaves of
 * the page map and for records; start and length are those of the part between.
 *
 * Threads: the thread that makes the heap grow changes the table, with the
 * growth lock held. It changes `committed` with the lock of the range's shard
 * held too, so either lock is enough to read that. start and shard never
 * change, and a range is complete before `count` includes it. So the owner of a
 * block, which was handed out later, reads start and shard of its range without
 * a lock.
 */
#ifndef TCM_CORE_ADDRESS_RANGE_H
#define TCM_CORE_ADDRESS_RANGE_H

#include "core/core_config.h"

#define TCM_MAX_RANGES 256
/* High end of a full first range: the leaves of its page map and the records.
   All addresses that the heap needs to use the range are reserved with it. */
#define TCM_RANGE_RECORDS ((size_t)4 << 30)

struct tcm_range {
    uintptr_t start;
    size_t length;    /* reserved */
    size_t committed; /* from the start: accessible, page map covers it */
    uint32_t shard;
};

struct tcm_range_table {
    uint32_t count;
    /* RLIMIT_AS when the first range was made. If it was UINT64_MAX (none), it
       is not read again: the program may have confined itself since
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

/* Unmaps the newest range, unless part of it is committed, or it is the first
   range or was cut off that. */
void tcm_range_drop_unused(struct tcm_range_table *table);

static inline uintptr_t tcm_range_frontier(const struct tcm_range *range) {
    return range->start + range->committed;
}

#endif
