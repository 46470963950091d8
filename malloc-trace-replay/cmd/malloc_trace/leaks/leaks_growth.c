/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/leaks/leaks_growth.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUARTERS = 4 };

/* Growth of a group that has no more blocks than before: by this factor, and at
   least by so many bytes. */
#define LARGER_FACTOR 1.5
#define LARGER_LEAST  16384.0

/* Part of all allocations that counts: behind it a program may be ending. */
#define END_PART 0.97

/* Samples in time: columns, their first distance, and the time for which a
   longer pause between allocations counts. */
#define TIME_COLUMNS 64u
#define TIME_STEP_NS 1000000u
#define PAUSE_NS     10000000u
/* Parts of the time since a group's first block; those behind which it has to
   grow, in blocks or in bytes, by a share of all its growth; and time, and
   columns behind these parts, without which one cannot tell. */
#define TIME_PARTS   8u
#define TIME_BLOCKS  4u
#define TIME_BYTES   2u
#define TIME_SHARE   (1 / 16.0)
#define TIME_LEAST   100000000u
#define TIME_SAMPLES 8u

/* A group has been freed before the end if no more than a share of its growth
   is left for the last pauses of this length together, and these are a part of
   the time since then. Frees at the end of a program have few pauses. */
#define FREED_SHARE    (1 / 16.0)
#define FREED_PAUSE_NS 100000000u
#define FREED_PART     2u

/* --- Sampling ------------------------------------------------------------- */

static void drop_every_other(struct leaks_series *s) {
    s->columns = s->most / 2;
    s->step *= 2;
    for (unsigned c = 0; c < s->columns; c++)
        s->at[c] = s->at[2 * c + 1];
    for (size_t i = 0; i < s->tallies; i++)
        for (unsigned c = 0; s->cell[i] != NULL && c < s->most; c++)
            s->cell[i][c] =
                c < s->columns ? s->cell[i][2 * c + 1] : (struct leaks_cell){0};
}

/* Adds a column of what is live in T, AT this moment of the series' clock.
   False: out of memory. */
static bool add_column(struct leaks_series *s, const struct report_tallies *t,
                       uint64_t at) {
    size_t known = s->tallies;
    if (s->columns == s->most)
        drop_every_other(s);
    TCM_ASSERT(s->columns < s->most);
    if (!tool_array_reserve(&s->cell, &s->tallies, t->count + 1,
                            sizeof(*s->cell)))
        return false;
    for (size_t i = known; i < s->tallies; i++)
        s->cell[i] = NULL;
    s->at[s->columns] = at;
    for (size_t i = 0; i < t->count; i++) {
        const struct report_tally *a = &t->tally[i];
        if (a->live == 0)
            continue;
        if (s->cell[i] == NULL &&
            (s->cell[i] = calloc(s->most, sizeof(**s->cell))) == NULL)
            return false;
        s->cell[i][s->columns] = (struct leaks_cell){
            (uint32_t)tcm_min_u64(a->live, UINT32_MAX), (float)a->live_bytes};
    }
    s->columns++;
    s->next = at + s->step;
    return true;
}

static void sample(void *ctx, struct report_tallies *t) {
    struct leaks_growth *g = ctx;
    if (g->samples.columns == 0)
        g->seen_ns = t->time_ns;
    if (t->time_ns > g->seen_ns) {
        g->busy_ns += tcm_min_u64(t->time_ns - g->seen_ns, PAUSE_NS);
        g->seen_ns = t->time_ns;
    }
    if (t->all.calls >= g->samples.next)
        g->failed |= !add_column(&g->samples, t, t->all.calls);
    if (g->busy_ns >= g->times.next)
        g->failed |= !add_column(&g->times, t, g->busy_ns);
    t->options.next_sample = t->all.calls + 1;
}

/* Forgets the first half of the columns. */
static void drop_older(struct leaks_growth *g) {
    struct leaks_series *s = &g->pauses;
    unsigned half = s->most / 2;
    memmove(s->at, s->at + half, half * sizeof(*s->at));
    memmove(g->pause, g->pause + half, half * sizeof(*g->pause));
    for (size_t i = 0; i < s->tallies; i++)
        if (s->cell[i] != NULL) {
            memcpy(s->cell[i], s->cell[i] + half, half * sizeof(**s->cell));
            memset(s->cell[i] + half, 0, half * sizeof(**s->cell));
        }
    s->columns = half;
}

/* Takes a pause that ends at NS. A column for each would take too long for many
   tallies: only many operations since the last one make it worth the time. */
static void take_pause(void *ctx, struct report_tallies *t, uint64_t ns) {
    struct leaks_growth *g = ctx;
    struct leaks_series *s = &g->pauses;
    if (ns <= t->time_ns + PAUSE_NS || t->time_ns == 0)
        return;
    if (s->columns == 0 ||
        t->operations - g->pause_operations > t->count / LEAKS_PAUSES) {
        if (s->columns == s->most)
            drop_older(g);
        g->pause[s->columns] = (struct leaks_pause){t->time_ns, t->all.calls};
        g->pause_operations = t->operations;
        g->failed |= !add_column(s, t, g->pauses_ns);
    }
    g->pauses_ns += ns - t->time_ns;
}

static void take_mark(void *ctx, struct report_tallies *t) {
    struct leaks_growth *g = ctx;
    if (++g->marks.skipped < g->marks.step)
        return;
    g->marks.skipped = 0;
    g->failed |= !add_column(&g->marks, t, t->all.calls);
}

void leaks_growth_begin(struct leaks_growth *g, struct report_tallies *t) {
    g->samples.step = g->marks.step = 1;
    g->times.step = TIME_STEP_NS;
    g->samples.most = g->marks.most = LEAKS_COLUMNS;
    g->times.most = TIME_COLUMNS;
    g->pauses.most = LEAKS_PAUSES;
    t->options.sample_time = take_pause;
    t->options.sample = sample;
    t->options.sample_mark = take_mark;
    t->options.sample_ctx = g;
    t->options.next_sample = 1;
}

static void free_series(struct leaks_series *s) {
    for (size_t i = 0; i < s->tallies; i++)
        free(s->cell[i]);
    free(s->cell);
}

void leaks_growth_fini(struct leaks_growth *g) {
    free_series(&g->samples);
    free_series(&g->times);
    free_series(&g->marks);
    free_series(&g->pauses);
    *g = (struct leaks_growth){0};
}

/* --- Growth --------------------------------------------------------------- */

bool leaks_growth_has_marks(const struct leaks_growth *g) {
    return g->marks.columns >= 2;
}

static const struct leaks_series *series_of(const struct leaks_growth *g) {
    return leaks_growth_has_marks(g) ? &g->marks : &g->samples;
}

bool leaks_growth_can_tell(const struct leaks_growth *g) {
    const struct leaks_series *s = &g->samples;
    return leaks_growth_has_marks(g) ||
           (s->columns != 0 && s->at[s->columns - 1] >= LEAKS_COLUMNS / 2);
}

/* Columns of S up to the one before a program may be ending. */
static unsigned last_columns(const struct leaks_growth *g,
                             const struct leaks_series *s, uint64_t calls) {
    unsigned n = s->columns;
    while (s == &g->samples && n > 2 * QUARTERS &&
           (double)s->at[n - 1] > END_PART * (double)calls)
        n--;
    return n;
}

/* Fills LOW with the lowest BLOCKS of each of COUNT parts of the columns from
   FROM up to TO. */
static void find_lows(const double *blocks, unsigned from, unsigned to,
                      double *low, unsigned count) {
    for (unsigned k = 0; k < count; k++) {
        unsigned first = from + (to - from) * k / count;
        unsigned end = from + (to - from) * (k + 1) / count;
        low[k] = blocks[first];
        for (unsigned c = first; c < end; c++)
            low[k] = fmin(low[k], blocks[c]);
    }
}

/* Judges a group with these BLOCKS and BYTES in N columns. MARKS: of marks. */
static struct leaks_group judge_group(const double *blocks, const double *bytes,
                                      unsigned n, bool marks) {
    double low[QUARTERS];
    unsigned from = 0, parts = n < QUARTERS ? n : QUARTERS;
    while (!marks && from < n && blocks[from] == 0)
        from++;
    if (!marks)
        from += (n - from) / 2;
    if (n < from + parts || parts < 2 || (!marks && n < from + QUARTERS))
        return (struct leaks_group){0};
    find_lows(blocks, from, n, low, parts);
    for (unsigned k = 1; k < parts; k++)
        if (low[k] <= low[k - 1])
            return (struct leaks_group){0};
    double more = blocks[n - 1] - blocks[from];
    return (struct leaks_group){
        .blocks = (uint64_t)fmax(more, low[parts - 1] - low[0]),
        .bytes = (uint64_t)fmax(bytes[n - 1] - bytes[from], 0),
        .from = from,
        .to = n - 1};
}

/* Judges a group whose blocks do not become more. */
static struct leaks_group judge_bytes(const double *blocks, const double *bytes,
                                      unsigned n) {
    double low[QUARTERS];
    unsigned from = 0;
    while (from < n && bytes[from] == 0)
        from++;
    unsigned middle = from + (n - from) / 2;
    if (n < from + 2 * QUARTERS ||
        bytes[n - 1] < bytes[middle] + LARGER_LEAST ||
        bytes[n - 1] < LARGER_FACTOR * bytes[middle])
        return (struct leaks_group){0};
    find_lows(bytes, from, n, low, QUARTERS);
    for (unsigned k = 1; k < QUARTERS; k++)
        if (low[k] < low[k - 1])
            return (struct leaks_group){0};
    if (low[QUARTERS - 1] < LARGER_FACTOR * low[1])
        return (struct leaks_group){0};
    return (struct leaks_group){.blocks = (uint64_t)fmax(blocks[n - 1], 1),
                                .bytes =
                                    (uint64_t)(bytes[n - 1] - bytes[middle]),
                                .from = middle,
                                .to = n - 1,
                                .larger = true};
}

/* Part, from 0, of the time from column FIRST of S to the last one, that column
   C is in. */
static unsigned part_of(const struct leaks_series *s, unsigned first,
                        unsigned c) {
    uint64_t begin = s->at[first], whole = s->at[s->columns - 1] - begin + 1;
    return (unsigned)((s->at[c] - begin) * TIME_PARTS / whole);
}

/* True if LIVE, figures of a group in the columns of S, rises by a share of
   GROWTH behind the first PARTS of the time since its first block, or if one
   cannot tell. */
static bool grows_in_time(const struct leaks_series *s, const double *live,
                          unsigned parts, double growth) {
    double high[2] = {0}, low[TIME_PARTS] = {0};
    unsigned first = 0, samples = 0, seen = 0;
    while (first < s->columns && live[first] == 0)
        first++;
    for (unsigned c = first; c < s->columns; c++) {
        unsigned part = part_of(s, first, c);
        TCM_ASSERT(part < TIME_PARTS);
        low[part] =
            (seen & 1u << part) == 0 ? live[c] : fmin(low[part], live[c]);
        seen |= 1u << part;
        samples += part >= parts;
    }
    for (unsigned i = 0; i < TIME_PARTS; i++)
        high[i >= parts] = fmax(high[i >= parts], low[i]);
    return samples < TIME_SAMPLES ||
           s->at[s->columns - 1] - s->at[first] < TIME_LEAST ||
           high[1] - high[0] >= TIME_SHARE * growth;
}

/* Live blocks and bytes of a group, by column. */
struct sums {
    double blocks[LEAKS_COLUMNS], bytes[LEAKS_COLUMNS];
};

/* Sums up the first N columns of S by group, into an array of COUNT from
   malloc. NULL: out of memory. */
static struct sums *sum_up(const struct leaks_series *s,
                           const struct report_tallies *t,
                           const uint32_t *of_tally, size_t count, unsigned n) {
    struct sums *sum = calloc(count + 1, sizeof(*sum));
    for (size_t i = 0; sum != NULL && i < t->count && i < s->tallies; i++)
        for (unsigned c = 0; s->cell[i] != NULL && c < n; c++) {
            TCM_ASSERT(of_tally[i] < count);
            sum[of_tally[i]].blocks[c] += s->cell[i][c].blocks;
            sum[of_tally[i]].bytes[c] += (double)s->cell[i][c].bytes;
        }
    return sum;
}

/* True if LIVE, figures of a group in the pauses of G, is no more than LEFT in
   the last of them up to END_NS that are behind CALLS allocations, and these
   are long enough. */
static bool is_freed(const struct leaks_growth *g, const double *live,
                     double left, uint64_t calls, uint64_t end_ns) {
    for (unsigned c = g->pauses.columns; c-- > 0;) {
        uint64_t pause_ns = g->pauses_ns - g->pauses.at[c];
        if (live[c] > left || g->pause[c].calls < calls)
            return false;
        if (pause_ns >= FREED_PAUSE_NS &&
            pause_ns >= (end_ns - g->pause[c].from_ns) / FREED_PART)
            return true;
    }
    return false;
}

/* Figures of the groups: in the columns that are judged, in those of times, and
   in pauses. */
struct figures {
    struct sums *sum, *timed, *paused;
    const struct leaks_series *series; /* of the former */
    unsigned columns;
    bool marks;
    uint64_t end_ns;
};

/* Judges group I. */
static struct leaks_group judge(const struct leaks_growth *g,
                                const struct figures *f, size_t i) {
    const struct sums *sum = &f->sum[i], *timed = &f->timed[i];
    struct leaks_group more =
        judge_group(sum->blocks, sum->bytes, f->columns, f->marks);
    if (more.blocks != 0 &&
        (f->marks ||
         (grows_in_time(&g->times, timed->blocks, TIME_BLOCKS,
                        (double)more.blocks) &&
          !is_freed(g, f->paused[i].blocks,
                    sum->blocks[more.from] + FREED_SHARE * (double)more.blocks,
                    f->series->at[more.to], f->end_ns))))
        return more;
    more = judge_bytes(sum->blocks, sum->bytes, f->columns);
    if (more.blocks != 0 &&
        (f->marks ||
         (grows_in_time(&g->times, timed->bytes, TIME_BYTES,
                        (double)more.bytes) &&
          !is_freed(g, f->paused[i].bytes,
                    sum->bytes[more.from] + FREED_SHARE * (double)more.bytes,
                    f->series->at[more.to], f->end_ns))))
        return more;
    return (struct leaks_group){0};
}

bool leaks_growth_find(const struct leaks_growth *g,
                       const struct report_tallies *t, const uint32_t *of_tally,
                       struct leaks_group *group, size_t count) {
    const struct leaks_series *s = series_of(g);
    unsigned n = last_columns(g, s, t->all.calls);
    struct figures f = {
        .sum = sum_up(s, t, of_tally, count, n),
        .timed = sum_up(&g->times, t, of_tally, count, g->times.columns),
        .paused = sum_up(&g->pauses, t, of_tally, count, g->pauses.columns),
        .series = s,
        .columns = n,
        .marks = s == &g->marks,
        .end_ns = t->time_ns};
    bool good = f.sum != NULL && f.timed != NULL && f.paused != NULL;
    for (size_t i = 0; good && i < count; i++)
        group[i] = judge(g, &f, i);
    free(f.sum);
    free(f.timed);
    free(f.paused);
    return good;
}

struct leaks_group leaks_growth_of_tally(const struct leaks_growth *g, size_t i,
                                         const struct leaks_group *group) {
    const struct leaks_series *s = series_of(g);
    struct leaks_group more = {.from = group->from, .to = group->to};
    if (group->blocks == 0 || i >= s->tallies || s->cell[i] == NULL)
        return more;
    const struct leaks_cell *from = &s->cell[i][group->from];
    const struct leaks_cell *to = &s->cell[i][group->to];
    if (group->larger && to->bytes > from->bytes) {
        more.blocks = to->blocks;
        more.bytes = (uint64_t)(to->bytes - from->bytes);
    } else if (!group->larger && to->blocks > from->blocks) {
        more.blocks = to->blocks - from->blocks;
        more.bytes = (uint64_t)fmaxf(to->bytes - from->bytes, 0);
    }
    return more;
}
