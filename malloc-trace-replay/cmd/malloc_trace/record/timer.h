/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record --delay and --duration: a process beside the command that starts and
 * stops its recording through the control socket.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_TIMER_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_TIMER_H

#include "base/compiler.h"

#include <sys/types.h>

struct record_times {
    bool delayed; /* recording begins after DELAY_NS, else at once */
    bool ends;    /* and ends DURATION_NS after it began */
    uint64_t delay_ns;
    uint64_t duration_ns;
};

/* Seconds with or without a fraction, up to 1e9. */
bool record_parse_seconds(const char *text, uint64_t *ns);

/* Begins the work for process COMMAND; returns the helper's id, 0 if there is
   nothing to do or it cannot be made (a message is out). */
pid_t record_timer_begin(const struct record_times *t, pid_t command);
/* COMMAND has ended. */
void record_timer_end(pid_t helper);

#endif
