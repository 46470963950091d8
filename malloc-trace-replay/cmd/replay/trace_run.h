/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report in the form of trace_run, the workload simulator of glibc's
 * dj/malloc branch, so that figures can stand side by side.
 */
#ifndef TOOL_CMD_REPLAY_TRACE_RUN_H
#define TOOL_CMD_REPLAY_TRACE_RUN_H

#include "cmd/replay/report.h"

/* R has to be of a run with the latency of all calls. */
void replay_trace_run_print(const struct replay_report *r, FILE *out);

#endif
