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
#ifndef TOOL_CMD_REPLAY_SHARE_H
#define TOOL_CMD_REPLAY_SHARE_H

#include "cmd/replay/exec.h"
#include "cmd/replay/ring.h"

#define REPLAY_SHARE_BATCHES 8u

struct replay_share {
    struct replay_batch *copy; /* NULL: no memory, the share is unknown */
    unsigned copies;
    uint64_t seen;                        /* batches that were timed */
    uint64_t words;                       /* in these */
    uint64_t stride;                      /* one batch in so many is copied */
    unsigned place[REPLAY_SHARE_BATCHES]; /* of the copies, in order */
};

void replay_share_begin(struct replay_share *s);
/* What it adds to the resident memory. */
uint64_t replay_share_bytes(const struct replay_share *s);
/* B was timed. */
void replay_share_see(struct replay_share *s, const struct replay_batch *b);
/* After the end mark: about how much of the time of all batches the replayer
   itself took, 0 if unknown. Destroys the table of X. */
uint64_t replay_share_ns(const struct replay_share *s,
                         const struct replay_exec *x);

#endif
