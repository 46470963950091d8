/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoding process: reads processed traces, makes ready operations of them
 * (translate.h) and hands these to the measuring process.
 *
 * Invariants: memory is bounded by the bytes of the input, whatever these say.
 * Every way out hands over a last batch.
 *
 * Threads: runs in a process of its own.
 */
#ifndef TOOL_CMD_REPLAY_FEED_FEEDER_H
#define TOOL_CMD_REPLAY_FEED_FEEDER_H

#include "cmd/replay/feed/ring.h"
#include "cmd/replay/feed/translate.h"

/* The traces NAME[0 .. COUNT - 1], one after another; stdin if there is none.
   The last batch is given when it returns. TOUCH: what will be written. */
void replay_feed(struct replay_ring *ring, char *const *name, int count,
                 enum replay_touch touch, const struct replay_order *order);

#endif
