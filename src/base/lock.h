/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A 4-byte futex lock without malloc and without recursion.
 *
 * Ranks: a thread takes locks in rising rank only, and fork takes all of them
 * in that order. Debug builds check it. A free lock is all zero except
 * for its rank.
 *
 * Threads: any. Taking a lock is an acquire, giving it back a release.
 */
#ifndef TCM_BASE_LOCK_H
#define TCM_BASE_LOCK_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"

/* Ranks in the order in which locks may be taken: tracer, api, core. */
enum tcm_lock_rank {
    TCM_RANK_NONE = 0, /* outside the order: no lock is taken inside */
    TCM_RANK_TRACE_LATE,
    TCM_RANK_TRACE_REGISTRY,
    TCM_RANK_TRACE_POOL,
    TCM_RANK_API,
    TCM_RANK_SHARDS,
    TCM_RANK_CACHE_REGISTRY,
    TCM_RANK_REGIONS,
    TCM_RANK_TRANSFER_CACHE,
    TCM_RANK_CENTRAL_LIST,
    TCM_RANK_GROWTH,
    TCM_RANK_PAGE_HEAP,
    TCM_RANK_META,
    TCM_RANK_COUNT
};

struct tcm_lock {
    uint32_t state; /* 0 free, 1 held, 2 held and perhaps waited for */
    uint32_t rank;  /* and above 8 bits, in debug builds, the holder's number */
};

#define TCM_LOCK_INIT(r)                                                       \
    { 0, (r) }

void tcm_lock_init(struct tcm_lock *lock, enum tcm_lock_rank rank);
/* tcm_lock_init for a lock in zeroed memory. Only debug builds check ranks:
   others leave the memory untouched. */
static inline void tcm_lock_init_rank(struct tcm_lock *lock,
                                      enum tcm_lock_rank rank) {
    if (tcm_debug)
        tcm_lock_init(lock, rank);
}
TCM_COLD void tcm_lock_slow(struct tcm_lock *lock);
TCM_COLD void tcm_unlock_slow(struct tcm_lock *lock);

/* Debug builds: record rank and holder; die if a lock of higher rank is held
   already, or if the caller gives back a lock that it does not hold. */
void tcm_lock_note_taken(struct tcm_lock *lock);
void tcm_lock_note_given(struct tcm_lock *lock);

/* Debug builds: true if the calling thread holds LOCK. After a fork the child's
   thread holds what the forking thread held. */
bool tcm_lock_is_held(const struct tcm_lock *lock);
#define tcm_lock_assert_held(lock) TCM_ASSERT(tcm_lock_is_held(lock))
/* Number of times that locks of each rank were taken; counted in builds for
   unit tests. */
extern uint64_t tcm_lock_uses[TCM_RANK_COUNT];

/* Number of locks that the calling thread holds or is about to take: not 0 in a
   signal handler that interrupted a critical section. */
extern TCM_TLS uint32_t tcm_locks_held;

static inline void tcm_lock(struct tcm_lock *lock) {
    uint32_t expected = 0;
    TCM_ASSERT(!tcm_lock_is_held(lock));
    tcm_locks_held++;
    tcm_fence_signal();
    if (TCM_UNLIKELY(!tcm_cas_acquire(&lock->state, &expected, 1u)))
        tcm_lock_slow(lock);
    if (tcm_debug)
        tcm_lock_note_taken(lock);
}

/* Takes LOCK if it is free now. */
static inline bool tcm_lock_try(struct tcm_lock *lock) {
    uint32_t expected = 0;
    TCM_ASSERT(!tcm_lock_is_held(lock));
    tcm_locks_held++;
    tcm_fence_signal();
    if (TCM_UNLIKELY(!tcm_cas_acquire(&lock->state, &expected, 1u))) {
        tcm_locks_held--;
        return false;
    }
    if (tcm_debug)
        tcm_lock_note_taken(lock);
    return true;
}

/* True if the calling thread cannot take LOCK within NS: its holder sleeps, or
   is this thread, which a signal interrupted. */
bool tcm_lock_is_stuck(struct tcm_lock *lock, uint64_t ns);

static inline void tcm_unlock(struct tcm_lock *lock) {
    if (tcm_debug)
        tcm_lock_note_given(lock);
    if (TCM_UNLIKELY(tcm_swap_release(&lock->state, 0u) == 2))
        tcm_unlock_slow(lock);
    tcm_fence_signal();
    tcm_locks_held--;
}

#endif
