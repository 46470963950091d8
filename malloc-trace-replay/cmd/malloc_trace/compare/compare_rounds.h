/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the runs of a comparison, one at a time, round by round.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_ROUNDS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_ROUNDS_H

#include "cmd/malloc_trace/compare/comparison.h"

struct compare_rounds {
    uint64_t wanted;
    double until; /* half of the widest interval of time and peak memory, as a
                     ratio; 0: not asked for */
    uint64_t most_runs; /* limit for successive halving; 0: no halving */
    char **program;     /* --run-program: its words; NULL: none */
};

/* Stops at a request to stop. What disturbed the runs is in c->disturbances.
   false: a message is out. */
bool compare_rounds_make(struct comparison *c, const struct compare_rounds *r);

/* ORDER gets 0 to N - 1 in random order (Fisher and Yates) by splitmix64, so
   that a seed repeats it. */
void compare_shuffle(size_t *order, size_t n, uint64_t *state);

#endif
