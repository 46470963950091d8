/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the runs of a comparison, one at a time, round by round.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_ROUNDS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_ROUNDS_H

#include "cmd/malloc_trace/compare/comparison.h"

struct rounds {
    size_t wanted;
    double until; /* half of the widest interval of time and peak memory, as a
                     ratio; 0: not asked for */
    uint64_t most_runs; /* successive halving within so many; 0: none */
    char **program;     /* --run-program: its words; NULL: none */
};

/* Stops at a request to stop. What disturbed the runs is in c->disturbances.
   false: a message is out. */
bool rounds_make(struct comparison *c, const struct rounds *r);

#endif
