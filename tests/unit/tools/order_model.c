/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_model.h"

#include <stdlib.h>
#include <string.h>

#define SLACK 20000u

struct queue {
    size_t *events; /* all of the thread that are in the trace */
    size_t count;
    size_t at;  /* the next one */
    size_t end; /* those before it are read */
    bool none;  /* the next one's allocation is missing */
};

struct model {
    const struct history *h;
    struct order_model *out;
    struct queue queues[17]; /* by thread */
    unsigned threads;
    unsigned current; /* thread, 0 none */
    uint64_t barrier, barriers, last_time;
    uint64_t token_limit;
    uint8_t *alive; /* by token: its block is written and not ended */
    uint8_t *read;  /* by token: its birth is read and not written */
};

static bool has_next(const struct model *m, unsigned t) {
    return m->queues[t].at < m->queues[t].end;
}

/* The next event of T, which has one. */
static const struct history_event *next_of(const struct model *m, unsigned t) {
    const struct queue *q = &m->queues[t];
    return &m->h->events[q->events[q->at]];
}

static uint64_t estimate(const struct model *m, unsigned t) {
    const struct history_event *e = next_of(m, t);
    uint64_t hi = e->hi == UINT64_MAX ? m->last_time : e->hi;
    uint64_t width = hi > e->lo ? hi - e->lo : 0;
    return e->lo + width * (e->i + 1) / (e->n + 1);
}

static bool waits(const struct model *m, unsigned t) {
    const struct history_event *e = next_of(m, t);
    return e->needs != 0 && !m->queues[t].none && !m->alive[e->needs];
}

static bool decided(const struct model *m, unsigned t) {
    return m->barriers == UINT64_MAX ||
           m->barriers >= next_of(m, t)->window + 2;
}

static void write_next(struct model *m, unsigned t) {
    struct queue *q = &m->queues[t];
    const struct history_event *e = next_of(m, t);
    m->out->missing[q->events[q->at]] = q->none;
    if (q->none && e->kind == MTF_EVENT_FREE)
        m->out->unmatched++;
    else if (q->none)
        m->out->unmatched_reallocs++;
    else if (e->needs != 0)
        m->alive[e->needs] = 0;
    if (e->born != 0) {
        m->alive[e->born] = 1;
        m->read[e->born] = 0;
    }
    q->none = false;
    m->out->output[m->out->count++] = q->events[q->at++];
    m->current = t;
}

static uint64_t horizon(const struct model *m) {
    uint64_t h = m->barrier;
    for (unsigned t = 1; t <= m->threads; t++)
        if (has_next(m, t) && next_of(m, t)->hi < h)
            h = next_of(m, t)->hi;
    return h;
}

static bool write_permitted(struct model *m) {
    uint64_t h = horizon(m);
    unsigned best = 0;
    bool stay = false;
    for (unsigned t = 1; t <= m->threads; t++) {
        if (!has_next(m, t) || next_of(m, t)->lo > h || waits(m, t))
            continue;
        if (t == m->current)
            stay = true;
        else if (best == 0 || estimate(m, t) < estimate(m, best))
            best = t;
    }
    if (stay && best != 0 &&
        estimate(m, m->current) >= estimate(m, best) + SLACK)
        stay = false;
    if (!stay && best == 0)
        return false;
    write_next(m, stay ? m->current : best);
    return true;
}

/* Next events with lo up to LIMIT whose allocation is missing name none. */
static bool give_up_missing(struct model *m, uint64_t limit) {
    bool any = false;
    for (unsigned t = 1; t <= m->threads; t++) {
        if (has_next(m, t) && next_of(m, t)->lo <= limit && waits(m, t) &&
            decided(m, t) && !m->read[next_of(m, t)->needs]) {
            m->queues[t].none = true;
            any = true;
        }
    }
    return any;
}

static bool resolve(struct model *m) {
    if (give_up_missing(m, horizon(m)) || give_up_missing(m, UINT64_MAX))
        return true;
    bool any_decided = false;
    unsigned least[2] = {0, 0}; /* that do not wait, that wait */
    for (unsigned t = 1; t <= m->threads; t++) {
        if (!has_next(m, t))
            continue;
        const struct history_event *e = next_of(m, t);
        any_decided = any_decided || decided(m, t);
        unsigned *l = &least[waits(m, t)];
        if (*l == 0 || e->hi < next_of(m, *l)->hi)
            *l = t;
    }
    if (!any_decided)
        return false;
    if (least[0] != 0) {
        m->out->conflicts++;
        write_next(m, least[0]);
    } else if (least[1] != 0) {
        m->queues[least[1]].none = true;
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

/* The events of thread T up to that of a segment with window WINDOW that ends
   COUNT events later are read now. */
static void read_item(struct model *m, const struct mtf_item *item) {
    /* events of a segment are found by decoding it */
    struct queue *q = &m->queues[item->thread];
    struct mtf_raw_state state = {0};
    state.tokens_left = UINT64_MAX;
    const uint8_t *p = item->data, *end = p + item->length;
    while (p < end) {
        struct mtf_event e;
        int n = mtf_raw_decode(&state, p, end, &e);
        if (n <= 0)
            abort();
        p += n;
        if (e.kind > MTF_EVENT_FAILED) {
            if (e.kind == MTF_EVENT_BUFFER)
                state.tokens_left = UINT64_MAX;
            continue;
        }
        const struct history_event *v = &m->h->events[q->events[q->end++]];
        if (v->born != 0)
            m->read[v->born] = 1;
    }
    if (item->time_lo > m->last_time)
        m->last_time = item->time_lo;
    if (item->time_hi != UINT64_MAX && item->time_hi > m->last_time)
        m->last_time = item->time_hi;
}

void order_model_run(struct order_model *out, const struct history *h) {
    struct model *m = calloc(1, sizeof(*m));
    memset(out, 0, sizeof(*out));
    out->output = malloc((h->event_count + 1) * sizeof(*out->output));
    out->missing = calloc(1, h->event_count + 1);
    m->h = h;
    m->out = out;
    for (size_t i = 0; i < h->event_count; i++) {
        const struct history_event *e = &h->events[i];
        if (e->born > m->token_limit)
            m->token_limit = e->born;
        if (e->needs > m->token_limit)
            m->token_limit = e->needs;
        if (e->thread > m->threads)
            m->threads = e->thread;
    }
    m->alive = calloc(1, m->token_limit + 1);
    m->read = calloc(1, m->token_limit + 1);
    for (unsigned t = 1; t <= m->threads; t++)
        m->queues[t].events = malloc(h->event_count * sizeof(size_t));
    for (size_t i = 0; i < h->event_count; i++)
        if (!h->events[i].lost) {
            struct queue *q = &m->queues[h->events[i].thread];
            q->events[q->count++] = i;
        }
    for (size_t i = 0; i < h->item_count; i++) {
        struct mtf_item item;
        history_item(h, i, &item);
        if (!h->items[i].is_barrier) {
            read_item(m, &item);
            continue;
        }
        if (item.time_lo > m->barrier)
            m->barrier = item.time_lo;
        if (item.time_lo > m->last_time)
            m->last_time = item.time_lo;
        m->barriers++;
        write_all(m);
    }
    m->barrier = m->barriers = UINT64_MAX;
    write_all(m);
    for (unsigned t = 1; t <= m->threads; t++)
        free(m->queues[t].events);
    free(m->alive);
    free(m->read);
    free(m);
}

void order_model_free(struct order_model *m) {
    free(m->output);
    free(m->missing);
}
