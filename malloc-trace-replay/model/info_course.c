/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/info_course.h"

#include "base/bits.h"
#include "base/check.h"

#include <string.h>

/* Distances of times in traces are larger; joining is cheap. */
#define FIRST_STEP_NS 1000u

/* An event that is further behind the latest one than threads of a round of the
   recorder are apart was read late, from a thread that rested: what is live
   when it is read was not live at its time. */
#define LATE_NS 20000000u

/* Adds B, the column behind A, to A. */
static void join(struct info_column *a, const struct info_column *b) {
    a->bytes += b->bytes;
    a->blocks += b->blocks;
    a->operations += b->operations;
    a->most_bytes = tcm_max_u64(a->most_bytes, b->most_bytes);
    if (b->sampled) {
        a->sampled = true;
        a->rss_bytes = b->rss_bytes;
        a->heap_bytes = b->heap_bytes;
    }
}

/* Joins neighbours until AT has a column, and returns that. */
static struct info_column *column_of(struct info_course *c, uint64_t at) {
    struct info_column *column = c->column;
    while (at / c->step >= INFO_COLUMNS) {
        for (unsigned i = 0; i < INFO_COLUMNS; i++) {
            if (i % 2 == 0)
                column[i / 2] = column[i];
            else
                join(&column[i / 2], &column[i]);
        }
        memset(column + INFO_COLUMNS / 2, 0,
               INFO_COLUMNS / 2 * sizeof(*column));
        c->step *= 2;
    }
    c->end = tcm_max_u64(c->end, at);
    return &column[at / c->step];
}

/* Goes over from operations to times: all so far was at START_NS. */
static void begin_times(struct info_course *c) {
    for (unsigned i = 1; i < INFO_COLUMNS; i++)
        join(&c->column[0], &c->column[i]);
    memset(c->column + 1, 0, sizeof(c->column) - sizeof(*c->column));
    c->has_times = true;
    c->step = FIRST_STEP_NS;
    c->peak = c->end = 0;
}

/* Returns the position of the time NS, or of the latest operation. */
static uint64_t position_of(struct info_course *c, uint64_t ns) {
    if (c->step == 0) {
        c->step = 1;
        c->start_ns = ns;
    }
    if (!c->has_times && ns != c->start_ns)
        begin_times(c);
    if (!c->has_times)
        return c->operations == 0 ? 0 : c->operations - 1;
    /* threads have their first times in any order */
    return ns > c->start_ns ? ns - c->start_ns : 0;
}

void info_course_event(struct info_course *c, uint64_t ns, uint64_t bytes,
                       uint64_t blocks, uint64_t live_bytes) {
    c->operations++;
    uint64_t at = position_of(c, ns);
    struct info_column *column = column_of(c, at);
    TCM_ASSERT(at <= c->end && c->end / c->step < INFO_COLUMNS);
    column->bytes += bytes;
    column->blocks += blocks;
    column->operations++;
    bool late = c->has_times && c->end - at > LATE_NS + c->step;
    if (!late)
        column->most_bytes = tcm_max_u64(column->most_bytes, live_bytes);
    if (live_bytes > c->peak_bytes) {
        c->peak_bytes = live_bytes;
        c->peak = late ? c->end : at;
    }
}

void info_course_sample(struct info_course *c, uint64_t ns, uint64_t rss_bytes,
                        uint64_t heap_bytes) {
    struct info_column *column = column_of(c, position_of(c, ns));
    column->sampled = c->has_samples = true;
    column->rss_bytes = rss_bytes;
    column->heap_bytes = heap_bytes;
}

void info_course_end(struct info_course *c, uint64_t ns) {
    if (c->has_times && ns > c->start_ns)
        (void)column_of(c, ns - c->start_ns);
}

unsigned info_course_columns(const struct info_course *c) {
    return c->operations == 0 ? 0 : (unsigned)(c->end / c->step) + 1;
}

uint64_t info_course_position(const struct info_course *c, unsigned i) {
    TCM_ASSERT(i < info_course_columns(c));
    uint64_t from = i * c->step;
    return from + tcm_min_u64(c->step - 1, c->end - from);
}
