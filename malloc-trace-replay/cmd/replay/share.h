/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replayer's own share of the processor time: what it takes to read the
 * operations, to find the blocks and to call.
 *
 * Some batches, spread evenly over the run, are copied between two batches.
 * After the end mark they run once more, on the same table of blocks, with
 * calls that do nothing, and nothing is written to blocks. Their time for a
 * word holds for all.
 *
 * Invariants: nothing here allocates; the copies are resident from the start.
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_SHARE_H
#define TOOL_CMD_REPLAY_SHARE_H

#include "cmd/replay/exec.h"
#include "cmd/replay/ring.h"

#define REPLAY_SHARE_BATCHES 8u

struct replay_share {
    struct replay_batch *copy; /* NULL: no memory, nothing is known */
    unsigned copies;
    uint64_t seen;                        /* batches that were timed */
    uint64_t words;                       /* of them */
    uint64_t stride;                      /* each so many is copied */
    unsigned place[REPLAY_SHARE_BATCHES]; /* of copies, in order */
};

void replay_share_begin(struct replay_share *s);
/* What it adds to the resident memory. */
uint64_t replay_share_bytes(const struct replay_share *s);
/* B was timed. */
void replay_share_see(struct replay_share *s, const struct replay_batch *b);
/* Behind the end mark: about what the replayer itself took of the time of all
   batches, 0 if that is not known. The table of X is of no use any more. */
uint64_t replay_share_ns(const struct replay_share *s,
                         const struct replay_exec *x);

#endif
