/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded queue of buffers from one thread to another: the producer fills the
 * next free buffer in place, the consumer empties the oldest full one in place.
 * Also the start of helper threads.
 *
 * Invariants: a buffer belongs to one side at a time; a side that sees a count
 * grow sees what the other side did to the buffers before. All memory is
 * allocated by tool_queue_init.
 * Threads: one producer, one consumer; either may call tool_queue_close.
 */
#ifndef TOOL_COMMON_QUEUE_H
#define TOOL_COMMON_QUEUE_H

#include "base/compiler.h"

#include <pthread.h>

#define TOOL_QUEUE_MAX 16u

struct tool_queue {
    /* The full buffers are [taken, given), modulo 2^32. Each count is written
       by one side; the other side sleeps on it. */
    TCM_ALIGNED(64) uint32_t given;
    uint32_t taker_sleeps;
    TCM_ALIGNED(64) uint32_t taken;
    uint32_t giver_sleeps;
    uint32_t closed;
    uint32_t count; /* of buffers, a power of two */
    size_t bytes;   /* of each */
    uint8_t *memory;
    size_t length[TOOL_QUEUE_MAX]; /* of the full buffers */
};

/* Makes a queue of COUNT buffers (a power of two, at most TOOL_QUEUE_MAX) of
   BYTES each. false: out of memory. */
bool tool_queue_init(struct tool_queue *q, uint32_t count, size_t bytes);
void tool_queue_fini(struct tool_queue *q);

/* Producer: waits for the next free buffer. NULL: the queue is closed. */
uint8_t *tool_queue_free(struct tool_queue *q);
/* Producer: hands that buffer, with LENGTH bytes in it, to the consumer. */
void tool_queue_give(struct tool_queue *q, size_t length);

/* Consumer: waits for the oldest full buffer. NULL: none came within
   TIMEOUT_NS, or before a signal or a wake that was meant for an earlier sleep;
   or the queue is closed. Only a queue that was closed before the call is
   certainly empty. */
uint8_t *tool_queue_full(struct tool_queue *q, size_t *length,
                         uint64_t timeout_ns);
/* Consumer: tells whether there is a full buffer. */
bool tool_queue_has_full(const struct tool_queue *q);
/* Consumer: returns the oldest full buffer to the producer. */
void tool_queue_done(struct tool_queue *q);
/* Index, below COUNT, of a buffer that tool_queue_free or tool_queue_full
   returned. */
uint32_t tool_queue_index(const struct tool_queue *q, const uint8_t *buffer);

/* Ends the queue: the producer gives nothing more, and a sleeping side
   wakes. */
void tool_queue_close(struct tool_queue *q);
bool tool_queue_is_closed(const struct tool_queue *q);

/* Starts a thread with all signals blocked. false: no thread was made. */
bool tool_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
/* Tells whether two threads of this process can run at the same time. */
bool tool_thread_helps(void);

#endif
