/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of a report: tallies with a text for what they are of, those with
 * the same text as one.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_ROWS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_ROWS_H

#include "cmd/malloc_trace/report/names.h"
#include "cmd/malloc_trace/report/suppress.h"
#include "cmd/malloc_trace/report/tally.h"
#include "cmd/malloc_trace/report/texts.h"

#include <regex.h>

enum rows_by {
    ROWS_BY_SITE,
    ROWS_BY_FUNCTION,
    ROWS_BY_LINE,
    ROWS_BY_FILE,
    ROWS_BY_MODULE,
    ROWS_BY_LANGUAGE,
    ROWS_BY_STACK,
    ROWS_BY_SIZE,
    ROWS_BY_THREAD
};

enum rows_sort {
    ROWS_SORT_BYTES,
    ROWS_SORT_CALLS,
    ROWS_SORT_LIVE,
    ROWS_SORT_PEAK,
    ROWS_SORT_AGE,
    ROWS_SORT_TEMPORARY
};

struct row {
    const char *location; /* in the rows' texts, */
    uint32_t text;        /* by this number */
    struct tally sum;
    struct tally old; /* of the other trace; all 0: there is none */
    bool in_old;
    uint32_t share; /* place plus 1 of the first one; 0: none */
};

/* What a thread has of a row. */
struct rows_share {
    uint32_t thread; /* number of a text */
    uint32_t next;   /* of the row: place plus 1, 0: the last */
    struct tally sum;
};

/* All zero is empty. After rows_sort none may be added. */
struct rows {
    struct row *row;
    size_t count, room;
    struct texts texts;
    uint32_t *of_text; /* by number: place plus 1 */
    size_t of_text_room;
    uint32_t *of_tally; /* by place of the tallies that were added last: number
                           of the text plus 1, 0: left out */
    struct rows_share *share; /* if tallies are of threads, too */
    size_t shares, share_room;
    struct tool_map share_of;      /* by row and thread: place plus 1 */
    struct tally total, old_total; /* of all rows */
};

/* What leaves rows out. */
struct rows_filter {
    const regex_t *match;                  /* of the location; NULL: any */
    bool leaks;                            /* those that nothing is alive of */
    const struct suppressions *suppressed; /* NULL: none */
};

enum tally_by rows_tally_by(enum rows_by by);

/* The text of the innermost line of SITE's stack, or else of its innermost
   name; the caller frees. NULL: no memory. */
char *rows_location(struct names *names, const struct tool_sites *sites,
                    enum rows_by by, uint32_t site);
/* Adds the tallies of T, as what there was before if they are OLD. False: no
   memory. */
bool rows_add(struct rows *r, const struct tallies *t, struct names *names,
              enum rows_by by, const struct rows_filter *filter, bool old);
void rows_sort(struct rows *r, enum rows_sort sort);
/* Shares of ROW, most first: a list for the caller to free, *COUNT entries.
   NULL: none, or no memory. */
const struct rows_share **rows_shares(const struct rows *r,
                                      const struct row *row,
                                      enum rows_sort sort, size_t *count);
void rows_fini(struct rows *r);

/* What SORT goes by. */
double rows_value(const struct tally *t, enum rows_sort sort);

#endif
