/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/ring.h"

#include "base/atomic.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "base/os_thread.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

/* Looks before a sleep: about 20 us, less than a sleep and a wake cost. */
#define RING_LOOKS 400
/* A sleeper looks after its partner this often. */
#define RING_SLEEP_NS 50000000

struct replay_ring *replay_ring_new(void) {
    void *p = tcm_os_map_shared(REPLAY_RING_BYTES);
    if (p != NULL)
        memset(p, 0, REPLAY_RING_BYTES);
    return p;
}

struct replay_batch *replay_ring_fill(struct replay_ring *r) {
    uint32_t filled = r->filled;
    uint32_t taken = tcm_load_acquire(&r->taken);
    while (filled - taken == REPLAY_BATCHES) {
        tcm_store_relaxed(&r->wanted, filled - REPLAY_BATCHES / 2);
        tcm_fence_seq_cst();
        taken = tcm_load_acquire(&r->taken);
        if (filled - taken < REPLAY_BATCHES)
            break;
        tcm_futex_wait_shared(&r->taken, taken, RING_SLEEP_NS);
        taken = tcm_load_acquire(&r->taken);
    }
    TCM_ASSERT(filled - taken < REPLAY_BATCHES);
    return &r->batch[filled % REPLAY_BATCHES];
}

void replay_ring_filled(struct replay_ring *r) {
    TCM_ASSERT(r->filled - tcm_load_acquire(&r->taken) < REPLAY_BATCHES);
    TCM_ASSERT(r->batch[r->filled % REPLAY_BATCHES].words <=
               REPLAY_BATCH_WORDS);
    /* Publishes the batch and the result; pairs with replay_ring_take. */
    tcm_store_release(&r->filled, r->filled + 1);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&r->sleeps) != 0)
        tcm_futex_wake_shared(&r->filled, 1);
}

static const struct replay_batch *ring_next(struct replay_ring *r) {
    uint32_t taken = r->taken;
    if (tcm_load_acquire(&r->filled) == taken)
        return NULL;
    TCM_ASSERT(tcm_load_acquire(&r->filled) - taken <= REPLAY_BATCHES);
    return &r->batch[taken % REPLAY_BATCHES];
}

/* True: it has ended, and what it published before is visible. */
static bool ring_child_ended(pid_t *child, int *status) {
    if (*child < 0)
        return true;
    pid_t got;
    do
        got = waitpid(*child, status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got != *child)
        return false;
    *child = -1;
    return true;
}

const struct replay_batch *replay_ring_take(struct replay_ring *r, pid_t *child,
                                            int *status) {
    const struct replay_batch *b;
    for (int i = 0; i < RING_LOOKS; i++) {
        b = ring_next(r);
        if (b)
            return b;
        tcm_cpu_relax();
    }
    for (;;) {
        uint32_t taken = r->taken;
        tcm_store_relaxed(&r->sleeps, 1u);
        tcm_fence_seq_cst();
        b = ring_next(r);
        if (!b)
            tcm_futex_wait_shared(&r->filled, taken, RING_SLEEP_NS);
        tcm_store_relaxed(&r->sleeps, 0u);
        b = b ? b : ring_next(r);
        if (b)
            return b;
        if (ring_child_ended(child, status))
            return ring_next(r);
    }
}

void replay_ring_taken(struct replay_ring *r) {
    uint32_t taken = r->taken + 1;
    TCM_ASSERT(tcm_load_acquire(&r->filled) != r->taken);
    /* Gives the place back; pairs with replay_ring_fill. */
    tcm_store_release(&r->taken, taken);
    tcm_fence_seq_cst();
    if (taken == tcm_load_relaxed(&r->wanted))
        tcm_futex_wake_shared(&r->taken, 1);
}
