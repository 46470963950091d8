/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Duration of calls of the allocator, by kind of call and size.
 *
 * Times are kept in a histogram with 16 steps for each doubling, after Tene's
 * HdrHistogram: a quantile is exact to 1/16. The cost of reading the clock is
 * subtracted. Threads wait for each other outside of calls, so no time contains
 * such waits.
 *
 * Threads: any may note calls; one begins and reports.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_LATENCY_H
#define TOOL_CMD_REPLAY_WATCH_LATENCY_H

#include "cmd/replay/run/one_call.h"
/* Size classes: up to 16 bytes, up to 32, and so on to 4 MiB, and above. */
#define REPLAY_LATENCY_SIZES 20u

/* Words of operations from one timed call to the next, by default: adds less
   than 2 % to a run. */
#define REPLAY_LATENCY_STRIDE 2048u

struct replay_latency;

/* Call C took TICKS. */
void replay_latency_note(struct replay_latency *l,
                         const struct replay_one_call *c, uint64_t ticks);
/* Number and total time of all timed calls of KIND; and ns for each tick. */
void replay_latency_sum(const struct replay_latency *l, enum replay_kind kind,
                        uint64_t *calls, uint64_t *ticks);
double replay_latency_tick_ns(const struct replay_latency *l);

#endif
