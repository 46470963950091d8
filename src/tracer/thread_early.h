/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events before set-up, when the environment cannot be read yet: one thread
 * (there is hardly ever another) writes them to a static buffer. Recording
 * begins its stream with them, or nothing of them remains.
 *
 * Threads: the first to come claims the buffer; others are not recorded until
 * set-up. Set-up looks at it only on the same thread.
 */
#ifndef TCM_TRACER_THREAD_EARLY_H
#define TCM_TRACER_THREAD_EARLY_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/* mtr_enter before mtr_init: the static buffer, for one thread. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot);
/* The calling thread's events have no room in it any more. */
bool mtr_early_is_full(void);
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
/* Set-up is done and mtr_control changed: the thread of the early events enters
   again with its next one, whether they were adopted or dropped. */
void mtr_early_end(void);
/* The calling thread's adopted state, once, owned by SLOT; else NULL. */
struct mtr_thread *mtr_early_claim_adopted(struct mtr_thread **slot);

#endif
