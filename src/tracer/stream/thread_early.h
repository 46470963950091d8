/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events before set-up, which the recorder's constructor does. Constructors of
 * other libraries may allocate before. The events of one thread then go to a
 * static buffer, which becomes the start of that thread's stream, or is dropped
 * without a recording. Only when it is full, set-up runs early: libraries that
 * interpose functions may not be ready for its calls, and the caller of malloc
 * may be one of these functions.
 *
 * Threads: the first thread to allocate claims the buffer; calls of other
 * threads are counted as dropped. Set-up adopts the buffer only on the thread
 * that claimed it.
 */
#ifndef TCM_TRACER_STREAM_THREAD_EARLY_H
#define TCM_TRACER_STREAM_THREAD_EARLY_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/* mtr_enter before mtr_init: the static buffer, for one thread. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot);
/* True if set-up has to be made now, for the calling thread, which is about to
   allocate: the buffer fills up; or the thread is creating the process's second
   thread; or this is the child of a fork; or nothing is to go to the buffer
   (AT_ONCE). */
bool mtr_early_must_end(bool at_once);
/* Turns the buffer off, because the environment names no output: nothing more
   goes to it, and no clock is read for it, which a filter of system calls may
   forbid. */
void mtr_early_disable(void);
/* For the child of a fork: forgets the events. */
void mtr_early_fork_child(void);
/* True if T is the static state. */
bool mtr_early_is(const struct mtr_thread *t);
/* True if the calling thread wrote early events, which a recording can begin
   with. */
bool mtr_early_has_events(void);
/* Token of the first early event. The events belong to the recording that
   adopts them and to no other. */
uint64_t mtr_early_first_token(void);
uint64_t mtr_early_time_ns(void);
/* Makes the events the beginning of the calling thread's stream. */
void mtr_early_adopt(struct mtr_recorder *rec);
/* Takes the count of calls before set-up that are in no buffer; it is 0 from
   then on. */
uint64_t mtr_early_take_dropped(void);
/* Returns the calling thread's adopted state, owned by SLOT, once; else
   NULL. */
struct mtr_thread *mtr_early_claim_adopted(struct mtr_recorder *rec,
                                           struct mtr_thread **slot);
/* Counts a call of a signal handler that is not recorded. */
void mtr_early_count_missed(void);

#endif
