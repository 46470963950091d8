/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/stream/buf_pool.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "traceformat/raw_layout.h"
#include "tracer/trace_process.h"

#include <string.h>

/* Fewest bytes of a slab of descriptors. */
#define SLAB_BYTES ((size_t)16 << 10)
/* Most buffers that are kept ready, however often the pool runs low. */
#define READY_SMALL_MAX 256u
#define READY_LARGE_MAX 32u
/* Bytes at the start of a buffer that are not part of its stream. */
#define HEAD_BYTES ((uint32_t)sizeof(struct mtf_spool_buffer))

TCM_STATIC_ASSERT(MTR_SMALL_BYTES % MTF_SPOOL_UNIT == 0 &&
                      MTR_LARGE_BYTES % MTF_SPOOL_UNIT == 0,
                  "readers of a spool look at multiples of the unit");

/* --- Memory of a recording ----------------------------------------------- */

/* A mapping. Descriptors lie in slabs; the arena lies in its own first slab. */
struct region {
    struct region *next;
    void *base;
    size_t bytes;
};

struct mtr_buffer_arena {
    struct region *regions; /* mappings of buffers */
    struct region *slabs;   /* each record lies in its slab */
    uint32_t held;          /* buffers that threads hold */
    bool over;              /* the recording has ended */
};

/* Checks invariants for any holder of a buffer; no field here is one that the
   saver writes meanwhile. */
static bool is_valid(const struct mtr_buffer *b) {
    return (b->size == MTR_SMALL_BYTES || b->size == MTR_LARGE_BYTES) &&
           b->base != NULL && b->arena != NULL && b->used <= b->size;
}

static void *cut_slab(struct mtr_pool *pool, size_t n) {
    TCM_ASSERT(n <= pool->slab_left);
    void *p = pool->slab;
    pool->slab += n;
    pool->slab_left -= n;
    return p;
}

/* N bytes for a record in the arena, which is created with its first record.
   NULL: no memory. */
static void *new_record(struct mtr_pool *pool, size_t n) {
    n = tcm_align_up(n, sizeof(uint64_t));
    if (pool->slab_left < n) {
        size_t bytes = tcm_align_up(SLAB_BYTES, tcm_os_page_size());
        void *p = tcm_os_map(bytes);
        if (p == NULL)
            return NULL;
        tcm_os_dont_fork(p, bytes);
        pool->slab = p;
        pool->slab_left = bytes;
        struct region *self = cut_slab(pool, sizeof(*self));
        self->base = p;
        self->bytes = bytes;
        if (pool->arena == NULL)
            pool->arena = cut_slab(pool, sizeof(*pool->arena));
        self->next = pool->arena->slabs;
        pool->arena->slabs = self;
    }
    return cut_slab(pool, n);
}

bool mtr_pool_add_region(struct mtr_pool *pool, void *base, size_t bytes) {
    struct region *r = new_record(pool, sizeof(*r));
    if (r == NULL)
        return false;
    r->base = base;
    r->bytes = bytes;
    r->next = pool->arena->regions;
    pool->arena->regions = r;
    return true;
}

static void unmap_all(struct region *r) {
    while (r != NULL) {
        struct region *next = r->next;
        tcm_os_unmap(r->base, r->bytes);
        r = next;
    }
}

/* Unmaps ARENA (NULL: nothing), which nobody uses any more. The lock is not
   needed. */
static void give_back(struct mtr_buffer_arena *arena) {
    if (arena == NULL)
        return;
    struct region *slabs = arena->slabs;
    unmap_all(arena->regions);
    unmap_all(slabs);
}

/* Counts one holder less. Returns ARENA if that was its last use, else NULL.
   Under the lock. */
static struct mtr_buffer_arena *release(struct mtr_buffer_arena *arena) {
    TCM_ASSERT(arena->held != 0);
    arena->held--;
    return arena->over && arena->held == 0 ? arena : NULL;
}

/* --- A recording --------------------------------------------------------- */

/* The lock for threads of the program, with signals blocked: a handler that
   left by a jump, or called exit, would leave it locked. */
static uint64_t lock_blocked(struct mtr_pool *pool) {
    uint64_t mask = mtr_signals_block_in_call();
    tcm_lock(&pool->lock);
    TCM_TESTPOINT("pool_locked");
    return mask;
}

static void unlock_blocked(struct mtr_pool *pool, uint64_t mask) {
    tcm_unlock(&pool->lock);
    mtr_signals_restore(mask);
}

static void reset(struct mtr_pool *pool, uint32_t session, uint64_t bound) {
    pool->session = session;
    pool->bound = bound;
    pool->low = 0;
    pool->full_head = NULL;
    pool->full_tail = NULL;
    pool->full_bytes = 0;
    tcm_store_relaxed(&pool->buffers, (uint64_t)0);
    pool->arena = NULL;
    pool->lost = NULL;
    pool->lost_before = (struct mtf_spool_lost){0, 0};
    pool->slab_left = 0;
    memset(pool->free, 0, sizeof(pool->free));
    pool->free[MTR_SMALL].ready = MTR_READY_SMALL;
    pool->free[MTR_LARGE].ready = MTR_READY_LARGE;
}

void mtr_pool_init(struct mtr_pool *pool, uint64_t bound) {
    memset(pool, 0, sizeof(*pool));
    tcm_lock_init(&pool->lock, TCM_RANK_TRACE_POOL);
    reset(pool, 0, bound);
}

void mtr_pool_open(struct mtr_pool *pool, uint32_t session, uint64_t bound) {
    tcm_lock(&pool->lock);
    TCM_ASSERT(session != 0 && pool->arena == NULL);
    reset(pool, session, bound);
    tcm_unlock(&pool->lock);
}

void mtr_pool_close(struct mtr_pool *pool) {
    tcm_lock(&pool->lock);
    struct mtr_buffer_arena *arena = pool->arena;
    reset(pool, 0, 0);
    if (arena != NULL) {
        arena->over = true;
        if (arena->held != 0)
            arena = NULL;
    }
    tcm_unlock(&pool->lock);
    give_back(arena);
    TCM_TESTPOINT("pool_closed");
}

/* --- Buffers ------------------------------------------------------------- */

/* True if STACK has as many buffers as it counts. */
static bool is_counted(const struct mtr_stack *stack) {
    uint32_t count = 0;
    for (const struct mtr_buffer *b = stack->top; b != NULL; b = b->next)
        count++;
    return count == stack->count;
}

static struct mtr_buffer *pop(struct mtr_stack *stack) {
    struct mtr_buffer *b = stack->top;
    TCM_ASSERT((b == NULL) == (stack->count == 0));
    if (b != NULL) {
        TCM_ASSERT(is_valid(b));
        stack->top = b->next;
        stack->count--;
    }
    return b;
}

static void push_full(struct mtr_pool *pool, struct mtr_buffer *full) {
    tcm_lock_assert_held(&pool->lock);
    TCM_ASSERT(is_valid(full) && full->used >= HEAD_BYTES);
    TCM_ASSERT((pool->full_head == NULL) == (pool->full_tail == NULL));
    full->next = NULL;
    if (pool->full_tail != NULL)
        pool->full_tail->next = full;
    else
        pool->full_head = full;
    pool->full_tail = full;
    pool->full_bytes += full->size;
    tcm_store_relaxed(&pool->buffers, pool->buffers + 1);
}

/* True if FULL may be handed over. A thread without a buffer waits at the
   bound, too: otherwise a sequence of short threads would take and hand over
   without end. */
static bool fits(const struct mtr_pool *pool, const struct mtr_buffer *full) {
    uint64_t bytes = pool->full_bytes + (full == NULL ? 0 : full->size);
    tcm_lock_assert_held(&pool->lock);
    return pool->full_bytes == 0 || bytes <= pool->bound;
}

bool mtr_pool_is_full(struct mtr_pool *pool, const struct mtr_buffer *full) {
    uint64_t mask = lock_blocked(pool);
    bool full_up = !fits(pool, full);
    unlock_blocked(pool, mask);
    return full_up;
}

bool mtr_pool_is_starved(struct mtr_pool *pool) {
    /* Relaxed: a thread that begins or ends to wait is seen at the next look.
     */
    if (tcm_load_relaxed(&pool->waiters) == 0)
        return false;
    tcm_lock(&pool->lock);
    bool starved = pool->free[MTR_SMALL].top == NULL &&
                   pool->free[MTR_LARGE].top == NULL && pool->full_bytes == 0;
    tcm_unlock(&pool->lock);
    return starved;
}

/* True if B is all zero except for the mark of its last use in the head. */
static bool is_empty(const struct mtr_buffer *b) {
    const size_t before = offsetof(struct mtf_spool_buffer, saved);
    uint8_t any = 0;
    for (size_t i = 0; i < b->size; i++)
        if (i < before || i >= before + sizeof(uint64_t))
            any |= b->base[i];
    return any == 0;
}

struct mtr_buffer *mtr_pool_exchange(struct mtr_pool *pool, uint32_t session,
                                     struct mtr_buffer *full,
                                     enum mtr_size size, uint8_t **pos,
                                     struct mtr_buffer **slot, bool *low) {
    struct mtr_buffer *b = NULL;
    uint64_t mask = lock_blocked(pool);
    if (pool->session != session) {
        unlock_blocked(pool, mask);
        *low = false;
        return NULL;
    }
    struct mtr_stack *stack = &pool->free[size];
    TCM_ASSERT(*slot == full);
    if (fits(pool, full)) {
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
        else
            b->arena->held++;
        TCM_ASSERT(b != full && b->generation == pool->generation);
        TCM_ASSERT_SLOW(is_empty(b));
        b->saved = HEAD_BYTES;
        b->counted_to = HEAD_BYTES;
        b->renewal = pool->renewal;
        *slot = b;
        /* Release, as for every store of a position: the saver loads it with
           acquire, here under the lock. */
        tcm_store_release(pos, b->base + HEAD_BYTES);
    }
    unlock_blocked(pool, mask);
    TCM_TESTPOINT("pool_exchanged");
    return b;
}

/* The lock decides: the thread that closes the pool sees that we hold a buffer,
   or we see that the recording is over. */
void mtr_pool_hand_over(struct mtr_pool *pool, uint32_t session,
                        struct mtr_buffer *full, struct mtr_buffer **slot) {
    uint64_t mask = lock_blocked(pool);
    TCM_ASSERT(*slot == full);
    if (pool->session == session)
        push_full(pool, full);
    *slot = NULL;
    struct mtr_buffer_arena *done = release(full->arena);
    unlock_blocked(pool, mask);
    give_back(done);
    TCM_TESTPOINT("pool_handed_over");
}

/* Under the lock, because page 0 is unmapped with the recording. Few threads
   come here: those that began while no buffer was free. */
void mtr_pool_count_lost(struct mtr_pool *pool, uint32_t session,
                         uint64_t dropped, uint64_t untraced) {
    uint64_t mask = lock_blocked(pool);
    if (pool->session == session) {
        struct mtf_spool_lost *lost =
            pool->lost != NULL ? pool->lost : &pool->lost_before;
        lost->dropped += dropped;
        lost->untraced += untraced;
    }
    unlock_blocked(pool, mask);
}

void mtr_pool_set_lost(struct mtr_pool *pool, struct mtf_spool_lost *lost) {
    tcm_lock(&pool->lock);
    if (pool->lost != NULL)
        *lost = *pool->lost;
    lost->dropped += pool->lost_before.dropped;
    lost->untraced += pool->lost_before.untraced;
    pool->lost_before = (struct mtf_spool_lost){0, 0};
    pool->lost = lost;
    tcm_unlock(&pool->lock);
}

void mtr_pool_wait(struct mtr_pool *pool, uint32_t seq, uint64_t timeout_ns) {
    /* Counted before the futex call compares seq: a thread that changes seq and
       then finds no waiter has changed it before that comparison. */
    tcm_add_acq_rel(&pool->waiters, 1u);
    tcm_fence_seq_cst();
    tcm_futex_wait(&pool->seq, seq, timeout_ns);
    tcm_sub_acq_rel(&pool->waiters, 1u);
}

static void wake(struct mtr_pool *pool, int most) {
    tcm_add_acq_rel(&pool->seq, 1u);
    tcm_fence_seq_cst();
    if (most != 0 && tcm_load_relaxed(&pool->waiters) != 0)
        tcm_futex_wake(&pool->seq, most);
}

/* A thread that is woken may not take a buffer: its full one does not fit below
   the bound, or another thread was faster. So the saver notifies again while
   threads wait, whether or not buffers became free. */
void mtr_pool_notify(struct mtr_pool *pool) {
    tcm_lock(&pool->lock);
    uint32_t most = pool->free[MTR_SMALL].count + pool->free[MTR_LARGE].count;
    tcm_unlock(&pool->lock);
    wake(pool, (int)most);
}

void mtr_pool_notify_all(struct mtr_pool *pool) {
    wake(pool, INT32_MAX);
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
    tcm_lock_assert_held(&pool->lock);
    struct mtr_stack *stack =
        &pool->free[b->size == MTR_LARGE_BYTES ? MTR_LARGE : MTR_SMALL];
    b->next = stack->top;
    stack->top = b;
    stack->count++;
}

void mtr_pool_recycle(struct mtr_pool *pool, struct mtr_buffer *b,
                      uint64_t saved) {
    /* The sync word is cleared first: a kill in the middle of the rest must not
       leave a head whose events are half gone. A copy of the spool that lacks
       them has SAVED instead. */
    struct mtf_spool_buffer *head = (void *)b->base;
    TCM_ASSERT(is_valid(b) && b->generation <= pool->generation);
    tcm_store_relaxed(&head->sync, 0u);
    tcm_fence_signal();
    tcm_store_relaxed(&head->saved, saved);
    tcm_fence_signal();
    TCM_TESTPOINT("pool_head_gone");
    bool current = b->generation == pool->generation;
    if (current) {
        const size_t before = offsetof(struct mtf_spool_buffer, saved);
        const size_t behind = before + sizeof(head->saved);
        memset(b->base, 0, before);
        memset(b->base + behind, 0, b->used - behind);
        memset(mtr_buffer_given(b), 0, sizeof(struct mtf_spool_given));
    }
    tcm_lock(&pool->lock);
    TCM_ASSERT(pool->full_bytes >= b->size);
    pool->full_bytes -= b->size;
    if (current)
        make_free(pool, b);
    tcm_unlock(&pool->lock);
}

bool mtr_pool_add(struct mtr_pool *pool, enum mtr_size size, void *base,
                  size_t bytes) {
    uint32_t each = size == MTR_LARGE ? MTR_LARGE_BYTES : MTR_SMALL_BYTES;
    TCM_ASSERT(bytes % each == 0 && (uintptr_t)base % MTF_SPOOL_UNIT == 0);
    for (size_t at = 0; at < bytes; at += each) {
        struct mtr_buffer *b = new_record(pool, sizeof(*b));
        if (b == NULL)
            return false;
        b->arena = pool->arena;
        b->base = (uint8_t *)base + at;
        b->size = each;
        b->generation = pool->generation;
        tcm_lock(&pool->lock);
        make_free(pool, b);
        tcm_unlock(&pool->lock);
    }
    return true;
}

/* Each time the pool runs low the number kept ready doubles, so that a busy
   program soon stops waking the saver. */
uint32_t mtr_pool_missing(struct mtr_pool *pool, enum mtr_size size) {
    static const uint32_t max[2] = {READY_SMALL_MAX, READY_LARGE_MAX};
    tcm_lock(&pool->lock);
    struct mtr_stack *stack = &pool->free[size];
    TCM_ASSERT_SLOW(is_counted(stack));
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
    tcm_store_relaxed(&pool->generation, pool->generation + 1);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(pool->free); i++) {
        pool->free[i].top = NULL;
        pool->free[i].count = 0;
    }
    tcm_unlock(&pool->lock);
}
