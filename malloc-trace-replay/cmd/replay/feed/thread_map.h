/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded threads, and the indices of their thread caches: small numbers from
 * 1, used again when a thread ends.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_THREAD_MAP_H
#define TOOL_CMD_REPLAY_FEED_THREAD_MAP_H

#include "common/collections.h"
#include "trace/check.h"

/* All zero: empty. */
struct replay_thread_map {
    struct replay_thread {
        uint32_t id;
        uint32_t index; /* 0 until the thread has an operation */
        bool counted;   /* it had an operation */
        bool failed;    /* it had a call that failed */
        struct tool_check_life life;
    } * thread; /* by first appearance */
    struct tool_ids ids;
    uint32_t *free_index;
    size_t free_count, free_room;
    uint32_t indices;     /* given out so far, plus 1 */
    uint64_t counted;     /* threads with an operation */
    uint64_t failed_only; /* threads with failed calls only */
};

/* The entry of thread ID, made if need be; valid until the next call. NULL: out
   of memory. */
struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id);
/* Gives ENTRY an index. False: out of memory. */
bool replay_threads_index(struct replay_thread_map *t,
                          struct replay_thread *entry);
/* Thread ID ends: takes its index back and returns it, 0: it had none. Frees of
   the thread may follow. */
uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id);
/* Forgets all threads; their indices stay taken, and the counts stay. */
void replay_threads_forget(struct replay_thread_map *t);
void replay_threads_fini(struct replay_thread_map *t);

#endif
