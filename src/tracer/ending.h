/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a recording ends, by a call, at its size or by a failure. Apart from
 * recorder.h, as it needs all that a recording consists of.
 *
 * Threads: the one that starts or stops, or the saver.
 */
#ifndef TCM_TRACER_ENDING_H
#define TCM_TRACER_ENDING_H

#include "tracer/recorder.h"

/* Ends the recording as FAILED; WHAT and errno ERROR (0: none) go to stderr
   when a thread of the program enters the recorder. */
void mtr_fail(struct mtr_recorder *rec, const char *what, int error);
/* The recording is over (MTR_STOPPED or MTR_FAILED): no thread goes on hot, and
   all that wait for the saver go away. */
void mtr_switch_off(struct mtr_recorder *rec, enum mtr_state state);

#endif
