/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/buf_pool.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "base/testpoint.h"
#include "traceformat/raw_layout.h"

#include <string.h>

/* Descriptors come in pieces of at least this many bytes. */
#define SLAB_BYTES ((size_t)16 << 10)
/* Most buffers that are kept ready however often the pool ran low. */
#define READY_SMALL_MAX 256u
#define READY_LARGE_MAX 32u
/* Bytes at the start of a buffer that are not of its stream. */
#define HEAD_BYTES ((uint32_t)sizeof(struct mtf_spool_buffer))

TCM_STATIC_ASSERT(MTR_SMALL_BYTES % MTF_SPOOL_UNIT == 0 &&
                      MTR_LARGE_BYTES % MTF_SPOOL_UNIT == 0,
                  "readers of a spool look at multiples of the unit");

void mtr_pool_init(struct mtr_pool *pool, uint64_t bound) {
    memset(pool, 0, sizeof(*pool));
    tcm_lock_init(&pool->lock, TCM_RANK_TRACE_POOL);
    pool->bound = bound;
    pool->free[MTR_SMALL].ready = MTR_READY_SMALL;
    pool->free[MTR_LARGE].ready = MTR_READY_LARGE;
}

static struct mtr_buffer *pop(struct mtr_stack *stack) {
    struct mtr_buffer *b = stack->top;
    if (b != NULL) {
        stack->top = b->next;
        stack->count--;
    }
    return b;
}

static void push_full(struct mtr_pool *pool, struct mtr_buffer *full) {
    full->next = NULL;
    if (pool->full_tail != NULL)
        pool->full_tail->next = full;
    else
        pool->full_head = full;
    pool->full_tail = full;
    pool->full_bytes += full->size;
    pool->buffers++;
}

struct mtr_buffer *mtr_pool_exchange(struct mtr_pool *pool,
                                     struct mtr_buffer *full,
                                     enum mtr_size size, uint8_t **pos,
                                     struct mtr_buffer **slot, bool *low) {
    struct mtr_buffer *b = NULL;
    tcm_lock(&pool->lock);
    struct mtr_stack *stack = &pool->free[size];
    bool fits = full == NULL || pool->full_bytes + full->size <= pool->bound ||
                pool->full_bytes == 0;
    if (fits) {
        b = pop(stack);
        if (b == NULL)
            b = pop(&pool->free[size == MTR_SMALL ? MTR_LARGE : MTR_SMALL]);
    }
    *low = stack->count == 0 && pool->low == 0;
    if (*low)
        pool->low = 1;
    if (b != NULL) {
        if (full != NULL)
            push_full(pool, full);
        b->saved = HEAD_BYTES;
        *slot = b;
        /* With release, as every store of a position: the saver reads it with
           acquire, here under the lock. */
        tcm_store_release(pos, b->base + HEAD_BYTES);
    }
    tcm_unlock(&pool->lock);
    TCM_TESTPOINT("pool_exchanged");
    return b;
}

void mtr_pool_hand_over(struct mtr_pool *pool, struct mtr_buffer *full,
                        struct mtr_buffer **slot) {
    tcm_lock(&pool->lock);
    push_full(pool, full);
    *slot = NULL;
    tcm_unlock(&pool->lock);
    TCM_TESTPOINT("pool_handed_over");
}

void mtr_pool_wait(struct mtr_pool *pool, uint32_t seq) {
    /* Counted before the look at seq inside the futex call, so that who changes
       seq and then finds no waiter has changed it before that look. */
    tcm_add_acq_rel(&pool->waiters, 1u);
    tcm_fence_seq_cst();
    tcm_futex_wait(&pool->seq, seq, UINT64_MAX);
    tcm_sub_acq_rel(&pool->waiters, 1u);
}

void mtr_pool_notify(struct mtr_pool *pool) {
    tcm_add_acq_rel(&pool->seq, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&pool->waiters) != 0)
        tcm_futex_wake(&pool->seq, INT32_MAX);
}

struct mtr_buffer *mtr_pool_take_full(struct mtr_pool *pool) {
    tcm_lock(&pool->lock);
    struct mtr_buffer *head = pool->full_head;
    pool->full_head = NULL;
    pool->full_tail = NULL;
    tcm_unlock(&pool->lock);
    return head;
}

static void make_free(struct mtr_pool *pool, struct mtr_buffer *b) {
    struct mtr_stack *stack =
        &pool->free[b->size == MTR_LARGE_BYTES ? MTR_LARGE : MTR_SMALL];
    b->next = stack->top;
    stack->top = b;
    stack->count++;
}

void mtr_pool_recycle(struct mtr_pool *pool, struct mtr_buffer *b) {
    /* The sync word goes first: a kill in the middle of the rest must not leave
       a head whose events are half gone. */
    uint32_t *sync = (uint32_t *)(void *)b->base;
    tcm_store_relaxed(sync, 0u);
    tcm_fence_signal();
    TCM_TESTPOINT("pool_head_gone");
    bool current = b->generation == pool->generation;
    if (current)
        memset(b->base, 0, b->used);
    tcm_lock(&pool->lock);
    pool->full_bytes -= b->size;
    if (current)
        make_free(pool, b);
    tcm_unlock(&pool->lock);
}

static struct mtr_buffer *new_descriptor(struct mtr_pool *pool) {
    if (pool->slab_left == 0) {
        size_t bytes = tcm_align_up(SLAB_BYTES, tcm_os_page_size());
        pool->slab = tcm_os_map(bytes);
        if (pool->slab == NULL)
            return NULL;
        tcm_os_dont_fork(pool->slab, bytes);
        pool->slab_left = (uint32_t)(bytes / sizeof(struct mtr_buffer));
    }
    pool->slab_left--;
    return pool->slab++;
}

bool mtr_pool_add(struct mtr_pool *pool, enum mtr_size size, void *base,
                  size_t bytes) {
    uint32_t each = size == MTR_LARGE ? MTR_LARGE_BYTES : MTR_SMALL_BYTES;
    TCM_ASSERT(bytes % each == 0);
    for (size_t at = 0; at < bytes; at += each) {
        struct mtr_buffer *b = new_descriptor(pool);
        if (b == NULL)
            return false;
        b->base = (uint8_t *)base + at;
        b->size = each;
        b->generation = pool->generation;
        tcm_lock(&pool->lock);
        make_free(pool, b);
        tcm_unlock(&pool->lock);
    }
    return true;
}

/* Each time the pool ran low more is kept ready, so that a busy program soon
   stops waking the saver. */
uint32_t mtr_pool_missing(struct mtr_pool *pool, enum mtr_size size) {
    static const uint32_t max[2] = {READY_SMALL_MAX, READY_LARGE_MAX};
    tcm_lock(&pool->lock);
    struct mtr_stack *stack = &pool->free[size];
    if (pool->low != 0 && stack->count == 0 && stack->ready < max[size])
        stack->ready *= 2;
    uint32_t missing =
        stack->count < stack->ready ? stack->ready - stack->count : 0;
    if (size == MTR_LARGE)
        pool->low = 0;
    tcm_unlock(&pool->lock);
    return missing;
}

void mtr_pool_new_generation(struct mtr_pool *pool) {
    tcm_lock(&pool->lock);
    pool->generation++;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(pool->free); i++) {
        pool->free[i].top = NULL;
        pool->free[i].count = 0;
    }
    tcm_unlock(&pool->lock);
}
