/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All verdicts of a comparison.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_SHEET_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_SHEET_H

#include "cmd/malloc_trace/compare/verdict.h"

struct sheet {
    struct verdict (*verdict)[METRICS]; /* of each contestant */
    size_t *order; /* of those with figures, the fastest first */
    size_t ranked;
};

/* false: out of memory, a message is out. */
bool sheet_make(const struct comparison *c, struct sheet *s);
void sheet_free(struct sheet *s);

/* The one with the least ratio of those shown to be less than the baseline;
   SIZE_MAX: none is. */
size_t sheet_best(const struct sheet *s, enum compare_metric m);

#endif
