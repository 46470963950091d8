/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heaps decide which thread is permitted; an interval's events go out in one
 * run, so that the cost of deciding is paid for each interval or switch and not
 * for each event.
 *
 * Invariants: a thread with an event in hand is in `hi` or `waiting`, or it is
 * `late`. Unless it is the current one or waits, it is in one of `later` and
 * `ready`; in `later` it is checked or in stall.unchecked.
 * Why: a consistent trace never stalls once an event's deciding barrier is
 * read (doc/ordering.md has the proof); all of stall.h is for others.
 */
#include "cmd/postprocess/sort/order.h"

#include "base/check.h"
#include "traceformat/proc_codec.h"

#include <stdlib.h>
#include <string.h>

/* --- Estimated times ------------------------------------------------------ */

static uint64_t estimate(const struct demux_thread *t) {
    unsigned __int128 x = (unsigned __int128)t->est_width * (t->i + 1);
    return t->lo + (uint64_t)(x / (t->n + 1));
}

/* How many of T's next events have an estimated time below LIMIT. */
static uint64_t events_below(const struct demux_thread *t, uint64_t limit) {
    TCM_ASSERT(t->i <= t->n);
    uint64_t left = t->n - t->i;
    if (limit > t->lo + t->est_width)
        return left;
    if (limit <= t->lo)
        return 0;
    /* width * (i + 1) / (n + 1) < limit - lo, for whole numbers */
    unsigned __int128 x = (unsigned __int128)(limit - t->lo) * (t->n + 1) - 1;
    uint64_t upto = (uint64_t)(x / t->est_width); /* the greatest i + 1 */
    return upto <= t->i ? 0 : tcm_min_u64(upto - t->i, left);
}

/* --- Widths --------------------------------------------------------------- */

static unsigned width_class(uint64_t width) {
    if (width < 16)
        return (unsigned)width;
    unsigned log2 = tcm_log2_floor(width);
    return (log2 - 3) * 16 + ((unsigned)(width >> (log2 - 4)) & 15);
}

static uint64_t width_of_class(unsigned c) {
    if (c < 16)
        return c;
    unsigned log2 = c / 16 + 3;
    return (16 + (uint64_t)(c % 16)) << (log2 - 4);
}

static void count_width(struct order *o, const struct demux_thread *t) {
    if (t->hi == UINT64_MAX)
        return;
    uint64_t width = t->hi - t->lo;
    if (width > o->widest_ns)
        o->widest_ns = width;
    o->widths[width_class(width)] += t->n;
    TCM_ASSERT(width_class(width) < ORDER_WIDTHS);
    o->width_events += t->n;
}

uint64_t order_median_ns(const struct order *o) {
    uint64_t seen = 0;
    for (unsigned c = 0; c < ORDER_WIDTHS; c++) {
        seen += o->widths[c];
        if (seen * 2 >= o->width_events && seen != 0)
            return tcm_min_u64(width_of_class(c), o->widest_ns);
    }
    return 0;
}

/* --- Setting up ----------------------------------------------------------- */

void order_init(struct order *o, struct demux *d, struct emit *e) {
    memset(o, 0, sizeof(*o));
    o->demux = d;
    o->emit = e;
    o->later.which = 0;
    o->ready.which = 0; /* never in both */
    o->hi.which = 1;
    o->waiting.which = 1;
    stall_init(&o->stall);
    o->samples_end = &o->samples;
    o->first_ns = UINT64_MAX;
    o->time_step = ORDER_TIME_NS;
    o->held_max = ORDER_HELD_MAX;
}

void order_fini(struct order *o) {
    free(o->hi.a);
    free(o->waiting.a);
    free(o->later.a);
    free(o->ready.a);
    stall_fini(&o->stall);
    peak_bound_fini(&o->peak);
    while (o->samples != NULL) {
        struct order_sample *next = o->samples->next;
        free(o->samples);
        o->samples = next;
    }
}

static bool stopped(const struct order *o) {
    return o->failed || o->peak.failed || o->demux->failed ||
           o->emit->slots.failed || o->emit->writer->failed;
}

/* The next interval of T, if any. */
static void advance(struct order *o, struct demux_thread *t) {
    t->checked = false;
    t->none = false;
    if (!demux_next_interval(o->demux, t)) {
        heap_remove(&o->hi, t);
        return;
    }
    heap_put(&o->hi, t, t->hi);
    count_width(o, t);
    o->first_ns = tcm_min_u64(o->first_ns, t->lo);
    o->last_ns = tcm_max_u64(o->last_ns, t->lo + t->est_width);
}

/* --- Samples and times ---------------------------------------------------- */

void order_sample(struct order *o, uint64_t time_ns, const void *data,
                  size_t length) {
    struct order_sample *s = malloc(sizeof(*s) + length);
    if (s == NULL) {
        o->failed = true;
        return;
    }
    s->next = NULL;
    s->time_ns = time_ns;
    s->length = length;
    memcpy(s->data, data, length);
    *o->samples_end = s;
    o->samples_end = &s->next;
}

static void put_time(struct order *o, uint64_t now) {
    struct mtf_proc_writer *w = o->emit->writer;
    if (now > w->time_ns && now - w->time_ns >= o->time_step)
        mtf_proc_put_time(w, now);
}

static void put_samples(struct order *o, uint64_t now) {
    while (o->samples != NULL && o->samples->time_ns <= now) {
        struct order_sample *s = o->samples;
        o->samples = s->next;
        if (o->samples == NULL)
            o->samples_end = &o->samples;
        put_time(o, s->time_ns);
        mtf_proc_put_sample(o->emit->writer, s->time_ns, s->data, s->length);
        free(s);
    }
}

/* --- Permission -------------------------------------------------------- */

/* The times fall when a damaged place comes again with those of before; a
   thread that was permitted stays so. */
uint64_t order_horizon(struct order *o) {
    uint64_t h = o->barrier_ns;
    if (o->hi.count != 0)
        h = tcm_min_u64(h, o->hi.a[0].key);
    if (o->waiting.count != 0)
        h = tcm_min_u64(h, o->waiting.a[0].key);
    if (o->late != NULL)
        h = tcm_min_u64(h, o->late->hi);
    o->horizon = tcm_max_u64(o->horizon, h);
    return o->horizon;
}

static bool waits(const struct demux_thread *t) {
    return t->waits || t->late_wait;
}

bool order_check(struct order *o, struct demux_thread *t) {
    TCM_ASSERT(t->in_hand && !waits(t));
    if (t->checked)
        return true;
    stall_checked(t);
    switch (emit_check(o->emit, t)) {
    case EMIT_WAITS:
        emit_wait(o->emit, t);
        heap_remove(&o->later, t);
        heap_remove(&o->hi, t);
        heap_put(&o->waiting, t, t->hi);
        stall_waits(&o->stall, t);
        return false;
    case EMIT_LATE:
        t->late_wait = true;
        heap_remove(&o->later, t);
        heap_remove(&o->hi, t);
        o->late = t;
        return false;
    default:
        t->checked = true;
        return true;
    }
}

/* Puts T where it belongs, unless it is the current thread. */
static void park(struct order *o, struct demux_thread *t, uint64_t h) {
    if (t == o->current || !t->in_hand || waits(t))
        return;
    if (t->lo <= h) {
        heap_put(&o->ready, t, estimate(t));
        return;
    }
    heap_put(&o->later, t, t->lo);
    if (!t->checked)
        stall_unchecked(&o->stall, t);
}

/* T does not wait for an allocation any more. */
static void end_wait(struct order *o, struct demux_thread *t) {
    TCM_ASSERT(heap_has(&o->waiting, t) && !t->waits);
    stall_goes_on(&o->stall, t);
    heap_remove(&o->waiting, t);
    heap_put(&o->hi, t, t->hi);
}

void order_give_up(struct order *o, struct demux_thread *t) {
    emit_forget(o->emit, t);
    end_wait(o, t);
    t->none = true;
    t->checked = true;
    park(o, t, 0);
}

/* Those whose token was born are candidates again. */
static void take_woken(struct order *o, uint64_t h) {
    while (o->emit->woken != NULL) {
        struct demux_thread *t = o->emit->woken;
        o->emit->woken = t->next_waiter;
        o->waited++;
        end_wait(o, t);
        t->checked = false;
        park(o, t, h);
    }
}

/* The permitted thread with the least estimated time, or NULL. */
static struct demux_thread *best(struct order *o, uint64_t h) {
    while (o->later.count != 0 && o->later.a[0].key <= h) {
        struct demux_thread *t = o->later.a[0].thread;
        heap_remove(&o->later, t);
        heap_put(&o->ready, t, estimate(t));
    }
    while (o->ready.count != 0) {
        struct demux_thread *t = o->ready.a[0].thread;
        if (t->lo <= h && order_check(o, t))
            return t;
        heap_remove(&o->ready, t);
        park(o, t, h);
    }
    return NULL;
}

static void make_current(struct order *o, struct demux_thread *t, uint64_t h) {
    struct demux_thread *before = o->current;
    TCM_ASSERT(t->in_hand && !waits(t));
    heap_remove(&o->ready, t);
    heap_remove(&o->later, t);
    o->current = t;
    if (before != NULL)
        park(o, before, h);
}

/* Makes the right thread current; *LIMIT is the estimated time at which it has
   to be looked at again. False: none is permitted. */
static bool choose(struct order *o, uint64_t *limit) {
    uint64_t h = order_horizon(o);
    take_woken(o, h);
    struct demux_thread *other = best(o, h), *c = o->current;
    bool stay =
        c != NULL && c->in_hand && c->lo <= h && !waits(c) && order_check(o, c);
    if (stay && other != NULL) {
        uint64_t mine = estimate(c), least = o->ready.a[0].key;
        stay = mine < least || mine - least < ORDER_SLACK_NS;
    }
    if (!stay) {
        if (other == NULL)
            return false;
        make_current(o, other, h);
        other = best(o, h);
    }
    *limit = UINT64_MAX;
    if (other != NULL && o->ready.a[0].key < UINT64_MAX - ORDER_SLACK_NS)
        *limit = o->ready.a[0].key + ORDER_SLACK_NS;
    return true;
}

/* The late stream's next event may have waited for a thread's own events, which
   are done now or decided. */
static void retry_late(struct order *o) {
    struct demux_thread *late = o->late;
    if (late == NULL || emit_check(o->emit, late) == EMIT_LATE)
        return;
    late->late_wait = false;
    o->late = NULL;
    heap_put(&o->hi, late, late->hi);
    park(o, late, 0);
}

/* Writes COUNT events of the current thread. */
static void run(struct order *o, uint64_t count) {
    struct demux_thread *t = o->current;
    TCM_ASSERT(t->in_hand && t->i < t->n);
    uint64_t now = estimate(t);
    put_time(o, now);
    put_samples(o, now);
    /* a time or sample that is due within the run splits it */
    uint64_t until = o->emit->writer->time_ns + o->time_step;
    if (o->samples != NULL && o->samples->time_ns < until)
        until = o->samples->time_ns;
    uint64_t upto = events_below(t, until);
    count = upto == 0 ? 1 : tcm_min_u64(count, upto);
    t->checked = false;
    struct emit *e = o->emit;
    peak_bound_level(&o->peak, e->live_bytes);
    e->run_high = e->run_low = e->live_bytes;
    emit_run(e, t, count);
    e->peak_live_bytes = tcm_max_u64(e->peak_live_bytes, e->run_high);
    peak_bound_add(&o->peak, t->id, t->lo, t->hi, e->run_high - e->run_low);
    if (t->i < t->n)
        return;
    if (t->at < t->count && !stopped(o)) { /* more than were foreseen */
        t->n = t->i + (t->count - t->at);
        return;
    }
    advance(o, t);
    if (!t->in_hand)
        retry_late(o);
}

/* Writes until nothing is permitted. */
static void drain(struct order *o) {
    uint64_t limit;
    while (!stopped(o) && choose(o, &limit)) {
        uint64_t count = events_below(o->current, limit);
        run(o, count == 0 ? 1 : count);
    }
}

/* --- Reading -------------------------------------------------------------- */

/* TIME: of the barrier that was read, or the last known at the end. */
static void write_all(struct order *o, uint64_t time) {
    peak_bound_begin(&o->peak, time);
    stall_barrier(&o->stall);
    retry_late(o);
    for (;;) {
        drain(o);
        enum stall_end end = stopped(o) ? STALL_STAYS : stall_resolve(o);
        if (end == STALL_STAYS)
            break;
        if (end == STALL_OVER)
            continue;
        o->conflicts++;
        make_current(o, o->hi.a[0].thread, 0);
        run(o, 1);
    }
    /* what waits for a thread's own events may hold up others */
    o->peak.held = o->late != NULL;
    if (!o->peak.held)
        peak_bound_end(&o->peak, o->emit->live_bytes, o->emit->peak_live_bytes);
}

static void write_without_barrier(struct order *o) {
    uint64_t barrier_ns = o->barrier_ns, horizon = order_horizon(o);
    o->conflicts++;
    o->barrier_ns = UINT64_MAX;
    o->demux->barriers++;
    write_all(o, o->demux->last_time);
    o->barrier_ns = barrier_ns;
    o->horizon = horizon;
}

void order_add(struct order *o, struct demux_thread *t) {
    size_t threads = o->demux->ids.count;
    if (!heap_reserve(&o->hi, threads) || !heap_reserve(&o->later, threads) ||
        !heap_reserve(&o->ready, threads) ||
        !heap_reserve(&o->waiting, threads)) {
        o->failed = true;
        return;
    }
    if (!t->in_hand) {
        advance(o, t);
        park(o, t, 0);
    } else if (demux_tighten(o->demux, t)) {
        if (!t->late_wait)
            heap_put(t->waits ? &o->waiting : &o->hi, t, t->hi);
    }
    if (o->demux->held_bytes > o->held_max)
        write_without_barrier(o);
}

void order_barrier(struct order *o, uint64_t time_ns) {
    o->barrier_ns = tcm_max_u64(o->barrier_ns, time_ns);
    o->demux->barriers++;
    o->demux->last_time = tcm_max_u64(o->demux->last_time, time_ns);
    write_all(o, o->barrier_ns);
    put_samples(o, order_horizon(o));
}

void order_finish(struct order *o) {
    o->barrier_ns = UINT64_MAX;
    o->demux->barriers = UINT64_MAX;
    write_all(o, o->demux->last_time);
    put_samples(o, UINT64_MAX);
}
