/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations as the decoding process hands them to the measuring process, in
 * words of 8 bytes, mostly one each; and the cells that hold the blocks of
 * recorded threads.
 *
 *   bits 0 to 31   slot, or index of a thread's cache
 *   bits 32 to 39  enum replay_code
 *   bits 40 to 63  size, saturated for a block that is freed without its size;
 *                  enum mtf_call in a REPLAY_LONG word
 *
 * Operations of several words:
 *   REPLAY_LONG     two words follow: the size, and
 *                   new << 63 | old size << 8 | log2 of the alignment, where
 *                   `new` tells a realloc of nothing from that of a block
 *   REPLAY_TRIM     one word follows: the pad
 *   REPLAY_PRESENT  precedes the REPLAY_LONG word of an allocation or realloc.
 *                   Bits 0 to 31: pages of 4 KiB, from the start of the block,
 *                   that are to be written. Bits 40 to 63: how many of these
 *                   were written before the realloc, at least
 *                   (replay_present_word)
 *
 * In replays on several threads (run/real.h), slots are cells, the operations
 * of a thread lie together (struct replay_segment), and two more codes occur:
 *   REPLAY_AWAIT  the next operation needs the block that another thread puts
 *                 into this cell; the block is there when the cell's generation
 *                 equals the size of this word
 *   REPLAY_INTO   the next operation reallocs a block of another thread; this
 *                 cell gets the new block
 *
 * Invariants: operations are consistent. An allocation names an empty slot; a
 * free or realloc names a slot that an allocation filled, unless the allocator
 * refused. REPLAY_WINDOW occurs only in batches for replay_deal_batch.
 *
 * Why: operations of 8 bytes leave most of the measured processor's cache to
 * the allocator.
 */
#ifndef TOOL_CMD_REPLAY_FEED_OP_H
#define TOOL_CMD_REPLAY_FEED_OP_H

#include "base/atomic.h"
#include "base/compiler.h"

/* --- Words ---------------------------------------------------------------- */

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
    REPLAY_LONG,       /* any call, with all its arguments */
    REPLAY_PRESENT,    /* pages to write of the next operation's block */
    REPLAY_AWAIT,
    REPLAY_INTO,
    REPLAY_WINDOW, /* the size is the number of windows that pass: see deal.h */
    REPLAY_SITE /* the slot is the call site of the allocations that follow, up
                   to the end of the segment, if batches have segments; only
                   observers read it */
};

/* Sizes in one-word operations are below this limit. */
#define REPLAY_SIZE_LIMIT ((uint64_t)1 << 24)
#define REPLAY_LONG_WORDS 3
#define REPLAY_TRIM_WORDS 2
/* Longest translation of a recorded operation: end of a window, free of a block
   whose own free was lost, switch, present bytes, and a long operation. */
#define REPLAY_WORDS_MAX (REPLAY_LONG_WORDS + 4)

static TCM_ALWAYS_INLINE uint64_t replay_word(enum replay_code code,
                                              uint32_t slot, uint64_t size) {
    return slot | (uint64_t)code << 32 | size << 40;
}
#define REPLAY_PRESENT_PAGE ((uint64_t)4096)
/* Says that the first PRESENT bytes of a block are to be written, and that the
   first WRITTEN bytes were already. */
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

/* --- Touching ------------------------------------------------------------- */

/* Bytes that the measured loop writes to a block when it is allocated or
   grows. */
enum replay_touch {
    REPLAY_TOUCH_AUTO = 0, /* FIRST below 4 KiB, else ALL, or present bytes */
    REPLAY_TOUCH_NONE,
    REPLAY_TOUCH_FIRST, /* the first 8 bytes */
    REPLAY_TOUCH_PAGE,  /* one byte in each page */
    REPLAY_TOUCH_ALL,
    REPLAY_TOUCH_USE /* like AUTO; up to 4 KiB are read before the free */
};
#define REPLAY_TOUCHES (REPLAY_TOUCH_USE + 1)

/* Name of TOUCH on the command line. */
static inline const char *replay_touch_name(enum replay_touch touch) {
    static const char *const name[REPLAY_TOUCHES] = {"auto", "none", "first",
                                                     "page", "all",  "use"};
    return name[touch];
}

/* --- Cells ---------------------------------------------------------------- */

/*
 * A cell holds a block in a replay on several threads. Slots of the trace are
 * reused across threads; replaying that reuse would order the threads. So the
 * decoding process gives each allocation a cell that no earlier operation still
 * uses, like register renaming in a processor.
 *
 *   bits 0 to 47   the block, 0 if the allocator refused it
 *   bits 48 to 63  generation: number of writes to the cell, modulo 2^16
 *
 * Invariants: only the thread that owns a cell writes it, with blocks that this
 * thread allocates. The next write follows all uses of the last block, and
 * there are fewer than 2^16 writes before a thread that waits for one of them
 * has seen it.
 *
 * Threads: the owner stores with release. Another thread waits, with acquire,
 * for a given generation, and then sees the block as its owner left it. The
 * owner's own loads need no order.
 */

/* Cells are given out in lines, so that no cache line has two writers. */
#define REPLAY_CELLS_AT_ONCE 8u
#define REPLAY_CELL_BITS     48

static TCM_ALWAYS_INLINE void *replay_cell_block(const uint64_t *cell) {
    return (void *)(uintptr_t)(tcm_load_relaxed(cell) &
                               (((uint64_t)1 << REPLAY_CELL_BITS) - 1));
}
static TCM_ALWAYS_INLINE void replay_cell_put(uint64_t *cell, const void *p) {
    uint64_t generation = (tcm_load_relaxed(cell) >> REPLAY_CELL_BITS) + 1;
    /* Publishes the block; pairs with replay_cell_has. */
    tcm_store_release(cell,
                      generation << REPLAY_CELL_BITS | (uint64_t)(uintptr_t)p);
}
/* True if the cell has the block of GENERATION. */
static TCM_ALWAYS_INLINE bool replay_cell_has(const uint64_t *cell,
                                              size_t generation) {
    return tcm_load_acquire(cell) >> REPLAY_CELL_BITS == generation;
}

#endif
