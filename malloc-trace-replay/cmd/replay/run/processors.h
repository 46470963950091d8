/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors for threads that are to run beside each other.
 *
 * In each turn of the ring the threads that are at work are bound to one
 * processor each, as long as there are as many; with more threads, none is.
 * Why: a turn lasts some milliseconds, and a kernel that puts two threads on
 * one processor when they are woken, while another one idles, needs longer than
 * that to part them. (A guest whose halted processors count as preempted ones
 * does so nearly always.) They would replay one after the other what was
 * recorded at the same time.
 *
 * A bound thread cannot leave a processor that other work takes. So a thread
 * that was bound looks at each turn how long it waited for its processor. Where
 * that is a quarter of the time that it wanted to run, nothing is bound for 0.3
 * seconds, and the kernel places the threads.
 *
 * Threads: one counts the turns, all claim. Relaxed: nothing is published by
 * it, and a processor is taken by compare and swap.
 */
#ifndef TOOL_CMD_REPLAY_RUN_PROCESSORS_H
#define TOOL_CMD_REPLAY_RUN_PROCESSORS_H

#include "base/compiler.h"

#include <sched.h>

struct replay_processors {
    cpu_set_t all;    /* that the process may use */
    uint32_t turn;    /* 0 before the first one */
    uint32_t crowded; /* the last turn with more threads than processors */
    uint32_t taken[CPU_SETSIZE]; /* by processor: in which turn */
    uint64_t shared_until_ns;    /* no binding until then, beside other work */
};

/* Time that a thread ran, and that it waited for its processor, when it was
   last judged. All zero: it is never judged. */
struct replay_delay {
    bool known;
    uint64_t ran_ns, delayed_ns;
};

/* A thread's own. All zero at first. */
struct replay_place {
    uint32_t turn;  /* in which it took a processor, or found none */
    uint32_t bound; /* the processor + 1 that it is bound to; 0: to none */
    struct replay_delay delay;
};

/* Judges the calling thread by what happens from here on. */
void replay_delay_begin(struct replay_delay *d);
/* True if the calling thread waited for its processor for more than a quarter
   of the time that it wanted to run, since D last told. D tells once in 10 ms
   of that time; false in between, and where the kernel does not count. */
bool replay_is_delayed(struct replay_delay *d);

void replay_processors_begin(struct replay_processors *p);
/* The next turn begins. */
void replay_processors_turn(struct replay_processors *p);
/* The calling thread, whose PLACE this is, is about to work. */
void replay_processors_claim(struct replay_processors *p,
                             struct replay_place *place);
/* The calling thread may run where the process may. */
void replay_processors_leave(const struct replay_processors *p,
                             struct replay_place *place);

#endif
