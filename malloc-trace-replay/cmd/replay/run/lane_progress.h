/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a replay on several threads: the dealt segments of each lane that
 * are not done, the batches that go back to the ring when done, the windows of
 * recorded time that are finished, and the live bytes in the order of the run.
 *
 * Invariants: batches are given back in their order. Window w is finished when
 * all its segments are done, a segment of a later window was dealt, and all
 * windows before w are finished; then it gets no more segments.
 *
 * Threads: the dealer deals segments, any thread may do them. A thread that may
 * begin a segment sees all operations of the windows that the segment needs.
 */
#ifndef TOOL_CMD_REPLAY_RUN_LANE_PROGRESS_H
#define TOOL_CMD_REPLAY_RUN_LANE_PROGRESS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"
#include "cmd/replay/feed/ring.h"

/* More than the windows in flight, each of which has a segment in the ring,
   except the one that begins. */
#define REPLAY_WINDOWS ((size_t)256 << 10)
TCM_STATIC_ASSERT(REPLAY_WINDOWS >
                      (size_t)REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + 1,
                  "a place for each window in flight");

/*
 * Batches and windows. Writers and readers:
 *   batch_left[]   set by the dealer before it deals a batch; each segment that
 *                  is done takes one off (acq_rel), so the thread that reaches
 *                  0 sees all of them done. It gives the batch back under
 *                  `batch_lock`
 *   window_left[]  segments of a window that are not done, counted down in the
 *                  same way, and one more while the dealer may add segments
 *   window_done    written under `window_lock` (release). With an acquire load,
 *                  a thread sees all operations of the windows before, and so
 *                  the cells whose blocks the next window uses
 */
struct replay_progress {
    struct replay_ring *ring;
    uint32_t in_flight TCM_ALIGNED(64); /* segments dealt and not done */
    uint32_t all_awaited;               /* 1: the dealer sleeps until all_done
                                           changes */
    uint32_t all_done;                  /* changes when nothing is in flight */
    int64_t live_bytes TCM_ALIGNED(64);
    int64_t peak_bytes;
    uint32_t batch_lock TCM_ALIGNED(64);
    uint32_t batches_dealt;
    uint32_t batch_left[REPLAY_BATCHES_MOST];
    uint32_t window_lock TCM_ALIGNED(64);
    uint32_t window_done TCM_ALIGNED(64); /* the windows before this one are
                                             finished */
    uint32_t window_sleepers;             /* under window_lock */
    uint32_t window_wanted; /* window_done that wakes all sleepers: the least
                                 that one wants */
    uint32_t window;        /* window that the dealer deals */
    uint32_t window_left[REPLAY_WINDOWS];
};

void replay_progress_begin(struct replay_progress *p, struct replay_ring *ring);

/* Dealer: called before it deals batch NUMBER, of SEGMENTS, and behind that. */
void replay_progress_batch(struct replay_progress *p, uint32_t number,
                           uint32_t segments);
void replay_progress_batch_dealt(struct replay_progress *p, uint32_t number);
/* Dealer: called before it deals S. */
void replay_progress_segment(struct replay_progress *p,
                             const struct replay_segment *s);

/* True if DONE windows include WANTED ones; both count modulo 2^32. */
static inline bool replay_window_reached(uint32_t done, uint32_t wanted) {
    return (int32_t)(done - wanted) >= 0;
}

/* True if the windows that S needs are finished. */
static inline bool replay_progress_allows(const struct replay_progress *p,
                                          const struct replay_segment *s) {
    return replay_window_reached(tcm_load_acquire(&p->window_done), s->needs);
}
/* Sleeps until WANTED windows are finished, at most for MOST_NS; returns at
   once if READY(CTX). */
void replay_progress_sleep(struct replay_progress *p, uint32_t wanted,
                           bool (*ready)(void *ctx), void *ctx,
                           uint64_t most_ns);
/* Windows that a thread waits for if it cannot begin S: half of the way to S's
   own window. (If woken for each window, a thread would run one and sleep
   again.) */
static inline uint32_t replay_progress_wanted(const struct replay_segment *s) {
    return s->needs + (s->window - s->needs) / 2;
}

/* Ends S, which lies in batch NUMBER (modulo REPLAY_BATCHES_MOST). The place of
   S may be used again. */
void replay_progress_done(struct replay_progress *p,
                          const struct replay_segment *s, uint32_t number);

/* Dealer: sleeps until nothing is in flight, at most for MOST_NS. True: nothing
   is. (If the dealer polled every 100 us, the kernel would take its processor
   for too busy to move a waiting thread there.) */
bool replay_progress_await_all(struct replay_progress *p, uint64_t most_ns);

/* --- The segments of a lane ----------------------------------------------- */

/*
 * A list of segments in flight, which needs no memory of its own: each place of
 * the ring has a node here (0: none).
 *
 * Invariants: a node is in one list at most, from the time when its segment is
 * dealt until the lane goes on to the next segment, which is before the batch
 * of the segment goes back.
 *
 * Threads: the dealer appends, the lane takes.
 *   next[n]   0 when n is appended; then swapped (acq_rel) for the node that
 *             follows, by the appender, or for REPLAY_NODE_DETACHED, by the
 *             lane if none follows
 *   first     written by the appender (release) when it has no node to swap the
 *             new one into: the last node is detached, or its batch was given
 *             back, before which it was detached. Read by the lane (acquire),
 *             which clears it before it can detach another node
 */
#define REPLAY_NODES ((size_t)REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + 1)

/* Value in `next`: the lane has gone on behind this node. */
#define REPLAY_NODE_DETACHED UINT32_MAX

/* All zero at first, except `ring`. */
struct replay_chain {
    struct replay_ring *ring;
    uint32_t next[REPLAY_NODES];
};

/* Ends of the list of one lane. All zero at first. */
struct replay_chain_ends {
    uint32_t node; /* lane: the first node, or 0 */
    uint32_t first TCM_ALIGNED(64);
    /* Appender: the last node (0: none yet), and the number of its batch. */
    uint32_t last TCM_ALIGNED(64), last_batch;
};

/* Number of the batch of NODE, modulo REPLAY_BATCHES_MOST. */
static inline uint32_t replay_chain_number(uint32_t node) {
    TCM_ASSERT(node != 0 && node < REPLAY_NODES);
    return (node - 1) / REPLAY_SEGMENTS;
}

static inline const struct replay_batch *
replay_chain_batch(const struct replay_chain *c, uint32_t node) {
    return replay_ring_place(c->ring, replay_chain_number(node));
}

static inline const struct replay_segment *
replay_chain_segment(const struct replay_chain *c, uint32_t node) {
    return &replay_chain_batch(c, node)->segment[(node - 1) % REPLAY_SEGMENTS];
}

/* Lane: returns the first node, 0: there is none. */
static inline uint32_t replay_chain_get(struct replay_chain_ends *e) {
    if (e->node == 0) {
        e->node = tcm_load_acquire(&e->first);
        if (e->node != 0)
            tcm_store_relaxed(&e->first, 0u);
    }
    return e->node;
}

/* Lane: goes on behind the first node, whose batch is not given back yet. */
static inline void replay_chain_next(struct replay_chain *c,
                                     struct replay_chain_ends *e) {
    uint32_t next = 0;
    TCM_ASSERT(e->node != 0 && e->node < REPLAY_NODES);
    if (tcm_cas_acq_rel(&c->next[e->node], &next, REPLAY_NODE_DETACHED))
        next = 0;
    TCM_ASSERT(next < REPLAY_NODES);
    e->node = next;
}

/* Appender: appends segment I of batch NUMBER. */
static inline void replay_chain_append(struct replay_chain *c,
                                       struct replay_chain_ends *e,
                                       uint32_t number, uint32_t i) {
    TCM_ASSERT(i < REPLAY_SEGMENTS);
    uint32_t node = number % REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + i + 1;
    uint32_t last = e->last, taken = tcm_load_acquire(&c->ring->taken);
    bool is_gone = last == 0 || (int32_t)(taken - e->last_batch) > 0;
    /* No lane has the node: its batch was just filled. */
    tcm_store_relaxed(&c->next[node], 0u);
    e->last = node;
    e->last_batch = number;
    if (is_gone ||
        tcm_swap_acq_rel(&c->next[last], node) == REPLAY_NODE_DETACHED)
        tcm_store_release(&e->first, node);
}

#endif
