/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long calls of the allocator take, by kind of call and size.
 *
 * Times are kept in a histogram with 16 steps for each doubling, after Tene's
 * HdrHistogram: a quantile is exact to 1/16. The cost of reading the clock is
 * subtracted. Threads wait for each other outside of calls, so no time contains
 * such waits.
 *
 * Threads: any may note calls; one begins and reports.
 */
#ifndef TOOL_CMD_REPLAY_LATENCY_H
#define TOOL_CMD_REPLAY_LATENCY_H

#include "cmd/replay/one_call.h"
#include "common/json.h"

#include <stdio.h>

/* Size classes: up to 16 bytes, up to 32, and so on to 4 MiB, and above. */
#define REPLAY_LATENCY_SIZES 20u

/* By default one call in so many words is timed, which adds less than 2 % to a
   run. */
#define REPLAY_LATENCY_STRIDE 2048u

struct replay_latency;

/* NULL: out of memory. Before the start mark. */
struct replay_latency *replay_latency_new(void);
/* What it adds to the resident memory. */
uint64_t replay_latency_bytes(void);
/* Calls may be noted from now on. */
void replay_latency_begin(struct replay_latency *l);
void replay_latency_note(struct replay_latency *l,
                         const struct replay_one_call *c, uint64_t ticks);
/* Behind the end mark. */
void replay_latency_end(struct replay_latency *l);

/* Number and total time of all timed calls of KIND; and ns for each tick. */
void replay_latency_sum(const struct replay_latency *l, enum replay_kind kind,
                        uint64_t *calls, uint64_t *ticks);
double replay_latency_tick_ns(const struct replay_latency *l);

void replay_latency_print(const struct replay_latency *l, FILE *out);
void replay_latency_json(const struct replay_latency *l, struct tool_json *j);

#endif
