/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithm is "mutex2" of Ulrich Drepper, "Futexes Are Tricky". A thread
 * polls the lock before it sleeps, because our critical sections are shorter
 * than a futex call, and pauses longer and longer between two polls. The pauses
 * are what makes a busy lock fast. A thread that polled without them would get
 * the lock after nearly every critical section, and each section would begin by
 * moving the guarded data to another processor; with them, one thread runs many
 * sections in a row.
 */
#include "base/lock.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"

/* Pauses of the processor (10 to 40 ns each) between two polls: the first time,
   at most, and in all before the thread sleeps. */
#define WAIT_FIRST 4u
#define WAIT_MOST  256u
#define WAIT_ALL   1024u

TCM_TLS uint32_t tcm_locks_held;
static TCM_TLS uint8_t held_count[TCM_RANK_COUNT];

uint64_t tcm_lock_uses[TCM_RANK_COUNT];

void tcm_lock_init(struct tcm_lock *lock, enum tcm_lock_rank rank) {
    lock->state = 0;
    lock->rank = rank;
}

void tcm_lock_slow(struct tcm_lock *lock) {
    unsigned wait = WAIT_FIRST;
    for (unsigned done = 0; done < WAIT_ALL; done += wait) {
        uint32_t expected = 0;
        for (unsigned i = 0; i < wait; i++)
            tcm_cpu_relax();
        if (tcm_load_relaxed(&lock->state) == 0 &&
            tcm_cas_acquire(&lock->state, &expected, 1u))
            return;
        wait = wait < WAIT_MOST ? 2 * wait : WAIT_MOST;
    }
    while (tcm_swap_acquire(&lock->state, 2u) != 0)
        tcm_futex_wait(&lock->state, 2, UINT64_MAX);
}

void tcm_unlock_slow(struct tcm_lock *lock) {
    tcm_futex_wake(&lock->state, 1);
}

/* Not entered in the debug build's account: the calling thread may hold LOCK
   already. */
bool tcm_lock_is_stuck(struct tcm_lock *lock, uint64_t ns) {
    uint64_t until = tcm_clock_ns() + ns, now;
    uint32_t expected = 0;
    if (!tcm_cas_acquire(&lock->state, &expected, 1u))
        while (tcm_swap_acquire(&lock->state, 2u) != 0) {
            if ((now = tcm_clock_ns()) >= until)
                return true;
            tcm_futex_wait(&lock->state, 2, until - now);
        }
    if (tcm_swap_release(&lock->state, 0u) == 2)
        tcm_unlock_slow(lock);
    return false;
}

/* ------------------------------------------------------------------------ */
/* Debug builds; others have no thread-local storage for this                */

#define RANK_BITS  8
#define OWNER_MASK (UINT32_MAX >> RANK_BITS)

TCM_STATIC_ASSERT(TCM_RANK_COUNT < 1 << RANK_BITS, "a rank leaves its bits");

/* Number of the calling thread, never 0. */
static uint32_t thread_number(void) {
    static uint32_t last;
    static TCM_TLS uint32_t number;
    while (number == 0)
        number = (tcm_add_relaxed(&last, 1u) + 1) & OWNER_MASK;
    return number;
}

static uint32_t rank_of(const struct tcm_lock *lock) {
    return tcm_load_relaxed(&lock->rank) & ((1u << RANK_BITS) - 1);
}

bool tcm_lock_is_held(const struct tcm_lock *lock) {
    return tcm_debug &&
           tcm_load_relaxed(&lock->rank) >> RANK_BITS == thread_number();
}

/* Locks of equal rank may be held together only by fork, which takes arrays of
   them in order; so equal ranks are allowed. */
void tcm_lock_note_taken(struct tcm_lock *lock) {
    if (!tcm_debug)
        return;
    uint32_t rank = rank_of(lock);
    TCM_CHECK(rank < TCM_RANK_COUNT && lock->rank == rank);
    tcm_store_relaxed(&lock->rank, rank | thread_number() << RANK_BITS);
    if (rank == TCM_RANK_NONE)
        return;
    for (unsigned r = rank + 1; r < TCM_RANK_COUNT; r++)
        TCM_CHECK(held_count[r] == 0);
    held_count[rank]++;
    if (tcm_testing)
        (void)tcm_add_relaxed(&tcm_lock_uses[rank], 1);
}

void tcm_lock_note_given(struct tcm_lock *lock) {
    if (!tcm_debug)
        return;
    uint32_t rank = rank_of(lock);
    TCM_CHECK(tcm_load_relaxed(&lock->state) != 0 && tcm_lock_is_held(lock));
    tcm_store_relaxed(&lock->rank, rank);
    if (rank == TCM_RANK_NONE)
        return;
    TCM_CHECK(held_count[rank] != 0);
    held_count[rank]--;
}
