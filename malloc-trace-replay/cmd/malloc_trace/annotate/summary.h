/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What annotate sums up: how long blocks of each size lived, how far apart they
 * lay, and how many pages they took in the course of the trace. As a table, as
 * CSV, or as a picture.
 *
 * Invariants: memory is fixed, whatever the length of the trace.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_ANNOTATE_SUMMARY_H
#define TOOL_CMD_MALLOC_TRACE_ANNOTATE_SUMMARY_H

#include "formats/format_export.h"

enum annotate_form {
    ANNOTATE_LINES,
    ANNOTATE_TABLE,
    ANNOTATE_CSV,
    ANNOTATE_SVG
};

/* By the number of bits: 0, 1, 2 to 3, 4 to 7, ... */
#define ANNOTATE_BITS   48u
#define ANNOTATE_POINTS 512u

struct annotate_summary {
    uint64_t lived[ANNOTATE_BITS + 1][ANNOTATE_BITS + 1]; /* by size and age */
    uint64_t gaps[2][ANNOTATE_BITS + 1]; /* to the block before and behind */
    uint64_t overlaps;                   /* gaps below 0 */
    /* pages, one point for so many events */
    uint64_t pages, peak_pages, events, step;
    uint64_t point[ANNOTATE_POINTS]; /* the most pages since the one before */
    size_t points;
};

/* A block of SIZE ended after AGE lines, and with it PAGES. */
void annotate_summary_end(struct annotate_summary *s, uint64_t size,
                          uint64_t age, uint64_t pages);
/* One began, with these gaps (-1: no neighbour) and pages. */
void annotate_summary_begin(struct annotate_summary *s, int64_t gap_below,
                            int64_t gap_above, uint64_t pages);
/* LAYOUT: pages and gaps, else sizes and lifetimes. LIVE blocks are left. */
void annotate_summary_print(const struct annotate_summary *s, bool layout,
                            enum annotate_form form, uint64_t live,
                            struct format_out *out);

#endif
