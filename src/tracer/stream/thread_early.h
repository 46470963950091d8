/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events before set-up. The recorder's constructor makes that; those of other
 * libraries run before it, and may allocate. What one thread does then goes to
 * a static buffer, with which the recording begins its stream, or of which
 * nothing remains. Set-up comes earlier only when that does not do: a library
 * in front of the C library may not be ready for the calls that set-up makes,
 * and what called malloc may be one that set-up makes, too.
 *
 * Threads: the first to come claims the buffer; what others do is counted as
 * dropped. Set-up adopts it only on the same thread.
 */
#ifndef TCM_TRACER_STREAM_THREAD_EARLY_H
#define TCM_TRACER_STREAM_THREAD_EARLY_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/* mtr_enter before mtr_init: the static buffer, for one thread. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot);
/* Whether the buffer does not do for the calling thread, which is about to
   allocate: it is filling; or the thread is making the process's second one; or
   this is the child of a fork; or nothing is to go there (AT_ONCE). */
bool mtr_early_is_over(bool at_once);
/* The environment names no output: nothing more goes to the buffer, and no
   clock is read for it, which the program may have forbidden itself. */
void mtr_early_give_up(void);
/* For the child of a fork. */
void mtr_early_fork_child(void);
/* True for the static state. */
bool mtr_early_is(const struct mtr_thread *t);
/* The calling thread wrote early events, which a recording can begin with. */
bool mtr_early_has_events(void);
/* Token of the first early event; these are part of a recording that adopts
   them and of no other. */
uint64_t mtr_early_first_token(void);
uint64_t mtr_early_time_ns(void);
/* Makes them the beginning of the calling thread's stream. */
void mtr_early_adopt(struct mtr_recorder *rec);
/* Calls before set-up that are in no buffer; 0 from then on. */
uint64_t mtr_early_take_dropped(void);
/* The calling thread's adopted state, once, owned by SLOT; else NULL. */
struct mtr_thread *mtr_early_claim_adopted(struct mtr_recorder *rec,
                                           struct mtr_thread **slot);
/* A call of a signal handler that is not recorded. */
void mtr_early_count_missed(void);

#endif
