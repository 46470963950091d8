/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver thread: takes what threads published, writes it, and says in
 * barriers up to which time all of it is written.
 *
 * A short process needs no such thread: if its recording is still lazy at its
 * end, the thread that ends it does the saving (mtr_saver_end_here).
 *
 * Threads: any thread calls the first part. One thread at a time saves
 * (enum mtr_saves).
 */
#ifndef TCM_TRACER_SAVER_SAVER_H
#define TCM_TRACER_SAVER_SAVER_H

#include "tracer/recorder.h"

struct mtf_account_value;

/* Makes the thread. false: errno in *ERROR. */
bool mtr_saver_create(struct mtr_recorder *rec, int *error);
/* Wakes it: it looks at once. */
void mtr_saver_wake(struct mtr_recorder *rec);
/*
 * The end of the program, for a recording that has its spool alone: the calling
 * thread writes the file and enters end mode. A saver is made if events follow.
 * false: there is a saver, or this cannot be done without one.
 */
bool mtr_saver_end_here(struct mtr_recorder *rec);
/*
 * The work of a saver that may not be made by this call (mtr_freeing, vfork),
 * or that is being made by another, on the calling thread: buffers for a
 * recording that has its spool alone (false: there can be none), and a round in
 * end mode (false: another thread saves, look again).
 */
bool mtr_saver_stock_here(struct mtr_recorder *rec);
bool mtr_saver_round_here(struct mtr_recorder *rec);
/* Between HELD and the rest of enum mtr_saves: the thread that holds lets
   STARTED follow; the one whose thread was not made holds again. */
void mtr_saver_release(struct mtr_recorder *rec, uint32_t started);
void mtr_saver_hold_coming(struct mtr_recorder *rec);
/* Until the saver that ended, or ends, a recording has left it, TIMEOUT_NS at
   most (UINT64_MAX: for ever). */
void mtr_saver_await_gone(struct mtr_recorder *rec, uint64_t timeout_ns);
/* The text of TCMALLOC_TRACE_STATS after the end, if it is asked for, goes to
   stderr. */
void mtr_summary_flush(struct mtr_recorder *rec);
/* Accounts of the current or last recording; how many, at most CAP. Any
   thread. */
unsigned mtr_live_accounts(struct mtr_recorder *rec,
                           struct mtf_account_value *out, unsigned cap);

/* --- The end of a recording ---------------------------------------------- */

/* Ends the recording as FAILED; WHAT and errno ERROR (0: none) go to stderr
   when a thread of the program enters the recorder. */
void mtr_fail(struct mtr_recorder *rec, const char *what, int error);
/* The recording is over (MTR_STOPPED or MTR_FAILED): no thread goes on hot, and
   all that wait for the saver go away. */
void mtr_switch_off(struct mtr_recorder *rec, enum mtr_state state);

#endif
