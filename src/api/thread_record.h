/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of threads, in memory that outlives the threads. They let other
 * threads release the cache and stream of a thread that ended without our key's
 * destructor: by the raw system call, or because its state was set up in the
 * last round of destructors, after that of our key.
 *
 * Each thread holds a robust mutex in its record all its life. When it is gone,
 * for whatever reason, the kernel marks the mutex; threads that start later see
 * the mark and release cache and stream. So no system call is needed, and no
 * access to the memory of the thread, which may be unmapped or reused.
 *
 * Invariants: a record is in the list until its own thread removes it, or a
 * thread that found the mutex's owner dead.
 *
 * Threads: the list has a lock. cache, trace and shard are written by the
 * owner; others read them after the owner's death, which the mutex orders.
 */
#ifndef TCM_API_THREAD_RECORD_H
#define TCM_API_THREAD_RECORD_H

#include "base/compiler.h"
#include "base/dlist.h"

#include <pthread.h>

struct mtr_thread;
struct tcm_thread_cache;

struct tcm_thread_record {
    pthread_mutex_t alive;
    struct tcm_dlist link;
    struct tcm_thread_cache *cache; /* attached, or NULL */
    struct mtr_thread *trace;       /* its stream, or NULL */
    uint8_t shard;                  /* see tcm_thread_shard_note */
};

/* Adds a record of the calling thread. NULL: no memory. */
struct tcm_thread_record *tcm_record_add(void);
/* Removes and frees RECORD, the calling thread's. */
void tcm_record_remove(struct tcm_thread_record *record);
/* Removes the record of a dead thread from the list and returns it; NULL: none
   found. Checks two records a call, in turn. A thread adds one record a call,
   so dead ones do not accumulate. */
struct tcm_thread_record *tcm_record_take_dead(void);
/* Frees a record of tcm_record_take_dead, after cache and stream were released.
 */
void tcm_record_free(struct tcm_thread_record *record);

/* Around fork; OWN: the record of the child's only thread, or NULL. */
void tcm_record_fork_prepare(void);
void tcm_record_fork_parent(void);
void tcm_record_fork_child(struct tcm_thread_record *own);

#endif
