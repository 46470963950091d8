/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of buffers from one thread to another: the producer fills the
 * next free buffer in place, the consumer empties the oldest full one in place.
 *
 * Invariants: a buffer belongs to one side at a time; a side that sees a count
 * grow sees what the other did to the buffers before. Memory is what
 * tool_queue_init asks for.
 * Threads: one producer, one consumer; tool_queue_close by either.
 */
#ifndef TOOL_COMMON_QUEUE_H
#define TOOL_COMMON_QUEUE_H

#include "base/compiler.h"

#include <pthread.h>

#define TOOL_QUEUE_MAX 16u

struct tool_queue {
    /* The queue holds buffers [taken, given), modulo 2^32. Each count is
       written by one side and slept on by the other. */
    TCM_ALIGNED(64) uint32_t given;
    uint32_t taker_sleeps;
    TCM_ALIGNED(64) uint32_t taken;
    uint32_t giver_sleeps;
    uint32_t closed;
    uint32_t count; /* of buffers, a power of two */
    size_t bytes;   /* of each */
    uint8_t *memory;
    size_t length[TOOL_QUEUE_MAX]; /* the producer's word to the consumer */
};

/* COUNT (a power of two, at most TOOL_QUEUE_MAX) buffers of BYTES each. False:
   no memory. */
bool tool_queue_init(struct tool_queue *q, uint32_t count, size_t bytes);
void tool_queue_fini(struct tool_queue *q);

/* The next free buffer, waited for; NULL: closed. */
uint8_t *tool_queue_free(struct tool_queue *q);
/* Hands the buffer, filled with LENGTH bytes, to the consumer. */
void tool_queue_give(struct tool_queue *q, size_t length);

/* The oldest full buffer. NULL: none came within TIMEOUT_NS, until a signal or
   a wake meant for an earlier sleep; or closed and empty, for sure only if it
   was closed before the call. */
uint8_t *tool_queue_full(struct tool_queue *q, size_t *length,
                         uint64_t timeout_ns);
/* The consumer's: whether there is a full buffer. */
bool tool_queue_has_full(const struct tool_queue *q);
/* Gives the buffer back to the producer. */
void tool_queue_done(struct tool_queue *q);
/* Number, below COUNT, of the buffer that tool_queue_free or _full returned. */
uint32_t tool_queue_index(const struct tool_queue *q, const uint8_t *buffer);

/* Ends the queue: nothing more is given; a sleeping side wakes. */
void tool_queue_close(struct tool_queue *q);
bool tool_queue_is_closed(const struct tool_queue *q);

/* Starts a thread that takes no signals. False: it cannot be. */
bool tool_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
/* Tells whether two threads of this process can run at the same time. */
bool tool_thread_helps(void);

#endif
