/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a recording begins, and how it gets a saver.
 *
 * Threads: any, unless said otherwise.
 */
#ifndef TCM_TRACER_SESSION_H
#define TCM_TRACER_SESSION_H

#include "tracer/recorder.h"

/* Begins a recording from MTR_STARTING, with a saver. false: it failed, and a
   message waits. */
bool mtr_begin_recording(struct mtr_recorder *rec);
/* Begins a recording from MTR_ARMED, or waits for the thread that does. false:
   it failed. */
bool mtr_start_armed(struct mtr_recorder *rec);
/* Arms the recorder at the first call of a forked child, if children are
   recorded. */
bool mtr_child_begin(struct mtr_recorder *rec);
/* Creates the saver of a recording that is on if there is none, and waits until
   it is set up. false: the recording is over, even if another begins; or there
   is no saver, and this call may not create one, or another call is creating
   it. */
bool mtr_saver_ensure(struct mtr_recorder *rec);
/* mtr_saver_ensure, but waits for a saver that another call is creating,
   TIMEOUT_NS at most. */
bool mtr_saver_await(struct mtr_recorder *rec, uint64_t timeout_ns);
/* Requests a round and waits for it. false: the recording has ended, or there
   is no saver, as above. */
bool mtr_saver_round(struct mtr_recorder *rec);

#endif
