/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of the distance between replay and recorded run, under this
 * project's library: counters and heap of both, side by side.
 *
 * Threads: one.
 */
#include "base/bits.h"
#include "base/check.h"
#include "cmd/replay/watch/observer.h"
#include "common/text.h"
#include "traceformat/trace_event.h"

#include <string.h>

/* Counters, and sizes of the heap where the recorded run was sampled. */
static struct fidelity {
    struct replay_counters before, counters; /* before the start; of the replay
                                                */
    bool can;            /* the allocator tells the size of its heap */
    uint64_t base_bytes; /* size of the heap before the start */
    uint64_t looks;
    uint64_t peak_bytes, recorded_peak_bytes;
    double sum_bytes, recorded_sum_bytes;
    double apart_bytes; /* sum of the absolute differences */
} fidelity_state;

/* --- The heap ------------------------------------------------------------- */

static bool fidelity_begin(struct replay_watch *w, void **state) {
    (void)w;
    *state = &fidelity_state;
    return true;
}

static void fidelity_start(struct replay_watch *w, void *state) {
    struct fidelity *f = state;
    const struct replay_calls *calls = &w->exec->calls;
    replay_counters_read(calls, &f->before);
    f->can = f->before.known >> MTF_ACCOUNT_SYSTEM_BYTES_TAKEN & 1;
    f->base_bytes = replay_heap_bytes(calls);
}

/* Compares the heaps where the recorded run was sampled. */
static void fidelity_moment(struct replay_watch *w, void *state,
                            const struct replay_batch *b) {
    struct fidelity *f = state;
    if (!f->can || b->sampled == 0)
        return;
    uint64_t here = replay_heap_bytes(&w->exec->calls);
    here = here > f->base_bytes ? here - f->base_bytes : 0;
    uint64_t recorded = b->recorded_heap_bytes;
    f->looks++;
    f->peak_bytes = tcm_max_u64(f->peak_bytes, here);
    f->recorded_peak_bytes = tcm_max_u64(f->recorded_peak_bytes, recorded);
    f->sum_bytes += (double)here;
    f->recorded_sum_bytes += (double)recorded;
    f->apart_bytes +=
        (double)(here > recorded ? here - recorded : recorded - here);
}

static void fidelity_end(struct replay_watch *w, void *state) {
    struct fidelity *f = state;
    replay_counters_read(&w->exec->calls, &f->counters);
    replay_counters_since(&f->before, &f->counters);
}

/* --- Rows ----------------------------------------------------------------- */

/* Least deviation that the report names, in per cent and in events or bytes.
   The bound is higher with several threads, whose order differs from run to
   run. */
#define NAMED_PERCENT         2.0
#define NAMED_PERCENT_THREADS 5.0
#define NAMED_EVENTS          32u
#define NAMED_BYTES           ((uint64_t)1 << 20)

#define ROWS_MOST (REPLAY_COUNTERS + 4u)

struct fidelity_row {
    const char *name;
    uint64_t here, recorded;
    bool is_recorded, is_bytes;
    double percent; /* if is_recorded */
};

struct fidelity_rows {
    struct fidelity_row row[ROWS_MOST];
    unsigned count;
    double named_percent;
};

static double percent_of(uint64_t here, uint64_t recorded) {
    if (here == recorded)
        return 0;
    return recorded == 0
               ? 100
               : ((double)here - (double)recorded) * 100 / (double)recorded;
}

static void row_add(struct fidelity_rows *t, const char *name, uint64_t here,
                    uint64_t recorded, bool is_recorded, bool is_bytes) {
    TCM_ASSERT(t->count < ROWS_MOST);
    t->row[t->count++] = (struct fidelity_row){
        .name = name,
        .here = here,
        .recorded = recorded,
        .is_recorded = is_recorded,
        .is_bytes = is_bytes,
        .percent = is_recorded ? percent_of(here, recorded) : 0};
}

/* Adds figures that the trace has for the whole recorded run. */
static void add_recorded(const struct replay_watch *w, const struct fidelity *f,
                         struct fidelity_rows *t) {
    const struct replay_result *x = w->result;
    if (x->recorded_ops != 0)
        row_add(t, "operations", x->done.ops, x->recorded_ops, true, false);
    if (x->recorded_peak_bytes != 0)
        row_add(t, "peak_live_bytes",
                w->runs_apart ? w->run_peak_bytes : x->done.peak_live_bytes,
                x->recorded_peak_bytes, true, true);
    if (f->looks == 0)
        return;
    row_add(t, "peak_heap_bytes", f->peak_bytes, f->recorded_peak_bytes, true,
            true);
    double n = (double)f->looks;
    row_add(t, "average_heap_bytes", (uint64_t)(f->sum_bytes / n),
            (uint64_t)(f->recorded_sum_bytes / n), true, true);
    /* Positive and negative differences must not cancel out. */
    struct fidelity_row *last = &t->row[t->count - 1];
    double apart = f->recorded_sum_bytes > 0
                       ? f->apart_bytes * 100 / f->recorded_sum_bytes
                       : 0;
    last->percent = last->percent < 0 ? -apart : apart;
}

static void rows_make(const struct replay_watch *w, const struct fidelity *f,
                      struct fidelity_rows *t) {
    const struct replay_result *x = w->result;
    *t = (struct fidelity_rows){.named_percent = x->most_threads > 1
                                                     ? NAMED_PERCENT_THREADS
                                                     : NAMED_PERCENT};
    if (f->counters.known == 0)
        return;
    /* Counters of the whole run do not fit a part of it. */
    if (x->recorded_known != 0)
        add_recorded(w, f, t);
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        if (mtf_account_name(i) != NULL && (f->counters.known >> i & 1))
            row_add(t, mtf_account_name(i), f->counters.value[i],
                    x->recorded[i], x->recorded_known >> i & 1,
                    i == MTF_ACCOUNT_SYSTEM_BYTES_TAKEN ||
                        i == MTF_ACCOUNT_SYSTEM_BYTES_RETURNED);
}

static bool is_large(const struct fidelity_rows *t,
                     const struct fidelity_row *row) {
    uint64_t apart = row->here > row->recorded ? row->here - row->recorded
                                               : row->recorded - row->here;
    double percent = row->percent < 0 ? -row->percent : row->percent;
    return row->is_recorded && percent > t->named_percent &&
           apart >= (row->is_bytes ? NAMED_BYTES : NAMED_EVENTS);
}

/* --- Telling -------------------------------------------------------------- */

static void print_row(const struct fidelity_row *row, bool beside, FILE *out) {
    struct tool_text a, b;
    fprintf(out, "%-32s %15s", row->name, tool_text_count(&a, row->here));
    if (beside && row->is_recorded)
        fprintf(out, " %15s %+9.2f %%", tool_text_count(&b, row->recorded),
                row->percent);
    else if (beside)
        fprintf(out, " %15s", "-");
    fputc('\n', out);
}

static void print_large(const struct fidelity_rows *t, FILE *out) {
    const char *before = ": ";
    fprintf(out, "deviations above %.0f %%", t->named_percent);
    for (unsigned i = 0; i < t->count; i++)
        if (is_large(t, &t->row[i])) {
            fprintf(out, "%s%s", before, t->row[i].name);
            before = ", ";
        }
    fputs(before[0] == ':' ? ": none\n" : "\n", out);
}

static void fidelity_print(const struct replay_watch *w, const void *state,
                           FILE *out) {
    static struct fidelity_rows t;
    rows_make(w, state, &t);
    bool beside = w->result->recorded_known != 0;
    if (t.count == 0)
        return;
    fprintf(out, "\n%-32s %15s%s\n", "the allocator's counters", "here",
            beside ? "        recorded   deviation" : "");
    for (unsigned i = 0; i < t.count; i++)
        print_row(&t.row[i], beside, out);
    if (beside)
        print_large(&t, out);
}

static void json_counters(const char *key, const uint64_t *value,
                          uint32_t known, struct tool_json *j) {
    tool_json_begin_object(j, key);
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        if (mtf_account_name(i) != NULL && (known >> i & 1))
            tool_json_u64(j, mtf_account_name(i), value[i]);
    tool_json_end_object(j);
}

static void fidelity_json(const struct replay_watch *w, const void *state,
                          struct tool_json *j) {
    static struct fidelity_rows t;
    const struct fidelity *f = state;
    const struct replay_result *x = w->result;
    json_counters("allocator_counters", f->counters.value, f->counters.known,
                  j);
    json_counters("recorded_counters", x->recorded, x->recorded_known, j);
    rows_make(w, f, &t);
    if (t.count == 0 || x->recorded_known == 0)
        return;
    tool_json_begin_object(j, "fidelity");
    for (unsigned i = 0; i < t.count; i++) {
        const struct fidelity_row *row = &t.row[i];
        if (!row->is_recorded)
            continue;
        tool_json_begin_object(j, row->name);
        tool_json_u64(j, "here", row->here);
        tool_json_u64(j, "recorded", row->recorded);
        tool_json_double(j, "deviation_percent", row->percent);
        tool_json_bool(j, "is_large", is_large(&t, row));
        tool_json_end_object(j);
    }
    tool_json_end_object(j);
}

const struct replay_observer replay_fidelity_observer = {
    .begin = fidelity_begin,
    .start = fidelity_start,
    .moment = fidelity_moment,
    .end = fidelity_end,
    .print = fidelity_print,
    .json = fidelity_json,
};
