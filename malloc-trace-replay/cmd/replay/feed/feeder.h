/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoding process: reads traces, translates their operations (translate.h)
 * and hands these to the measuring process.
 *
 * Invariants: the length of the input bounds the memory, whatever its contents.
 * A last batch is always filled.
 *
 * Threads: runs in a process of its own.
 */
#ifndef TOOL_CMD_REPLAY_FEED_FEEDER_H
#define TOOL_CMD_REPLAY_FEED_FEEDER_H

#include "cmd/replay/feed/ring.h"
#include "cmd/replay/feed/translate.h"

/* Feeds the traces NAME[0 .. COUNT - 1] into RING, one after another; standard
   input if COUNT is 0. TOUCH: bytes that the measuring process will write.
   Fills the last batch before it returns. */
void replay_feed(struct replay_ring *ring, char *const *name, int count,
                 enum replay_touch touch, const struct replay_order *order);

#endif
