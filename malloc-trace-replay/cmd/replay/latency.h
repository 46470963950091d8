/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long calls of the allocator take, by what is called and the size.
 *
 * Times are kept in a histogram with 16 steps for each doubling, after Tene's
 * HdrHistogram: a quantile is exact to 1/16. What it takes to read the clock is
 * taken off. Waits of threads for each other are in no call, so in no time.
 *
 * Threads: any note; one begins and reports.
 */
#ifndef TOOL_CMD_REPLAY_LATENCY_H
#define TOOL_CMD_REPLAY_LATENCY_H

#include "cmd/replay/one_call.h"
#include "common/json.h"

#include <stdio.h>

/* Classes of size: up to 16 bytes, 32, and so on to 4 MiB, and above. */
#define REPLAY_LATENCY_SIZES 20u

/* One call in so many words is timed, unless asked for otherwise: what that
   adds is below 2 % of a run. */
#define REPLAY_LATENCY_STRIDE 2048u

struct replay_latency;

/* NULL: out of memory. Before the start mark. */
struct replay_latency *replay_latency_new(void);
/* What it adds to the resident memory. */
uint64_t replay_latency_bytes(void);
/* From here on calls may be noted. */
void replay_latency_begin(struct replay_latency *l);
void replay_latency_note(struct replay_latency *l,
                         const struct replay_one_call *c, uint64_t ticks);
/* Behind the end mark. */
void replay_latency_end(struct replay_latency *l);

/* Of all calls of KIND that were timed, in ticks of so many ns. */
void replay_latency_sum(const struct replay_latency *l, enum replay_kind kind,
                        uint64_t *calls, uint64_t *ticks);
double replay_latency_tick_ns(const struct replay_latency *l);

void replay_latency_print(const struct replay_latency *l, FILE *out);
void replay_latency_json(const struct replay_latency *l, struct tool_json *j);

#endif
