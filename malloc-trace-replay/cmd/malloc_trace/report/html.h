/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as a page (common/page.h): memory over time, a flame graph and a
 * table, all of which the script searches. Without the script the table has its
 * first rows.
 *
 * Invariants: however many rows and stacks there are, the page has at most
 * HTML_ROWS times five rows and HTML_NODES frames, and says what of the figures
 * it leaves out.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_HTML_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_HTML_H

#include "cmd/malloc_trace/report/history.h"
#include "cmd/malloc_trace/report/stacks.h"
#include "common/page.h"

/* Of each figure the rows with most are in the page. */
#define HTML_ROWS  1500u
#define HTML_NODES 20000u

struct html {
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
    struct html_series *series;
    size_t series_count;
    double *growth; /* of rows, in the last part of the time; NAN: not known */
    uint64_t growth_ns;
    double all_growth;
};

/* False: a message is out. */
bool html_write(struct html *h, const char *file);
/* The same for a page that a server gives, at /, with its scripts at SCRIPT. */
bool html_write_stream(struct html *h, FILE *out, const char *script);

/* --- Parts ---------------------------------------------------------------- */

/* Keys that are drawn apart in the course of memory, those with most first, and
   behind them the others. */
struct html_series {
    char *name;
    double live[HISTORY_COLUMNS];
    double sum; /* over the columns */
};

/* False: out of memory. */
bool html_find_series(struct html *h);
/* How live bytes grew in a last part of the time: a quarter of it, and of a
   page that renews itself a minute at most. False: out of memory. */
bool html_find_growth(struct html *h);
void html_free(struct html *h);
/* The figures for the script. False: out of memory. */
bool html_put_data(struct html *h, struct tool_json *j);

extern const char html_style[];
extern const char html_script[];
extern const char html_live_script[]; /* behind it */

#endif
