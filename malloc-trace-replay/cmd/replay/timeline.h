/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in the course of a replay: moments between two batches, at which all
 * that was handed out before is done. They are kept in memory of the replayer's
 * own and written behind the end mark. When there are many, every other one
 * goes, and twice as many operations lie between those to come.
 *
 * Invariants: looking allocates nothing, and is outside of what is timed.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_TIMELINE_H
#define TOOL_CMD_REPLAY_TIMELINE_H

#include "cmd/replay/calls.h"
#include "cmd/replay/measure.h"
#include "cmd/replay/ring.h"

#define REPLAY_MOMENTS 512u

struct replay_timeline;

/* STEP: operations, or nanoseconds of recorded time, from one moment to the
   next, at least; 0: as many moments as there is room for. NULL: out of
   memory. */
struct replay_timeline *replay_timeline_new(uint64_t step, bool is_time);
/* What it adds to the resident memory. */
uint64_t replay_timeline_bytes(void);
/* Before the start mark. */
void replay_timeline_begin(struct replay_timeline *t,
                           const struct replay_calls *calls);
/* Whether the state after batch B is a moment. */
bool replay_timeline_wants(const struct replay_timeline *t,
                           const struct replay_batch *b);
/* It is: NS after the start. */
void replay_timeline_look(struct replay_timeline *t,
                          const struct replay_batch *b,
                          const struct replay_calls *calls,
                          const struct replay_rss *rss, uint64_t ns);
/* Writes them to NAME: JSON if it ends so, else CSV. False: it could not, and
   a message is out. */
bool replay_timeline_write(const struct replay_timeline *t, const char *name);

#endif
