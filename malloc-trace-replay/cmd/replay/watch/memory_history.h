/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * History of each page of the address space: when a block was last seen on it,
 * and whether it was resident. It takes five bytes for each page that ever had
 * a block, in leaves of MEMORY_LEAF_PAGES pages.
 *
 * Invariants: memory comes only from the caller's function, and only when a
 * block is noted, so residency can be noted while mappings are read. Pages
 * without a leaf have no history.
 * Threads: one at a time.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_MEMORY_HISTORY_H
#define TOOL_CMD_REPLAY_WATCH_MEMORY_HISTORY_H

#include "base/compiler.h"

#include <stddef.h>

/* Bits of user addresses that have a past. */
#define MEMORY_ADDRESS_BITS 48
#define MEMORY_LEAF_PAGES   16384u

struct memory_leaf {
    uint32_t seen[MEMORY_LEAF_PAGES]; /* 0: no block was seen there */
    uint8_t state[MEMORY_LEAF_PAGES];
    struct memory_leaf *next; /* in the order of making */
};

/* All zero but the first three fields at first. */
struct memory_history {
    unsigned page_shift; /* log2 of the system's page size */
    /* Returns BYTES zero bytes, which stay; NULL: out of memory. */
    void *(*take)(void *ctx, size_t bytes);
    void *ctx;
    struct memory_leaf **leaf, *first; /* by address */
    uint64_t bytes;                    /* that were taken, except for `leaf` */
};

/* Bytes of address space that the directory of leaves needs; most of it is
   never touched. */
size_t memory_history_directory_bytes(const struct memory_history *h);

/* Returns the leaf of PAGE, a number of a page; NULL: none. */
struct memory_leaf *memory_history_leaf(const struct memory_history *h,
                                        uint64_t page);
static inline size_t memory_history_place(uint64_t page) {
    return (size_t)(page % MEMORY_LEAF_PAGES);
}

/* Notes that a block of SIZE bytes at ADDRESS was seen at NOW, not 0. */
void memory_history_block(struct memory_history *h, uintptr_t address,
                          uint64_t size, uint32_t now);
/* Notes that COUNT pages from PAGE on are resident, as far as they have a
   leaf. */
void memory_history_resident(struct memory_history *h, uint64_t page,
                             uint64_t count);
/* Ends a look at residency. Pages that were resident at the look before, and no
   more, are the *BACK; those that are again, after a look at which they were
   not, are the *AGAIN. */
void memory_history_turn(struct memory_history *h, uint64_t *back,
                         uint64_t *again);

#endif
