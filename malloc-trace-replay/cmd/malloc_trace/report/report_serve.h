/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Server of malloc-trace report --serve: a page that follows a recording.
 *
 * A child process reads the trace, follows it while it is recorded, and makes a
 * page on request; this process keeps the page and answers browsers. So a crash
 * on a damaged trace does not end the service. When a trace has ended, or
 * cannot be followed, the child exits after each page, and the next page starts
 * a new child.
 *
 * Invariants: requests change nothing. A page is made only while a browser asks
 * for it. One child at a time; pages have at most REPORT_SERVE_PAGE_MAX bytes.
 * No event of a followed trace is read twice.
 * Threads: the main thread.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SERVE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SERVE_H

#include "cmd/malloc_trace/report/report_tally.h"

#include <stdio.h>

#define REPORT_SERVE_PAGE_MAX ((size_t)64 << 20)

struct report_serve {
    const char *where; /* for report_serve_parse_address */
    bool anyone;       /* other machines may reach it */
    bool no_token;     /* the page is at "/", readable by all who reach it */
    const char *trace;
    struct report_tally_options options;
    /* Writes the page of T to OUT; returns an enum tool_status. Runs in a
       child. */
    int (*make)(void *ctx, struct report_tallies *t, FILE *out);
    void *ctx;
};

/* Serves until SIGINT or SIGTERM. Returns an enum tool_status. */
int report_serve_run(const struct report_serve *s);

#endif
