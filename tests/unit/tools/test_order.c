/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sorter on simulated histories: it writes what the plain model of the rule
 * writes, and that is true to what happened.
 */
#include "order_history.h"
#include "order_model.h"
#include "order_sort.h"

#include "prng.h"
#include "tap.h"

static void sort_history(struct sorted *out, const struct history *h) {
    struct sorter *s = sorter_begin(out);
    for (size_t i = 0; i < h->item_count; i++) {
        struct mtf_item item;
        history_item(h, i, &item);
        sorter_add(s, &item);
    }
    sorter_end(s);
}

static bool is_call(const struct mtf_op *op) {
    return op->kind <= MTF_OP_LAST_OPERATION;
}

static bool leaves_nothing(const struct history *h, const struct order_model *m,
                           size_t event) {
    return m->missing[event] && h->events[event].kind == MTF_EVENT_FREE;
}

/*
 * Walks output and model side by side. Returns how many differ: another thread,
 * kind or size, or a slot that does not hold the block the event names.
 */
static uint64_t compare(const struct sorted *out, const struct history *h,
                        const struct order_model *m) {
    uint64_t wrong = 0, slots = 0;
    uint64_t *holds = NULL; /* by slot: token, 0 empty */
    uint32_t thread = 0;
    size_t at = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct mtf_op *op = &out->ops[i];
        if (op->kind == MTF_OP_SWITCH)
            thread = op->slot;
        if (!is_call(op))
            continue;
        /* a free without its allocation leaves nothing in the output */
        while (at < m->count && leaves_nothing(h, m, m->output[at]))
            at++;
        if (at == m->count) {
            wrong++;
            break;
        }
        bool missing = m->missing[m->output[at]];
        const struct history_event *e = &h->events[m->output[at++]];
        while (op->slot >= slots) {
            holds = realloc(holds, (slots * 2 + 64) * sizeof(*holds));
            memset(holds + slots, 0, (slots + 64) * sizeof(*holds));
            slots = slots * 2 + 64;
        }
        wrong += e->thread != thread;
        switch (op->kind) {
        case MTF_OP_ALLOC:
            wrong += e->kind != MTF_EVENT_ALLOC || e->size != op->size ||
                     holds[op->slot] != 0;
            holds[op->slot] = e->born;
            break;
        case MTF_OP_FREE:
            wrong += e->kind != MTF_EVENT_FREE || holds[op->slot] != e->needs;
            holds[op->slot] = 0;
            break;
        case MTF_OP_REALLOC:
            wrong += e->kind != MTF_EVENT_REALLOC || e->size != op->size ||
                     holds[op->slot] != e->needs ||
                     ((op->flags & MTF_PROC_FLAG_MOVED) != 0) !=
                         (e->address != e->old_address);
            holds[op->slot] = e->born;
            break;
        case MTF_OP_REALLOC_NEW:
            wrong += e->kind != MTF_EVENT_REALLOC || e->size != op->size ||
                     !missing || holds[op->slot] != 0;
            holds[op->slot] = e->born;
            break;
        default:
            wrong++;
        }
    }
    for (; at < m->count; at++)
        wrong += !leaves_nothing(h, m, m->output[at]);
    free(holds);
    return wrong;
}

/* What the guarantee says, of the order in M. */
struct truth {
    uint64_t thread_order, birth, interval, address;
};

static void check_truth(struct truth *r, const struct history *h,
                        const struct order_model *m) {
    size_t last[17] = {0};
    uint64_t greatest_lo = 0, tokens = 0, addresses = 0;
    memset(r, 0, sizeof(*r));
    for (size_t i = 0; i < h->event_count; i++) {
        const struct history_event *e = &h->events[i];
        tokens = e->born > tokens ? e->born : tokens;
        addresses = e->address > addresses ? e->address : addresses;
    }
    uint8_t *alive = calloc(1, tokens + 1);
    uint8_t *used = calloc(1, addresses + 1);
    for (size_t i = 0; i < m->count; i++) {
        size_t index = m->output[i];
        const struct history_event *e = &h->events[index];
        r->thread_order += last[e->thread] > index;
        last[e->thread] = index;
        r->interval += e->hi < greatest_lo;
        if (e->lo > greatest_lo)
            greatest_lo = e->lo;
        if (e->needs != 0) {
            r->birth += !alive[e->needs];
            alive[e->needs] = 0;
        }
        if (e->born != 0)
            alive[e->born] = 1;
        /* a realloc that moves has both blocks for a moment */
        if (e->address != 0 && e->address != e->old_address) {
            r->address += used[e->address];
            used[e->address] = 1;
        }
        if (e->old_address != 0 && e->address != e->old_address) {
            r->address += !used[e->old_address];
            used[e->old_address] = 0;
        }
    }
    free(alive);
    free(used);
}

static uint64_t kept(const struct history *h) {
    uint64_t n = 0;
    for (size_t i = 0; i < h->event_count; i++)
        n += !h->events[i].lost;
    return n;
}

static void test_consistent(void) {
    struct prng p;
    prng_seed(&p, 1);
    for (unsigned round = 0; round < 60; round++) {
        struct history_options o = {
            .seed = round,
            .threads = 1 + (unsigned)prng_below(&p, 8),
            .events = 200 + (unsigned)prng_below(&p, 12000),
            .buffer_bytes = 128u << prng_below(&p, 8),
            .round_ns = 5000u << prng_below(&p, 7),
            .spool_percent = 30,
        };
        struct history h;
        struct sorted out;
        struct order_model m;
        struct truth truth;
        history_make(&h, &o);
        sort_history(&out, &h);
        order_model_run(&m, &h);
        check_truth(&truth, &h, &m);
        bool good = compare(&out, &h, &m) == 0 && m.count == h.event_count &&
                    out.conflicts == 0 && m.conflicts == 0 &&
                    out.counts.unmatched_frees == 0 &&
                    truth.thread_order == 0 && truth.birth == 0 &&
                    truth.interval == 0 && truth.address == 0;
        if (!good)
            tap_diag("model: %zu of %zu events, %llu conflicts; sorter: %llu "
                     "differ, %llu conflicts, %llu unmatched; thread order "
                     "%llu, birth %llu, interval %llu, address %llu",
                     m.count, h.event_count, (unsigned long long)m.conflicts,
                     (unsigned long long)compare(&out, &h, &m),
                     (unsigned long long)out.conflicts,
                     (unsigned long long)out.counts.unmatched_frees,
                     (unsigned long long)truth.thread_order,
                     (unsigned long long)truth.birth,
                     (unsigned long long)truth.interval,
                     (unsigned long long)truth.address);
        tap_ok(good, "history %u: %u threads, %u events", round, o.threads,
               o.events);
        sorted_free(&out);
        order_model_free(&m);
        history_free(&h);
    }
}

/* Clocks that are wrong, and buffers that are lost: it ends, keeps each
   thread's order and births before deaths, and counts as the model does. */
static void test_inconsistent(void) {
    struct prng p;
    prng_seed(&p, 2);
    uint64_t conflicts = 0, unmatched = 0, reallocs = 0;
    for (unsigned round = 0; round < 60; round++) {
        struct history_options o = {
            .seed = 1000 + round,
            .threads = 2 + (unsigned)prng_below(&p, 7),
            .events = 200 + (unsigned)prng_below(&p, 8000),
            .buffer_bytes = 128u << prng_below(&p, 6),
            .round_ns = 5000u << prng_below(&p, 7),
            .skew_ns = round % 3 == 0 ? 0 : 100u << prng_below(&p, 14),
            .lose_percent =
                round % 3 == 1 ? 0 : 1 + (unsigned)prng_below(&p, 20),
            .spool_percent = 30,
        };
        struct history h;
        struct sorted out;
        struct order_model m;
        struct truth truth;
        history_make(&h, &o);
        sort_history(&out, &h);
        order_model_run(&m, &h);
        check_truth(&truth, &h, &m);
        bool good = compare(&out, &h, &m) == 0 && m.count == kept(&h) &&
                    out.conflicts == m.conflicts &&
                    out.counts.unmatched_frees == m.unmatched &&
                    out.counts.unmatched_reallocs == m.unmatched_reallocs &&
                    truth.thread_order == 0 &&
                    truth.birth == m.unmatched + m.unmatched_reallocs &&
                    (truth.interval != 0) <= (m.conflicts != 0);
        if (!good)
            tap_diag("model: %zu of %llu events, %llu conflicts, %llu + %llu "
                     "unmatched; sorter: %llu differ, %llu conflicts, %llu + "
                     "%llu unmatched; birth %llu interval %llu",
                     m.count, (unsigned long long)kept(&h),
                     (unsigned long long)m.conflicts,
                     (unsigned long long)m.unmatched,
                     (unsigned long long)m.unmatched_reallocs,
                     (unsigned long long)compare(&out, &h, &m),
                     (unsigned long long)out.conflicts,
                     (unsigned long long)out.counts.unmatched_frees,
                     (unsigned long long)out.counts.unmatched_reallocs,
                     (unsigned long long)truth.birth,
                     (unsigned long long)truth.interval);
        tap_ok(good, "inconsistent %u: %u threads, %u events", round, o.threads,
               o.events);
        conflicts += m.conflicts;
        unmatched += m.unmatched;
        reallocs += m.unmatched_reallocs;
        sorted_free(&out);
        order_model_free(&m);
        history_free(&h);
    }
    tap_ok(conflicts != 0 && unmatched != 0 && reallocs != 0,
           "there were conflicts (%llu) and unmatched frees (%llu)",
           (unsigned long long)conflicts, (unsigned long long)unmatched);
}

/* What is held does not grow with the trace. */
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
        sort_history(&out, &h);
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
    history_make(&h, &o);
    struct sorter *s = sorter_begin(&out);
    s->order.held_max = 20000;
    for (size_t i = 0; i < h.item_count; i++) {
        struct mtf_item item;
        history_item(&h, i, &item);
        sorter_add(s, &item);
    }
    sorter_end(s);
    uint64_t ops = 0;
    for (size_t i = 0; i < out.count; i++)
        ops += is_call(&out.ops[i]);
    tap_ok(out.held_peak < 25000 && out.conflicts != 0 &&
               ops + out.counts.unmatched_frees == h.event_count,
           "without barriers: at most %llu bytes held, nothing lost",
           (unsigned long long)out.held_peak);
    sorted_free(&out);
    history_free(&h);
}

int main(void) {
    test_consistent();
    test_inconsistent();
    test_memory();
    test_no_barriers();
    return tap_done();
}
