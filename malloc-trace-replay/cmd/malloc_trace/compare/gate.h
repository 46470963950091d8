/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --save-baseline and --against: a gate on what a trace asks for, and on what
 * this project's allocator counts while it is replayed. No times: on any
 * machine, busy or not, the same trace gives the same counts.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_GATE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_GATE_H

#include "cmd/malloc_trace/compare/comparison.h"

#include <stdio.h>

/*
 * C has its traces. Writes their counts to SAVE (NULL: not), holds them against
 * those in AGAINST (NULL: not) and says on OUT which differ by more than
 * TOLERANCE, a ratio. Returns an exit status: TOOL_BUDGET if a count is larger
 * than it may be.
 */
int gate(struct comparison *c, const char *save, const char *against,
         double tolerance, FILE *out);

#endif
