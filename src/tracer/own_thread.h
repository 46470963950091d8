/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's own threads: how they are made, and how they keep out of the
 * program's way when it ends.
 *
 * A process ends without a call of exit in two ways, and neither may see ours:
 *
 *   - The C library counts the threads that it made; the one that takes the
 *     count to zero calls exit(0). Ours take themselves out of the count, so
 *     that the last thread of the program still does, with its own descriptors,
 *     signal mask and stack. It has to be that thread: ours have a descriptor
 *     table of their own, and with the last thread of the program that table
 *     goes in which its output is.
 *   - The kernel ends a process whose threads all made the exit system call
 *     themselves, with the status of the first one, and no exit handler runs.
 *     Ours look now and then whether they are alone (mtr_own_are_alone), end
 *     the recording, and go too.
 *
 * The count is a variable of the C library's that debuggers read (glibc 2.34
 * and later export it). Where it is not to be had ours are counted; then it is
 * one of them, alone, that calls exit(0) when it returns: a moment late, and
 * what exit handlers write is lost.
 *
 * Why not threads that the C library does not know: they would keep the rights
 * that the program gives up by setuid.
 */
#ifndef TCM_TRACER_OWN_THREAD_H
#define TCM_TRACER_OWN_THREAD_H

#include "base/linux/os_process.h"
#include "tracer/recorder.h"

#include <pthread.h>

/* Once, before threads are made and while the loader's locks are free. */
void mtr_own_init(void);
/*
 * Makes a thread with all signals blocked; its BODY calls mtr_own_begin first
 * and mtr_own_end last, and its maker stays until the former was done. *THREAD
 * is set before BODY runs. false: errno in *ERROR.
 */
bool mtr_own_create(pthread_t *thread, void *(*body)(void *), void *arg,
                    int *error);
/* Enters the private arena, and leaves what the program's threads share of
   folders: with it shared they could not enter another mount namespace. */
void mtr_own_begin(struct mtr_recorder *rec, const char *name);
/*
 * Descriptors of the calling thread's own: the program neither sees nor closes
 * nor inherits them. KEEP: one that stays, or -1. 0 to 2 are taken by what
 * nothing can be written to. false: the kernel refused.
 */
bool mtr_unshare_table(int keep);
/* ALONE: for good, and with it the process, with the first thread's status if
   the C library has nothing more to do. */
void mtr_own_end(struct mtr_recorder *rec, bool alone);
/*
 * Waits until *THREAD, which is about to end, has. From mtr_own_end on it is
 * counted: were it to end after the last thread of the program, exit handlers
 * would run on it. So the thread that asked it to end waits for it.
 */
void mtr_own_join(pthread_t *thread);

/*
 * True when no thread of the program is left. The first one counts to the end,
 * dead or not. The maker of a thread lives until the thread does, so none is
 * overlooked; and ours count themselves only while they live.
 */
bool mtr_own_are_alone(struct mtr_recorder *rec, struct tcm_statm *m);

#endif
