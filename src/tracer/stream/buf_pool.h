/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of buffers: two stacks of free buffers, and the queue of full ones
 * to the saver.
 *
 *           take                  full                save, zero
 *   free stack ---> a thread's own ---> queue of full ---> (saver) ---> free
 *        ^-- grow: the saver makes more when a stack runs low
 *
 * Invariants: a free buffer is all zero except for the mark of its last use. A
 * buffer in use begins with a spool head. Only waiting full buffers count
 * against the bound. A descriptor belongs to the holder of its buffer, except
 * for the saver's fields.
 *
 * Threads: a lock, held for a few instructions, guards stacks and queue.
 * Waiting threads sleep on `seq`, which changes when buffers become free; as
 * many of them are woken as there are free buffers.
 *
 * Why stacks: the last used buffer is warm in the caches, and a program that
 * needs few buffers touches few.
 *
 * Memory: each recording owns an arena, with the mappings of its buffers and
 * their descriptors. A thread may still write to a buffer of an ended
 * recording, so the arena is unmapped when no thread holds one.
 */
#ifndef TCM_TRACER_STREAM_BUF_POOL_H
#define TCM_TRACER_STREAM_BUF_POOL_H

#include "base/compiler.h"
#include "base/lock.h"
#include "traceformat/raw_layout.h"

#define MTR_SMALL_BYTES 4096u
#define MTR_LARGE_BYTES (64u << 10)
/* Buffers that are kept ready at first. */
#define MTR_READY_SMALL 8u
#define MTR_READY_LARGE 2u

struct mtr_buffer_arena;

/* Numbers of calls among the events of a buffer, or among saved events. */
struct mtr_event_counts {
    uint64_t mallocs;   /* ALLOC */
    uint64_t memaligns; /* ALIGNED */
    uint64_t reallocs;  /* REALLOC, REALLOC_NEW, REALLOC_END */
    uint64_t frees;     /* FREE, FREE_SIZE */
    uint64_t failed;    /* FAILED */
};

struct mtr_buffer {
    struct mtr_buffer *next; /* next in a stack or the queue */
    struct mtr_buffer_arena *arena;
    uint8_t *base;
    uint32_t size;
    uint32_t thread;
    uint32_t used;       /* full buffer: published bytes, head included */
    uint32_t generation; /* generation of its spool */
    uint32_t renewal;    /* the pool's renewal when it was taken */
    uint64_t stream;     /* offset in the stream of its first event byte */
    uint64_t taken_ns;
    struct mtr_event_counts counts; /* full buffer: its calls, */
    bool is_counted;                /* if the thread knows them */
    /* Fields of the saver. */
    struct mtr_event_counts counted; /* calls before COUNTED_TO */
    uint32_t counted_to;             /* at most SAVED */
    uint64_t time_lo;                /* clock before the last look */
    uint64_t mark;  /* position in the output behind its last byte */
    uint32_t saved; /* saved bytes, head included */
    uint32_t seen;  /* published bytes at the last look */
    struct mtr_buffer *next_seen; /* list of one round */
    bool in_round;
    uint32_t part; /* part of a flight recording that has its beginning */
};

/* The end of B, which its thread writes; readers: mtr_buffer_given_time. */
static inline struct mtf_spool_given *
mtr_buffer_given(const struct mtr_buffer *b) {
    return (struct mtf_spool_given *)(void *)(b->base + b->size) - 1;
}

struct mtr_stack {
    struct mtr_buffer *top;
    uint32_t count;
    uint32_t ready; /* the saver keeps this many */
};

enum mtr_size { MTR_SMALL = 0, MTR_LARGE = 1 };

struct mtr_pool {
    struct tcm_lock lock;
    uint32_t seq;     /* futex: a buffer became free, or recording ended */
    uint32_t waiters; /* threads that sleep on seq */
    uint32_t low;     /* 1: the saver was woken because the pool runs low */
    struct mtr_stack free[2];
    struct mtr_buffer *full_head, *full_tail;
    uint64_t full_bytes; /* bytes handed over and not saved yet */
    uint64_t bound;
    uint64_t buffers; /* buffers handed over so far */
    uint32_t generation;
    uint32_t renewal; /* changes when threads are to hand over their buffers */
    uint32_t session; /* session it serves, 0: none */
    struct mtr_buffer_arena *arena;    /* NULL: none yet */
    struct mtf_spool_lost *lost;       /* in page 0 of the spool */
    struct mtf_spool_lost lost_before; /* while there was no spool */
    /* Memory of descriptors, for the saver or the thread that makes a lazy
       spool. */
    uint8_t *slab;
    size_t slab_left;
};

/* Initializes POOL to serve session 0. */
void mtr_pool_init(struct mtr_pool *pool, uint64_t bound);
/* Makes POOL serve SESSION (not 0); the previous recording was closed. */
void mtr_pool_open(struct mtr_pool *pool, uint32_t session, uint64_t bound);
/* Ends the use by the recording: nothing can be taken or handed over any more,
   and waiting buffers are dropped. */
void mtr_pool_close(struct mtr_pool *pool);

/*
 * Hands FULL over (NULL: none) and takes another buffer of SIZE, or of the
 * other size if there is none. The new buffer is stored in *SLOT, and its start
 * in *POS, under the lock, so that a holder of the lock sees a thread's buffer
 * either before or after. NULL: no buffer is free, the bound is reached, or
 * session SESSION is over; nothing was done. *LOW is set when the saver should
 * be woken.
 */
struct mtr_buffer *mtr_pool_exchange(struct mtr_pool *pool, uint32_t session,
                                     struct mtr_buffer *full,
                                     enum mtr_size size, uint8_t **pos,
                                     struct mtr_buffer **slot, bool *low);
/* Hands FULL over without taking another, whatever the bound; *SLOT becomes
   NULL. If session SESSION is over the buffer is only released. */
void mtr_pool_hand_over(struct mtr_pool *pool, uint32_t session,
                        struct mtr_buffer *full, struct mtr_buffer **slot);
/* Sleeps until buffers become free after SEQ was read, TIMEOUT_NS at most. */
void mtr_pool_wait(struct mtr_pool *pool, uint32_t seq, uint64_t timeout_ns);
/* True if a thread waits below the bound, and no buffer is free, full or being
   written. */
bool mtr_pool_is_starved(struct mtr_pool *pool);
/* True if the bound keeps a thread that would hand FULL (or NULL) over from
   getting a buffer. */
bool mtr_pool_is_full(struct mtr_pool *pool, const struct mtr_buffer *full);
/* Wakes as many waiting threads as there are free buffers; those that take none
   wait on. By the thread that saves. */
void mtr_pool_notify(struct mtr_pool *pool);
/* Wakes all waiting threads: the recording has ended. */
void mtr_pool_notify_all(struct mtr_pool *pool);

/* Counts events that threads of session SESSION without a stream have lost. */
void mtr_pool_count_lost(struct mtr_pool *pool, uint32_t session,
                         uint64_t dropped, uint64_t untraced);

/* --- the saver ----------------------------------------------------------- */
/* Takes all full buffers so far, in the order in which they were handed
   over. */
struct mtr_buffer *mtr_pool_take_full(struct mtr_pool *pool);
/* Frees a saved buffer, unless its spool is gone. The output has SAVED bytes of
   the trace, those of the buffer among them. */
void mtr_pool_recycle(struct mtr_pool *pool, struct mtr_buffer *b,
                      uint64_t saved);
/* Cuts BYTES new zeroed bytes at BASE into free buffers of SIZE. false: no
   memory for descriptors. */
bool mtr_pool_add(struct mtr_pool *pool, enum mtr_size size, void *base,
                  size_t bytes);
/* Makes a mapping part of the arena. false: no memory, and the mapping stays
   outside. */
bool mtr_pool_add_region(struct mtr_pool *pool, void *base, size_t bytes);
/* Makes LOST, in memory of the pool, count these losses, and adds those so
   far. */
void mtr_pool_set_lost(struct mtr_pool *pool, struct mtf_spool_lost *lost);
/* Returns how many free buffers are missing from those that are kept ready. */
uint32_t mtr_pool_missing(struct mtr_pool *pool, enum mtr_size size);
/* From now on buffers of older spools are not used again. */
void mtr_pool_new_generation(struct mtr_pool *pool);

#endif
