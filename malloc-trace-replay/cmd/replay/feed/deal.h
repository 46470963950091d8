/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deals operations to the recorded threads that made them: sorts the
 * operations, which come in the order of the trace, into segments by thread,
 * gives blocks cells instead of slots, marks operations that need the block of
 * another thread, and cuts the trace into windows of recorded time.
 *
 * It also bounds the peak of live bytes of threads that run as far apart as the
 * skew k allows: a thread enters window w when all have finished window w - k,
 * counting empty windows. Until a thread enters window w + 1, live bytes are
 * those at the end of window w - k, plus what each thread did in the k - 1
 * windows after that and in window w. A window ends where a thread is born that
 * needs all operations before it.
 *
 * Invariants: a cell is written by one thread, and is used again when no dealt
 * operation uses it (op.h). Memory is bounded by the slots of the trace, the
 * batches in flight, and the threads.
 *
 * Threads: one, of the decoding process.
 */
#ifndef TOOL_CMD_REPLAY_FEED_DEAL_H
#define TOOL_CMD_REPLAY_FEED_DEAL_H

#include "cmd/replay/feed/ring.h"

/* Skew of threads that only their hand-overs of blocks order. */
#define REPLAY_SKEW_NONE UINT32_MAX

struct replay_deal;

/* Makes a dealer into RING. SKEW: in windows, from 1. NULL: out of memory. */
struct replay_deal *replay_deal_new(struct replay_ring *ring, uint32_t skew);
void replay_deal_free(struct replay_deal *d);

/* Returns the batch into which the translation puts its next operations. */
struct replay_batch *replay_deal_staging(struct replay_deal *d);
/* Deals the batch that replay_deal_staging returned. Its operations go into the
   ring, now or with later ones. False: out of memory; they are lost. */
bool replay_deal_batch(struct replay_deal *d);

/* Makes replay_deal_batch keep copies of the batches, until they are dealt by
   replay_deal_release, or go into the ring in the order of the trace, by
   replay_deal_pass. */
void replay_deal_hold(struct replay_deal *d);
/* Words that are held. */
size_t replay_deal_held_words(const struct replay_deal *d);
/* False: out of memory; operations are lost. */
bool replay_deal_release(struct replay_deal *d);
/* D deals nothing from here on. */
void replay_deal_pass(struct replay_deal *d);

#endif
