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

#include <pthread.h>

/* Pieces that were given back, linked by their first bytes. All zero: empty. */
struct replay_own_list {
    void *first;
};
void replay_own_push(struct replay_own_list *l, void *p);

struct replay_own {
    struct replay_rss *rss;
    uint64_t bytes; /* held here, and what the owner adds */
    char *chunk;
    size_t chunk_left;
    struct replay_own_list chunks, stacks;
};

/* Room for the thread-local variables of any library; most of it is never
   touched. */
#define REPLAY_STACK_BYTES ((size_t)1 << 20)

/* Around each change of `bytes`, and of tables that are left out, too. */
void replay_own_before(struct replay_own *o);
void replay_own_after(struct replay_own *o);

/* A piece of BYTES zero bytes in cache lines of its own: from LIST, where
   pieces of this size are put back, or new. NULL: out of memory. */
void *replay_own_piece(struct replay_own *o, struct replay_own_list *list,
                       size_t bytes);
/* A stack. NULL: out of memory. */
void *replay_own_stack(struct replay_own *o);
void replay_own_stack_back(struct replay_own *o, void *stack);
/* pthread_create. The C library asks the allocator under test for a table of
   the thread's variables; where that is refused now and then it is asked
   again. */
int replay_own_thread(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*main)(void *arg), void *arg);
/* First of all in such a thread: makes that table what it is where calloc
   clears memory. The C library frees what stands in it. */
void replay_own_thread_begin(void);
/* Gives everything back to the system, with all pieces. */
void replay_own_end(struct replay_own *o);

#endif
