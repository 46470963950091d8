/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's address ranges: memory is mapped from the low end up, in multiples
 * of TCM_GROW_STEP. The rest of a range is free addresses, which count against
 * no limit of the process; if something is mapped there, the range ends before
 * it. Ranges may overlap in what they have not mapped: the first to map it has
 * it. A range belongs to one shard of the page heap. Ranges of shard 0
 * are chosen one by one; ranges of other shards are cut off the high end of the
 * first range.
 *
 * Invariants: start, length and committed part of a range are multiples of
 * TCM_GROW_STEP. Ranges are numbered in the order in which they were made.
 * The class map (page_map.h), if there is one, lies before the first range.
 *
 * Threads: the thread that makes the heap grow changes the table and lengths,
 * with the growth lock held. It changes `committed` with the lock of the
 * range's shard held too, so either lock is enough to read that. start and
 * shard of a range that has memory never change, and a range is complete before
 * `count` includes it. So the owner of a block, which was handed out later,
 * reads start and shard of its range without a lock.
 */
#ifndef TCM_CORE_ADDRESS_RANGE_H
#define TCM_CORE_ADDRESS_RANGE_H

#include "core/core_config.h"

#define TCM_MAX_RANGES 256

struct tcm_range {
    uintptr_t start;
    size_t length;
    size_t committed; /* from the start: mapped, page map covers it */
    uint32_t shard;
};

struct tcm_range_table {
    uint32_t count;
    uintptr_t place; /* preferred for the first range; 0: not chosen yet */
    struct tcm_range range[TCM_MAX_RANGES];
};

extern struct tcm_range_table tcm_ranges;

/* Makes the first range. If the address space has no room for it, a later
   request tries again. */
void tcm_range_init(struct tcm_range_table *table);

/* Makes a range of SHARD in which BYTES can be committed. Returns its index, or
   -1: no room. */
int tcm_range_add(struct tcm_range_table *table, uint32_t shard, size_t bytes);

/* Maps BYTES, a multiple of TCM_GROW_STEP, after the committed part, covers
   them in page map and class map, and reserves records for a heap of
   HEAP_BYTES; the caller then adds BYTES to `committed`. The growth lock is
   held, the page heap lock is not. false: no room, or the system has no memory,
   or a mapping of the program lies there; RANGE is then shorter. */
bool tcm_range_commit(struct tcm_range *range, size_t bytes,
                      uint64_t heap_bytes);

/* Drops the newest range if nothing of it is committed. Keeps the first range,
   and a range cut off that which still has its whole length. */
void tcm_range_drop_unused(struct tcm_range_table *table);

static inline uintptr_t tcm_range_frontier(const struct tcm_range *range) {
    return range->start + range->committed;
}

#endif
