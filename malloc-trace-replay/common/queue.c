/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping: a side that finds nothing to do stores its sleeps flag, loads the
 * other side's count again and sleeps on that count. The other side stores its
 * count and then loads the flag to see whether it has to wake. All four
 * accesses are sequentially consistent, so at least one side sees the other's
 * store.
 */
#include "common/queue.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_thread.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

bool tool_queue_init(struct tool_queue *q, uint32_t count, size_t bytes) {
    TCM_ASSERT(tcm_is_pow2(count) && count <= TOOL_QUEUE_MAX && bytes != 0);
    memset(q, 0, sizeof(*q));
    q->count = count;
    q->bytes = bytes;
    q->memory = malloc(count * bytes);
    return q->memory != NULL;
}

void tool_queue_fini(struct tool_queue *q) {
    free(q->memory);
    q->memory = NULL;
}

/* Sleeps while *COUNT is SEEN. Its store of *SLEEPS pairs with the load in
   move, move's store of the count with the load here. */
static void sleep_on(struct tool_queue *q, uint32_t *count, uint32_t seen,
                     uint32_t *sleeps, uint64_t timeout_ns) {
    tcm_store_seq_cst(sleeps, 1u);
    if (tcm_load_seq_cst(count) == seen && !tool_queue_is_closed(q))
        tcm_futex_wait(count, seen, timeout_ns);
    tcm_store_relaxed(sleeps, 0u);
}

/* Publishes the next buffer by *COUNT, and wakes a side that sleeps on it. */
static void move(uint32_t *count, uint32_t *sleeps) {
    tcm_store_seq_cst(count, *count + 1);
    if (tcm_load_seq_cst(sleeps) != 0)
        tcm_futex_wake(count, 1);
}

uint8_t *tool_queue_free(struct tool_queue *q) {
    for (;;) {
        uint32_t taken = tcm_load_acquire(&q->taken);
        if (tool_queue_is_closed(q))
            return NULL;
        if (q->given - taken != q->count)
            return q->memory + (q->given % q->count) * q->bytes;
        sleep_on(q, &q->taken, taken, &q->giver_sleeps, UINT64_MAX);
    }
}

void tool_queue_give(struct tool_queue *q, size_t length) {
    TCM_ASSERT(q->given - tcm_load_acquire(&q->taken) < q->count);
    TCM_ASSERT(length <= q->bytes);
    q->length[q->given % q->count] = length;
    move(&q->given, &q->taker_sleeps);
}

uint8_t *tool_queue_full(struct tool_queue *q, size_t *length,
                         uint64_t timeout_ns) {
    uint32_t given = tcm_load_acquire(&q->given);
    if (given == q->taken) {
        sleep_on(q, &q->given, given, &q->taker_sleeps, timeout_ns);
        if (tcm_load_acquire(&q->given) == q->taken)
            return NULL;
    }
    TCM_ASSERT(tcm_load_acquire(&q->given) - q->taken <= q->count);
    uint32_t i = q->taken % q->count;
    *length = q->length[i];
    return q->memory + i * q->bytes;
}

bool tool_queue_has_full(const struct tool_queue *q) {
    return tcm_load_acquire(&q->given) != q->taken;
}

void tool_queue_done(struct tool_queue *q) {
    TCM_ASSERT(tcm_load_acquire(&q->given) != q->taken);
    move(&q->taken, &q->giver_sleeps);
}

uint32_t tool_queue_index(const struct tool_queue *q, const uint8_t *buffer) {
    size_t i = (size_t)(buffer - q->memory) / q->bytes;
    TCM_ASSERT(i < q->count && q->memory + i * q->bytes == buffer);
    return (uint32_t)i;
}

/* Wakes until no side sleeps: the counts do not change, so a side that is about
   to sleep may miss the first wake. */
void tool_queue_close(struct tool_queue *q) {
    tcm_store_seq_cst(&q->closed, 1u);
    while (tcm_load_seq_cst(&q->giver_sleeps) != 0 ||
           tcm_load_seq_cst(&q->taker_sleeps) != 0) {
        tcm_futex_wake(&q->taken, 1);
        tcm_futex_wake(&q->given, 1);
        sched_yield();
    }
}

bool tool_queue_is_closed(const struct tool_queue *q) {
    return tcm_load_seq_cst(&q->closed) != 0;
}

bool tool_thread_start(pthread_t *thread, void *(*run)(void *),
                       void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

bool tool_thread_helps(void) {
    cpu_set_t set;
    /* fails if there are more processors than a cpu_set_t holds */
    return sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) > 1;
}
