/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a recording begins, and how it gets a saver.
 *
 * Threads: any, unless said otherwise.
 */
#ifndef TCM_TRACER_SESSION_H
#define TCM_TRACER_SESSION_H

#include "tracer/recorder.h"

/* From MTR_STARTING to a recording, with a saver at once. false: it failed, and
   a message waits. */
bool mtr_begin_recording(struct mtr_recorder *rec);
/* From MTR_ARMED on to a recording; false: it failed. Any thread. */
bool mtr_start_armed(struct mtr_recorder *rec);
/* A wiped child's first call: arms it if children are recorded. */
bool mtr_child_begin(struct mtr_recorder *rec);
/* Makes the saver of a recording that is on if there is none, and waits until
   it is set up. false: the recording is over, even if another begins; or there
   is no saver, and this call may make none, or another is making it. */
bool mtr_saver_need(struct mtr_recorder *rec);
/* The same, but for one that another makes it waits, TIMEOUT_NS at most. */
bool mtr_saver_await(struct mtr_recorder *rec, uint64_t timeout_ns);
/* Asks for a round and waits for it. false: the recording ended, or there is no
   saver, as above. */
bool mtr_saver_round(struct mtr_recorder *rec);

#endif
