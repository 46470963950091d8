/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sorter (order.h) does when no event may be written: events that wait
 * for an allocation which never comes are written as naming none; if no thread
 * can go on then, one event is written against the times.
 *
 * A thread that waits, or that is not permitted, is examined when that begins
 * and when a barrier decides, not at each step: a step costs a few moves in
 * heaps, however many threads there are.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_SORT_STALL_H
#define TOOL_CMD_POSTPROCESS_SORT_STALL_H
#include "cmd/postprocess/sort/heap.h"

struct order;

struct stall {
    /* not permitted, and not known to wait */
    struct tcm_dlist unchecked;
    /* wait, and nothing was made of it since the last barrier */
    struct tcm_dlist waiting;
    /* By lo; a thread is in one of the two at most. Those of which neither it
       is known that their allocation is in hand, nor decided that it is not;
       and those of which that is decided, until they go on. */
    struct heap pending, missing;
};

enum stall_end {
    STALL_OVER,    /* some thread may go on */
    STALL_AGAINST, /* the first of `hi` is to be written against the times */
    STALL_STAYS    /* more input may help, or nothing is left */
};

void stall_init(struct stall *s);
void stall_fini(struct stall *s);

/* T, not permitted by its times, was not checked. */
void stall_unchecked(struct stall *s, struct demux_thread *t);
/* T was checked. */
static inline void stall_checked(struct demux_thread *t) {
    tcm_dlist_remove(&t->look);
}
/* T waits for an allocation from now on; or no longer. */
void stall_waits(struct stall *s, struct demux_thread *t);
void stall_goes_on(struct stall *s, struct demux_thread *t);

/* Another barrier was read. */
void stall_barrier(struct stall *s);
/* Nothing is permitted. */
enum stall_end stall_resolve(struct order *o);

#endif
