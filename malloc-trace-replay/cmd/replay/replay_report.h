/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results of a replay, as text and as JSON.
 *
 * Threads: one, after the end mark.
 */
#ifndef TOOL_CMD_REPLAY_REPLAY_REPORT_H
#define TOOL_CMD_REPLAY_REPLAY_REPORT_H

#include "cmd/replay/run/clock_probe.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/real.h"
#include "cmd/replay/watch/observer.h"
#include "common/json.h"

#include <stdio.h>

struct replay_report {
    const struct replay_exec *exec;
    const struct replay_result *result;
    const struct replay_time *time;
    const struct replay_order *order;
    const struct replay_watch *watch;
    const struct replay_real *real;      /* NULL: all ran on one thread */
    uint64_t replayer_cpu_ns;            /* the replayer's own share, about; 0:
                                       unknown */
    uint64_t late_ns;                    /* largest delay behind the pace */
    struct replay_clock_foreign foreign; /* with a recorded clock */
};

/* "s" unless N is one. */
static inline const char *replay_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

/* Warns on standard error of facts that make figures misleading. */
void replay_report_warn(const struct replay_report *r);
void replay_report_print(const struct replay_report *r, FILE *out);
/* Prints in the form of trace_run, the workload simulator of glibc's dj/malloc
   branch, for comparison. R must be of a run that timed all calls. */
void replay_trace_run_print(const struct replay_report *r, FILE *out);
void replay_report_json(const struct replay_report *r, struct tool_json *j);

#endif
