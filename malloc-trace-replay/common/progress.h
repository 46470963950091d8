/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line on standard error that says how far reading a trace has come, if that
 * is a terminal.
 *
 * Threads: one.
 */
#ifndef TOOL_COMMON_PROGRESS_H
#define TOOL_COMMON_PROGRESS_H

#include "base/compiler.h"

struct tool_progress {
    bool shown; /* it is a terminal, and -q was not given */
    uint64_t start_ns, last_ns;
    int length; /* of the line there now */
};

void tool_progress_init(struct tool_progress *p);
/* COUNT things named WHAT so far; DONE of TOTAL stored bytes, 0: unknown. Draws
   at most five times a second. */
void tool_progress_show(struct tool_progress *p, uint64_t count,
                        const char *what, uint64_t done, uint64_t total);
void tool_progress_clear(struct tool_progress *p);

#endif
