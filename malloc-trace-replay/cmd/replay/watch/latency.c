/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of the duration of calls of the allocator, by kind of call and size.
 *
 * Times go into a histogram with 16 steps for each doubling, after Tene's
 * HdrHistogram: a quantile is exact to 1/16. The cost of reading the clock is
 * subtracted. Replay threads wait for each other only outside of calls.
 *
 * Threads: any may note calls; one begins and reports.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/observer.h"
#include "common/text.h"

#include <string.h>

/* Size classes: up to 16 bytes, up to 32, and so on to 4 MiB; and above. */
#define LATENCY_SIZES 20u

/* 1 << STEP_BITS steps for each doubling. */
#define STEP_BITS 4u
#define STEPS     (1u << STEP_BITS)
/* The last bucket has all times of 2^40 ticks (some minutes) and more. */
#define BUCKETS ((41u - STEP_BITS) * STEPS)
#define WORST   20u
/* Pairs of readings from which the cost of reading the clock is found. */
#define READINGS 1001u

struct latency_worst {
    uint64_t ticks, size, place;
    enum replay_kind kind;
    uint32_t thread;
    bool is_about;
};

struct latency_cell {
    uint64_t ticks; /* sum */
    uint64_t most;
    uint32_t bucket[BUCKETS];
};

struct replay_latency {
    uint64_t own_ticks; /* cost of reading the clock */
    uint64_t begin_ticks, begin_ns;
    double ns; /* nanoseconds of a tick */
    uint32_t worst_lock;
    uint64_t worst_least; /* only longer times come into the list */
    unsigned worst_count;
    struct latency_worst worst[WORST]; /* the longest first */
    struct latency_cell cell[REPLAY_KINDS][LATENCY_SIZES];
};

/* --- Histograms ----------------------------------------------------------- */

static unsigned bucket_of(uint64_t ticks) {
    if (ticks < STEPS)
        return (unsigned)ticks;
    unsigned log2 = tcm_log2_floor(ticks);
    unsigned step = (unsigned)(ticks >> (log2 - STEP_BITS)) & (STEPS - 1);
    unsigned bucket = (log2 - STEP_BITS + 1) * STEPS + step;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* Middle of a bucket, in ticks. */
static double bucket_ticks(unsigned bucket) {
    unsigned octave = bucket / STEPS, step = bucket % STEPS;
    if (octave == 0)
        return step;
    double unit = (double)((uint64_t)1 << (octave - 1));
    return (double)(STEPS + step) * unit + (unit - 1) / 2;
}

static unsigned size_class(uint64_t size) {
    if (size <= 16)
        return 0;
    unsigned log2 = tcm_log2_ceil(size);
    return log2 - 4 < LATENCY_SIZES - 1 ? log2 - 4 : LATENCY_SIZES - 1;
}

/* --- Noting --------------------------------------------------------------- */

#define LATENCY_BYTES tcm_align_up(sizeof(struct replay_latency), 65536)

/* Median duration of empty pairs of readings. */
static uint64_t reading_ticks(void) {
    uint32_t count[256] = {0};
    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t start = replay_ticks();
        uint64_t ticks = replay_ticks() - start;
        count[ticks < 255 ? ticks : 255]++;
    }
    unsigned seen = 0, ticks = 0;
    while (ticks < 255 && (seen += count[ticks]) <= READINGS / 2)
        ticks++;
    return ticks;
}

static bool latency_begin(struct replay_watch *w, void **state) {
    if (!w->options->latency)
        return true;
    struct replay_latency *l = replay_own_map(LATENCY_BYTES);
    if (l == NULL)
        return false;
    memset(l, 0, LATENCY_BYTES);
    w->bytes += LATENCY_BYTES;
    l->ns = 1;
    l->own_ticks = reading_ticks();
    l->begin_ns = tcm_clock_ns();
    l->begin_ticks = replay_ticks();
    *state = l;
    return true;
}

static TCM_NOINLINE void note_worst(struct replay_latency *l,
                                    const struct replay_one_call *c,
                                    uint64_t ticks) {
    struct latency_worst w = {
        .ticks = ticks, .size = c->size, .kind = c->kind, .thread = c->thread};
    w.place = replay_one_call_place(c, &w.is_about);
    while (tcm_swap_acquire(&l->worst_lock, 1u) != 0)
        tcm_cpu_relax();
    unsigned at = l->worst_count;
    if (at < WORST)
        l->worst_count++;
    else if (l->worst[--at].ticks >= ticks)
        at = WORST;
    while (at != WORST && at > 0 && l->worst[at - 1].ticks < ticks) {
        l->worst[at] = l->worst[at - 1];
        at--;
    }
    if (at != WORST)
        l->worst[at] = w;
    if (l->worst_count == WORST)
        tcm_store_relaxed(&l->worst_least, l->worst[WORST - 1].ticks);
    tcm_store_release(&l->worst_lock, 0u);
}

void replay_latency_note(struct replay_latency *l,
                         const struct replay_one_call *c, uint64_t ticks) {
    ticks = ticks > l->own_ticks ? ticks - l->own_ticks : 0;
    struct latency_cell *cell = &l->cell[c->kind][size_class(c->size)];
    tcm_add_relaxed(&cell->bucket[bucket_of(ticks)], 1u);
    tcm_add_relaxed(&cell->ticks, ticks);
    uint64_t most = tcm_load_relaxed(&cell->most);
    while (ticks > most && !tcm_cas_acq_rel(&cell->most, &most, ticks))
        ;
    if (ticks > tcm_load_relaxed(&l->worst_least))
        note_worst(l, c, ticks);
}

static void latency_end(struct replay_watch *w, void *state) {
    struct replay_latency *l = state;
    (void)w;
    uint64_t ticks = replay_ticks() - l->begin_ticks;
    uint64_t ns = tcm_clock_ns() - l->begin_ns;
    l->ns = ticks == 0 ? 1 : (double)ns / (double)ticks;
}

/* --- Reporting ------------------------------------------------------------ */

struct latency_row {
    uint64_t count;
    double mean, most;
    double quantile[5];
};

static const struct {
    double part;
    const char *key;
} quantiles[5] = {{0.5, "p50_ns"},
                  {0.9, "p90_ns"},
                  {0.99, "p99_ns"},
                  {0.999, "p999_ns"},
                  {0.9999, "p9999_ns"}};

void replay_latency_sum(const struct replay_latency *l, enum replay_kind kind,
                        uint64_t *calls, uint64_t *ticks) {
    *calls = *ticks = 0;
    for (unsigned i = 0; i < LATENCY_SIZES; i++) {
        *ticks += l->cell[kind][i].ticks;
        for (unsigned b = 0; b < BUCKETS; b++)
            *calls += l->cell[kind][i].bucket[b];
    }
}

double replay_latency_tick_ns(const struct replay_latency *l) {
    return l->ns;
}

/* Sums CELLS adjacent cells up. False: they have no call. */
static bool row_make(const struct replay_latency *l,
                     const struct latency_cell *cell, unsigned cells,
                     struct latency_row *row) {
    static uint64_t sum[BUCKETS];
    uint64_t ticks = 0, most = 0, seen = 0;
    unsigned next = 0;
    memset(sum, 0, sizeof(sum));
    memset(row, 0, sizeof(*row));
    for (unsigned i = 0; i < cells; i++) {
        ticks += cell[i].ticks;
        most = tcm_max_u64(most, cell[i].most);
        for (unsigned b = 0; b < BUCKETS; b++) {
            sum[b] += cell[i].bucket[b];
            row->count += cell[i].bucket[b];
        }
    }
    if (row->count == 0)
        return false;
    row->mean = (double)ticks * l->ns / (double)row->count;
    row->most = (double)most * l->ns;
    for (unsigned b = 0; b < BUCKETS && next < 5; b++) {
        seen += sum[b];
        while (next < 5 &&
               (double)seen >= quantiles[next].part * (double)row->count) {
            double ns = bucket_ticks(b) * l->ns;
            row->quantile[next++] = ns < row->most ? ns : row->most;
        }
    }
    return true;
}

static void print_ns(FILE *out, double ns) {
    struct tool_text t;
    if (ns < 1000)
        fprintf(out, "%7.0f ns", ns);
    else
        fprintf(out, "%10s", tool_text_ns(&t, (uint64_t)ns));
}

static void print_row(const struct latency_row *row, const char *name,
                      FILE *out) {
    struct tool_text t;
    fprintf(out, "%-7s %11s", name, tool_text_count(&t, row->count));
    print_ns(out, row->mean);
    for (unsigned i = 0; i < 4; i++)
        print_ns(out, row->quantile[i]);
    print_ns(out, row->most);
    fputc('\n', out);
}

static void latency_print(const struct replay_watch *w, const void *state,
                          FILE *out) {
    const struct replay_latency *l = state;
    struct latency_row row;
    (void)w;
    struct tool_text a, b, c;
    fprintf(out, "\n%-7s %11s%10s%10s%10s%10s%10s%10s\n", "latency", "timed",
            "mean", "p50", "p90", "p99", "p99.9", "most");
    for (unsigned k = 0; k < REPLAY_KINDS; k++)
        if (row_make(l, l->cell[k], LATENCY_SIZES, &row))
            print_row(&row, replay_kind_name[k], out);
    if (row_make(l, l->cell[0], REPLAY_KINDS * LATENCY_SIZES, &row))
        print_row(&row, "all", out);
    for (unsigned i = 0; i < l->worst_count && i < 3; i++) {
        const struct latency_worst *at = &l->worst[i];
        fprintf(out, "%-7s %s of %s took %s, %s operation %s\n",
                i == 0 ? "worst" : "", replay_kind_name[at->kind],
                tool_text_bytes(&a, at->size),
                tool_text_ns(&b, (uint64_t)((double)at->ticks * l->ns)),
                at->is_about ? "near" : "at", tool_text_count(&c, at->place));
    }
}

static void json_row(const struct latency_row *row, struct tool_json *j) {
    tool_json_u64(j, "count", row->count);
    tool_json_double(j, "mean_ns", row->mean);
    for (unsigned i = 0; i < 5; i++)
        tool_json_double(j, quantiles[i].key, row->quantile[i]);
    tool_json_double(j, "max_ns", row->most);
}

/* Returns the number of calls of KIND. */
static uint64_t json_kind(const struct replay_latency *l, unsigned kind,
                          struct tool_json *j) {
    struct latency_row row;
    if (!row_make(l, l->cell[kind], LATENCY_SIZES, &row))
        return 0;
    uint64_t calls = row.count, by_size = 0;
    tool_json_begin_object(j, replay_kind_name[kind]);
    json_row(&row, j);
    tool_json_begin_array(j, "sizes");
    for (unsigned s = 0; s < LATENCY_SIZES; s++) {
        if (!row_make(l, &l->cell[kind][s], 1, &row))
            continue;
        by_size += row.count;
        tool_json_begin_object(j, NULL);
        if (s + 1 < LATENCY_SIZES)
            tool_json_u64(j, "size_to", (uint64_t)16 << s);
        json_row(&row, j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
    TCM_ASSERT(by_size == calls);
    return calls;
}

static void latency_json(const struct replay_watch *w, const void *state,
                         struct tool_json *j) {
    const struct replay_latency *l = state;
    (void)w;
    struct latency_row all;
    bool any = row_make(l, l->cell[0], REPLAY_KINDS * LATENCY_SIZES, &all);
    if (any)
        tool_json_double(j, "p999_ns", all.quantile[3]);
    tool_json_begin_object(j, "latency");
    if (any) {
        tool_json_begin_object(j, "all");
        json_row(&all, j);
        tool_json_end_object(j);
    }
    tool_json_double(j, "clock_ns", (double)l->own_ticks * l->ns);
    uint64_t calls = 0;
    for (unsigned k = 0; k < REPLAY_KINDS; k++)
        calls += json_kind(l, k, j);
    TCM_ASSERT(calls == all.count);
    tool_json_begin_array(j, "worst");
    for (unsigned i = 0; i < l->worst_count; i++) {
        const struct latency_worst *at = &l->worst[i];
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "call", replay_kind_name[at->kind]);
        tool_json_u64(j, "size", at->size);
        tool_json_double(j, "ns", (double)at->ticks * l->ns);
        tool_json_u64(j, "operation", at->place);
        tool_json_bool(j, "operation_is_about", at->is_about);
        tool_json_u64(j, "thread", at->thread);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}

const struct replay_observer replay_latency_observer = {
    .begin = latency_begin,
    .end = latency_end,
    .print = latency_print,
    .json = latency_json,
};
