/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Present bytes of the blocks of a raw trace. They stand where a block ends,
 * and are wanted where it is made: before the first large block is written, all
 * of the trace is read for them. A trace without large blocks is read once.
 *
 * Memory: up to 64 bytes for each large block that was not all present or grew
 * where it is; while reading, 16 more, and the states of the threads.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_PRESENT_H
#define TOOL_SORT_PRESENT_H

#include "common/collections.h"
#include "traceformat/raw_reader.h"

/* All zero: nothing is known of any block. */
struct present {
    const char
        *name; /* of the trace, which can be read twice; NULL: it cannot */
    uint64_t random;       /* of its header */
    bool looked;           /* it was read */
    bool failed;           /* no memory */
    struct tool_map bytes; /* by token + 1 */
};

void present_fini(struct present *p);

/* Out of line: reads the trace when it is asked for the first time. */
bool present_find(struct present *p, uint64_t token, uint64_t *bytes);

/* Tells whether the block of TOKEN, of SIZE, has present bytes: *BYTES less
   than SIZE. */
static inline bool present_of(struct present *p, uint64_t token, uint64_t size,
                              uint64_t *bytes) {
    return size > MTF_PRESENT_ABOVE && p->name != NULL &&
           present_find(p, token, bytes) && *bytes < size;
}

#endif
