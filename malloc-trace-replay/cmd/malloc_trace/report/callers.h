/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stacks that carry most of each row of a report.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_CALLERS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_CALLERS_H

#include "cmd/malloc_trace/report/stacks.h"

struct callers_top {
    uint32_t node; /* the innermost frame; 0: none */
    double value;  /* of the row, what it is sorted by */
};

struct callers {
    struct stacks stacks;
    struct callers_top *top; /* by row, PER_ROW each, most first */
    size_t rows, per_row;
};

/* Of the first ROWS rows of R, which are sorted by SORT and were made of T.
   False: no memory. */
bool callers_make(struct callers *c, const struct rows *r,
                  const struct tallies *t, struct names *names,
                  enum rows_sort sort, size_t rows, size_t per_row);
void callers_fini(struct callers *c);
/* The INDEXth stack of a row; NULL: there is none. */
const struct callers_top *callers_of(const struct callers *c, size_t row,
                                     size_t index);
/* Frames of the INDEXth stack of a row, which there is, from the innermost
   outwards, without those before FIRST (0: all), with " < " between, in about
   WIDTH columns; behind these the frame that tells it from the row's others, if
   no frame before does. The caller frees. NULL: no memory, or no frames. */
char *callers_text(const struct callers *c, size_t row, size_t index,
                   unsigned first, size_t width);

#endif
