/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of buffers: order, bound, waiting, and that a free buffer is zero.
 */
#include "base/linux/os_mem.h"
#include "lib/prng.h"
#include "lib/tap.h"
#include "traceformat/raw_layout.h"
#include "tracer/stream/buf_pool.h"

#include <pthread.h>
#include <unistd.h>

#define HEAD sizeof(struct mtf_spool_buffer)

static struct mtr_pool pool;

/* State of a thread. */
struct holder {
    struct mtr_buffer *buffer;
    uint8_t *pos;
};

static struct mtr_buffer *exchange(struct holder *h, enum mtr_size size,
                                   bool *low) {
    struct mtr_buffer *old = h->buffer;
    if (old != NULL)
        old->used = (uint32_t)(h->pos - old->base);
    return mtr_pool_exchange(&pool, 0, old, size, &h->pos, &h->buffer, low);
}

static void hand_over(struct holder *h) {
    h->buffer->used = (uint32_t)(h->pos - h->buffer->base);
    mtr_pool_hand_over(&pool, 0, h->buffer, &h->buffer);
}

static bool add_buffers(enum mtr_size size, unsigned count) {
    size_t bytes =
        count * (size == MTR_LARGE ? (size_t)MTR_LARGE_BYTES : MTR_SMALL_BYTES);
    return mtr_pool_add(&pool, size, tcm_os_map(bytes), bytes);
}

/* All bytes but the mark of the last use. */
static bool is_empty(const struct mtr_buffer *b, uint64_t saved) {
    const struct mtf_spool_buffer *head = (const void *)b->base;
    if (head->saved != saved)
        return false;
    for (uint32_t i = 0; i < b->size; i++) {
        if (i == offsetof(struct mtf_spool_buffer, saved))
            i += sizeof(head->saved);
        if (b->base[i] != 0)
            return false;
    }
    return true;
}

static void use(struct holder *h, unsigned bytes) {
    memset(h->buffer->base, 0xa5, HEAD);
    memset(h->pos, 0x5a, bytes);
    h->pos += bytes;
}

static void stacks(void) {
    struct holder a = {NULL, NULL}, b = {NULL, NULL};
    bool low;
    mtr_pool_init(&pool, 1 << 20);
    tap_ok(exchange(&a, MTR_SMALL, &low) == NULL && low && a.buffer == NULL,
           "an empty pool has none, and is low");
    tap_ok(exchange(&a, MTR_SMALL, &low) == NULL && !low,
           "the saver is told once");
    tap_is_u64(mtr_pool_missing(&pool, MTR_SMALL), 2 * MTR_READY_SMALL,
               "more is kept ready after that");
    tap_is_u64(mtr_pool_missing(&pool, MTR_LARGE), 2 * MTR_READY_LARGE,
               "of both sizes");
    tap_ok(add_buffers(MTR_SMALL, 4) && add_buffers(MTR_LARGE, 2), "grows");
    struct mtr_buffer *first = exchange(&a, MTR_LARGE, &low);
    tap_ok(first != NULL && first->size == MTR_LARGE_BYTES && !low &&
               a.buffer == first && a.pos == first->base + HEAD,
           "takes the size asked for");
    exchange(&b, MTR_LARGE, &low);
    tap_ok(b.buffer->size == MTR_LARGE_BYTES && low, "the last one: low");
    use(&a, 100);
    struct mtr_buffer *other = exchange(&a, MTR_LARGE, &low);
    tap_ok(other != NULL && other->size == MTR_SMALL_BYTES,
           "the other size if there is none");
    struct mtr_buffer *full = mtr_pool_take_full(&pool);
    tap_ok(full == first && full->next == NULL && full->used == HEAD + 100,
           "the full one is in the queue");
    tap_ok(mtr_pool_take_full(&pool) == NULL, "once");
    mtr_pool_recycle(&pool, full, 4711);
    tap_ok(is_empty(full, 4711), "it is zeroed, and says what was saved");
    use(&b, 10);
    tap_ok(exchange(&b, MTR_LARGE, &low) == full, "and taken again first");
    use(&a, 1);
    hand_over(&a);
    tap_ok(a.buffer == NULL, "handed over at a thread's end");
}

static void bound(void) {
    struct holder h[20];
    bool low;
    unsigned refused = 0, got = 0;
    memset(h, 0, sizeof(h));
    mtr_pool_init(&pool, 4 * MTR_LARGE_BYTES);
    add_buffers(MTR_LARGE, 40);
    for (unsigned i = 0; i < 20; i++)
        exchange(&h[i], MTR_LARGE, &low);
    for (unsigned i = 0; i < 20; i++) {
        use(&h[i], 50);
        struct mtr_buffer *old = h[i].buffer;
        if (exchange(&h[i], MTR_LARGE, &low) != NULL)
            got++;
        else
            refused += h[i].buffer == old;
    }
    tap_is_u64(got, 4, "the bound holds full buffers alone");
    tap_is_u64(refused, 16, "a refused thread keeps its buffer");
    unsigned order = 0, at = 0;
    for (struct mtr_buffer *b = mtr_pool_take_full(&pool), *next; b != NULL;
         b = next) {
        next = b->next;
        order += b->used == HEAD + 50;
        at++;
        mtr_pool_recycle(&pool, b, 1);
    }
    tap_is_u64(order, 4, "all in the queue, %u", at);
    tap_ok(exchange(&h[19], MTR_LARGE, &low) != NULL,
           "recycled buffers make room below the bound");
    /* One buffer larger than the bound must still pass. */
    mtr_pool_init(&pool, 1);
    add_buffers(MTR_LARGE, 2);
    memset(h, 0, sizeof(h));
    exchange(&h[0], MTR_LARGE, &low);
    tap_ok(exchange(&h[0], MTR_LARGE, &low) != NULL,
           "the smallest bound lets one through");
}

static void generations(void) {
    struct holder h = {NULL, NULL};
    bool low;
    mtr_pool_init(&pool, 1 << 20);
    add_buffers(MTR_SMALL, 4);
    struct mtr_buffer *old = exchange(&h, MTR_SMALL, &low);
    use(&h, 5);
    mtr_pool_new_generation(&pool);
    tap_ok(exchange(&h, MTR_SMALL, &low) == NULL, "old buffers are gone");
    add_buffers(MTR_SMALL, 1);
    tap_ok(exchange(&h, MTR_SMALL, &low) != old, "a new one is taken");
    mtr_pool_recycle(&pool, mtr_pool_take_full(&pool), 1);
    struct holder other = {NULL, NULL};
    tap_ok(exchange(&other, MTR_SMALL, &low) == NULL,
           "and one of the old spool does not come back");
}

/* --- Threads ------------------------------------------------------------- */

#define WORKERS 4
#define TURNS   20000

static uint32_t stop;

static void *work(void *arg) {
    struct holder h = {NULL, NULL};
    uint64_t *done = arg;
    while (*done < TURNS) {
        uint32_t seq = tcm_load_acquire(&pool.seq);
        bool low;
        if (exchange(&h, *done % 3 == 0 ? MTR_SMALL : MTR_LARGE, &low) ==
            NULL) {
            mtr_pool_wait(&pool, seq, UINT64_MAX);
            continue;
        }
        if (h.pos[0] != 0 || h.pos[1] != 0)
            *done += 1000000000;
        use(&h, 2);
        (*done)++;
    }
    hand_over(&h);
    return NULL;
}

static void *save(void *arg) {
    uint64_t *saved = arg;
    for (;;) {
        bool last = tcm_load_acquire(&stop) != 0;
        struct mtr_buffer *b = mtr_pool_take_full(&pool), *next;
        for (; b != NULL; b = next) {
            next = b->next;
            (*saved)++;
            mtr_pool_recycle(&pool, b, 1);
        }
        mtr_pool_notify(&pool);
        if (last)
            return NULL;
        usleep(50);
    }
}

static void threads(void) {
    pthread_t worker[WORKERS], saver;
    uint64_t done[WORKERS] = {0}, saved = 0, sum = 0;
    mtr_pool_init(&pool, 6 * MTR_LARGE_BYTES);
    add_buffers(MTR_SMALL, 6);
    add_buffers(MTR_LARGE, 6);
    pthread_create(&saver, NULL, save, &saved);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_create(&worker[i], NULL, work, &done[i]);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(worker[i], NULL);
        sum += done[i];
    }
    tcm_store_release(&stop, 1u);
    pthread_join(saver, NULL);
    tap_is_u64(sum, WORKERS * TURNS, "threads: no one waits for ever");
    tap_is_u64(saved, WORKERS * TURNS, "threads: each buffer is saved once");
    tap_is_u64(pool.full_bytes, 0, "threads: nothing waits at the end");
}

/* --- As many as there are buffers ----------------------------------------- */

#define SLEEPERS 40u
#define AT_ONCE  4u

static uint32_t awake, took; /* wake-ups, and buffers that were taken */

static void *sleep_and_take(void *arg) {
    struct holder h = {NULL, NULL};
    bool low;
    (void)arg;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&pool.seq);
        if (exchange(&h, MTR_SMALL, &low) != NULL)
            break;
        mtr_pool_wait(&pool, seq, UINT64_MAX);
        tcm_add_acq_rel(&awake, 1u);
    }
    tcm_add_acq_rel(&took, 1u);
    return NULL;
}

/* If a thread was on its way to sleep its buffer remains, and another one is
   woken with the next ones. */
static void wakes(void) {
    pthread_t sleeper[SLEEPERS];
    mtr_pool_init(&pool, SLEEPERS * MTR_SMALL_BYTES);
    for (unsigned i = 0; i < SLEEPERS; i++)
        pthread_create(&sleeper[i], NULL, sleep_and_take, NULL);
    while (tcm_load_acquire(&pool.waiters) < SLEEPERS)
        usleep(100);
    for (unsigned i = AT_ONCE; i <= SLEEPERS; i += AT_ONCE) {
        add_buffers(MTR_SMALL, AT_ONCE);
        do {
            mtr_pool_notify(&pool);
            usleep(1000);
        } while (tcm_load_acquire(&took) < i);
    }
    for (unsigned i = 0; i < SLEEPERS; i++)
        pthread_join(sleeper[i], NULL);
    tap_is_u64(took, SLEEPERS, "wakes: every thread gets its buffer");
    tap_ok(awake < 3 * SLEEPERS,
           "wakes: about as many threads as buffers (%u for %u)", awake,
           SLEEPERS);
}

int main(void) {
    stacks();
    bound();
    generations();
    threads();
    wakes();
    return tap_done();
}
