/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sorter on simulated histories: it writes what the plain model of the rule
 * writes, and that is true to what happened (doc/ordering.md). With LONG set,
 * many more histories. A history that fails is named by its seeds and its raw
 * trace is kept.
 */
#include "order_check.h"

#include "prng.h"
#include "rounds.h"
#include "tap.h"

/* How many histories of each kind; the first FULL_SIZE of them are large. */
#define FULL_SIZE 12u
static unsigned histories;

static struct history_options make_options(struct prng *p, unsigned round) {
    bool large = round < FULL_SIZE;
    return (struct history_options){
        .seed = round,
        .threads = 1 + (unsigned)prng_below(p, large ? 8 : 5),
        .events = large ? 2000 + (unsigned)prng_below(p, 10000)
                        : 20 + (unsigned)prng_below(p, 500),
        .buffer_bytes = 160u << prng_below(p, large ? 8 : 4),
        .end_permille = (unsigned)(prng_below(p, 2) * prng_below(p, 100)),
        .saver_seed = round,
        .round_ns = 2000u << prng_below(p, 7),
        .jitter_ns = 1u << prng_below(p, 12),
        .double_percent = (unsigned)(prng_below(p, 2) * prng_below(p, 30)),
        .spool_percent = 30,
    };
}

/* Sorter and model agree in every event and count. */
static bool agree(const struct sorted *out, const struct history *h,
                  const struct order_model *m) {
    return check_same(out, h, m) == 0 && out->conflicts == m->conflicts &&
           out->counts.unmatched_frees == m->unmatched &&
           out->counts.unmatched_reallocs == m->unmatched_reallocs;
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* Tells whether the account of disorder is true of the history. The disorder of
   an event is the time by which an event of another stream that is written
   before it happened later; events whose hi is unknown do not count as such. */
static bool disorder_holds(const struct sorted *out, const struct history *h,
                           const struct order_model *m) {
    uint64_t most = 0, of_others = 0, *late = calloc(m->count + 1, 8);
    uint32_t stream = 0;
    bool good = true;
    for (size_t i = 0; i < m->count; i++) {
        const struct history_event *e = &h->events[m->output[i]->truth];
        uint64_t others = e->stream == stream ? of_others : most;
        late[i] = others > e->time ? others - e->time : 0;
        if (m->output[i]->hi == UINT64_MAX)
            continue;
        if (e->stream != stream && e->time > most) {
            of_others = most;
            stream = e->stream;
        }
        uint64_t *to = e->stream == stream ? &most : &of_others;
        *to = e->time > *to ? e->time : *to;
    }
    qsort(late, m->count, sizeof(*late), compare_u64);
    for (unsigned i = 0; i < 3 && m->count != 0; i++) {
        static const unsigned percent[3] = {50, 90, 100};
        uint64_t truth = late[(m->count * percent[i] + 99) / 100 - 1];
        good &= truth <= out->disorder[i] + out->disorder[i] / 16;
    }
    free(late);
    return good;
}

/* The live blocks and bytes of the account are those of the operations that
   were written. */
static bool account_holds(const struct sorted *out) {
    struct check_live live;
    check_live(&live, out);
    return live.peak_bytes == out->peak_live_bytes &&
           live.blocks == out->live_at_end;
}

static void test_consistent(void) {
    struct prng p;
    uint64_t bad = 0, late = 0, alone = 0, waited = 0, peaks = 0;
    prng_seed(&p, 1);
    for (unsigned round = 0; round < histories; round++) {
        struct history_options o = make_options(&p, round);
        struct history h;
        struct sorted out;
        struct order_model m;
        struct check_truth truth;
        history_make(&h, &o);
        sort_trace(&out, h.trace.data, h.trace.length);
        order_model_run(&m, &h, h.trace.data, h.trace.length);
        check_truth(&truth, &h, &m);
        if (!agree(&out, &h, &m) || m.count != h.event_count ||
            m.conflicts + m.unmatched + m.unmatched_reallocs != 0 ||
            !check_truth_holds(&truth) || !account_holds(&out) ||
            !disorder_holds(&out, &h, &m)) {
            check_tell("consistent", &h, &o, &out, &m);
            bad++;
        }
        for (size_t i = 0; i < h.event_count; i++)
            late += h.events[i].stream == MTF_THREAD_LATE;
        if (o.threads == 1 && o.end_permille == 0)
            alone += out.waited + out.disorder[2] +
                     (out.peak_live_bytes != h.peak_bytes);
        waited += out.waited;
        peaks += out.peak_live_bytes != h.peak_bytes;
        sorted_free(&out);
        order_model_free(&m);
        history_free(&h);
    }
    tap_is_u64(bad, 0, "%u consistent histories", histories);
    tap_ok(late > histories && waited > histories,
           "late events (%llu), and events that waited (%llu)",
           (unsigned long long)late, (unsigned long long)waited);
    tap_is_u64(alone, 0, "nothing is uncertain with one thread");
    tap_ok(peaks > histories / 20,
           "an estimate with several: %llu peaks differ",
           (unsigned long long)peaks);
}

/* Sorts a history whose clock ticks slowly. Adds to *CONFLICTS, and counts a
   fault of the order in *BAD. */
static void sort_coarse(const struct history_options *o, uint64_t *conflicts,
                        uint64_t *bad) {
    struct history h;
    struct sorted out;
    struct order_model m;
    struct check_truth truth;
    history_make(&h, o);
    sort_trace(&out, h.trace.data, h.trace.length);
    order_model_run(&m, &h, h.trace.data, h.trace.length);
    check_truth(&truth, &h, &m);
    /* its times are not those of the history, only their order is */
    truth.time = 0;
    *conflicts += out.conflicts;
    if (!o->same_times &&
        (!agree(&out, &h, &m) || m.count != h.event_count ||
         m.conflicts + m.unmatched + m.unmatched_reallocs != 0 ||
         !check_truth_holds(&truth) || !account_holds(&out))) {
        check_tell("coarse clock", &h, o, &out, &m);
        ++*bad;
    }
    sorted_free(&out);
    order_model_free(&m);
    history_free(&h);
}

/* A clock that ticks more slowly than memory goes from thread to thread, and
   than blocks are handed over: times that are each later than the one read
   before keep giver and taker apart and contradict nothing, times as the clock
   shows them do. */
static void test_coarse_clock(void) {
    struct prng p;
    uint64_t bad = 0, conflicts = 0, same = 0;
    prng_seed(&p, 3);
    for (unsigned round = 0; round < histories; round++) {
        struct history_options o = make_options(&p, round);
        o.tick_ns = 100u << prng_below(&p, 10);
        o.jitter_ns = 1;
        sort_coarse(&o, &conflicts, &bad);
        o.same_times = true;
        if (round % 8 == 0)
            sort_coarse(&o, &same, &bad);
    }
    tap_is_u64(bad, 0, "%u histories with a coarse clock", histories);
    tap_is_u64(conflicts, 0, "no conflicts");
    tap_ok(same > histories / 8, "with its times as they are: %llu",
           (unsigned long long)same);
}

/* Damage of a trace of LENGTH bytes: an end that is missing, bytes that are
   wrong. Returns the length left. */
static size_t damage(struct prng *p, uint8_t *bytes, size_t length) {
    if (prng_below(p, 3) == 0)
        length = prng_below(p, length);
    for (uint64_t n = prng_below(p, 3); n != 0 && length != 0; n--)
        bytes[prng_below(p, length)] ^= (uint8_t)(1 + prng_below(p, 255));
    return length;
}

/* Clocks that are wrong, buffers, segments and ends that are lost: it ends,
   keeps each thread's order and births before deaths, and counts as the model
   does. */
static void test_inconsistent(void) {
    struct prng p;
    uint64_t bad = 0, conflicts = 0, unmatched = 0, reallocs = 0;
    prng_seed(&p, 2);
    for (unsigned round = 0; round < histories; round++) {
        struct history_options o = make_options(&p, round);
        struct history h;
        struct sorted out;
        struct order_model m;
        struct check_truth truth;
        if (round % 3 != 0)
            o.skew_ns = 100u << prng_below(&p, 14);
        if (round % 3 != 1)
            o.lose_percent = (unsigned)prng_below(&p, 20);
        if (round % 3 != 1)
            o.drop_percent = (unsigned)prng_below(&p, 20);
        /* what comes again makes good what is lost, but behind its barrier;
           without that, and with good clocks, (c) holds still */
        bool intervals = round % 2 == 0 && o.skew_ns == 0;
        if (intervals)
            o.double_percent = o.spool_percent = 0;
        history_make(&h, &o);
        size_t length = round % 4 == 1
                            ? h.trace.length
                            : damage(&p, h.trace.data, h.trace.length);
        sort_trace(&out, h.trace.data, length);
        order_model_run(&m, &h, h.trace.data, length);
        check_truth(&truth, &h, &m);
        if (!agree(&out, &h, &m) || !account_holds(&out) ||
            truth.thread_order != 0 ||
            truth.birth != m.unmatched + m.unmatched_reallocs ||
            (intervals && truth.interval != 0 && m.conflicts == 0)) {
            check_tell("inconsistent", &h, &o, &out, &m);
            bad++;
        }
        conflicts += m.conflicts;
        unmatched += m.unmatched;
        reallocs += m.unmatched_reallocs;
        sorted_free(&out);
        order_model_free(&m);
        history_free(&h);
    }
    tap_is_u64(bad, 0, "%u inconsistent histories", histories);
    tap_ok(conflicts != 0 && unmatched != 0 && reallocs != 0,
           "there were conflicts (%llu) and unmatched frees (%llu)",
           (unsigned long long)conflicts, (unsigned long long)unmatched);
}

/* Memory of the sorter does not grow with the trace. */
static void test_memory(void) {
    uint64_t held[2];
    for (unsigned i = 0; i < 2; i++) {
        struct history_options o = {.seed = 77,
                                    .threads = 4,
                                    .events = i == 0 ? 20000 : 200000,
                                    .buffer_bytes = 1024,
                                    .round_ns = 20000};
        struct history h;
        struct sorted out;
        history_make(&h, &o);
        sort_trace(&out, h.trace.data, h.trace.length);
        held[i] = out.held_peak;
        sorted_free(&out);
        history_free(&h);
    }
    tap_ok(held[1] < 2 * held[0], "held bytes: %llu, of ten times as much %llu",
           (unsigned long long)held[0], (unsigned long long)held[1]);
}

/* Input without barriers is not held for ever. */
static void test_no_barriers(void) {
    struct history_options o = {.seed = 78,
                                .threads = 3,
                                .events = 50000,
                                .buffer_bytes = 1024,
                                .round_ns = 1000000000};
    struct history h;
    struct sorted out;
    struct history_reader r;
    struct mtf_item item;
    history_make(&h, &o);
    struct sorter *s = sorter_begin(&out);
    s->order.held_max = 20000;
    history_read_begin(&r, h.trace.data, h.trace.length);
    while (history_read_next(&r, &item))
        sorter_add(s, &item);
    history_read_end(&r);
    sorter_end(s);
    uint64_t ops = 0;
    for (size_t i = 0; i < out.count; i++)
        ops +=
            out.ops[i].kind != MTF_OP_SWITCH && out.ops[i].kind != MTF_OP_TIME;
    tap_ok(out.held_peak < 25000 && out.conflicts != 0 &&
               ops + out.counts.unmatched_frees == h.event_count,
           "without barriers: at most %llu bytes held, nothing lost",
           (unsigned long long)out.held_peak);
    sorted_free(&out);
    history_free(&h);
}

int main(void) {
    histories = rounds_of(4000, 60000);
    test_consistent();
    test_coarse_clock();
    test_inconsistent();
    test_memory();
    test_no_barriers();
    return tap_done();
}
