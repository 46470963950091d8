/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shard of the page heap that a thread allocates from, which is also that
 * of its central lists and transfer caches.
 *
 * Threads begin in shard 0. A thread that often finds locks of its shard taken
 * moves to a shard that no thread is in, which is opened if need be; when all
 * shards are open, to one with fewer threads. A thread that is alone in its
 * shard stays: it meets threads that free its blocks, and would meet them
 * anywhere. So programs whose threads do not meet have one shard, and busy
 * threads end up in shards of their own, with blocks in memory that only their
 * processor has touched. A new thread goes to the shard with the fewest
 * threads: often that which a thread has just left.
 *
 * A class has one central list and one transfer cache, in shard 0, until
 * threads often meet there. Then it is parted: it has them in each shard. That
 * costs memory, since spans that are partly used serve one shard only.
 *
 * Threads: the state of a thread is its own. The counts of threads are hints,
 * read and changed relaxed. Shards are opened, and classes parted, for ever,
 * under one lock, rank SHARDS. The list that a thread takes objects from is a
 * matter of speed alone, so the mark of a parted class is read relaxed. A
 * thread that has an object of a list which the parting made got it from one
 * that had seen the mark, and sees the mark, too.
 */
#ifndef TCM_CORE_THREAD_SHARD_H
#define TCM_CORE_THREAD_SHARD_H

#include "core/run_set.h"
#include "core/size_class.h"

/* Central lists and transfer caches of each open shard, by class. */
extern struct tcm_central *tcm_central[TCM_PAGE_SHARDS];
extern struct tcm_transfer *tcm_transfer[TCM_PAGE_SHARDS];

void tcm_thread_shards_init(void);

/* Number of the calling thread's shard. */
uint32_t tcm_thread_shard(void);

/* Tells that a lock of the thread's shard was free, or taken. */
void tcm_thread_shard_passes(void);
/* The caller holds no lock of core. Returns the number of the thread's shard,
   which may have changed. */
uint32_t tcm_thread_shard_waits(void);

/* True for a class that is parted. */
extern uint8_t tcm_class_parted[TCM_MAX_CLASSES];
static inline bool tcm_class_is_parted(unsigned size_class) {
    return tcm_load_relaxed(&tcm_class_parted[size_class]) != 0;
}

/* Number of shards in which CLASS may have objects. */
static inline uint32_t tcm_class_parts(unsigned size_class) {
    return tcm_class_is_parted(size_class) ? tcm_load_acquire(&tcm_page_shards)
                                           : 1;
}

/* Shard from which the calling thread takes objects of CLASS. */
static inline uint32_t tcm_class_shard(unsigned size_class) {
    return tcm_class_is_parted(size_class) ? tcm_thread_shard() : 0;
}

static inline void tcm_heat_cool(uint32_t *heat) {
    uint32_t now = tcm_load_relaxed(heat);
    if (TCM_UNLIKELY(now != 0))
        tcm_store_relaxed(heat, now - 1);
}
/* Tells that the calling thread found a lock of CLASS in its shard taken; the
   rest is as for tcm_class_lock_try. */
void tcm_class_waits(unsigned size_class, uint32_t *heat);

/*
 * Takes LOCK, of CLASS in the calling thread's shard, if it is free. HEAT
 * belongs to what the lock guards: it rises when the lock is found taken, and
 * cools when it is free. A class that is hot is parted; where it is parted
 * already, the thread may leave its shard: so after false the caller may want
 * another lock. It holds no lock of core.
 */
static inline bool tcm_class_lock_try(struct tcm_lock *lock,
                                      unsigned size_class, uint32_t *heat) {
    if (TCM_UNLIKELY(!tcm_lock_try(lock))) {
        tcm_class_waits(size_class, heat);
        return false;
    }
    tcm_heat_cool(heat);
    if (tcm_class_is_parted(size_class))
        tcm_thread_shard_passes();
    return true;
}

/* NOTE, which may outlive the calling thread, tells from now on which shard the
   thread counts in: its number plus 1, or 0. */
void tcm_thread_shard_note(uint8_t *note);
/* The calling thread ends: it no longer counts as one of its shard, and its
   note is no longer used. */
void tcm_thread_shard_end(void);
/* A thread is gone without that; NOTE is what it left. */
void tcm_thread_shard_end_dead(uint8_t note);
/* The lock without which no shard is opened and no class is parted, around
   fork. */
void tcm_thread_shards_lock(void);
void tcm_thread_shards_unlock(void);
/* Called in the child of fork: the calling thread is the only one. */
void tcm_thread_shard_fork_child(void);

/* ONE: all threads use shard 0 from now on; else any again. */
void tcm_thread_shards_restrict(bool one);

#endif
