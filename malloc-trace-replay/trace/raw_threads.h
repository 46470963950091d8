/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a raw trace, found by number, with the state of their streams.
 *
 * Invariants: memory grows with the number of threads. A pointer to a thread is
 * good until the next one is made; numbers (indices) stay.
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_RAW_THREADS_H
#define TOOL_TRACE_RAW_THREADS_H

#include "base/compiler.h"
#include "common/collections.h"
#include "trace/check.h"
#include "trace/raw.h"
#include "traceformat/raw_reader.h"
#include "traceformat/site_codec.h"

struct raw_thread {
    uint32_t id;
    uint64_t events;   /* calls of the malloc family */
    uint64_t tid;      /* of the kernel; 0 unknown */
    uint64_t first_ns; /* 0 unknown */
    uint64_t last_ns;
    uint64_t gap_events;         /* dropped, by its own account */
    struct tool_check_life life; /* processed */
    char name[32];
    struct mtf_stream stream;
    struct mtf_site_state site; /* of the stream; kept by who decodes it */
};

struct raw_threads {
    struct raw_thread *thread; /* by first appearance */
    struct tool_ids ids;
    bool begins_late; /* a flight recording: its beginning was not kept */
};

/* The thread ID, made if it is new. NULL without memory. */
struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id);
void raw_threads_free(struct raw_threads *t);

/* Sums over all streams. */
uint64_t raw_threads_with_events(const struct raw_threads *t);
uint64_t raw_threads_dropped(const struct raw_threads *t);
uint64_t raw_threads_untraced(const struct raw_threads *t);

/* Once the trace is read: what its end lacks, beside damaged places, or NULL.
 */
const char *raw_end_problem(const struct tool_raw *t);

#endif
