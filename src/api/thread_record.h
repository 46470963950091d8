/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of threads, in memory that outlives them, by which other threads
 * release what a dead one left. Some threads end without running our key's
 * destructor: those that leave by the raw system call, and those whose state is
 * set up in the last round of destructors, when our key is no longer looked at.
 *
 * Each record has a robust mutex that its thread holds all its life. The kernel
 * marks it when the thread is gone, for whatever reason; threads that start
 * later see the mark and release what is left. That takes no system call and no
 * access to the memory of the thread, which may be unmapped or another's.
 *
 * Invariants: a record is in the list until it is taken out by its own thread
 * or by a thread that found the mutex's owner dead.
 *
 * Threads: the list has a lock. cache and trace are written by the owner;
 * others read them after the owner's death, which the mutex orders.
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
};

/* A record of the calling thread. NULL: no memory. */
struct tcm_thread_record *tcm_record_add(void);
/* The calling thread is done with RECORD. */
void tcm_record_remove(struct tcm_thread_record *record);
/* The record of a thread that is gone, taken out of the list, or NULL. Looks at
   two records a call, in turn; one is added a call, so the dead do not pile
   up. */
struct tcm_thread_record *tcm_record_take_dead(void);
/* Frees such a record, once nothing of its thread is left. */
void tcm_record_free(struct tcm_thread_record *record);

/* Around fork; OWN: the record of the child's only thread, or NULL. */
void tcm_record_fork_prepare(void);
void tcm_record_fork_parent(void);
void tcm_record_fork_child(struct tcm_thread_record *own);

#endif
