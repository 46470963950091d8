/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as a page (pages/page.h): memory over time, a flame graph and a
 * table, all of which the script searches. Without the script the table has its
 * first rows.
 *
 * Invariants: the page has at most REPORT_PAGE_ROWS times five rows and
 * REPORT_PAGE_NODES frames, and says which figures are left out.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PAGE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_PAGE_H

#include "cmd/malloc_trace/report/history.h"
#include "cmd/malloc_trace/report/stacks.h"
#include "pages/page.h"

/* Of each figure the rows with most are in the page. */
#define REPORT_PAGE_ROWS  1500u
#define REPORT_PAGE_NODES 20000u

struct report_page {
    const char *name; /* of the trace */
    const char *by;   /* what rows are */
    const char *when; /* blocks are alive: "at the end" */
    enum rows_by rows_by;
    struct rows *rows; /* sorted */
    const struct tallies *t;
    struct names *names;
    const struct stacks *stacks;   /* of functions; NULL: there are none */
    const struct history *history; /* NULL: there is none */
    bool is_live;                  /* the page renews itself */

    struct tool_page *page; /* while it is written */
    struct report_page_series *series;
    size_t series_count;
    double *growth; /* of rows, in the last part of the time; NAN: not known */
    uint64_t growth_ns;
    double all_growth;
};

/* False: a message is out. */
bool report_page_write(struct report_page *h, const char *file);
/* The same for a page that a server gives, at /, with its scripts at SCRIPT. */
bool report_page_write_stream(struct report_page *h, FILE *out,
                              const char *script);

/* --- Parts ---------------------------------------------------------------- */

/* Keys that are drawn apart in the course of memory, those with most first, and
   behind them the others. */
struct report_page_series {
    char *name;
    double live[HISTORY_COLUMNS];
    double sum; /* over the columns */
};

/* False: out of memory. */
bool report_page_find_series(struct report_page *h);
/* How live bytes grew in a last part of the time: a quarter of it, and of a
   page that renews itself a minute at most. False: out of memory. */
bool report_page_find_growth(struct report_page *h);
void report_page_free(struct report_page *h);
/* The figures for the script. False: out of memory. */
bool report_page_put_data(struct report_page *h, struct tool_json *j);

#endif
