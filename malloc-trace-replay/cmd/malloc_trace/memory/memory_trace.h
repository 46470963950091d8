/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts of the trace itself that explain its memory: call sites, names
 * of threads, marks, and the number of the operation at a time, and at the peak
 * of live bytes.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_TRACE_H
#define TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_TRACE_H

#include "cmd/malloc_trace/report/report_tally.h"

/* Most moments that are asked for, marks included: a moment may have a megabyte
   of rows, and a document is read up to TOOL_JSON_READ_BYTES. */
#define MEMORY_WISHES 16u

/* A moment to look at: behind an operation. */
struct memory_wish {
    char label[80];
    uint64_t operation; /* 0: the trace has ended before */
    uint64_t ns;        /* of a time asked for */
    bool is_mark;
};

struct memory_trace {
    struct tool_sites sites;
    struct report_thread *thread;
    size_t threads, thread_room;
    struct memory_wish wish[MEMORY_WISHES];
    size_t wishes;
    uint64_t operations, marks;
    uint64_t peak_operation; /* behind which most bytes are live; 0: none */
    uint64_t start_ns, end_ns;
    bool has_sites; /* an allocation has one */
};

/* Reads the processed trace in the file PATH, and completes the wishes, of
   which the caller has set those for a time; marks are added as far as there is
   room. false: a message was printed. */
bool memory_trace_read(struct memory_trace *t, const char *path);
/* Name of the thread ID; "": none. */
const char *memory_trace_thread(const struct memory_trace *t, uint32_t id);
void memory_trace_fini(struct memory_trace *t);

#endif
