/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the decoding process knows of the blocks of the trace: one word a slot.
 *
 *   bit 0       the slot holds a block
 *   bits 1, 2   enum replay_family of the call it came from
 *   bits 3 to 8 log2 of its alignment, 0 none was asked for
 *   from bit 9  its size, saturated
 *
 * Threads: one.
 */
#ifndef CMD_REPLAY_REPLAY_SLOTS_H
#define CMD_REPLAY_REPLAY_SLOTS_H

#include "base/bits.h"
#include "base/compiler.h"
#include "cmd/replay/replay_op.h"
#include "traceformat/trace_event.h"

enum replay_family {
    REPLAY_FAMILY_MALLOC = 0,  /* malloc, calloc, realloc, reallocarray */
    REPLAY_FAMILY_NEW = 1,     /* all operators new */
    REPLAY_FAMILY_MEMALIGN = 2 /* the rest */
};

#define REPLAY_BLOCK_SIZE_MAX (REPLAY_OLD_LIMIT - 1)

static TCM_ALWAYS_INLINE uint64_t replay_block(enum replay_family family,
                                               unsigned align_log2,
                                               uint64_t size) {
    if (TCM_UNLIKELY(size > REPLAY_BLOCK_SIZE_MAX))
        size = REPLAY_BLOCK_SIZE_MAX;
    return size << 9 | (uint64_t)align_log2 << 3 | (uint64_t)family << 1 | 1;
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
    return b >> 9;
}

/* --- Threads -------------------------------------------------------------- */

/* Recorded threads that have not ended: number to index of a thread cache.
   Indices begin with 1 and are used again. Open addressing. */
struct replay_threads {
    struct replay_thread {
        uint32_t id;    /* 0: empty */
        uint32_t index; /* 0 until the thread has an operation */
        bool counted;
    } * entry;
    uint32_t capacity; /* power of two, 0 at first */
    uint32_t count;
    uint32_t *free_index;
    uint32_t free_count, free_capacity;
    uint32_t indices; /* given out so far, and 1 */
    uint64_t counted; /* threads with an event */
};

/* The entry of thread ID, made if need be; valid until the next call. NULL: out
   of memory. */
struct replay_thread *replay_threads_get(struct replay_threads *t, uint32_t id);
/* Gives ENTRY an index. False: out of memory. */
bool replay_threads_index(struct replay_threads *t,
                          struct replay_thread *entry);
/* Forgets thread ID; returns its index, 0 if it had none. */
uint32_t replay_threads_remove(struct replay_threads *t, uint32_t id);
/* Forgets all threads; their indices stay taken, and their count. */
void replay_threads_forget(struct replay_threads *t);
void replay_threads_fini(struct replay_threads *t);

#endif
