/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --budget 'METRIC<=RATIO,...': what a contestant may take, as a ratio to the
 * baseline.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_BUDGET_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_BUDGET_H

#include "cmd/malloc_trace/compare/comparison.h"

#include <stdio.h>

struct budget {
    double limit[METRICS]; /* 0: none */
};

/* false: TEXT makes no sense, a message is out. */
bool budget_parse(struct budget *b, const char *text);
/*
 * Says of each limit and contestant whether it is kept: the whole interval is
 * at most the limit; missed: all of it is above; or not decided. Noise misses
 * none, and keeps none. Returns an exit status: TOOL_BUDGET if one is missed,
 * or with STRICT not decided, else TOOL_DAMAGED if a contestant has no interval
 * to judge.
 */
int budget_judge(const struct budget *b, const struct comparison *c,
                 bool strict, FILE *out);

#endif
