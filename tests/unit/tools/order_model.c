/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_model.h"

#include <stdlib.h>
#include <string.h>

#define SLACK 20000u

/* A stream, and its events that were read so far. */
struct model_queue {
    struct model_queue *next;
    uint32_t stream;
    struct order_model_event **events;
    size_t count, room;
    size_t at;      /* index of the next event */
    bool none;      /* the next event's allocation is missing */
    bool ended;     /* the thread's end is written */
    bool open;      /* the last interval ends with its segment, not a time */
    uint64_t taken; /* number of the interval in hand */
    uint64_t end;   /* of that interval, for estimates */
    uint64_t lo, intervals;
    struct mtf_stream place;
    struct mtf_raw_state state;
    /* for finding events in the history */
    size_t *truth;
    size_t truth_count, truth_at;
};

struct model {
    const struct history *h;
    struct order_model *out;
    struct model_queue *current;
    uint64_t barrier, barriers, last_time;
    uint64_t horizon; /* the greatest so far */
    uint8_t *alive;   /* by token: its block is written and not ended */
    uint8_t *read;    /* by token: its birth is read and not written */
};

/* --- Reading -------------------------------------------------------------- */

static struct model_queue *find(const struct model *m, uint32_t stream) {
    struct model_queue *q = m->out->queues;
    while (q != NULL && q->stream != stream)
        q = q->next;
    return q;
}

/* Returns the event of the history at OFFSET of the stream of Q. Offsets grow
   from call to call. */
static size_t truth_at(const struct model *m, struct model_queue *q,
                       uint64_t offset) {
    while (q->truth_at < q->truth_count) {
        size_t i = q->truth[q->truth_at++];
        if (m->h->events[i].offset == offset)
            return i;
    }
    abort();
}

static void add_queue(struct model *m, uint32_t stream) {
    struct model_queue *q = calloc(1, sizeof(*q)), **end = &m->out->queues;
    q->stream = stream;
    mtf_stream_init(&q->place);
    q->truth = malloc(m->h->event_count * sizeof(*q->truth));
    for (size_t i = 0; i < m->h->event_count; i++)
        if (m->h->events[i].stream == stream)
            q->truth[q->truth_count++] = i;
    while (*end != NULL)
        end = &(*end)->next;
    *end = q;
}

static bool is_no_event(unsigned kind) {
    return kind == MTF_EVENT_STATE || kind == MTF_EVENT_TIME ||
           kind == MTF_EVENT_BUFFER || kind == MTF_EVENT_AS_THREAD ||
           kind == MTF_EVENT_UNTRACED || kind == MTF_EVENT_PRESENT ||
           kind == MTF_EVENT_UNKNOWN;
}

static const struct history_event *truth_of(const struct model *m,
                                            const struct order_model_event *e) {
    return &m->h->events[e->truth];
}

/* Makes the last N events of Q an interval that ends at TIME. */
static void end_interval(struct model_queue *q, size_t n, uint64_t time) {
    uint64_t hi = time < q->lo ? q->lo : time;
    q->intervals += n != 0;
    for (size_t i = 0; i < n; i++) {
        struct order_model_event *e = q->events[q->count - n + i];
        e->lo = q->lo;
        e->hi = hi;
        e->i = i;
        e->n = n;
        e->interval = q->intervals;
    }
}

/* Makes the first N events of a segment an interval that ends at TIME. The last
   interval of the segment before ends no later. */
static void lower_last(struct model_queue *q, size_t n, uint64_t time) {
    for (size_t i = q->count - n; i > q->at; i--) {
        struct order_model_event *e = q->events[i - 1];
        if (e->interval != q->intervals)
            break;
        if (time < e->hi)
            e->hi = time < e->lo ? e->lo : time;
        if (q->taken == e->interval && e->hi != UINT64_MAX)
            q->end = e->hi;
    }
}

static bool has_next(const struct model_queue *q) {
    return q->at < q->count;
}

/* Takes the next interval of Q in hand, if it is not. */
static void take(const struct model *m, struct model_queue *q) {
    if (!has_next(q) || q->events[q->at]->interval == q->taken)
        return;
    q->taken = q->events[q->at]->interval;
    q->end = q->events[q->at]->hi;
    if (q->end == UINT64_MAX)
        q->end = m->last_time;
}

static void raise_lo(struct model_queue *q, uint64_t time) {
    if (time > q->lo)
        q->lo = time;
}

static void read_events(struct model *m, struct model_queue *q,
                        const struct mtf_item *item, const uint8_t *p,
                        const uint8_t *end) {
    size_t n = 0;
    raise_lo(q, item->time_lo);
    while (p < end) {
        struct mtf_event e;
        uint64_t offset = item->offset + (uint64_t)(p - item->data);
        int taken = mtf_raw_decode(&q->state, p, end, &e);
        if (taken <= 0)
            abort();
        p += taken;
        if (e.kind == MTF_EVENT_TIME || e.kind == MTF_EVENT_BUFFER) {
            uint64_t time = e.time_ns;
            if (time > item->time_hi)
                time = item->time_hi;
            if (q->open)
                lower_last(q, n, time);
            q->open = false;
            end_interval(q, n, time);
            n = 0;
            raise_lo(q, e.time_ns);
        }
        if (is_no_event(e.kind))
            continue;
        if (q->count == q->room) {
            q->room = q->room * 2 + 64;
            q->events = realloc(q->events, q->room * sizeof(*q->events));
        }
        struct order_model_event *v = calloc(1, sizeof(*v));
        v->truth = truth_at(m, q, offset);
        v->window = m->barriers;
        v->ends_thread = e.kind == MTF_EVENT_THREAD_END;
        q->events[q->count++] = v;
        n++;
        if (truth_of(m, v)->born != 0)
            m->read[truth_of(m, v)->born] = 1;
    }
    if (q->open)
        lower_last(q, n, item->time_hi);
    end_interval(q, n, item->time_hi);
    q->open = n != 0;
}

static void read_item(struct model *m, const struct mtf_item *item) {
    if (find(m, item->thread) == NULL)
        add_queue(m, item->thread);
    struct model_queue *q = find(m, item->thread);
    struct mtf_placement place;
    mtf_stream_place(&q->place, item, &place);
    if (item->time_lo > m->last_time)
        m->last_time = item->time_lo;
    if (item->time_hi != UINT64_MAX && item->time_hi > m->last_time)
        m->last_time = item->time_hi;
    if (place.length == 0)
        return;
    read_events(m, q, item, place.data, place.data + place.length);
    take(m, q);
}

/* --- Permission ----------------------------------------------------------- */

static const struct order_model_event *next_of(const struct model_queue *q) {
    return q->events[q->at];
}

static uint64_t estimate(const struct model_queue *q) {
    const struct order_model_event *e = next_of(q);
    uint64_t width = q->end > e->lo ? q->end - e->lo : 0;
    /* The end of a thread, alone in its interval, is at its lower bound. */
    if (e->n == 1 && e->ends_thread)
        width = 0;
    return e->lo +
           (uint64_t)((unsigned __int128)width * (e->i + 1) / (e->n + 1));
}

static bool decided(const struct model *m, const struct model_queue *q) {
    return m->barriers == UINT64_MAX || m->barriers >= next_of(q)->window + 2;
}

/* Tells whether Q's next event is of the late stream, and its thread may have
   earlier events in its own stream. */
static bool is_early(const struct model *m, const struct model_queue *q) {
    if (q->stream != MTF_THREAD_LATE)
        return false;
    const struct model_queue *own = find(m, truth_of(m, next_of(q))->thread);
    if (own != NULL && has_next(own))
        return true;
    return (own == NULL || !own->ended) && !decided(m, q);
}

static bool waits(const struct model *m, const struct model_queue *q) {
    uint64_t needs = truth_of(m, next_of(q))->needs;
    return needs != 0 && !q->none && !m->alive[needs];
}

static uint64_t horizon(struct model *m) {
    uint64_t h = m->barrier;
    for (const struct model_queue *q = m->out->queues; q != NULL; q = q->next)
        if (has_next(q) && next_of(q)->hi < h)
            h = next_of(q)->hi;
    if (h > m->horizon)
        m->horizon = h;
    return m->horizon;
}

static void write_next(struct model *m, struct model_queue *q) {
    struct order_model_event *e = q->events[q->at++];
    const struct history_event *v = truth_of(m, e);
    e->missing = q->none;
    if (q->none && v->kind == MTF_EVENT_FREE)
        m->out->unmatched++;
    else if (q->none)
        m->out->unmatched_reallocs++;
    else if (v->needs != 0)
        m->alive[v->needs] = 0;
    if (v->born != 0) {
        m->alive[v->born] = 1;
        m->read[v->born] = 0;
    }
    q->ended = q->ended || v->kind == MTF_EVENT_THREAD_END;
    q->none = false;
    m->out->output[m->out->count++] = e;
    m->current = q;
    take(m, q);
}

static bool before(const struct model_queue *a, const struct model_queue *b) {
    uint64_t x = estimate(a), y = estimate(b);
    return x != y ? x < y : a->stream < b->stream;
}

static bool write_permitted(struct model *m) {
    uint64_t h = horizon(m);
    struct model_queue *best = NULL, *stay = NULL;
    for (struct model_queue *q = m->out->queues; q != NULL; q = q->next) {
        if (!has_next(q) || next_of(q)->lo > h || is_early(m, q) || waits(m, q))
            continue;
        if (q == m->current)
            stay = q;
        else if (best == NULL || before(q, best))
            best = q;
    }
    if (stay != NULL &&
        (best == NULL || estimate(stay) < estimate(best) + SLACK))
        best = stay;
    if (best == NULL)
        return false;
    write_next(m, best);
    return true;
}

/* --- Traces that contradict themselves ------------------------------------ */

/* Lets the next events with lo up to LIMIT, whose allocation is missing, go on
   without it. False: there are none. */
static bool give_up_missing(struct model *m, uint64_t limit) {
    bool any = false;
    for (struct model_queue *q = m->out->queues; q != NULL; q = q->next) {
        if (has_next(q) && next_of(q)->lo <= limit && !is_early(m, q) &&
            waits(m, q) && decided(m, q) &&
            !m->read[truth_of(m, next_of(q))->needs]) {
            q->none = true;
            any = true;
        }
    }
    return any;
}

static bool resolve(struct model *m) {
    if (give_up_missing(m, horizon(m)) || give_up_missing(m, UINT64_MAX))
        return true;
    bool any_decided = false;
    struct model_queue *least[2] = {NULL, NULL}; /* do not wait, wait */
    for (struct model_queue *q = m->out->queues; q != NULL; q = q->next) {
        if (!has_next(q))
            continue;
        any_decided = any_decided || decided(m, q);
        if (is_early(m, q)) {
            if (!decided(m, q))
                return false;
            continue;
        }
        if (waits(m, q) && next_of(q)->lo <= horizon(m) && !decided(m, q) &&
            !m->read[truth_of(m, next_of(q))->needs])
            return false;
        struct model_queue **l = &least[waits(m, q)];
        if (*l == NULL || next_of(q)->hi < next_of(*l)->hi ||
            (next_of(q)->hi == next_of(*l)->hi && q->stream < (*l)->stream))
            *l = q;
    }
    if (!any_decided)
        return false;
    if (least[0] != NULL) {
        m->out->conflicts++;
        write_next(m, least[0]);
    } else if (least[1] != NULL) {
        least[1]->none = true;
    } else {
        return false;
    }
    return true;
}

static void write_all(struct model *m) {
    do {
        while (write_permitted(m)) {
        }
    } while (resolve(m));
}

/* --- All ------------------------------------------------------------------ */

void order_model_run(struct order_model *out, const struct history *h,
                     const void *trace, size_t length) {
    struct model m = {.h = h, .out = out};
    struct history_reader r;
    struct mtf_item item;
    memset(out, 0, sizeof(*out));
    out->output = malloc((h->event_count + 1) * sizeof(*out->output));
    out->at_barrier = calloc(h->barrier_count + 1, sizeof(*out->at_barrier));
    m.alive = calloc(1, h->greatest_token + 1);
    m.read = calloc(1, h->greatest_token + 1);
    history_read_begin(&r, trace, length);
    while (history_read_next(&r, &item)) {
        if (item.kind == MTF_ITEM_DATA)
            read_item(&m, &item);
        if (item.kind != MTF_ITEM_BARRIER)
            continue;
        if (item.time_lo > m.barrier)
            m.barrier = item.time_lo;
        if (item.time_lo > m.last_time)
            m.last_time = item.time_lo;
        m.barriers++;
        write_all(&m);
        out->at_barrier[m.barriers - 1] = out->count;
    }
    history_read_end(&r);
    m.barrier = m.barriers = UINT64_MAX;
    write_all(&m);
    free(m.alive);
    free(m.read);
}

void order_model_free(struct order_model *m) {
    while (m->queues != NULL) {
        struct model_queue *q = m->queues;
        m->queues = q->next;
        for (size_t i = 0; i < q->count; i++)
            free(q->events[i]);
        free(q->events);
        free(q->truth);
        free(q);
    }
    free(m->output);
    free(m->at_barrier);
}
