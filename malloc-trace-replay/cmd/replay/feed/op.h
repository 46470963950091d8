/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ready operations that the decoding process hands to the measuring one:
 * words of 8 bytes, of which nearly every operation takes one.
 *
 *   bits 0 to 31   slot, or index of a thread's cache
 *   bits 32 to 39  enum replay_code
 *   bits 40 to 63  size, of a block that is freed without it saturated;
 *                  REPLAY_LONG: enum mtf_call
 *
 * A REPLAY_LONG word is followed by two more: the size, and
 * new << 63 | old size << 8 | log2 of the alignment, where `new` tells a
 * realloc of nothing from that of a block. A REPLAY_TRIM word is followed by
 * one more, the pad. A REPLAY_PRESENT word stands before the REPLAY_LONG of an
 * allocation or realloc and says how many pages of 4 KiB, from the block's
 * start, are written: bits 0 to 31; and how many of these were written before
 * the realloc already, at least: bits 40 to 63 (replay_present_word).
 *
 * Slots are cells (cell.h) where recorded threads run on threads of their own
 * (real.h); then the operations of a thread lie together (struct
 * replay_segment), and there are two more codes:
 *   REPLAY_AWAIT  the next operation needs the block that another thread puts
 *                 into this cell: it is there when the cell's generation is
 *                 this word's size
 *   REPLAY_INTO   the next operation reallocs another thread's block; the new
 *                 block goes into this cell
 *
 * Invariants: operations are consistent. An allocation names an empty slot, a
 * free or realloc one that an allocation filled, unless that was refused.
 * REPLAY_WINDOW occurs only in what replay_deal_batch is given.
 *
 * Why: with 8 bytes for an operation, little passes through the measured
 * processor's cache.
 */
#ifndef TOOL_CMD_REPLAY_FEED_OP_H
#define TOOL_CMD_REPLAY_FEED_OP_H

#include "base/compiler.h"

enum replay_code {
    REPLAY_MALLOC = 1,
    REPLAY_FREE,
    REPLAY_CALLOC,
    REPLAY_NEW,
    REPLAY_NEW_ARRAY,
    REPLAY_DELETE,
    REPLAY_DELETE_ARRAY,
    REPLAY_DELETE_SIZED,
    REPLAY_DELETE_ARRAY_SIZED,
    REPLAY_FREE_SIZED,
    REPLAY_SWITCH,     /* attach the cache of this index */
    REPLAY_THREAD_END, /* destroy the cache of this index */
    REPLAY_TRIM,       /* malloc_trim */
    REPLAY_LONG,       /* any call, with all it needs */
    REPLAY_PRESENT,    /* what is written of the next operation's block */
    REPLAY_AWAIT,
    REPLAY_INTO,
    REPLAY_WINDOW /* as many windows pass as the size says: see deal.h */
};

/* Sizes of one-word operations are below this. */
#define REPLAY_SIZE_LIMIT ((uint64_t)1 << 24)
#define REPLAY_LONG_WORDS 3
#define REPLAY_TRIM_WORDS 2
/* One recorded operation may become as much as the end of a window, the free of
   a block whose own free was lost, a switch, present bytes, and a long
   operation. */
#define REPLAY_WORDS_MAX (REPLAY_LONG_WORDS + 4)

static TCM_ALWAYS_INLINE uint64_t replay_word(enum replay_code code,
                                              uint32_t slot, uint64_t size) {
    return slot | (uint64_t)code << 32 | size << 40;
}
#define REPLAY_PRESENT_PAGE ((uint64_t)4096)
/* The first PRESENT bytes of a block are to be written; the first WRITTEN were
   already. */
static inline uint64_t replay_present_word(uint64_t written, uint64_t present) {
    written /= REPLAY_PRESENT_PAGE;
    present =
        present / REPLAY_PRESENT_PAGE + (present % REPLAY_PRESENT_PAGE != 0);
    return replay_word(
        REPLAY_PRESENT, present < UINT32_MAX ? (uint32_t)present : UINT32_MAX,
        written < REPLAY_SIZE_LIMIT ? written : REPLAY_SIZE_LIMIT - 1);
}
#define REPLAY_OLD_LIMIT ((uint64_t)1 << 55)
static inline uint64_t replay_long_word(uint64_t old, unsigned align_log2,
                                        bool is_new) {
    return (uint64_t)is_new << 63 | old << 8 | align_log2;
}
static inline uint64_t replay_long_old(uint64_t w) {
    return w << 1 >> 9;
}
static inline unsigned replay_long_align_log2(uint64_t w) {
    return (unsigned)w & 63;
}
static inline bool replay_long_is_new(uint64_t w) {
    return w >> 63;
}
static TCM_ALWAYS_INLINE uint32_t replay_word_slot(uint64_t w) {
    return (uint32_t)w;
}
static TCM_ALWAYS_INLINE unsigned replay_word_code(uint64_t w) {
    return (unsigned)(w >> 32) & 0xff;
}
static TCM_ALWAYS_INLINE size_t replay_word_size(uint64_t w) {
    return (size_t)(w >> 40);
}

/* Bytes that the measured loop writes to a block when it is allocated or
   grows. */
enum replay_touch {
    REPLAY_TOUCH_AUTO = 0, /* FIRST below 4 KiB, else ALL, or what is present */
    REPLAY_TOUCH_NONE,
    REPLAY_TOUCH_FIRST, /* the first 8 bytes */
    REPLAY_TOUCH_PAGE,  /* one byte in each page */
    REPLAY_TOUCH_ALL,
    REPLAY_TOUCH_USE /* as AUTO; up to 4 KiB are read before the free */
};
#define REPLAY_TOUCHES (REPLAY_TOUCH_USE + 1)

/* The word for it on the command line. */
static inline const char *replay_touch_name(enum replay_touch touch) {
    static const char *const name[REPLAY_TOUCHES] = {"auto", "none", "first",
                                                     "page", "all",  "use"};
    return name[touch];
}

#endif
