/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace report --serve: a page that follows a recording.
 *
 * A child process reads the trace as a report does, follows it while it is
 * recorded, and makes a page when it is asked; this process keeps the page and
 * answers. So what a damaged trace does to a reader does not end the service.
 * When a trace has ended, or cannot be followed, the child exits after each
 * page, and the next page starts a new child.
 *
 * Invariants: nothing is changed by a request. A page that nobody looks at is
 * not made. One child at a time; at most SERVE_PAGE_MAX bytes of a page. No
 * event of a trace that is followed is read twice.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_H

#include "cmd/malloc_trace/report/tally.h"

#include <stdio.h>

#define SERVE_PAGE_MAX ((size_t)64 << 20)

struct serve {
    const char *where; /* as serve_parse_address reads it */
    bool anyone;       /* other machines may be able to reach it */
    bool no_token;     /* the page is at "/", for whoever reaches it */
    const char *trace;
    struct tally_options options;
    /* Writes the page of T; an enum tool_status. It runs in a child. */
    int (*make)(void *ctx, struct tallies *t, FILE *out);
    void *ctx;
};

/* The path of the trace that process PID is being recorded to; NULL: none that
   can be seen, and *PROBLEM says why. The caller frees. */
char *serve_find_trace(int pid, const char **problem);
/* The child: reads the trace and, for each byte that comes from the socket
   SERVER, writes a page to it, behind its length in 8 bytes. TOLD: what there
   is to say was said. Returns an enum tool_status. */
int serve_be_reader(const struct serve *s, int server, bool told);
/* Until SIGINT or SIGTERM. An enum tool_status. */
int serve_run(const struct serve *s);

#endif
