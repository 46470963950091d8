/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: free ones in two stacks, full ones in a queue to the saver.
 *
 *           take                  full                save, zero
 *   free stack ---> a thread's own ---> queue of full ---> (saver) ---> free
 *        ^-- grow: the saver makes more when a stack runs low
 *
 * Invariants: a free buffer is all zero except for the mark of its last use. A
 * buffer in use begins with a spool head. Only full buffers that wait count
 * against the bound. A descriptor belongs to the holder of its buffer, except
 * for the fields that are always the saver's.
 *
 * Threads: stacks and queue under the lock, which is held for a few
 * instructions. Waiting threads sleep on `seq`, which changes whenever buffers
 * become free.
 *
 * Why stacks: what was used last is warm in the caches, and a program that
 * needs few buffers touches few.
 *
 * A pool serves one recording after the other. The memory of a recording is its
 * arena. A thread may hold a buffer of a recording that has ended, and be about
 * to write to it; so the arena is unmapped when the recording has ended and the
 * last such thread has let its buffer go.
 */
#ifndef TCM_TRACER_STREAM_BUF_POOL_H
#define TCM_TRACER_STREAM_BUF_POOL_H

#include "base/compiler.h"
#include "base/lock.h"

#define MTR_SMALL_BYTES 4096u
#define MTR_LARGE_BYTES (64u << 10)
/* Kept ready. */
#define MTR_READY_SMALL 8u
#define MTR_READY_LARGE 2u

struct mtr_buffer_arena;
struct mtf_spool_lost;

/* Calls among the events of a buffer, or of what was saved. */
struct mtr_event_counts {
    uint64_t mallocs;   /* ALLOC */
    uint64_t memaligns; /* ALIGNED */
    uint64_t reallocs;  /* REALLOC, REALLOC_NEW, REALLOC_END */
    uint64_t frees;     /* FREE, FREE_SIZE */
    uint64_t failed;    /* FAILED */
};

struct mtr_buffer {
    struct mtr_buffer *next; /* in a stack or the queue */
    struct mtr_buffer_arena *arena;
    uint8_t *base;
    uint32_t size;
    uint32_t thread;
    uint32_t used;       /* published bytes with the head, when full */
    uint32_t generation; /* of the spool it lies in */
    uint32_t renewal;    /* of the pool, when it was taken */
    uint64_t stream;     /* offset of its first event byte in the stream */
    uint64_t taken_ns;
    struct mtr_event_counts counts; /* of all of it, when full, */
    bool is_counted;                /* if its thread knows */
    /* the saver's */
    struct mtr_event_counts counted; /* of what is saved */
    uint64_t time_lo;                /* clock before it was looked at last */
    uint64_t mark;  /* position in the output after its last byte */
    uint32_t saved; /* bytes saved, with the head */
    uint32_t seen;  /* published bytes at the last look */
    struct mtr_buffer *next_seen; /* list of one round */
    bool in_round;
    uint32_t part; /* of a flight recording, that its beginning is in */
};

struct mtr_stack {
    struct mtr_buffer *top;
    uint32_t count;
    uint32_t ready; /* the saver keeps that many */
};

enum mtr_size { MTR_SMALL = 0, MTR_LARGE = 1 };

struct mtr_pool {
    struct tcm_lock lock;
    uint32_t seq;     /* futex: a buffer became free, or recording ended */
    uint32_t waiters; /* threads that sleep on it */
    uint32_t low;     /* 1: the saver was told that the pool runs low */
    struct mtr_stack free[2];
    struct mtr_buffer *full_head, *full_tail;
    uint64_t full_bytes; /* handed over and not yet saved */
    uint64_t bound;
    uint64_t buffers; /* handed over so far */
    uint32_t generation;
    uint32_t renewal; /* threads hand over what they took before it changed */
    uint32_t session; /* the recording it serves, 0: none */
    struct mtr_buffer_arena *arena; /* of that recording, NULL: none yet */
    struct mtf_spool_lost *lost;    /* in page 0 of its spool, NULL: none */
    uint64_t lost_before; /* events dropped before there was a spool */
    /* descriptors: the saver's, or the thread's that makes a lazy spool */
    uint8_t *slab;
    size_t slab_left;
};

/* Serves recording 0 at once. */
void mtr_pool_init(struct mtr_pool *pool, uint64_t bound);
/* From now on recording SESSION (not 0); the one before was closed. */
void mtr_pool_open(struct mtr_pool *pool, uint32_t session, uint64_t bound);
/* The recording has ended: nothing can be taken or handed over any more, and
   what waits is dropped. */
void mtr_pool_close(struct mtr_pool *pool);

/*
 * Hands FULL over (NULL: none) and takes another of SIZE, or of the other size
 * if there is none. The new buffer is stored in *SLOT under the lock too, so
 * that a holder of the lock sees a thread's buffer either before or after.
 * NULL: no free buffer, the bound is reached, or recording SESSION is over;
 * nothing was done. *LOW is set when the saver should be told.
 */
struct mtr_buffer *mtr_pool_exchange(struct mtr_pool *pool, uint32_t session,
                                     struct mtr_buffer *full,
                                     enum mtr_size size, uint8_t **pos,
                                     struct mtr_buffer **slot, bool *low);
/* Hands over without taking, whatever the bound; *SLOT becomes NULL. If
   recording SESSION is over the buffer is only let go. */
void mtr_pool_hand_over(struct mtr_pool *pool, uint32_t session,
                        struct mtr_buffer *full, struct mtr_buffer **slot);
/* Sleeps until buffers became free after SEQ was read, for TIMEOUT_NS at most.
 */
void mtr_pool_wait(struct mtr_pool *pool, uint32_t seq, uint64_t timeout_ns);
/* True when the bound keeps a thread that would hand FULL (or NULL) over from
   getting a buffer. */
bool mtr_pool_is_full(struct mtr_pool *pool, const struct mtr_buffer *full);
/* Wakes all waiting threads: buffers became free, or the recording ended. */
void mtr_pool_notify(struct mtr_pool *pool);

/* Counts what was lost by threads of recording SESSION that have no stream. */
void mtr_pool_count_lost(struct mtr_pool *pool, uint32_t session,
                         uint64_t dropped, uint64_t untraced);

/* --- the saver ----------------------------------------------------------- */
/* All full buffers so far, in the order in which they were handed over. */
struct mtr_buffer *mtr_pool_take_full(struct mtr_pool *pool);
/* A saved buffer becomes free, or nothing if its spool is gone. The output has
   SAVED bytes of the trace, those of the buffer among them. */
void mtr_pool_recycle(struct mtr_pool *pool, struct mtr_buffer *b,
                      uint64_t saved);
/* Cuts BYTES new zeroed bytes at BASE into free buffers of SIZE. false: no
   memory for descriptors. */
bool mtr_pool_add(struct mtr_pool *pool, enum mtr_size size, void *base,
                  size_t bytes);
/* Makes the mapping part of the arena. false: no memory, and it is not. */
bool mtr_pool_own(struct mtr_pool *pool, void *base, size_t bytes);
/* From now on such losses, with those so far, are counted in LOST, which lies
   in memory of the pool's. */
void mtr_pool_tell_lost(struct mtr_pool *pool, struct mtf_spool_lost *lost);
/* How many more free buffers are to be kept ready. */
uint32_t mtr_pool_missing(struct mtr_pool *pool, enum mtr_size size);
/* From now on buffers of older spools are not used again. */
void mtr_pool_new_generation(struct mtr_pool *pool);

#endif
