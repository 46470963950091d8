/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's own threads, which must not keep a process alive that ends
 * without a call of exit. There are two ways:
 *
 * - The C library counts the threads that it has created, and the one that
 *   takes the count to zero calls exit(0). Our threads subtract themselves from
 *   the count, so that the program's last thread still makes that call. It has
 *   to be that thread: the program's descriptor table, with its output, ends
 *   with it, since our threads have their own.
 * - The kernel ends a process whose threads have all made the exit system call,
 *   with the status of the first thread and without exit handlers. Our threads
 *   check now and then whether they are the last (mtr_own_are_last), end the
 *   recording, and exit, too.
 *
 * The count is a variable of the C library for debuggers (exported since glibc
 * 2.34). Where it cannot be found, our threads are counted, and the last one
 * calls exit(0) when it returns: a moment late, and without what exit handlers
 * write. After a first thread with a status our threads exit in the second way.
 *
 * Why not threads unknown to the C library: they would keep rights that the
 * program gives up by setuid.
 */
#ifndef TCM_TRACER_OWN_THREAD_H
#define TCM_TRACER_OWN_THREAD_H

#include "base/linux/os_process.h"
#include "tracer/recorder.h"

#include <pthread.h>

/* Looks up the C library's functions; once, before threads are created and
   while the loader's locks are free. */
void mtr_own_init(void);
/* True if a thread is created with memory of a calloc that is neither this
   library's nor the C library's: the loader takes the first one in the order of
   symbols. */
bool mtr_own_calls_program(void);
/*
 * Creates a thread with all signals blocked. BODY calls mtr_own_begin first and
 * mtr_own_end last, and the caller waits until BODY has called mtr_own_begin.
 * *THREAD is set before BODY runs. false: errno in *ERROR.
 */
bool mtr_own_create(pthread_t *thread, void *(*body)(void *), void *arg,
                    int *error);
/* Enters the private arena, and unshares root, current folder and umask:
   threads that share these could not enter another mount namespace. */
void mtr_own_begin(struct mtr_recorder *rec, const char *name);
/*
 * Gives the calling thread a descriptor table of its own: the program neither
 * sees nor closes nor inherits its descriptors. KEEP: one that stays, or -1. 0
 * to 2 are occupied by descriptors that nothing can be written to. false: the
 * kernel refused.
 */
bool mtr_unshare_table(int keep);
/* Ends the calling thread's part in the process. ALONE: ends the process as
   well, with the status of its first thread, if the C library has nothing more
   to do. */
void mtr_own_end(struct mtr_recorder *rec, bool alone);
/*
 * Waits until *THREAD, which is about to end, has ended. From mtr_own_end on
 * the C library counts it: if it ended after the last thread of the program,
 * exit handlers would run on it. So the thread that has asked it to end waits
 * for it.
 */
void mtr_own_join(pthread_t *thread);

/*
 * True if no thread of the program is left. The first thread counts until the
 * end, dead or not. The creator of a thread lives until the thread does, so
 * none is overlooked; and our threads count themselves only while they live.
 */
bool mtr_own_are_last(struct mtr_recorder *rec, struct tcm_statm *m);

#endif
