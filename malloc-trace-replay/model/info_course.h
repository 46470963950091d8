/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory over the time of a trace, in a fixed number of columns.
 *
 * A column is a span of time: how live bytes and blocks changed in it, the most
 * bytes that were live at one of its events, and the last sample of the
 * recorded process. When a time lies behind the last column, neighbours are
 * joined, so that any trace fits.
 *
 * Why changes instead of sums: a raw trace has the events of a round of the
 * recorder thread by thread. The sum of the changes up to a time is what was
 * live then, in whatever order they were read.
 *
 * A trace whose events all have one time has operations in place of times.
 *
 * Invariants: INFO_COLUMNS columns, whatever the trace. Threads: none shared.
 */
#ifndef TOOL_MODEL_INFO_COURSE_H
#define TOOL_MODEL_INFO_COURSE_H

#include "base/compiler.h"

#define INFO_COLUMNS 512u

struct info_column {
    uint64_t bytes, blocks; /* change, modulo 2^64 */
    uint64_t most_bytes;    /* live at once; 0: no event */
    uint64_t operations;
    bool sampled;
    uint64_t rss_bytes, heap_bytes; /* if SAMPLED */
};

/* All zero before the first event. */
struct info_course {
    bool has_times;   /* else positions are numbers of operations */
    bool has_samples; /* some column has */
    uint64_t start_ns;
    uint64_t operations;
    uint64_t step;             /* of positions, in a column */
    uint64_t end;              /* last position; from 0, at START_NS */
    uint64_t peak_bytes, peak; /* most live bytes, and their position */
    struct info_column column[INFO_COLUMNS];
};

/* Adds an event at the time NS, which changed live memory by BYTES in BLOCKS,
   modulo 2^64, to LIVE_BYTES. */
void info_course_event(struct info_course *c, uint64_t ns, uint64_t bytes,
                       uint64_t blocks, uint64_t live_bytes);
/* Adds a sample of the recorded process: its resident memory without shared
   pages, and its heap. */
void info_course_sample(struct info_course *c, uint64_t ns, uint64_t rss_bytes,
                        uint64_t heap_bytes);
/* Ends the course at NS if that is behind all events. */
void info_course_end(struct info_course *c, uint64_t ns);

/* Returns the number of columns in use; 0: there was no event. */
unsigned info_course_columns(const struct info_course *c);
/* Returns the last position of column I. */
uint64_t info_course_position(const struct info_course *c, unsigned i);

#endif
