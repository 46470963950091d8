/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live blocks of a foreign trace by their ids. All that is known of a block
 * lies in one place, so that an event touches one cache line of the table.
 *
 * Invariants: at most half of the places are taken, and each block stands
 * behind its home with no empty place between.
 * Threads: none shared.
 */
#ifndef TOOL_FORMATS_FORMAT_BLOCKS_H
#define TOOL_FORMATS_FORMAT_BLOCKS_H

#include "base/check.h"
#include "common/hash.h"

struct format_block {
    uint64_t id; /* 0: an empty place */
    uint64_t size;
    uint64_t birth; /* with `slot` a struct mtf_proc_object */
    uint32_t slot;
    /* The thread that made it; FORMAT_OWED: the free of the block before it at
       this id may come yet. */
    uint32_t maker;
};

#define FORMAT_OWED ((uint32_t)1 << 31)

TCM_STATIC_ASSERT(sizeof(struct format_block) == 32, "two in a cache line");

/* All zero is an empty table. */
struct format_blocks {
    struct format_block *place; /* NULL: none yet */
    size_t mask, count;
    uint64_t seed;
};

static inline uint64_t format_blocks_hash(const struct format_blocks *t,
                                          uint64_t id) {
    return tool_hash(id, t->seed);
}

/* The place of ID, whose hash is HASH, or the empty one where it would be. The
   table has places. */
static inline struct format_block *
format_blocks_place(const struct format_blocks *t, uint64_t id, uint64_t hash) {
    size_t i = hash & t->mask;
    while (t->place[i].id != 0 && t->place[i].id != id)
        i = (i + 1) & t->mask;
    return &t->place[i];
}

/* NULL: there is none. */
static inline struct format_block *
format_blocks_find(const struct format_blocks *t, uint64_t id) {
    if (t->count == 0)
        return NULL;
    struct format_block *b =
        format_blocks_place(t, id, format_blocks_hash(t, id));
    return b->id != 0 ? b : NULL;
}

bool format_blocks_grow(struct format_blocks *t);

/* Room for N more blocks, which may move the others. False: out of memory. */
static inline bool format_blocks_reserve(struct format_blocks *t, size_t n) {
    while (2 * (t->count + n) >= t->mask)
        if (!format_blocks_grow(t))
            return false;
    return true;
}

/* Puts BLOCK to its place, which is empty, or has what it replaces. There is
   room for it. */
static inline void format_blocks_put(struct format_blocks *t,
                                     struct format_block *place,
                                     const struct format_block *block) {
    TCM_ASSERT(block->id != 0 && (place->id == 0 || place->id == block->id));
    t->count += place->id == 0;
    *place = *block;
    TCM_ASSERT(2 * t->count <= t->mask + 1);
}

/* Takes B out. Others may move. */
static inline void format_blocks_remove(struct format_blocks *t,
                                        struct format_block *b) {
    size_t hole = (size_t)(b - t->place), i = hole;
    TCM_ASSERT(hole <= t->mask && b->id != 0 && t->count != 0);
    /* Blocks that the hole would cut off from their home move into it. */
    while (t->place[i = (i + 1) & t->mask].id != 0) {
        size_t home = format_blocks_hash(t, t->place[i].id) & t->mask;
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->place[hole] = t->place[i];
            hole = i;
        }
    }
    t->place[hole].id = 0;
    t->count--;
}

void format_blocks_fini(struct format_blocks *t);

#endif
