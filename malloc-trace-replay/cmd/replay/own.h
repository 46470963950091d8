/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replayer's own memory while it measures: pieces and stacks for threads,
 * kept apart from the allocator under test. All that is handed out is present
 * and counted, so that it can be left out of the resident memory.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_OWN_H
#define TOOL_CMD_REPLAY_OWN_H

#include "base/compiler.h"
#include "cmd/replay/measure.h"

/* Of what was given back, linked by its first bytes. All zero: empty. */
struct replay_own_list {
    void *first;
};
void replay_own_push(struct replay_own_list *l, void *p);

struct replay_own {
    struct replay_rss *rss;
    uint64_t bytes; /* held here, and what the user adds */
    char *chunk;
    size_t chunk_left;
    struct replay_own_list chunks, stacks;
};

/* A stack has room for the thread-local variables of any library, and most of
   it is never touched. */
#define REPLAY_STACK_BYTES ((size_t)1 << 20)

/* Around each change of `bytes`, and of the tables of the same RSS. */
void replay_own_before(struct replay_own *o);
void replay_own_after(struct replay_own *o);

/* BYTES, zero, in a cache line of their own: from LIST, which takes pieces of
   this size back, or new. NULL: out of memory. */
void *replay_own_piece(struct replay_own *o, struct replay_own_list *list,
                       size_t bytes);
/* A stack. NULL: out of memory. */
void *replay_own_stack(struct replay_own *o);
void replay_own_stack_back(struct replay_own *o, void *stack);
/* Gives everything to the system; pieces too. */
void replay_own_end(struct replay_own *o);

#endif
