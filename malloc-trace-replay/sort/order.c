/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heaps decide which thread's event may be written. The events of an interval
 * are written in one run, so decisions are made for each interval or switch of
 * thread, not for each event.
 *
 * Invariants: a thread in hand is in `hi` or in `waiting`, or it is `late`.
 * Unless it is the current thread or waits, it is in `later` or in `ready`; in
 * `later` it is checked or in stall.unchecked.
 * Why: once the barrier that decides about an event is read, a consistent trace
 * never stalls (doc/ordering.md has the proof); stalls are for damaged traces.
 */
#include "sort/order.h"

#include "base/check.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

/* --- Heaps of threads ----------------------------------------------------- */

static inline bool heap_has(const struct order_heap *h,
                            const struct demux_thread *t) {
    size_t i = t->heap_at[h->which];
    return i < h->count && h->a[i].thread == t;
}

static bool heap_before(const struct order_heap_item *x,
                        const struct order_heap_item *y) {
    return x->key != y->key ? x->key < y->key : x->thread->id < y->thread->id;
}

static void heap_place(struct order_heap *h, size_t i,
                       struct order_heap_item item) {
    h->a[i] = item;
    item.thread->heap_at[h->which] = i;
}

static void heap_sift_up(struct order_heap *h, size_t i,
                         struct order_heap_item item) {
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!heap_before(&item, &h->a[parent]))
            break;
        heap_place(h, i, h->a[parent]);
        i = parent;
    }
    heap_place(h, i, item);
}

static void heap_sift_down(struct order_heap *h, size_t i,
                           struct order_heap_item item) {
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && heap_before(&h->a[child + 1], &h->a[child]))
            child++;
        if (!heap_before(&h->a[child], &item))
            break;
        heap_place(h, i, h->a[child]);
        i = child;
    }
    heap_place(h, i, item);
}

/* False: no memory. */
static bool heap_reserve(struct order_heap *h, size_t threads) {
    return tool_array_reserve(&h->a, &h->room, threads, sizeof(*h->a));
}

/* Tells whether item I is not before its parent, nor its children before it. */
static bool heap_is_in_order(const struct order_heap *h, size_t i) {
    const struct order_heap_item *a = h->a;
    return a[i].thread->heap_at[h->which] == i &&
           (i == 0 || !heap_before(&a[i], &a[(i - 1) / 2])) &&
           (2 * i + 1 >= h->count || !heap_before(&a[2 * i + 1], &a[i])) &&
           (2 * i + 2 >= h->count || !heap_before(&a[2 * i + 2], &a[i]));
}

/* Puts T in with KEY, or moves it if it is in. */
static void heap_put(struct order_heap *h, struct demux_thread *t,
                     uint64_t key) {
    struct order_heap_item item = {key, t};
    size_t i = t->heap_at[h->which];
    if (!heap_has(h, t))
        i = h->count++;
    else if (!heap_before(&item, &h->a[i])) {
        heap_sift_down(h, i, item);
        TCM_ASSERT(heap_is_in_order(h, t->heap_at[h->which]));
        return;
    }
    TCM_ASSERT(h->count <= h->room);
    heap_sift_up(h, i, item);
    TCM_ASSERT(heap_is_in_order(h, t->heap_at[h->which]));
}

/* Takes T out, if it is in. */
static void heap_remove(struct order_heap *h, struct demux_thread *t) {
    if (!heap_has(h, t))
        return;
    size_t i = t->heap_at[h->which];
    struct order_heap_item last = h->a[--h->count];
    t->heap_at[h->which] = SIZE_MAX;
    if (last.thread == t)
        return;
    if (i > 0 && heap_before(&last, &h->a[(i - 1) / 2]))
        heap_sift_up(h, i, last);
    else
        heap_sift_down(h, i, last);
    TCM_ASSERT(heap_is_in_order(h, last.thread->heap_at[h->which]));
    TCM_ASSERT(!heap_has(h, t));
}

/* --- Estimated times ------------------------------------------------------ */

static uint64_t estimate(const struct demux_thread *t) {
    unsigned __int128 x = (unsigned __int128)t->est_width * (t->i + 1);
    return t->lo + (uint64_t)(x / (t->n + 1));
}

/* Counts the next events of T's interval with an estimated time below LIMIT. */
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

static void width_add(struct order_widths *w, uint64_t width, uint64_t events) {
    TCM_ASSERT(width_class(width) < ORDER_WIDTHS);
    if (width > w->widest_ns)
        w->widest_ns = width;
    w->of[width_class(width)] += events;
    w->events += events;
}

static void count_width(struct order *o, const struct demux_thread *t) {
    if (t->hi != UINT64_MAX)
        width_add(&o->intervals, t->hi - t->lo, t->n);
}

/* Notes COUNT written events of thread ID, of the interval from LO to HI. */
static void count_late(struct order *o, uint64_t id, uint64_t lo, uint64_t hi,
                       uint64_t count) {
    uint64_t others = o->most_thread == id ? o->other_hi : o->most_hi;
    width_add(&o->disorder, others > lo ? others - lo : 0, count);
    if (hi == UINT64_MAX)
        return;
    if (o->most_thread != id && hi > o->most_hi) {
        o->other_hi = o->most_hi;
        o->most_thread = id;
    }
    if (o->most_thread == id)
        o->most_hi = tcm_max_u64(o->most_hi, hi);
    else
        o->other_hi = tcm_max_u64(o->other_hi, hi);
}

uint64_t order_quantile_ns(const struct order_widths *w, unsigned percent) {
    uint64_t seen = 0;
    for (unsigned c = 0; c < ORDER_WIDTHS; c++) {
        seen += w->of[c];
        if (seen != 0 && (double)seen * 100 >= (double)w->events * percent)
            return tcm_min_u64(width_of_class(c), w->widest_ns);
    }
    TCM_ASSERT(w->events == 0);
    return 0;
}

/* --- Threads that may not go on ------------------------------------------- */

static void stall_init(struct order_stall *s) {
    tcm_dlist_init(&s->unchecked);
    tcm_dlist_init(&s->waiting);
    s->pending = s->missing = (struct order_heap){.which = 0};
}

static void stall_fini(struct order_stall *s) {
    free(s->pending.a);
    free(s->missing.a);
}

/* Adds T, which is not permitted by its times and was not checked. */
static void stall_unchecked(struct order_stall *s, struct demux_thread *t) {
    TCM_ASSERT(!t->checked && !t->waits);
    tcm_dlist_remove(&t->stall_link);
    tcm_dlist_push_back(&s->unchecked, &t->stall_link);
}

/* Adds T, which begins to wait for an allocation. */
static void stall_waits(struct order_stall *s, struct demux_thread *t) {
    TCM_ASSERT(t->waits && t->in_hand);
    tcm_dlist_remove(&t->stall_link);
    tcm_dlist_push_back(&s->waiting, &t->stall_link);
}

/* Removes T, which waits no longer. */
static void stall_remove(struct order_stall *s, struct demux_thread *t) {
    tcm_dlist_remove(&t->stall_link);
    heap_remove(&s->pending, t);
    heap_remove(&s->missing, t);
}

/* Makes the waiting threads be examined again, because another barrier was
   read. The second barrier behind an event decides about its allocation, so a
   thread is examined three times at most for each event that waits. */
static void stall_barrier(struct order_stall *s) {
    while (s->pending.count != 0) {
        struct demux_thread *t = s->pending.a[s->pending.count - 1].thread;
        heap_remove(&s->pending, t);
        stall_waits(s, t);
    }
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
    o->time_step = TOOL_OPS_TIME_NS;
    o->held_max = ORDER_HELD_MAX;
}

void order_fini(struct order *o) {
    free(o->hi.a);
    free(o->waiting.a);
    free(o->later.a);
    free(o->ready.a);
    stall_fini(&o->stall);
    while (o->samples != NULL) {
        struct order_sample *next = o->samples->next;
        free(o->samples);
        o->samples = next;
    }
}

static bool stopped(const struct order *o) {
    return o->failed || o->demux->failed || o->emit->slots.failed ||
           o->emit->writer->failed;
}

/* Goes on to T's next interval, if there is one. */
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

/* Returns H, the horizon: an event whose lo is not above it is permitted by its
   times. The least hi may fall when a spool repeats, with their earlier times,
   events that a damaged place lacks; H does not, so a thread that was permitted
   stays permitted. */
static uint64_t raise_horizon(struct order *o) {
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

/* Tells whether T's next event waits for neither an allocation nor, in the late
   stream, for its thread. If it waits, T goes to the heap of those that do. */
static bool check(struct order *o, struct demux_thread *t) {
    TCM_ASSERT(t->in_hand && !waits(t));
    if (t->checked)
        return true;
    tcm_dlist_remove(&t->stall_link);
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

/* Puts T into `ready` or `later`, unless it is the current thread, waits, or is
   not in hand. */
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

/* Takes T out of the threads that wait for an allocation. */
static void end_wait(struct order *o, struct demux_thread *t) {
    TCM_ASSERT(heap_has(&o->waiting, t) && !t->waits);
    stall_remove(&o->stall, t);
    heap_remove(&o->waiting, t);
    heap_put(&o->hi, t, t->hi);
}

/* Lets T, which waits, go on without the allocation, which counts as
   missing. */
static void give_up(struct order *o, struct demux_thread *t) {
    emit_forget(o->emit, t);
    end_wait(o, t);
    t->none = true;
    t->checked = true;
    park(o, t, 0);
}

/* Makes the threads whose token was born candidates again. */
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

/* Returns the permitted thread with the least estimated time, or NULL. The
   current thread is none of them. */
static struct demux_thread *least_ready(struct order *o, uint64_t h) {
    while (o->later.count != 0 && o->later.a[0].key <= h) {
        struct demux_thread *t = o->later.a[0].thread;
        heap_remove(&o->later, t);
        heap_put(&o->ready, t, estimate(t));
    }
    while (o->ready.count != 0) {
        struct demux_thread *t = o->ready.a[0].thread;
        if (t->lo <= h && check(o, t))
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

/* Makes the thread current that the rule chooses. *LIMIT: the estimated time
   from which on the choice has to be made again. False: no thread is
   permitted. */
static bool choose(struct order *o, uint64_t *limit) {
    uint64_t h = raise_horizon(o);
    take_woken(o, h);
    struct demux_thread *other = least_ready(o, h), *c = o->current;
    bool stay =
        c != NULL && c->in_hand && c->lo <= h && !waits(c) && check(o, c);
    if (stay && other != NULL) {
        uint64_t own = estimate(c), least = o->ready.a[0].key;
        stay = own < least || own - least < ORDER_SLACK_NS;
    }
    if (!stay) {
        if (other == NULL)
            return false;
        make_current(o, other, h);
        other = least_ready(o, h);
    }
    *limit = UINT64_MAX;
    if (other != NULL && o->ready.a[0].key < UINT64_MAX - ORDER_SLACK_NS)
        *limit = o->ready.a[0].key + ORDER_SLACK_NS;
    return true;
}

/* Makes the late stream a candidate again, if its next event waited for the
   events of its thread and these are written now, or cannot come any more. */
static void retry_late(struct order *o) {
    struct demux_thread *late = o->late;
    if (late == NULL || emit_check(o->emit, late) == EMIT_LATE)
        return;
    late->late_wait = false;
    o->late = NULL;
    heap_put(&o->hi, late, late->hi);
    park(o, late, 0);
}

/* Writes up to COUNT events of the current thread. */
static void run(struct order *o, uint64_t count) {
    struct demux_thread *t = o->current;
    TCM_ASSERT(t->in_hand && t->i < t->n);
    uint64_t now = estimate(t);
    put_time(o, now);
    put_samples(o, now);
    /* A time or sample that is due within the run splits it. */
    uint64_t until = o->emit->writer->time_ns + o->time_step;
    if (o->samples != NULL && o->samples->time_ns < until)
        until = o->samples->time_ns;
    uint64_t upto = events_below(t, until);
    count = upto == 0 ? 1 : tcm_min_u64(count, upto);
    t->checked = false;
    uint64_t before = t->i, lo = t->lo, hi = t->hi;
    emit_run(o->emit, t, count);
    count_late(o, t->id, lo, hi, t->i - before);
    if (t->i < t->n)
        return;
    if (t->at < t->count && !stopped(o)) { /* more events than were counted */
        t->n = t->i + (t->count - t->at);
        return;
    }
    advance(o, t);
    if (!t->in_hand)
        retry_late(o);
}

/* Writes events until none is permitted. */
static void drain(struct order *o) {
    uint64_t limit;
    while (!stopped(o) && choose(o, &limit)) {
        TCM_ASSERT(o->current->lo <= o->horizon);
        uint64_t count = events_below(o->current, limit);
        run(o, count == 0 ? 1 : count);
    }
}

/* --- When no event may be written ----------------------------------------- */

/*
 * Stalls: an event whose allocation is missing for good is written without it;
 * if still no thread can go on, one event is written against the times.
 *
 * A blocked thread is examined when it begins to wait and at a barrier that
 * decides, not at each step. So a step costs a few heap moves, for any number
 * of threads.
 */

static struct demux_thread *first_of(const struct tcm_dlist *list) {
    return TCM_CONTAINER_OF(list->next, struct demux_thread, stall_link);
}

/* Tells whether the barrier that decides about an event is read: the second one
   behind it. WINDOW: barriers read before its segment. */
static bool is_decided(const struct order *o, uint64_t window) {
    return o->barrier_ns == UINT64_MAX || o->demux->barriers >= window + 2;
}

static bool is_in_hand(struct order *o, const struct demux_thread *t) {
    TCM_ASSERT(t->waits);
    return demux_makes(o->demux, t->waits_for);
}

/* Examines the threads that began to wait. */
static void examine_waiting(struct order *o) {
    struct order_stall *s = &o->stall;
    size_t threads = o->demux->ids.count;
    if (tcm_dlist_empty(&s->waiting))
        return;
    if (!heap_reserve(&s->pending, threads) ||
        !heap_reserve(&s->missing, threads)) {
        o->failed = true;
        return;
    }
    while (!tcm_dlist_empty(&s->waiting)) {
        struct demux_thread *t = first_of(&s->waiting);
        tcm_dlist_remove(&t->stall_link);
        if (!is_decided(o, t->window))
            heap_put(&s->pending, t, t->lo);
        else if (!is_in_hand(o, t))
            heap_put(&s->missing, t, t->lo);
    }
}

/* Checks the threads that are not permitted by their times and the current one:
   they may wait for an allocation, too. */
static void check_all(struct order *o) {
    struct tcm_dlist *list = &o->stall.unchecked;
    while (!tcm_dlist_empty(list) && !o->emit->slots.failed)
        check(o, first_of(list));
    struct demux_thread *c = o->current;
    if (c != NULL && c->in_hand && !c->waits && !c->late_wait)
        check(o, c);
}

/* Gives up the missing allocations of events whose lo is not above LIMIT.
   False: there are none. */
static bool give_up_missing(struct order *o, uint64_t limit) {
    struct order_heap *missing = &o->stall.missing;
    bool any = false;
    examine_waiting(o);
    while (missing->count != 0 && missing->a[0].key <= limit) {
        give_up(o, missing->a[0].thread);
        any = true;
    }
    return any;
}

/* Tells whether a thread that is permitted by its times waits for an allocation
   that may still be read: other threads may wait for later events of it. */
static bool may_go_on(struct order *o, uint64_t h) {
    struct order_heap *pending = &o->stall.pending;
    while (pending->count != 0 && pending->a[0].key <= h) {
        struct demux_thread *t = pending->a[0].thread;
        if (!is_in_hand(o, t))
            return true;
        heap_remove(pending, t);
    }
    return false;
}

enum stall_end {
    STALL_OVER,    /* some thread may go on */
    STALL_AGAINST, /* the first thread of `hi` has to go on against the times */
    STALL_STAYS    /* more input may help, or nothing is left */
};

/* Decides how to go on when no event is permitted. */
static enum stall_end stall_resolve(struct order *o) {
    if (give_up_missing(o, raise_horizon(o)))
        return STALL_OVER;
    check_all(o);
    if (give_up_missing(o, UINT64_MAX))
        return STALL_OVER;
    const struct demux_chunk *oldest = demux_oldest(o->demux);
    if (oldest == NULL || !is_decided(o, oldest->window) ||
        (o->late != NULL && !is_decided(o, o->late->window)) ||
        may_go_on(o, raise_horizon(o)))
        return STALL_STAYS;
    if (o->hi.count != 0)
        return STALL_AGAINST;
    if (o->waiting.count == 0)
        return STALL_STAYS;
    give_up(o, o->waiting.a[0].thread);
    return STALL_OVER;
}

/* --- Reading -------------------------------------------------------------- */

/* Writes all that the barriers read so far permit. */
static void write_all(struct order *o) {
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
}

/* Writes all events in hand, as if the input ended, and counts a conflict. */
static void write_without_barrier(struct order *o) {
    uint64_t barrier_ns = o->barrier_ns, horizon = raise_horizon(o);
    o->conflicts++;
    o->barrier_ns = UINT64_MAX;
    o->demux->barriers++;
    write_all(o);
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
    write_all(o);
    put_samples(o, raise_horizon(o));
}

void order_finish(struct order *o, uint64_t end_ns) {
    o->barrier_ns = UINT64_MAX;
    o->demux->barriers = UINT64_MAX;
    write_all(o);
    put_samples(o, UINT64_MAX);
    if (o->last_ns == 0)
        return;
    put_time(o, end_ns);
    o->last_ns = tcm_max_u64(o->last_ns, end_ns);
}
