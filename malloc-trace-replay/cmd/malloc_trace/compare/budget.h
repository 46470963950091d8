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
/* Says of each limit and contestant whether it is kept. It is missed where the
   whole interval is above it, so that noise misses none. false: one is
   missed. */
bool budget_judge(const struct budget *b, const struct comparison *c,
                  FILE *out);

#endif
