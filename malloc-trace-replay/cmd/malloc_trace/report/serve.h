/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace report --serve: a page that follows a recording.
 *
 * The page is made anew by a child process, which reads the trace as a report
 * does; this process keeps the page and answers. So what a damaged trace does
 * to a reader does not end the service, and memory is given back each time.
 *
 * Invariants: nothing is changed by a request. A trace that nobody looks at is
 * not read. One child at a time; at most SERVE_PAGE_MAX bytes of a page.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_H

#include "base/compiler.h"

#include <stdio.h>

#define SERVE_PAGE_MAX ((size_t)64 << 20)

struct serve {
    const char *where; /* as serve_parse_address reads it */
    bool anyone;       /* other machines may be able to reach it */
    /* Writes the page; an enum tool_status. It runs in a child. */
    int (*make)(void *ctx, FILE *out);
    void *ctx;
};

/* The path of the trace that process PID is being recorded to; NULL: none that
   can be seen, and *PROBLEM says why. The caller frees. */
char *serve_find_trace(int pid, const char **problem);
/* Until SIGINT or SIGTERM. An enum tool_status. */
int serve_run(const struct serve *s);

#endif
