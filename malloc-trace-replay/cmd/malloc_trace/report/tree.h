/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call tree of a report: what each frame and all that it called asked for,
 * outermost frames first, without branches that have little.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_TREE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_TREE_H

#include "cmd/malloc_trace/report/print.h"
#include "cmd/malloc_trace/report/stacks.h"

/* Branches with less than SHARE of all (0 to 1), by what O sorts by, are left
   out. False: no memory. */
bool tree_print(const struct stacks *s, const struct print_options *o,
                double share);
/* The same as an array "tree" of frames, each before those that it called. */
bool tree_json(const struct stacks *s, const struct print_options *o,
               double share, struct tool_json *j);

#endif
