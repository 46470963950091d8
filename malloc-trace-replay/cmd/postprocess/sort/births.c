/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/sort/births.h"

#include "base/check.h"
#include "cmd/postprocess/sort/demux.h"

#include <stdlib.h>

/* Where the next look at a thread begins, if all it has in hand is known. */
struct births_place {
    struct mtf_raw_state state;
    struct demux_chunk *chunk; /* the last that was looked at */
    bool lost;
};

/* --- The table ------------------------------------------------------------ */

/* Words of 64 tokens: the key is the word's number plus 1, the value has a bit
   for each. */

static bool add(struct births *b, uint64_t number, uint64_t bits) {
    TCM_ASSERT(bits != 0);
    struct tool_map_entry *w = tool_map_get(&b->words, number + 1);
    if (w == NULL)
        return false;
    w->value |= bits;
    return true;
}

static void take_out(struct births *b, uint64_t number, uint64_t bits) {
    struct tool_map_entry *w = tool_map_find(&b->words, number + 1);
    if (w == NULL)
        return;
    w->value &= ~bits;
    if (w->value == 0)
        tool_map_remove(&b->words, w);
}

/* --- Runs of tokens ------------------------------------------------------- */

/* Tokens mostly come one after the other: one look for those of one word. */
struct run {
    uint64_t number, bits;
};

static uint64_t bit_of(uint64_t token) {
    return (uint64_t)1 << (token & 63);
}

static bool add_birth(struct births *b, struct run *r, uint64_t token) {
    if (r->number == token >> 6 || r->bits == 0) {
        r->number = token >> 6;
        r->bits |= bit_of(token);
        return true;
    }
    bool good = add(b, r->number, r->bits);
    *r = (struct run){token >> 6, bit_of(token)};
    return good;
}

static bool is_birth(unsigned kind) {
    return kind == MTF_EVENT_ALLOC || kind == MTF_EVENT_REALLOC ||
           kind == MTF_EVENT_ALIGNED || kind == MTF_EVENT_REALLOC_NEW;
}

static uint64_t token_of(const struct demux_event *e) {
    return demux_event_kind(e) == MTF_EVENT_REALLOC ? e->extra : e->token;
}

void births_written(struct births *b, const struct demux_event *v,
                    uint32_t count) {
    struct run r = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!is_birth(demux_event_kind(&v[i])))
            continue;
        uint64_t token = token_of(&v[i]);
        if (r.bits != 0 && r.number != token >> 6) {
            take_out(b, r.number, r.bits);
            r.bits = 0;
        }
        r.number = token >> 6;
        r.bits |= bit_of(token);
    }
    if (r.bits != 0)
        take_out(b, r.number, r.bits);
}

/* --- Looking -------------------------------------------------------------- */

/* The events from *P on, to END or to where they cannot be decoded. */
static bool look_at_bytes(struct births *b, struct births_place *at,
                          const uint8_t *p, const uint8_t *end) {
    struct run r = {0};
    struct mtf_raw_state s = at->state;
    bool good = true;
    while (p < end && good) {
        struct mtf_event e;
        int taken = mtf_raw_decode(&s, p, end, &e);
        if (taken <= 0) {
            at->lost = true;
            break;
        }
        p += taken;
        if (is_birth(e.kind))
            good = add_birth(b, &r, e.token);
    }
    at->state = s;
    return good && (r.bits == 0 || add(b, r.number, r.bits));
}

static bool look_at_array(struct births *b, const struct demux_thread *t) {
    struct run r = {0};
    for (uint32_t i = t->at; t->in_hand && i < t->count; i++)
        if (is_birth(demux_event_kind(&t->events[i])) &&
            !add_birth(b, &r, token_of(&t->events[i])))
            return false;
    return r.bits == 0 || add(b, r.number, r.bits);
}

/* What T has in hand and was not looked at. */
static bool look(struct births *b, struct demux_thread *t) {
    struct demux_chunk *c = t->first;
    if (c == NULL)
        return true;
    if (t->looked == NULL) {
        t->looked = malloc(sizeof(*t->looked));
        if (t->looked == NULL)
            return false;
    }
    struct births_place *at = t->looked;
    const uint8_t *p = NULL, *end = NULL;
    if (c->seen) {
        c = at->chunk->next;
    } else {
        if (!look_at_array(b, t))
            return false;
        at->state = t->state;
        at->lost = t->lost;
        p = t->p;
        end = t->end;
    }
    for (; c != NULL; c = c->next, p = NULL) {
        c->seen = true;
        at->chunk = c;
        if (p == NULL) {
            p = c->data;
            end = p + c->length;
            if (at->lost && !mtf_raw_is_buffer_event(p, end))
                continue;
            at->lost = false;
        }
        if (!look_at_bytes(b, at, p, end))
            return false;
    }
    return true;
}

bool births_has(struct demux *d, uint64_t token) {
    struct births *b = &d->births;
    while (b->fresh != NULL && !d->failed) {
        struct demux_thread *t = b->fresh;
        b->fresh = t->next_new;
        t->is_new = false;
        if (!look(b, t))
            d->failed = true;
    }
    if (d->failed)
        return true;
    const struct tool_map_entry *w = tool_map_find(&b->words, (token >> 6) + 1);
    return w != NULL && (w->value & bit_of(token)) != 0;
}

void births_new_segment(struct demux *d, struct demux_thread *t) {
    if (t->is_new)
        return;
    t->is_new = true;
    t->next_new = d->births.fresh;
    d->births.fresh = t;
}

void births_fini(struct births *b) {
    tool_map_fini(&b->words);
}
