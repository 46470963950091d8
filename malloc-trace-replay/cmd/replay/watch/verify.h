/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the allocator under test keeps its promises: alignment, calloc's
 * zeros, the usable size, and live blocks that do not overlap. Each block is
 * filled with a pattern of its own, which is checked before it is freed and
 * after it moved.
 *
 * Live blocks are kept by address in a treap (Seidel and Aragon), so that a new
 * one is compared with both of its neighbours.
 *
 * Invariants: nothing here allocates. The checks are part of the measured
 * times.
 *
 * Threads: any. A lock guards the treap; a block's pattern belongs to the
 * thread that uses the block.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_VERIFY_H
#define TOOL_CMD_REPLAY_WATCH_VERIFY_H

#include "cmd/replay/run/one_call.h"

struct replay_verify;

/* Call C is about to free or resize P. */
void replay_verify_before(struct replay_verify *v,
                          const struct replay_one_call *c, void *p);
/* Call C has made P. ALIGN 0: that of any block. */
void replay_verify_made(struct replay_verify *v,
                        const struct replay_one_call *c, void *p, size_t size,
                        size_t align, bool is_zero);
/* OLD (NULL: none) has become P; P NULL: it was refused, and OLD stays. */
void replay_verify_resized(struct replay_verify *v,
                           const struct replay_one_call *c, void *old, void *p,
                           size_t size);
/* The call that this thread makes, which is named when a signal comes from it;
   set by replay_around_words. */
extern __thread const struct replay_one_call *replay_verify_at;

#endif
