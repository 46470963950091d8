/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replayer's own share of the processor time: what it takes to read the
 * operations, to find the blocks and to call.
 *
 * Some batches, spread evenly over the run, are copied after they have run.
 * After the end mark the copies run once more, on the same table of blocks,
 * with calls that do nothing, and without writing to blocks. Their time for a
 * word is taken for that of all words.
 *
 * Invariants: nothing here allocates; the copies are resident from the start.
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_SHARE_H
#define TOOL_CMD_REPLAY_WATCH_SHARE_H

#include "cmd/replay/run/exec.h"

struct replay_watch;

/* After the end mark: about how much processor time of all batches that were
   timed the replayer itself took, in ns; 0: unknown. Destroys the table of
   X. */
uint64_t replay_share_ns(const struct replay_watch *w,
                         const struct replay_exec *x);

#endif
