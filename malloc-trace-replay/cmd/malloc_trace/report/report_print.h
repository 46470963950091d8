/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of a report: rows as text, as columns for sort(1), as CSV and as JSON,
 * and the tree of calls as text and as JSON.
 *
 * Threads: the main thread.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PRINT_H

#include "cmd/malloc_trace/report/report_rows.h"
#include "cmd/malloc_trace/report/report_stacks.h"
#include "common/json.h"

#include <stdio.h>

struct report_print_options {
    const char *name; /* of the trace */
    const char *by;   /* "function": head of the column of labels */
    const char *when; /* moment of live blocks: "at the end" */
    size_t top;       /* most rows */
    size_t columns;   /* of a line of the text (tool_text_columns) */
    enum report_sort sort;
    bool diff, filtered;
    const struct report_callers *callers; /* of the rows, or NULL */
};

/* --- Rows ----------------------------------------------------------------- */

void report_print_head(const struct report_rows *r,
                       const struct report_tallies *t,
                       const struct report_print_options *o);
void report_print_rows(const struct report_rows *r,
                       const struct report_print_options *o);
/* Prints what the recording or the program lacks for better names, if it lacks
   something. */
void report_print_notes(const struct report_rows *r,
                        const struct report_tallies *t);
/* Prints those of these notes that are for rows without debug information or
   readable names. */
void report_print_bare(FILE *f, const struct report_rows *r);
/* Prints how many wrong frees the recordings have, if they have some. */
void report_print_wrong_frees(FILE *f, const struct report_tallies *t);
/* "BYTES CALLS LOCATION" a line, without a head. */
void report_print_columns(const struct report_rows *r,
                          const struct report_print_options *o);
/* False: a message was printed. */
bool report_print_csv(const struct report_rows *r,
                      const struct report_tallies *t,
                      const struct report_print_options *o, const char *file);
/* Writes members of the open object of J, which stays open. */
void report_print_json(const struct report_rows *r,
                       const struct report_tallies *t,
                       const struct report_print_options *o,
                       struct tool_json *j);
/* TEXT as a CSV field, quoted if needed. */
void report_print_csv_text(FILE *f, const char *text);

/* --- The tree of calls ---------------------------------------------------- */

/* Prints the frames of S, outermost first, with the sums of a frame and all
   that it called. Branches with less than SHARE (0 to 1) of all, by the figure
   that O sorts by, are left out. False: out of memory. */
bool report_tree_print(const struct report_stacks *s,
                       const struct report_print_options *o, double share);
/* Like report_tree_print, as an array "tree" of frames in J, each frame before
   those that it called. */
bool report_tree_json(const struct report_stacks *s,
                      const struct report_print_options *o, double share,
                      struct tool_json *j);

#endif
