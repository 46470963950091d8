/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live bytes in the course of a trace, in all and of the keys that had most,
 * while tallies are made.
 *
 * Columns are moments at equal distances from the start; when there are no
 * more, every other one goes and the distance doubles.
 *
 * Of several traces one after the other it has the first.
 *
 * Invariants: at most HISTORY_COLUMNS columns and HISTORY_KEYS keys. A key is
 * followed from when it first has a part of 1024 of what was alive at most
 * until then; before that it had nothing, as far as this says.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_HISTORY_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_HISTORY_H

#include "cmd/malloc_trace/report/tally.h"

#define HISTORY_COLUMNS 512u
#define HISTORY_KEYS    1024u

struct history {
    uint64_t step_ns;
    unsigned columns; /* column I is of I times step_ns since the start */
    uint64_t total[HISTORY_COLUMNS];
    struct history_key {
        uint32_t tally; /* its place */
        uint64_t live[HISTORY_COLUMNS];
    } * key;
    size_t keys;
    bool full; /* there were more keys than there is room for */
    bool over; /* the trace */
};

/* NULL: out of memory. */
struct history *history_new(void);
void history_free(struct history *h);

/* Time goes on to NS since the start: what is alive now was until then. */
void history_until(struct history *h, const struct tallies *t, uint64_t ns);
/* The key of T's tally PLACE has more than before. */
void history_see(struct history *h, struct tallies *t, size_t place);
/* That was all of a trace: its last moment is the last column. */
void history_end(struct history *h, const struct tallies *t);

#endif
