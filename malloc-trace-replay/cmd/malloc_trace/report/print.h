/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as text, as columns for sort, as CSV and as JSON.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_PRINT_H

#include "cmd/malloc_trace/report/callers.h"
#include "common/json.h"

#include <stdio.h>

struct print_options {
    const char *name; /* of the trace */
    const char *by;   /* what rows are */
    const char *when; /* blocks are alive: "at the end" */
    size_t top;       /* rows at most */
    enum rows_sort sort;
    bool diff;
    const struct callers *callers; /* of the rows, or NULL */
};

void print_head(const struct rows *r, const struct tallies *t,
                const struct print_options *o);
void print_rows(const struct rows *r, const struct print_options *o);
/* "BYTES CALLS LOCATION", without heads. */
void print_columns(const struct rows *r, const struct print_options *o);
/* False: a message is out. */
bool print_csv(const struct rows *r, const struct tallies *t,
               const struct print_options *o, const char *file);
/* The object of the report stays open, for what comes behind the rows. */
void print_json(const struct rows *r, const struct tallies *t,
                const struct print_options *o, struct tool_json *j);
/* TEXT, quoted where a CSV needs it. */
void print_csv_text(FILE *f, const char *text);

#endif
