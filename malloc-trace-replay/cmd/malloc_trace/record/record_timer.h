/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record --delay and --duration: a process beside the command that starts and
 * stops its recording through the control socket.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_TIMER_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_TIMER_H

#include "common/child.h"

#include <sys/types.h>

/* About 30 years. */
#define RECORD_TIME_MAX_NS ((uint64_t)1000000000 * 1000000000)

struct record_times {
    bool delayed; /* recording begins after DELAY_NS, else at once */
    bool ends;    /* and ends DURATION_NS after it began */
    uint64_t delay_ns;
    uint64_t duration_ns;
};

/* Starts HELPER, which orders process COMMAND; without anything to do, or when
   it cannot be made (a message is out), HELPER has no process. */
void record_timer_begin(struct tool_child *helper, const struct record_times *t,
                        pid_t command);
/* Ends HELPER: COMMAND has ended. */
void record_timer_end(struct tool_child *helper);

#endif
