/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other threads know of a thread, in memory that outlives it, so that a
 * thread which never says that it ends loses nothing: one that leaves by the
 * raw system call, or is born in the last round of its destructors, when no
 * key of ours is looked at any more.
 *
 * Each record has a robust mutex that its thread holds all its life. The kernel
 * marks it when the thread is gone, however it went; later births see the mark
 * and end what is left. That takes no system call and no look at the memory of
 * the thread, which may be unmapped or another's.
 *
 * Invariants: a record is in the list while its thread lives, and until it was
 * taken out by the thread itself or by who found the mutex's owner dead.
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
   two, in turn: as many as can come for one that is asked for. */
struct tcm_thread_record *tcm_record_take_dead(void);
/* Gives such a one back, when nothing of its thread is left. */
void tcm_record_free(struct tcm_thread_record *record);

/* Around fork; OWN: the record of the child's only thread, or NULL. */
void tcm_record_fork_prepare(void);
void tcm_record_fork_parent(void);
void tcm_record_fork_child(struct tcm_thread_record *own);

#endif
