/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithm is "mutex2" of Ulrich Drepper, "Futexes Are Tricky", with a
 * short spin first: our critical sections are shorter than a futex call.
 */
#include "base/lock.h"
#include "base/check.h"
#include "base/os_thread.h"

#define SPIN_ROUNDS 100

TCM_TLS uint32_t tcm_locks_held;
static TCM_TLS uint8_t held_count[TCM_RANK_COUNT];

uint64_t tcm_lock_uses[TCM_RANK_COUNT];

void tcm_lock_init(struct tcm_lock *lock, enum tcm_lock_rank rank) {
    lock->state = 0;
    lock->rank = rank;
}

void tcm_lock_slow(struct tcm_lock *lock) {
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        uint32_t expected = 0;
        tcm_cpu_relax();
        if (tcm_load_relaxed(&lock->state) == 0 &&
            tcm_cas_acquire(&lock->state, &expected, 1u))
            return;
    }
    while (tcm_swap_acquire(&lock->state, 2u) != 0)
        tcm_futex_wait(&lock->state, 2, UINT64_MAX);
}

void tcm_unlock_slow(struct tcm_lock *lock) {
    tcm_futex_wake(&lock->state, 1);
}

/* Locks of equal rank may be held together only by fork, which takes arrays of
   them in order; so equal ranks are allowed. */
void tcm_lock_rank_push(struct tcm_lock *lock) {
    if (lock->rank == TCM_RANK_NONE)
        return;
    for (unsigned r = lock->rank + 1; r < TCM_RANK_COUNT; r++)
        TCM_CHECK(held_count[r] == 0);
    held_count[lock->rank]++;
    if (tcm_testing)
        (void)tcm_add_relaxed(&tcm_lock_uses[lock->rank], 1);
}

void tcm_lock_rank_pop(struct tcm_lock *lock) {
    if (lock->rank == TCM_RANK_NONE)
        return;
    TCM_CHECK(held_count[lock->rank] != 0);
    held_count[lock->rank]--;
}
