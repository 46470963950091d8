/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends a comparison with the status of a missed budget.
 *
 * --budget 'METRIC<=RATIO,...': what a contestant may take, as a ratio to the
 * baseline.
 *
 * --save-baseline and --against: counts of what a trace asks for, and of what
 * this project's allocator does while it is replayed. No times: on any machine,
 * busy or not, the same trace gives the same counts.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_GATE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_GATE_H

#include "cmd/malloc_trace/compare/compare_model.h"

#include <stdio.h>

/*
 * C has its traces. Writes their counts to SAVE (NULL: not), holds them against
 * those in AGAINST (NULL: not) and says on OUT which differ by more than
 * TOLERANCE, a ratio. Returns an exit status: TOOL_BUDGET if a count is larger
 * than it may be.
 */
int compare_gate(struct comparison *c, const char *save, const char *against,
                 double tolerance, FILE *out);

struct compare_budget {
    double limit[METRICS]; /* 0: none */
};

/* false: TEXT is no budget; no message. */
bool compare_budget_parse(struct compare_budget *b, const char *text);
/*
 * Says of each limit and contestant whether it is kept: the whole interval is
 * at most the limit; missed: all of it is above; or not decided. Noise misses
 * none, and keeps none. Returns an exit status: TOOL_BUDGET if one is missed,
 * or with STRICT not decided, else TOOL_DAMAGED if a contestant has no interval
 * to judge.
 */
int compare_budget_judge(const struct compare_budget *b,
                         const struct comparison *c, bool strict, FILE *out);

#endif
