/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the allocator under test keeps its promises: each block is filled
 * with a pattern of its own, which is looked at again before it is freed and
 * after it was moved; alignment, calloc's zeros, the usable size, and blocks
 * that overlap while they live.
 *
 * Live blocks are kept by address in a treap (Seidel and Aragon), so that a new
 * one is held against both of its neighbours.
 *
 * Invariants: nothing here allocates. Not for measuring: what it does is in the
 * times.
 *
 * Threads: any; the treap is under a lock, patterns are their block's user's.
 */
#ifndef TOOL_CMD_REPLAY_VERIFY_H
#define TOOL_CMD_REPLAY_VERIFY_H

#include "cmd/replay/one_call.h"
#include "common/json.h"

struct replay_verify;

/* Faults that are kept with all there is to say. */
#define REPLAY_VERIFY_FAULTS 20u

/* NULL: out of memory. USABLE: malloc_usable_size, or NULL. */
struct replay_verify *replay_verify_new(size_t (*usable)(void *p));

/* P, which has been made, goes with this call. */
void replay_verify_before(struct replay_verify *v,
                          const struct replay_one_call *c, void *p);
/* P has come. ALIGN 0: what any block has. */
void replay_verify_made(struct replay_verify *v,
                        const struct replay_one_call *c, void *p, size_t size,
                        size_t align, bool is_zero);
/* OLD (perhaps NULL) has become P; NULL: it has not, and stays. */
void replay_verify_resized(struct replay_verify *v,
                           const struct replay_one_call *c, void *old, void *p,
                           size_t size);
/* At the end: looks at the blocks that are left. */
void replay_verify_end(struct replay_verify *v);

/* A signal that only a broken allocator causes ends the process: this says so
   with the call that it was in, and exits with STATUS. */
void replay_verify_catch(struct replay_verify *v, int status);
/* The call at hand, for that; from replay_around_words. */
extern __thread const struct replay_one_call *replay_verify_at;

uint64_t replay_verify_faults(const struct replay_verify *v);
/* On standard error, a line each. */
void replay_verify_tell(const struct replay_verify *v);
void replay_verify_json(const struct replay_verify *v, struct tool_json *j);

#endif
