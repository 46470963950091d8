/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Independence of a trace's order, on simulated histories: it does not depend
 * on how the saver cut the streams and put its barriers, on what follows behind
 * a barrier, or on anything but the bytes of the trace.
 */
#include "order_check.h"

#include "prng.h"
#include "rounds.h"
#include "tap.h"

static unsigned histories;

static struct history_options make_options(struct prng *p, unsigned round) {
    return (struct history_options){
        .seed = 500000 + round,
        .threads = 2 + (unsigned)prng_below(p, 5),
        .events = 50 + (unsigned)prng_below(p, 600),
        .buffer_bytes = 160u << prng_below(p, 4),
        .end_permille = (unsigned)(prng_below(p, 2) * prng_below(p, 60)),
        .saver_seed = prng_next(p),
        .round_ns = 2000u << prng_below(p, 7),
        .jitter_ns = 1u << prng_below(p, 12),
        .double_percent = (unsigned)(prng_below(p, 2) * prng_below(p, 30)),
        .spool_percent = 30,
    };
}

/* Lists the events of M by their index in the history. */
static const struct order_model_event **by_truth(const struct history *h,
                                                 const struct order_model *m) {
    const struct order_model_event **e = calloc(h->event_count, sizeof(*e));
    for (size_t i = 0; i < m->count; i++)
        e[m->output[i]->truth] = m->output[i];
    return e;
}

/* Counts where the order of A contradicts intervals of both A and B. */
static uint64_t breaks_common(const struct history *h,
                              const struct order_model *a,
                              const struct order_model *b) {
    const struct order_model_event **other = by_truth(h, b);
    uint64_t greatest_lo = 0, n = 0;
    for (size_t i = 0; i < a->count; i++) {
        const struct order_model_event *x = a->output[i], *y = other[x->truth];
        n += (x->hi > y->hi ? x->hi : y->hi) < greatest_lo;
        uint64_t lo = x->lo < y->lo ? x->lo : y->lo;
        greatest_lo = lo > greatest_lo ? lo : greatest_lo;
    }
    free(other);
    return n;
}

/* Counts events at one address that are not in the order of the run. */
static uint64_t breaks_addresses(const struct history *h,
                                 const struct order_model *m) {
    size_t *last = calloc(h->greatest_address + 1, sizeof(*last));
    uint64_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        size_t index = m->output[i]->truth;
        const struct history_event *e = &h->events[index];
        n += last[e->address] > index && e->address != 0;
        n += last[e->old_address] > index && e->old_address != 0;
        last[e->address] = last[e->old_address] = index;
    }
    free(last);
    return n;
}

/* Sorts the trace of H; the model, which must do the same, goes to M. */
static bool sorts(const struct history *h, const struct history_options *o,
                  struct order_model *m, const char *what) {
    struct sorted out;
    sort_trace(&out, h->trace.data, h->trace.length);
    order_model_run(m, h, h->trace.data, h->trace.length);
    bool good = check_same(&out, h, m) == 0 && out.conflicts == 0;
    if (!good)
        check_tell(what, h, o, &out, m);
    sorted_free(&out);
    return good;
}

static bool same_program(const struct history *a, const struct history *b) {
    if (a->event_count != b->event_count)
        return false;
    for (size_t i = 0; i < a->event_count; i++)
        if (a->events[i].thread != b->events[i].thread ||
            a->events[i].born != b->events[i].born ||
            a->events[i].time != b->events[i].time)
            return false;
    return true;
}

static void test_cuts(void) {
    struct prng p;
    uint64_t bad = 0, differ = 0;
    prng_seed(&p, 11);
    for (unsigned round = 0; round < histories; round++) {
        struct history_options one = make_options(&p, round), two = one;
        struct history a, b;
        struct order_model m, n;
        two.saver_seed = prng_next(&p);
        two.round_ns = 2000u << prng_below(&p, 7);
        two.jitter_ns = 1u << prng_below(&p, 12);
        history_make(&a, &one);
        history_make(&b, &two);
        bool good = sorts(&a, &one, &m, "saved one way");
        good = sorts(&b, &two, &n, "saved another") && good;
        good = good && same_program(&a, &b) && m.count == n.count &&
               breaks_common(&a, &m, &n) + breaks_common(&a, &n, &m) == 0 &&
               breaks_addresses(&a, &m) + breaks_addresses(&a, &n) == 0;
        if (!good)
            tap_diag("seed %llu, savers %llu and %llu",
                     (unsigned long long)one.seed,
                     (unsigned long long)one.saver_seed,
                     (unsigned long long)two.saver_seed);
        bad += !good;
        for (size_t i = 0; i < m.count && i < n.count; i++)
            if (m.output[i]->truth != n.output[i]->truth) {
                differ++;
                break;
            }
        order_model_free(&m);
        order_model_free(&n);
        history_free(&a);
        history_free(&b);
    }
    tap_is_u64(bad, 0, "%u programs saved in two ways", histories);
    tap_ok(differ > histories / 4, "what is free may differ (%llu)",
           (unsigned long long)differ);
}

/* Tells whether M's output up to barrier K is a beginning of FULL's output, and
   has all events that were published before the barrier's time. */
static bool is_beginning(const struct history *h, const struct order_model *m,
                         const struct order_model *full, size_t k) {
    size_t count = full->at_barrier[k], before = 0, have = 0;
    if (m->at_barrier[k] != count || m->count < count)
        return false;
    for (size_t i = 0; i < h->event_count; i++)
        before += h->events[i].time < h->barrier_times[k];
    for (size_t i = 0; i < count; i++) {
        size_t truth = full->output[i]->truth;
        if (m->output[i]->truth != truth)
            return false;
        have += h->events[truth].time < h->barrier_times[k];
    }
    return have == before;
}

static void test_growing(void) {
    struct prng p;
    uint64_t bad = 0, partial = 0;
    prng_seed(&p, 12);
    for (unsigned round = 0; round < histories; round++) {
        struct history_options o = make_options(&p, round);
        struct history h;
        struct order_model full, m;
        history_make(&h, &o);
        bool good = sorts(&h, &o, &full, "whole");
        if (h.barrier_count != 0) {
            size_t k = prng_below(&p, h.barrier_count);
            struct history cut = h;
            cut.trace.length = h.barrier_ends[k];
            good = sorts(&cut, &o, &m, "up to a barrier") && good &&
                   is_beginning(&h, &m, &full, k);
            partial += m.count < full.count && full.at_barrier[k] > 10;
            order_model_free(&m);
        }
        if (!good)
            tap_diag("seed %llu, saver's %llu", (unsigned long long)o.seed,
                     (unsigned long long)o.saver_seed);
        bad += !good;
        order_model_free(&full);
        history_free(&h);
    }
    tap_is_u64(bad, 0, "%u traces read up to a barrier", histories);
    tap_ok(partial > histories / 8, "that are beginnings (%llu)",
           (unsigned long long)partial);
}

static void test_same_bytes(void) {
    struct prng p;
    uint64_t bad = 0;
    prng_seed(&p, 13);
    for (unsigned round = 0; round < histories / 2; round++) {
        struct history_options o = make_options(&p, round);
        struct history h;
        struct sorted a, b;
        history_make(&h, &o);
        sort_trace(&a, h.trace.data, h.trace.length);
        /* The memory that the sorter gets has other contents now. */
        void *stir = malloc(10000 + prng_below(&p, 100000));
        memset(stir, 0xA5, 10000);
        sort_trace(&b, h.trace.data, h.trace.length);
        free(stir);
        bad += a.length != b.length || memcmp(a.bytes, b.bytes, a.length) != 0;
        sorted_free(&a);
        sorted_free(&b);
        history_free(&h);
    }
    tap_is_u64(bad, 0, "the same input gives the same bytes");
}

int main(void) {
    histories = rounds_of(2000, 20000);
    test_cuts();
    test_growing();
    test_same_bytes();
    return tap_done();
}
