/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at the memory of blocks: how much of a block above MTF_PRESENT_ABOVE
 * the program has used. Why: a replay that writes all of it would show memory
 * that the program never had.
 *
 * A look begins when the block is handed out: memory that it has from earlier
 * blocks goes back to the system. It ends before the block is freed or moved,
 * or with the recording: what has memory then, the program has used. The
 * object word tells it from other blocks (MTR_TOKEN_LOOKED).
 *
 * A look costs some microseconds of system calls, and the page faults of memory
 * that was there. So only a sample of the blocks is looked at: of each group of
 * sizes the first ones, then one in 2, 4 and so on up to 4,096, where the step
 * doubles with the looks and falls again with time. The distances are drawn
 * around the step, in each thread. And but for the first of each group there
 * are no looks while they took more than a hundredth of the processor time.
 *
 * Threads: any. Steps and sums are hints that all threads share.
 */
#ifndef TCM_TRACER_STREAM_THREAD_LOOKS_H
#define TCM_TRACER_STREAM_THREAD_LOOKS_H

#include "tracer/stream/thread_registry.h"

/* False, with the block counted, if T does not look at a new block of SIZE
   bytes; else the caller takes the slow path, which asks mtr_look_begins. */
static TCM_ALWAYS_INLINE bool mtr_look_is_due(struct mtr_thread *t,
                                              size_t size) {
    uint16_t *left = &t->cold->look_in[mtf_present_group(size)];
    if (TCM_UNLIKELY(*left == 0))
        return true;
    (*left)--;
    return false;
}

/* Begins a look at a new BLOCK with BYTES, of a request of SIZE, if one is due.
   true: its whole pages have no memory now, and read as zero. IS_FRESH: they
   had none before. */
bool mtr_look_begins(struct mtr_thread *t, size_t size, void *block,
                     size_t bytes, bool is_fresh);
/* Gives back the memory of BYTES behind a block that is looked at and grew. */
void mtr_look_grows(void *start, size_t bytes);
/* Ends a look at BLOCK. false: the system does not tell. */
bool mtr_look_ends(const void *block, size_t bytes, size_t *present);

/* Lets the steps fall; called by the saver with each sample. */
void mtr_looks_pass(struct mtr_looks *l);

#endif
