/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTML page of a report (pages/page.h): memory over time, a flame graph and a
 * table, which the page's script searches. Without script the table has its
 * first rows.
 *
 * Invariants: the page has at most five times REPORT_PAGE_ROWS rows and
 * REPORT_PAGE_NODES frames, and states the sums of what it leaves out.
 * Threads: the main thread.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PAGE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PAGE_H

#include "cmd/malloc_trace/report/report_stacks.h"
#include "pages/page.h"

/* Rows with most of one figure that the page has. */
#define REPORT_PAGE_ROWS  1500u
#define REPORT_PAGE_NODES 20000u

/* Live bytes over time of keys with the same name. */
struct report_page_series {
    char *name;
    double live[REPORT_HISTORY_COLUMNS];
    double sum; /* over the columns */
};

struct report_page {
    const char *name; /* of the trace */
    const char *by;   /* "function": head of the column of labels */
    const char *when; /* moment of live blocks: "at the end" */
    enum report_by rows_by;
    struct report_rows *rows; /* sorted */
    const struct report_tallies *t;
    struct symbol_names *names;
    const struct report_skip *skip;       /* of report_frames_init */
    const struct report_stacks *stacks;   /* of functions, or NULL */
    const struct report_history *history; /* or NULL */
    bool is_live;                         /* the page reloads itself */

    /* while the page is written; empty before and after */
    struct page_writer *page;
    struct report_page_series *series; /* largest first, then "others" */
    size_t series_count;
    double *growth; /* of live bytes, by row; NAN: not known */
    uint64_t growth_ns;
    double all_growth;
};

/* False: a message was printed. */
bool report_page_write(struct report_page *h, const char *file);
/* Like report_page_write, for a page that a server sends, with its scripts at
   the relative address SCRIPT. */
bool report_page_write_stream(struct report_page *h, FILE *out,
                              const char *script);

#endif
