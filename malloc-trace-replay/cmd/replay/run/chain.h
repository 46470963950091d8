/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments that were dealt to a lane and that it has not done yet, in
 * order: a list of any length without memory of its own, since a segment in
 * flight has a place in the ring, and that place an entry here (a node; 0 is
 * none).
 *
 * Invariants: a node is in one list at most, from when its segment is dealt
 * until the lane goes on to the next one, which is before its batch goes back.
 *
 * Threads: one appends, the lane's own takes.
 *   next[n]   0 when n is appended; then swapped (acq_rel) for what follows it,
 *             by the appender, or for REPLAY_NODE_DETACHED, by the lane that
 *             has nothing after it
 *   first     written by the appender (release) when there is no node to swap
 *             it into: what was last is detached, or its batch was given back,
 *             before which it was detached. Read by the lane (acquire), which
 *             clears it before it can detach another one
 */
#ifndef TOOL_CMD_REPLAY_RUN_CHAIN_H
#define TOOL_CMD_REPLAY_RUN_CHAIN_H

#include "base/atomic.h"
#include "base/check.h"
#include "cmd/replay/feed/ring.h"

#define REPLAY_NODES ((size_t)REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + 1)

/* In `next`: the lane has gone on behind this node. */
#define REPLAY_NODE_DETACHED UINT32_MAX

/* All zero at first, but `ring`. */
struct replay_chain {
    struct replay_ring *ring;
    uint32_t next[REPLAY_NODES];
};

/* Ends of one lane's list. All zero at first. */
struct replay_chain_ends {
    uint32_t node; /* the lane's: the first one, or 0 */
    uint32_t first TCM_ALIGNED(64);
    /* the appender's: the last node (0: none yet), and its batch's number */
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

/* Lane: the first node, 0: there is none. */
static inline uint32_t replay_chain_get(struct replay_chain_ends *e) {
    if (e->node == 0) {
        e->node = tcm_load_acquire(&e->first);
        if (e->node != 0)
            tcm_store_relaxed(&e->first, 0u);
    }
    return e->node;
}

/* Lane: goes on behind the first node, whose batch has not gone back yet. */
static inline void replay_chain_next(struct replay_chain *c,
                                     struct replay_chain_ends *e) {
    uint32_t next = 0;
    TCM_ASSERT(e->node != 0 && e->node < REPLAY_NODES);
    if (tcm_cas_acq_rel(&c->next[e->node], &next, REPLAY_NODE_DETACHED))
        next = 0;
    TCM_ASSERT(next < REPLAY_NODES);
    e->node = next;
}

/* Appender: segment I of batch NUMBER comes last. */
static inline void replay_chain_append(struct replay_chain *c,
                                       struct replay_chain_ends *e,
                                       uint32_t number, uint32_t i) {
    TCM_ASSERT(i < REPLAY_SEGMENTS);
    uint32_t node = number % REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + i + 1;
    uint32_t last = e->last, taken = tcm_load_acquire(&c->ring->taken);
    bool is_gone = last == 0 || (int32_t)(taken - e->last_batch) > 0;
    /* Nobody has it: its batch was just filled. */
    tcm_store_relaxed(&c->next[node], 0u);
    e->last = node;
    e->last_batch = number;
    if (is_gone ||
        tcm_swap_acq_rel(&c->next[last], node) == REPLAY_NODE_DETACHED)
        tcm_store_release(&e->first, node);
}

#endif
