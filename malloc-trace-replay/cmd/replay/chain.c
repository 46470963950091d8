/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/chain.h"

#define DETACHED UINT32_MAX

void replay_chain_next(struct replay_chain *c, struct replay_chain_ends *e) {
    uint32_t next = 0;
    TCM_ASSERT(e->node != 0 && e->node < REPLAY_NODES);
    if (tcm_cas_acq_rel(&c->next[e->node], &next, DETACHED))
        next = 0;
    TCM_ASSERT(next < REPLAY_NODES);
    e->node = next;
}

void replay_chain_append(struct replay_chain *c, struct replay_chain_ends *e,
                         uint32_t number, uint32_t i) {
    TCM_ASSERT(i < REPLAY_SEGMENTS);
    uint32_t node = number % REPLAY_BATCHES_MOST * REPLAY_SEGMENTS + i + 1;
    uint32_t last = e->last, taken = tcm_load_acquire(&c->ring->taken);
    bool is_gone = last == 0 || (int32_t)(taken - e->last_batch) > 0;
    /* Nobody has it: its batch was just filled. */
    tcm_store_relaxed(&c->next[node], 0u);
    e->last = node;
    e->last_batch = number;
    if (is_gone || tcm_swap_acq_rel(&c->next[last], node) == DETACHED)
        tcm_store_release(&e->first, node);
}
