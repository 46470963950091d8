/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a replay found, as text and as JSON.
 *
 * Threads: one, after the end mark.
 */
#ifndef TOOL_CMD_REPLAY_REPORT_H
#define TOOL_CMD_REPLAY_REPORT_H

#include "base/compiler.h"
#include "cmd/replay/around.h"
#include "cmd/replay/counters.h"
#include "cmd/replay/exec.h"
#include "cmd/replay/fidelity.h"
#include "cmd/replay/measure.h"
#include "cmd/replay/real.h"
#include "cmd/replay/ring.h"
#include "cmd/replay/translate.h"
#include "cmd/replay/usage.h"
#include "common/json.h"

#include <stdio.h>

struct replay_report {
    const struct replay_exec *exec;
    const struct replay_result *result;
    const struct replay_time *time;
    const struct replay_rss *rss;
    struct replay_usage usage;
    uint64_t own_bytes;             /* of the replayer at the end */
    uint64_t replayer_cpu_ns;       /* about its own share; 0 unknown */
    const struct replay_real *real; /* NULL: all ran on one thread */
    const struct replay_order *order;
    const struct replay_around *around; /* NULL: no call was looked at */
    uint64_t late_ns; /* how far it fell behind its pace at most */
    /* The allocator's own counters for the replay; those of the recorded run
       are in the result. */
    struct replay_counters counters;
    struct replay_fidelity fidelity;
};

const char *replay_touch_name(enum replay_touch touch);

/* "s" unless N is one. */
static inline const char *replay_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

/* Warns on standard error of what would make figures misleading. */
void replay_report_warn(const struct replay_report *r);
void replay_report_print(const struct replay_report *r, FILE *out);
void replay_report_json(const struct replay_report *r, struct tool_json *j);

#endif
