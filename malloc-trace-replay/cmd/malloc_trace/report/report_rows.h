/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of a report: tallies with the same label, summed up.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_ROWS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_ROWS_H

#include "cmd/malloc_trace/report/report_labels.h"
#include "cmd/malloc_trace/report/report_tally.h"

#include <regex.h>

enum report_sort {
    REPORT_SORT_BYTES,
    REPORT_SORT_CALLS,
    REPORT_SORT_LIVE,
    REPORT_SORT_PEAK,
    REPORT_SORT_AGE,
    REPORT_SORT_TEMPORARY
};

struct report_row {
    const char *location; /* a text of the rows, */
    uint32_t text;        /* with this number */
    struct report_tally sum;
    struct report_tally old; /* of the other trace; all 0: none */
    bool in_old;
    uint32_t share; /* index plus 1 of its first share; 0: none */
};

/* One thread's part of a row. */
struct report_share {
    uint32_t thread; /* number of a text */
    uint32_t next;   /* share of the same row: index plus 1; 0: the last */
    struct report_tally sum;
};

/* All zero is empty. report_rows_sort comes after the last report_rows_add. */
struct report_rows {
    struct report_row *row;
    size_t count, room;
    struct report_texts texts;
    uint32_t *of_text; /* index of the row plus 1, by number of its text */
    size_t of_text_room;
    uint32_t *of_tally; /* number of the text plus 1, by index in the tallies
                           that were added last; 0: left out */
    struct report_share *share; /* if tallies are by thread, too */
    size_t shares, share_room;
    struct tool_map share_of;              /* index plus 1, by row and thread */
    struct report_tally total, old_total;  /* of all rows */
    uint64_t suppressed, suppressed_bytes; /* live blocks that were dropped */
    uint64_t kept, kept_bytes;             /* of these: kept by libraries */
    uint64_t library_bytes; /* in stacks without a frame of the user's code */
    uint64_t bare_bytes; /* of rows that name code without debug information */
    uint64_t bare_most;  /* of these, the most of one tally, */
    const char *bare_module; /* in this module */
    const char *bare_remedy; /* see struct symbol_name */
    const char *lacks;       /* see symbol_names_lacks */
};

/* Choice of tallies that become rows, and how rows are named. All zero: all
   tallies, named by the user's frames. */
struct report_filter {
    /* Keeps labels, and stacks with a frame, that match; NULL: all. */
    const regex_t *match;
    bool leaks; /* keeps tallies with live blocks */
    /* Drops stacks with a frame that matches; or NULL. What each pattern drops
       is added to its sums. */
    const struct report_suppressions *suppressed;
    /* Drops blocks that libraries keep, by these patterns and by their stacks
       (report_labels_kept); or NULL. */
    const struct report_suppressions *kept;
    /* Changes which frames rows name; or NULL. */
    const struct report_skip *skip;
};

enum report_tally_by report_rows_tally_by(enum report_by by);

/* Adds the tallies of T, as those of the earlier trace if OLD. False: out of
   memory. */
bool report_rows_add(struct report_rows *r, const struct report_tallies *t,
                     struct symbol_names *names, enum report_by by,
                     const struct report_filter *filter, bool old);
void report_rows_sort(struct report_rows *r, enum report_sort sort);
/* Shares of ROW, largest first, in a list from malloc with *COUNT entries.
   NULL: none, or out of memory. */
const struct report_share **report_rows_shares(const struct report_rows *r,
                                               const struct report_row *row,
                                               enum report_sort sort,
                                               size_t *count);
void report_rows_fini(struct report_rows *r);

/* The figure of T that SORT compares. */
double report_rows_value(const struct report_tally *t, enum report_sort sort);

#endif
