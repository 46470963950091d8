/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts of the trace's blocks that the decoding process keeps: a word a slot.
 *
 *   bit 0         the slot holds a block
 *   bits 1, 2     enum replay_family of the call it came from
 *   bits 3 to 8   log2 of its alignment, 0: none was asked for
 *   bits 9 to 62  its size, saturated
 *   bit 63        it is written in part: a table beside says how much
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_SLOT_WORDS_H
#define TOOL_CMD_REPLAY_FEED_SLOT_WORDS_H

#include "base/bits.h"
#include "base/compiler.h"
#include "cmd/replay/feed/op.h"
#include "traceformat/trace_event.h"

enum replay_family {
    REPLAY_FAMILY_MALLOC = 0,  /* malloc, calloc, realloc, reallocarray */
    REPLAY_FAMILY_NEW = 1,     /* all operators new */
    REPLAY_FAMILY_MEMALIGN = 2 /* the rest */
};

#define REPLAY_BLOCK_SIZE_MAX (((uint64_t)1 << 54) - 1)
TCM_STATIC_ASSERT(REPLAY_BLOCK_SIZE_MAX < REPLAY_OLD_LIMIT, "fits a long word");
/* The top bit: larger than any word without it. */
#define REPLAY_BLOCK_PARTLY ((uint64_t)1 << 63)

/* A slot's word; LOW: its low three bits. */
static TCM_ALWAYS_INLINE uint64_t replay_block(unsigned low,
                                               unsigned align_log2,
                                               uint64_t size) {
    if (TCM_UNLIKELY(size > REPLAY_BLOCK_SIZE_MAX))
        size = REPLAY_BLOCK_SIZE_MAX;
    return size << 9 | (uint64_t)align_log2 << 3 | low;
}
static TCM_ALWAYS_INLINE bool replay_block_lives(uint64_t b) {
    return b & 1;
}
static TCM_ALWAYS_INLINE enum replay_family replay_block_family(uint64_t b) {
    return (enum replay_family)(b >> 1 & 3);
}
static TCM_ALWAYS_INLINE unsigned replay_block_align_log2(uint64_t b) {
    return (unsigned)(b >> 3) & 63;
}
static TCM_ALWAYS_INLINE uint64_t replay_block_size(uint64_t b) {
    return b << 1 >> 10;
}

#define REPLAY_NEW_BITS      (REPLAY_FAMILY_NEW << 1 | 1)
#define REPLAY_MEMALIGN_BITS (REPLAY_FAMILY_MEMALIGN << 1 | 1)
/* Low bits of the slot's word, by call; those of malloc's family are 1. */
static const uint8_t replay_family_bits[MTF_CALL_LIMIT] = {
    [MTF_CALL_MALLOC] = 1,
    [MTF_CALL_CALLOC] = 1,
    [MTF_CALL_REALLOC] = 1,
    [MTF_CALL_REALLOCARRAY] = 1,
    [MTF_CALL_NEW] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_NOTHROW] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_NOTHROW] = REPLAY_NEW_BITS,
    [MTF_CALL_MEMALIGN] = REPLAY_MEMALIGN_BITS,
    [MTF_CALL_ALIGNED_ALLOC] = REPLAY_MEMALIGN_BITS,
    [MTF_CALL_POSIX_MEMALIGN] = REPLAY_MEMALIGN_BITS,
    [MTF_CALL_VALLOC] = REPLAY_MEMALIGN_BITS,
    [MTF_CALL_PVALLOC] = REPLAY_MEMALIGN_BITS,
    [MTF_CALL_NEW_ALIGNED] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_ALIGNED] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_ALIGNED_NOTHROW] = REPLAY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW] = REPLAY_NEW_BITS,
};

/* One-word operations: codes by call, 0 for calls that have none. */
static const uint8_t alloc_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_MALLOC] = REPLAY_MALLOC,
    [MTF_CALL_CALLOC] = REPLAY_CALLOC,
    [MTF_CALL_NEW] = REPLAY_NEW,
    [MTF_CALL_NEW_NOTHROW] = REPLAY_NEW,
    [MTF_CALL_NEW_ARRAY] = REPLAY_NEW_ARRAY,
    [MTF_CALL_NEW_ARRAY_NOTHROW] = REPLAY_NEW_ARRAY,
};
static const uint8_t free_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_REALLOC] = REPLAY_FREE,
    [MTF_CALL_REALLOCARRAY] = REPLAY_FREE,
    [MTF_CALL_FREE] = REPLAY_FREE,
    [MTF_CALL_CFREE] = REPLAY_FREE,
    [MTF_CALL_DELETE] = REPLAY_DELETE,
    [MTF_CALL_DELETE_NOTHROW] = REPLAY_DELETE,
    [MTF_CALL_DELETE_ARRAY] = REPLAY_DELETE_ARRAY,
    [MTF_CALL_DELETE_ARRAY_NOTHROW] = REPLAY_DELETE_ARRAY,
};
/* These carry the size. */
static const uint8_t sized_free_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_DELETE_SIZED] = REPLAY_DELETE_SIZED,
    [MTF_CALL_DELETE_ARRAY_SIZED] = REPLAY_DELETE_ARRAY_SIZED,
    [MTF_CALL_FREE_SIZED] = REPLAY_FREE_SIZED,
};

/* An allocator may trust a sized free: the size must be that of the call that
   made the block, and that call be of the same kind. Where this does not hold,
   the free is made without a size. */
static inline unsigned replay_free_call(unsigned call, uint64_t block) {
    enum replay_family family = replay_block_family(block);
    bool aligned = replay_block_align_log2(block) != 0;
    switch (call) {
    case MTF_CALL_DELETE_SIZED:
        return family == REPLAY_FAMILY_NEW && !aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_SIZED:
        return family == REPLAY_FAMILY_NEW && !aligned ? call
                                                       : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_DELETE_ALIGNED:
    case MTF_CALL_DELETE_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_SIZED_ALIGNED:
        return family == REPLAY_FAMILY_NEW && aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED:
        return family == REPLAY_FAMILY_NEW && aligned ? call
                                                      : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_FREE_SIZED:
        return family == REPLAY_FAMILY_MALLOC ? call : MTF_CALL_FREE;
    case MTF_CALL_FREE_ALIGNED_SIZED:
        return family == REPLAY_FAMILY_MEMALIGN ? call : MTF_CALL_FREE;
    default:
        return call;
    }
}

#endif
