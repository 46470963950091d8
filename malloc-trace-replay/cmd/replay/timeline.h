/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in the course of a replay, at moments between two batches, when all
 * operations handed out so far are done. Moments are kept in the replayer's own
 * memory and written after the end mark. When there are too many, every other
 * one is dropped, and later ones are twice as far apart. Where operations have
 * times to begin at, looks take a tenth of the time at most: while the pace
 * stands still, time goes on for the allocator.
 *
 * Invariants: looking allocates nothing, and is not timed.
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
   next, at least; 0: as many moments as there is room for. IS_PACED: operations
   have times. NULL: out of memory. */
struct replay_timeline *replay_timeline_new(uint64_t step, bool is_time,
                                            bool is_paced);
/* What it adds to the resident memory. */
uint64_t replay_timeline_bytes(void);
/* Before the start mark. */
void replay_timeline_begin(struct replay_timeline *t,
                           const struct replay_calls *calls);
/* Whether the state after batch B is a moment. */
bool replay_timeline_wants(const struct replay_timeline *t,
                           const struct replay_batch *b);
/* Notes that moment, NS after the start. */
void replay_timeline_look(struct replay_timeline *t,
                          const struct replay_batch *b,
                          const struct replay_calls *calls,
                          struct replay_rss *rss, uint64_t ns);
/* Writes the moments to NAME: as JSON if the name ends so, else as CSV. False:
   it could not; a message was printed. */
bool replay_timeline_write(const struct replay_timeline *t, const char *name);

#endif
