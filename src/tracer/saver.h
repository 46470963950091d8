/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver thread: takes what threads published, writes it, and says in
 * barriers up to which time all of it is written.
 *
 * A short process needs no such thread: if its recording is still lazy at its
 * end, the thread that ends it does the saving (mtr_saver_end_here).
 *
 * Threads: mtr_saver_main is the thread; the rest is called by others. Who
 * changed link.started from 0 to 1 is, until it changes it again, the only one
 * that saves.
 */
#ifndef MTR_SAVER_H
#define MTR_SAVER_H

#include "tracer/recorder.h"

/* Makes the thread. false: errno in *ERROR. */
bool mtr_saver_create(struct mtr_recorder *rec, int *error);
/*
 * Descriptors of the calling thread's own: the program neither sees nor closes
 * nor inherits them. KEEP: one that stays, or -1. 0 to 2 are taken by what
 * nothing can be written to. false: the kernel refused.
 */
bool mtr_unshare_table(int keep);
/* Buffers ahead of need; by who saves, or will. */
void mtr_saver_keep_ready(struct mtr_recorder *rec);
/* It shall look now. */
void mtr_saver_wake(struct mtr_recorder *rec);
/* Asks for a round and waits for it. false: the recording ended. */
bool mtr_saver_round(struct mtr_recorder *rec);
/*
 * The end of the program, for a recording that has its spool alone: the calling
 * thread writes the file and enters end mode. A saver is made if events follow.
 * false: there is a saver, or this cannot be done without one.
 */
bool mtr_saver_end_here(struct mtr_recorder *rec);
/*
 * The work of a saver that may not be made by this call (mtr_freeing, vfork),
 * on the calling thread: buffers for a recording that has its spool alone
 * (false: one is being made, which is not to be waited for long), and a round
 * in end mode.
 */
bool mtr_saver_stock_here(struct mtr_recorder *rec);
void mtr_saver_round_here(struct mtr_recorder *rec);
/* Until the saver that ended, or ends, a recording has left it, TIMEOUT_NS at
   most (UINT64_MAX: for ever). */
void mtr_saver_await_gone(struct mtr_recorder *rec, uint64_t timeout_ns);
/* The text of TCMALLOC_TRACE_STATS after the end; its length. */
size_t mtr_saver_summary(char *text, size_t cap);

#endif
