/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cells: where recorded threads that run on threads of their own keep their
 * blocks. A slot of the trace is a name that soon stands for the block of
 * another thread. So that its reuse orders nothing, the decoding process gives
 * each allocation a cell that no earlier operation still uses, as a processor
 * renames registers.
 *
 *   bits 0 to 47   the block, 0 when it was refused
 *   bits 48 to 63  generation: times that the cell was written, modulo 2^16
 *
 * Invariants: only the thread that a cell was given to writes it, with its own
 * allocations. It is written again only after all uses of its last block, and
 * fewer than 2^16 times before a thread that waits for one of these writes has
 * seen it.
 *
 * Threads: the writer stores with release. Another thread waits, with acquire,
 * for the generation that it was told; then it sees the block as its maker left
 * it. The writer's own loads need no order.
 */
#ifndef TOOL_CMD_REPLAY_FEED_CELL_H
#define TOOL_CMD_REPLAY_FEED_CELL_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Cells are given out in lines, so that no cache line has two writers. */
#define REPLAY_CELLS_AT_ONCE 8u
#define REPLAY_CELL_BITS     48

static TCM_ALWAYS_INLINE void *replay_cell_block(const uint64_t *cell) {
    return (void *)(uintptr_t)(tcm_load_relaxed(cell) &
                               (((uint64_t)1 << REPLAY_CELL_BITS) - 1));
}
static TCM_ALWAYS_INLINE void replay_cell_put(uint64_t *cell, const void *p) {
    uint64_t generation = (tcm_load_relaxed(cell) >> REPLAY_CELL_BITS) + 1;
    tcm_store_release(cell,
                      generation << REPLAY_CELL_BITS | (uint64_t)(uintptr_t)p);
}
/* True if the block of GENERATION is there. */
static TCM_ALWAYS_INLINE bool replay_cell_has(const uint64_t *cell,
                                              size_t generation) {
    return tcm_load_acquire(cell) >> REPLAY_CELL_BITS == generation;
}

#endif
