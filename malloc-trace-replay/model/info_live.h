/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live blocks while a trace is read: requested sizes, and the peaks of live
 * bytes and blocks.
 *
 * A processed trace is in order, and its peaks are those of that order. A raw
 * trace is read in the order of the file, where the events of one round of the
 * recorder are grouped by thread. Its peak is that of the file's order, and
 * `at_most` bounds the true peak: let S be the bytes that are live after a
 * round, F the bytes freed in it, and A the bytes allocated in the next round.
 * At any moment of the next round, all events published so far are in that
 * round or before it. Of the events before it, only those of the round before
 * may be published later, so up to F bytes are still live. Together that is at
 * most S + F + A.
 *
 * Invariants: memory grows with the live blocks, and with the frees of two
 * rounds whose allocation was not seen.
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_INFO_LIVE_H
#define TOOL_MODEL_INFO_LIVE_H

#include "common/collections.h"

/* Classes of sizes, by the number of bits: 0, 1, 2 to 3, 4 to 7, ... */
#define INFO_SIZES 65u

/* Tokens that were freed or resized before their allocation was seen. */
struct info_early {
    uint64_t *token;
    size_t count, capacity;
};

struct info_live {
    uint64_t sizes[INFO_SIZES]; /* successful requests, by class of size */
    uint64_t bytes, blocks;     /* live at present */
    uint64_t peak_bytes, peak_bytes_ns;
    uint64_t peak_blocks, peak_blocks_ns;
    uint64_t at_most;     /* raw: bound of the true peak of bytes */
    uint64_t older_frees; /* raw: of blocks whose allocation was not seen */
    bool failed;          /* no memory: later events are not counted */
    /* S and F of the round before, and bytes freed and made in this one */
    uint64_t before_bytes, before_freed, freed, made;
    struct tool_map block; /* raw: sizes of live blocks by token */
    struct info_live_slot {
        bool lives;
        uint64_t size;
    } * slot; /* processed: blocks by slot */
    size_t slots;
    struct info_early early[2]; /* of this round and the one before */
};

void info_live_free(struct info_live *l);
/* Frees the memory of the blocks; the totals stay. */
void info_live_forget(struct info_live *l);

/* Events of a raw trace, at the time NS. A free whose allocation was not seen
   yet is kept for two rounds. */
void info_live_made(struct info_live *l, uint64_t token, uint64_t size,
                    uint64_t ns);
void info_live_resized(struct info_live *l, uint64_t old, uint64_t token,
                       uint64_t size, uint64_t ns);
void info_live_freed(struct info_live *l, uint64_t token);
/* Ends a round of a raw trace, at a barrier or at the end. */
void info_live_round(struct info_live *l);

/* Returns the bound of the true peak, never below the peak that was seen. */
static inline uint64_t info_live_at_most(const struct info_live *l) {
    return l->at_most > l->peak_bytes ? l->at_most : l->peak_bytes;
}

/* The least and the largest size of class B. */
static inline uint64_t info_size_from(unsigned b) {
    return b == 0 ? 0 : (uint64_t)1 << (b - 1);
}
static inline uint64_t info_size_to(unsigned b) {
    return b == 0 ? 0 : info_size_from(b) - 1 + info_size_from(b);
}

/* Operations of a processed trace: SLOT gets a block of SIZE at the time NS, or
   loses it. False: SLOT is not below LIMIT, which bounds the memory. */
bool info_live_slot(struct info_live *l, uint32_t slot, uint64_t limit,
                    uint64_t size, uint64_t ns);
void info_live_slot_freed(struct info_live *l, uint32_t slot);
/* Tells whether SLOT holds a block. */
bool info_live_slot_lives(const struct info_live *l, uint32_t slot);

#endif
