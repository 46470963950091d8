/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace as processed: a processed one as it is, a raw one through
 * postprocess, which stands beside this program.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_FEED_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_FEED_H

#include "common/input.h"

#include <sys/types.h>

struct feed {
    struct tool_input *in;
    int fd;       /* of it; -1: no child */
    pid_t child;  /* 0: none */
    pid_t filler; /* writes what the child reads; 0: none */
};

/* NAME "-": standard input. FOLLOW: a raw one is followed
   while it is recorded. False: a message is out. */
bool feed_open(struct feed *f, const char *name, bool follow);
/* Returns an enum tool_status: what postprocess says. GIVEN_UP: nobody wants
   the rest, and it says nothing. */
int feed_close(struct feed *f, bool given_up);

#endif
