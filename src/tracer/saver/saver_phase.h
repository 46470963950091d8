/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the saver begins and ends a recording: its descriptor table, spool and
 * output; end mode, stop and failure.
 *
 * Threads: the one that saves.
 */
#ifndef TCM_TRACER_SAVER_SAVER_PHASE_H
#define TCM_TRACER_SAVER_SAVER_PHASE_H

#include "tracer/saver/saver.h"

/* --- Beginning ----------------------------------------------------------- */

/*
 * Descriptors of the calling thread's own: the program neither sees nor closes
 * nor inherits them. KEEP: one that stays, or -1. 0 to 2 are taken by what
 * nothing can be written to. false: the kernel refused.
 */
bool mtr_unshare_table(int keep);
/* Nothing saved yet; by the thread that will. */
void mtr_saver_begin(struct mtr_saver *s, struct mtr_recorder *rec);
/* Spool, buffers, output. What fails here fails the start. */
bool mtr_saver_set_up(struct mtr_saver *s);
/* The output alone, for a recording that has its spool and ends now; on a
   thread of the program. */
bool mtr_saver_set_up_here(struct mtr_saver *s);
/* A recording that was ended so goes on, in a thread of its own, or on one of
   the program. */
bool mtr_saver_take_over(struct mtr_saver *s);
bool mtr_saver_resume(struct mtr_saver *s);
/* A FIFO whose reader comes late: meanwhile threads fill the buffers. */
bool mtr_saver_wait_for_reader(struct mtr_saver *s);

/* --- End ----------------------------------------------------------------- */

bool mtr_saver_enter_end_mode(struct mtr_saver *s);
/* HERE: on a thread of the program, which makes no other rounds. */
bool mtr_saver_end_mode_round(struct mtr_saver *s, bool here);
/* The recording ends for REASON, with a whole trace. */
bool mtr_saver_stop(struct mtr_saver *s, enum mtf_end_reason reason);
/* True when the output has reached its limit. */
bool mtr_saver_at_limit(struct mtr_saver *s);
void mtr_saver_give_up(struct mtr_saver *s);
/* Closes what a thread of the program has opened; mtr_saver_take_over opens it
   again. */
void mtr_saver_rest(struct mtr_saver *s);
/* The last thing the thread does: nothing of the recording stays. */
void mtr_saver_leave(struct mtr_saver *s);

#endif
