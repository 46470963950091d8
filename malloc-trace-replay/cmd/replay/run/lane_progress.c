/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/lane_progress.h"

#include "base/linux/os_thread.h"

#include <sched.h>
#include <string.h>

/* Polls before a sleep. */
#define PROGRESS_POLLS 60u

static void progress_lock(uint32_t *word) {
    while (tcm_swap_acquire(word, 1u) != 0)
        sched_yield();
}
static void progress_unlock(uint32_t *word) {
    tcm_store_release(word, 0u);
}

void replay_progress_begin(struct replay_progress *p,
                           struct replay_ring *ring) {
    memset(p, 0, sizeof(*p));
    p->ring = ring;
    p->window_left[0] = 1;
}

/* --- Windows -------------------------------------------------------------- */

/* Advances window_done when a window has nothing left; earlier ones may
   have. */
static void windows_advance(struct replay_progress *p) {
    progress_lock(&p->window_lock);
    uint32_t done = p->window_done;
    while (tcm_load_acquire(&p->window_left[done % REPLAY_WINDOWS]) == 0)
        done++;
    tcm_store_release(&p->window_done, done);
    bool wakes = p->window_sleepers != 0 &&
                 replay_window_reached(done, p->window_wanted);
    if (wakes)
        p->window_sleepers = 0;
    progress_unlock(&p->window_lock);
    if (wakes)
        tcm_futex_wake(&p->window_done, INT32_MAX);
}

static void window_take_one(struct replay_progress *p, uint32_t window) {
    if (tcm_sub_acq_rel(&p->window_left[window % REPLAY_WINDOWS], 1u) == 1)
        windows_advance(p);
}

void replay_progress_sleep(struct replay_progress *p, uint32_t wanted,
                           bool (*ready)(void *ctx), void *ctx,
                           uint64_t most_ns) {
    progress_lock(&p->window_lock);
    uint32_t done = p->window_done;
    bool sleeps = !replay_window_reached(done, wanted) && !ready(ctx);
    if (sleeps && (p->window_sleepers++ == 0 ||
                   replay_window_reached(p->window_wanted, wanted)))
        p->window_wanted = wanted;
    progress_unlock(&p->window_lock);
    if (sleeps)
        tcm_futex_wait(&p->window_done, done, most_ns);
}

/* --- Dealing -------------------------------------------------------------- */

static void batch_take_one(struct replay_progress *p, uint32_t number) {
    uint32_t *left = p->batch_left;
    if (tcm_sub_acq_rel(&left[number % REPLAY_BATCHES_MOST], 1u) != 1)
        return;
    progress_lock(&p->batch_lock);
    struct replay_ring *ring = p->ring;
    while (ring->taken != tcm_load_acquire(&p->batches_dealt) &&
           tcm_load_acquire(&left[ring->taken % REPLAY_BATCHES_MOST]) == 0)
        replay_ring_taken(ring);
    progress_unlock(&p->batch_lock);
}

void replay_progress_batch(struct replay_progress *p, uint32_t number,
                           uint32_t segments) {
    /* One more, which keeps the batch until all its segments are dealt. */
    tcm_store_release(&p->batch_left[number % REPLAY_BATCHES_MOST],
                      segments + 1);
    tcm_store_release(&p->batches_dealt, number + 1);
}

void replay_progress_batch_dealt(struct replay_progress *p, uint32_t number) {
    batch_take_one(p, number);
}

void replay_progress_segment(struct replay_progress *p,
                             const struct replay_segment *s) {
    while (p->window != s->window) {
        uint32_t old = p->window++;
        TCM_ASSERT(p->window - tcm_load_acquire(&p->window_done) <
                   REPLAY_WINDOWS);
        /* Set before the old window can be finished: see windows_advance. */
        tcm_store_release(&p->window_left[p->window % REPLAY_WINDOWS], 1u);
        window_take_one(p, old);
    }
    tcm_add_acq_rel(&p->window_left[s->window % REPLAY_WINDOWS], 1u);
    tcm_add_acq_rel(&p->in_flight, 1u);
}

/* --- Done ----------------------------------------------------------------- */

static void live_count(struct replay_progress *p,
                       const struct replay_segment *s) {
    int64_t live = tcm_add_relaxed(&p->live_bytes, s->net_bytes);
    int64_t high = (int64_t)((uint64_t)live + (uint64_t)s->rise_bytes);
    int64_t peak = tcm_load_relaxed(&p->peak_bytes);
    while (high > peak && !tcm_cas_acq_rel(&p->peak_bytes, &peak, high))
        ;
}

void replay_progress_done(struct replay_progress *p,
                          const struct replay_segment *s, uint32_t number) {
    uint32_t window = s->window;
    live_count(p, s);
    /* S may be overwritten from here on. */
    batch_take_one(p, number);
    window_take_one(p, window);
    if (tcm_sub_acq_rel(&p->in_flight, 1u) != 1)
        return;
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&p->all_awaited) == 0)
        return;
    tcm_add_acq_rel(&p->all_done, 1u);
    tcm_futex_wake(&p->all_done, 1);
}

/* On both sides a fence lies between the own store and the load of the other's,
   so one side sees the other's store. */
bool replay_progress_await_all(struct replay_progress *p, uint64_t most_ns) {
    for (unsigned i = 0; i < PROGRESS_POLLS; i++) {
        if (tcm_load_acquire(&p->in_flight) == 0)
            return true;
        tcm_cpu_relax();
    }
    uint32_t done = tcm_load_acquire(&p->all_done);
    tcm_store_relaxed(&p->all_awaited, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&p->in_flight) != 0)
        tcm_futex_wait(&p->all_done, done, most_ns);
    tcm_store_relaxed(&p->all_awaited, 0u);
    return tcm_load_acquire(&p->in_flight) == 0;
}
