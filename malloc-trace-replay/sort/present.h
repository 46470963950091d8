/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Present bytes of the blocks of a raw trace: how many bytes of a large block
 * had memory behind them. A raw trace has them where a block ends, a processed
 * trace needs them where it is made. So all of the raw trace is read for them
 * before the first large block is written; a trace without large blocks is read
 * only once.
 *
 * Memory: up to 64 bytes for each large block that was not wholly present or
 * that grew in place; while the trace is read, 16 bytes more for each, and the
 * states of the threads.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_PRESENT_H
#define TOOL_SORT_PRESENT_H

#include "common/collections.h"
#include "traceformat/raw_reader.h"

/* All zero: no block has present bytes. */
struct present {
    const char *name;      /* of the trace; NULL: it cannot be read twice */
    uint64_t random;       /* of its header */
    bool is_read;          /* `bytes` is filled */
    bool failed;           /* no memory */
    struct tool_map bytes; /* by token + 1 */
};

void present_fini(struct present *p);

/* Out of line: the first call reads the trace. False: TOKEN has no present
   bytes. */
bool present_find(struct present *p, uint64_t token, uint64_t *bytes);

/* Tells whether fewer than all SIZE bytes of the block of TOKEN are present:
   *BYTES. */
static inline bool present_of(struct present *p, uint64_t token, uint64_t size,
                              uint64_t *bytes) {
    return size > MTF_PRESENT_ABOVE && p->name != NULL &&
           present_find(p, token, bytes) && *bytes < size;
}

#endif
