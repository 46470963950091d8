/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which tokens are made by events that are in hand and not written yet: asked
 * only when an event waits for an allocation that may be missing, so nothing is
 * kept up for it.
 */
#include "demux.h"

#include <stdlib.h>

struct births {
    struct demux_range *a;
    size_t n, room;
    bool failed;
};

static void add_birth(struct births *b, uint64_t token) {
    if (b->n != 0 && b->a[b->n - 1].last + 1 == token) {
        b->a[b->n - 1].last = token;
        return;
    }
    if (b->n == b->room) {
        size_t room = b->room == 0 ? 256 : b->room * 2;
        struct demux_range *a = realloc(b->a, room * sizeof(*a));
        if (a == NULL) {
            b->failed = true;
            return;
        }
        b->a = a;
        b->room = room;
    }
    b->a[b->n++] = (struct demux_range){token, token};
}

static bool is_birth(unsigned kind) {
    return kind == MTF_EVENT_ALLOC || kind == MTF_EVENT_REALLOC ||
           kind == MTF_EVENT_ALIGNED || kind == MTF_EVENT_REALLOC_NEW;
}

static void add_births_of(struct births *b, const struct demux_thread *t) {
    if (t->in_hand)
        for (uint32_t i = t->at; i < t->count; i++) {
            const struct demux_event *e = &t->events[i];
            unsigned kind = demux_event_kind(e);
            if (is_birth(kind))
                add_birth(b, kind == MTF_EVENT_REALLOC ? e->extra : e->token);
        }
    struct mtf_raw_state s = t->state;
    bool lost = t->lost;
    const uint8_t *p = t->p, *end = t->end;
    for (const struct demux_chunk *c = t->first; c != NULL; c = c->next) {
        if (c != t->first || p == NULL) {
            p = c->data;
            end = p + c->length;
            if (lost && !mtf_raw_is_buffer_event(p, end))
                continue;
            lost = false;
        }
        while (p < end && !b->failed) {
            struct mtf_event e;
            int taken = mtf_raw_decode(&s, p, end, &e);
            if (taken <= 0) {
                lost = true;
                break;
            }
            p += taken;
            if (is_birth(e.kind))
                add_birth(b, e.token);
        }
    }
}

static int compare_ranges(const void *a, const void *b) {
    const struct demux_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

struct demux_range *demux_births(struct demux *d, size_t *n) {
    struct births b = {0};
    b.a = malloc(sizeof(*b.a)); /* so that the array is never NULL */
    b.room = b.a != NULL;
    b.failed = b.a == NULL;
    for (size_t i = 0; i < d->count; i++)
        add_births_of(&b, d->threads[i]);
    if (b.failed) {
        d->failed = true;
        free(b.a);
        return NULL;
    }
    qsort(b.a, b.n, sizeof(*b.a), compare_ranges);
    *n = b.n;
    return b.a;
}
