/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deals operations out to the recorded threads that made them: makes segments
 * of what the translation gives in the order of the trace, gives blocks cells
 * instead of slots, marks what needs a block of another thread, and cuts the
 * trace into windows of recorded time.
 *
 * It also finds between which values the peak of live bytes lies when the
 * threads run as far apart as the skew lets them. A thread enters window w when
 * all have finished window w - k; windows without operations count. Up to the
 * moment when the first one does, live bytes are those at the end of window
 * w - k, and what each thread did in the k - 1 windows after that; later ones
 * add what it does in window w.
 *
 * Invariants: a cell is written by one thread and used again when nothing that
 * was dealt uses it (cell.h). Memory is bounded by the slots of the trace, the
 * batches in flight, and the threads.
 *
 * Threads: one, of the decoding process.
 */
#ifndef TOOL_CMD_REPLAY_DEAL_H
#define TOOL_CMD_REPLAY_DEAL_H

#include "cmd/replay/ring.h"

/* Windows that a thread may run ahead when nothing but data orders it. */
#define REPLAY_SKEW_NONE UINT32_MAX

struct replay_deal;

/* SKEW: in windows, from 1. NULL: out of memory. */
struct replay_deal *replay_deal_new(struct replay_ring *ring, uint32_t skew);
void replay_deal_free(struct replay_deal *d);

/* Where the translation puts its next operations. */
struct replay_batch *replay_deal_staging(struct replay_deal *d);
/* It has, and says of them what struct replay_batch has to say: they go into
   the ring, if not now then with later ones. False: out of memory, they are
   lost. */
bool replay_deal_batch(struct replay_deal *d);

#endif
