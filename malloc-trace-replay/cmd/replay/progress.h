/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far threads on threads of their own have come: which batches are done
 * and go back to the ring, which windows of recorded time are finished, and how
 * many bytes are live as it really went.
 *
 * Invariants: batches are given back in their order. Window w is finished when
 * all its segments are done and one of a later window was dealt, and all before
 * w are; a finished window gets no more.
 *
 * Threads: one deals segments out, any may do them. A thread that may begin a
 * segment sees all that was done in the windows that it needs.
 */
#ifndef TOOL_CMD_REPLAY_PROGRESS_H
#define TOOL_CMD_REPLAY_PROGRESS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"
#include "cmd/replay/ring.h"

/* Windows in flight are fewer: each has a segment in the ring of batches, but
   the one that begins. */
#define REPLAY_WINDOWS ((size_t)64 << 10)
TCM_STATIC_ASSERT(REPLAY_WINDOWS >
                      (size_t)REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + 1,
                  "a place for each window in flight");

/*
 * Who writes what:
 *   batch_left[]   set by the dealer before it deals a batch; each segment done
 *                  takes one off (acq_rel), so who comes to 0 has seen all
 *                  done, and gives the batch back under `batch_lock`
 *   window_left[]  the same for windows, with one more while the dealer may add
 *                  to them; `window_done` is written under `window_lock`
 *                  (release). A thread that loads it with acquire sees all that
 *                  was done in those before, among it the cells whose blocks
 *                  the operations of the next one use
 */
struct replay_progress {
    struct replay_ring *ring;
    uint32_t in_flight TCM_ALIGNED(64); /* segments dealt and not done */
    int64_t live_bytes TCM_ALIGNED(64);
    int64_t peak_bytes;
    uint32_t batch_lock TCM_ALIGNED(64);
    uint32_t batches_dealt;
    uint32_t batch_left[REPLAY_BATCHES_MOST];
    uint32_t window_lock TCM_ALIGNED(64);
    uint32_t window_done TCM_ALIGNED(64); /* those before it are finished */
    uint32_t window_sleepers;
    uint32_t window; /* the dealer's: the one it deals */
    uint32_t window_left[REPLAY_WINDOWS];
};

void replay_progress_begin(struct replay_progress *p, struct replay_ring *ring);

/* Dealer: batch NUMBER of SEGMENTS is dealt from here on, and as a whole. */
void replay_progress_batch(struct replay_progress *p, uint32_t number,
                           uint32_t segments);
void replay_progress_batch_dealt(struct replay_progress *p, uint32_t number);
/* Dealer: before S is dealt. */
void replay_progress_segment(struct replay_progress *p,
                             const struct replay_segment *s);

/* Whether the windows that S needs are finished. */
static inline bool replay_progress_allows(const struct replay_progress *p,
                                          const struct replay_segment *s) {
    return (int32_t)(tcm_load_acquire(&p->window_done) - s->needs) >= 0;
}
/* Sleeps until a window is finished; READY(CTX) is looked at first, and more
   often than that. */
void replay_progress_sleep(struct replay_progress *p, bool (*ready)(void *ctx),
                           void *ctx, uint64_t most_ns);

/* S is done, which lies in batch NUMBER; its place may be used again. */
void replay_progress_done(struct replay_progress *p,
                          const struct replay_segment *s, uint32_t number);

#endif
