/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is alive while a trace is read: sizes asked for, and the peak of live
 * bytes and blocks.
 *
 * A processed trace is in order, so its peaks are the true ones. A raw trace is
 * read in the order of the file, where the events of one round of the recorder
 * stand thread by thread: its peak is that of this order, and `at_most` bounds
 * the true one. Let S be the bytes alive after a round, F those freed in it and
 * A those allocated in the next round. At any moment of the next round, events
 * published so far stand in that round or before it; and of what stands before
 * it, only events of the round before may be published later, so that up to F
 * bytes are still alive. Together that is S + F + A at most.
 *
 * Invariants: memory grows with live blocks, and with frees of two rounds whose
 * allocation was not seen.
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_LIVE_H
#define TOOL_MODEL_LIVE_H

#include "common/collections.h"

/* By the number of bits of the size: 0, 1, 2 to 3, 4 to 7, ... */
#define INFO_SIZES 65u

struct info_early {
    uint64_t *token;
    size_t count, capacity;
};

struct info_live {
    uint64_t sizes[INFO_SIZES]; /* successful requests */
    uint64_t bytes, blocks;     /* alive now */
    uint64_t peak_bytes, peak_bytes_ns;
    uint64_t peak_blocks, peak_blocks_ns;
    uint64_t at_most;     /* raw: bound on the true peak of bytes */
    uint64_t older_frees; /* raw: of blocks whose allocation was not seen */
    bool failed;          /* no memory: what follows is not counted */
    /* of the rounds, see above */
    uint64_t before_bytes, before_freed, freed, made;
    struct tool_map block; /* raw: sizes of live blocks by token */
    struct info_live_slot {
        bool lives;
        uint64_t size;
    } * slot; /* processed: live blocks */
    size_t slots;
    struct info_early early[2]; /* of this round and the one before */
};

void info_live_free(struct info_live *l);
/* Frees the memory of the blocks; the totals stay. */
void info_live_forget(struct info_live *l);

/* A raw trace. A free whose allocation was not seen yet is kept for two rounds.
 */
void info_live_made(struct info_live *l, uint64_t token, uint64_t size,
                    uint64_t ns);
void info_live_resized(struct info_live *l, uint64_t old, uint64_t token,
                       uint64_t size, uint64_t ns);
void info_live_freed(struct info_live *l, uint64_t token);
/* A barrier, or the end. */
void info_live_round(struct info_live *l);

/* The bound, never below the peak that was seen. */
static inline uint64_t info_live_at_most(const struct info_live *l) {
    return l->at_most > l->peak_bytes ? l->at_most : l->peak_bytes;
}

/* The least and the largest size that sizes[B] counts. */
static inline uint64_t info_size_from(unsigned b) {
    return b == 0 ? 0 : (uint64_t)1 << (b - 1);
}
static inline uint64_t info_size_to(unsigned b) {
    return b == 0 ? 0 : info_size_from(b) - 1 + info_size_from(b);
}

/* A processed trace: SLOT holds a block of SIZE from now on, or nothing. False:
   SLOT is not below LIMIT, which bounds the memory. */
bool info_live_slot(struct info_live *l, uint32_t slot, uint64_t limit,
                    uint64_t size, uint64_t ns);
void info_live_slot_freed(struct info_live *l, uint32_t slot);
/* Whether SLOT holds a block. */
bool info_live_slot_lives(const struct info_live *l, uint32_t slot);

#endif
