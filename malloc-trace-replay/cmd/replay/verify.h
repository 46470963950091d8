/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the allocator under test keeps its promises: alignment, calloc's
 * zeros, the usable size, and that live blocks do not overlap. Each block is
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
#ifndef TOOL_CMD_REPLAY_VERIFY_H
#define TOOL_CMD_REPLAY_VERIFY_H

#include "cmd/replay/one_call.h"
#include "common/json.h"

struct replay_verify;

/* So many faults are kept as text; more are only counted. */
#define REPLAY_VERIFY_FAULTS 20u

/* NULL: out of memory. USABLE: malloc_usable_size, or NULL. */
struct replay_verify *replay_verify_new(size_t (*usable)(void *p));

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
/* At the end: checks the blocks that are left. */
void replay_verify_end(struct replay_verify *v);

/* Catches signals that only a broken allocator causes: prints the call that was
   made, and exits with STATUS. */
void replay_verify_catch(struct replay_verify *v, int status);
/* The call that this thread makes, for that; set by replay_around_words. */
extern __thread const struct replay_one_call *replay_verify_at;

uint64_t replay_verify_faults(const struct replay_verify *v);
/* Prints the faults on standard error, a line each. */
void replay_verify_tell(const struct replay_verify *v);
void replay_verify_json(const struct replay_verify *v, struct tool_json *j);

#endif
