/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's interface for the recorder: it takes what threads have published,
 * writes it, and marks by barriers up to which time all of it is written.
 *
 * A short process needs no saver thread: a recording that is still lazy at its
 * end is saved by the thread that ends it (mtr_saver_end_here). Functions named
 * _here save on the calling thread.
 *
 * Threads: any. One thread at a time saves (enum mtr_save_owner).
 */
#ifndef TCM_TRACER_SAVER_SAVER_H
#define TCM_TRACER_SAVER_SAVER_H

#include "tracer/recorder.h"

struct mtf_account_value;

/* Creates the saver thread and waits until it runs. false: errno in *ERROR. */
bool mtr_saver_create(struct mtr_recorder *rec, int *error);
/* Wakes the saver: it makes a poll or a round at once. */
void mtr_saver_wake(struct mtr_recorder *rec);
/*
 * Ends a lazy recording at the end of the program: the calling thread writes
 * the file and enters end mode. A saver is created if events follow. false:
 * there is a saver, or one is needed for this.
 */
bool mtr_saver_end_here(struct mtr_recorder *rec);
/*
 * Do the work of a saver that this call may not create (mtr_freeing, vfork), or
 * that another call is creating. The first makes buffers for a lazy recording
 * (false: there can be none), the second a round in end mode (false: another
 * thread saves, look again).
 */
bool mtr_saver_stock_here(struct mtr_recorder *rec);
bool mtr_saver_round_here(struct mtr_recorder *rec);
/* Waits while a thread holds the saver's work. If that is the child of a vfork,
   and has died, the recording ends as FAILED. */
void mtr_save_await(struct mtr_recorder *rec);
/* Change the owner of the saver's work: the holder passes it to OWNER, any
   value but HELD; the thread that has failed to create the saver, or the saver
   itself, makes it HELD again from CREATING. */
void mtr_save_owner_set(struct mtr_recorder *rec, uint32_t owner);
void mtr_save_owner_hold_creating(struct mtr_recorder *rec);
/* Waits until the saver that has ended recording SESSION, or is ending it, has
   left it, TIMEOUT_NS at most (UINT64_MAX: for ever). */
void mtr_saver_await_end(struct mtr_recorder *rec, uint32_t session,
                         uint64_t timeout_ns);
/* Prints the summary (TCMALLOC_TRACE_STATS) on stderr after the end, if it is
   wanted. */
void mtr_summary_flush(struct mtr_recorder *rec);
/* Puts the accounts of the current or last recording into OUT, at most CAP;
   returns how many. */
unsigned mtr_live_accounts(struct mtr_recorder *rec,
                           struct mtf_account_value *out, unsigned cap);

/* --- The end of a recording ---------------------------------------------- */

/* Ends the recording as FAILED. PROBLEM and errno ERROR (0: none) are printed
   on stderr when a thread of the program enters the recorder. By the thread
   that starts the recording, or saves. */
void mtr_fail(struct mtr_recorder *rec, const char *problem, int error);
/* Ends the recording as STATE (MTR_STOPPED or MTR_FAILED): no thread stays on
   the fast path, and no thread goes on waiting for the saver. By the thread
   that starts the recording, or saves. */
void mtr_switch_off(struct mtr_recorder *rec, enum mtr_state state);

#endif
