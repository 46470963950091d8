/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of recorded threads that run on threads of their own: the batches
 * that are done and go back to the ring, the windows of recorded time that are
 * finished, and the bytes that are live as it really went.
 *
 * Invariants: batches are given back in their order. Window w is finished when
 * all its segments are done and one of a later window was dealt, and all before
 * w are; a finished window gets no more.
 *
 * Threads: one deals segments out, any may do them. A thread that may begin a
 * segment sees all that was done in the windows that it needs.
 */
#ifndef TOOL_CMD_REPLAY_RUN_LANE_PROGRESS_H
#define TOOL_CMD_REPLAY_RUN_LANE_PROGRESS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"
#include "cmd/replay/feed/ring.h"

/* Windows in flight are fewer: each has a segment in the ring of batches, but
   the one that begins. */
#define REPLAY_WINDOWS ((size_t)256 << 10)
TCM_STATIC_ASSERT(REPLAY_WINDOWS >
                      (size_t)REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + 1,
                  "a place for each window in flight");

/*
 * Which thread writes what:
 *   batch_left[]   set by the dealer before it deals a batch; each segment done
 *                  takes one off (acq_rel), so the thread that reaches 0 has
 *                  seen all done; it gives the batch back under `batch_lock`
 *   window_left[]  segments of a window that are not done, counted down in the
 *                  same way, and one more while the dealer may add to them;
 *                  `window_done` is written under `window_lock` (release). A
 *                  thread that loads it with acquire sees all that was done in
 *                  the windows before, among it the cells whose blocks the
 *                  operations of the next one use
 */
struct replay_progress {
    struct replay_ring *ring;
    uint32_t in_flight TCM_ALIGNED(64); /* segments dealt and not done */
    uint32_t all_awaited;               /* 1: wake the dealer by changing */
    uint32_t all_done;                  /* this when nothing is in flight */
    int64_t live_bytes TCM_ALIGNED(64);
    int64_t peak_bytes;
    uint32_t batch_lock TCM_ALIGNED(64);
    uint32_t batches_dealt;
    uint32_t batch_left[REPLAY_BATCHES_MOST];
    uint32_t window_lock TCM_ALIGNED(64);
    uint32_t window_done TCM_ALIGNED(64); /* those before it are finished */
    uint32_t window_sleepers; /* under window_lock, with those finished that */
    uint32_t window_wanted;   /* are to wake them: all, with the first one */
    uint32_t window;          /* the dealer's: the one it deals */
    uint32_t window_left[REPLAY_WINDOWS];
};

void replay_progress_begin(struct replay_progress *p, struct replay_ring *ring);

/* Dealer: before it deals batch NUMBER, of SEGMENTS, and behind that. */
void replay_progress_batch(struct replay_progress *p, uint32_t number,
                           uint32_t segments);
void replay_progress_batch_dealt(struct replay_progress *p, uint32_t number);
/* Dealer: before S is dealt. */
void replay_progress_segment(struct replay_progress *p,
                             const struct replay_segment *s);

/* True if WANTED windows are finished when DONE are; both count modulo 2^32. */
static inline bool replay_window_reached(uint32_t done, uint32_t wanted) {
    return (int32_t)(done - wanted) >= 0;
}

/* True if the windows that S needs are finished. */
static inline bool replay_progress_allows(const struct replay_progress *p,
                                          const struct replay_segment *s) {
    return replay_window_reached(tcm_load_acquire(&p->window_done), s->needs);
}
/* Sleeps until WANTED windows are finished, or for MOST_NS, or shorter. Returns
   at once if READY(CTX). */
void replay_progress_sleep(struct replay_progress *p, uint32_t wanted,
                           bool (*ready)(void *ctx), void *ctx,
                           uint64_t most_ns);
/* Windows that a thread which cannot begin S waits for, so that half of the way
   to S's own is free. (A thread that was woken for each window would run that
   one and sleep again.) */
static inline uint32_t replay_progress_wanted(const struct replay_segment *s) {
    return s->needs + (s->window - s->needs) / 2;
}

/* S is done, which lies in batch NUMBER (modulo REPLAY_BATCHES_MOST); its place
   may be used again. */
void replay_progress_done(struct replay_progress *p,
                          const struct replay_segment *s, uint32_t number);

/* Dealer: sleeps until nothing is in flight, or for MOST_NS; whether nothing
   is. (A thread that looks every 100 us keeps its processor too busy, in the
   kernel's eyes, to be given a thread that waits behind another one.) */
bool replay_progress_await_all(struct replay_progress *p, uint64_t most_ns);

#endif
