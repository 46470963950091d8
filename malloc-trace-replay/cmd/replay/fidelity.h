/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a replay with this project's library is from the recorded run: the
 * counters of both side by side.
 *
 * Invariants: looking allocates nothing.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FIDELITY_H
#define TOOL_CMD_REPLAY_FIDELITY_H

#include "cmd/replay/counters.h"
#include "cmd/replay/ring.h"
#include "common/json.h"

#include <stdio.h>

/* The heap where samples of the recorded run were taken. */
struct replay_fidelity {
    bool can;            /* the allocator tells how large it is */
    uint64_t base_bytes; /* its heap before the start */
    uint64_t looks;
    uint64_t peak_bytes, recorded_peak_bytes;
    double sum_bytes, recorded_sum_bytes;
    double apart_bytes; /* sum of differences, without their signs */
};

/* What the report knows from elsewhere. */
struct replay_fidelity_runs {
    const struct replay_result *result;
    const struct replay_counters *counters;
    uint64_t peak_live_bytes; /* of the replay */
};

/* Bytes that the heap has memory behind, by the allocator's counters; 0: it
   does not tell. */
uint64_t replay_heap_bytes(const struct replay_calls *calls);

/* Before the start mark. */
void replay_fidelity_begin(struct replay_fidelity *f,
                           const struct replay_calls *calls);
/* Looks at the heap after batch B. */
void replay_fidelity_look(struct replay_fidelity *f,
                          const struct replay_calls *calls,
                          const struct replay_batch *b);

/* The counters, with those recorded and the deviations if there are any. */
void replay_fidelity_print(const struct replay_fidelity *f,
                           const struct replay_fidelity_runs *r, FILE *out);
void replay_fidelity_json(const struct replay_fidelity *f,
                          const struct replay_fidelity_runs *r,
                          struct tool_json *j);

#endif
