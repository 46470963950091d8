/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are dropped because no buffer is to be had: how a thread begins,
 * counts and ends such a gap. The picture is in thread_gap.c.
 *
 * Threads: the one whose gap it is.
 */
#ifndef TCM_TRACER_STREAM_THREAD_GAP_H
#define TCM_TRACER_STREAM_THREAD_GAP_H

#include "base/compiler.h"

struct mtr_buffer;
struct mtr_recorder;
struct mtr_thread;

/* --- For api ------------------------------------------------------------- */

/* Counts the free of a block made while not recording. */
void mtr_count_untraced_free(struct mtr_thread *t);
/* The call that T was entered for is not recorded (mtr_drops). */
void mtr_count_dropped(struct mtr_thread *t);
/* mtr_count_dropped for an event that is no call of the malloc family: it is
   not counted. */
void mtr_pass_over(struct mtr_thread *t);

/* --- For the recorder ---------------------------------------------------- */

/* The position up to which B, which the caller holds, has MTR_ROOM. */
uint8_t *mtr_room_end(const struct mtr_buffer *b);
/* How long T may wait for a buffer at NOW, having waited since BEGAN. */
uint64_t mtr_gap_patience(struct mtr_recorder *rec, const struct mtr_thread *t,
                          uint64_t began, uint64_t now);
/* No buffer was to be had: from now on T's calls are dropped. false: they are
   not to be, but the recording is over. */
bool mtr_gap_begin(struct mtr_recorder *rec, struct mtr_thread *t);
/* True while there is nothing new that would end T's gap. */
bool mtr_gap_lasts(struct mtr_recorder *rec, const struct mtr_thread *t);
/* Ends the record of a gap in T's buffer at NOW, for a buffer that T lets go.
   Returns how many bytes behind pos belong to it. */
uint32_t mtr_gap_close(struct mtr_thread *t, uint64_t now);
/* That buffer was let go, with those bytes. */
void mtr_gap_let_go(struct mtr_thread *t);
/* Calls are recorded again, or T ends; there is room. */
void mtr_gap_end(struct mtr_thread *t, uint64_t now);

#endif
