/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_history.h"

#include "prng.h"
#include "traceformat/raw_codec.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_MAX   12
#define BATCH       6
#define OBJECTS_MAX 400
#define THREADS_MAX 16

struct object {
    uint64_t token, address;
};

/* What a thread does next. */
enum stage {
    STAGE_IDLE,
    STAGE_PUBLISH_ALLOC,   /* the block is got */
    STAGE_RELEASE,         /* the free is published */
    STAGE_GIVE,            /* the clock was read before giving up memory */
    STAGE_PUBLISH_REALLOC, /* the new block is got */
};

struct sim_thread {
    uint32_t id;
    uint64_t at; /* time of the next step */
    int64_t skew;
    enum stage stage;
    bool slow; /* took from the central list in this step */
    uint64_t address, size;
    struct object old;
    uint64_t cache[CACHE_MAX + 1];
    unsigned cached;
    struct object own[OBJECTS_MAX];
    unsigned owned;

    /* recorder */
    uint8_t *buffer;
    size_t length, saved;
    uint64_t buffer_start; /* in the stream */
    bool lose;             /* this buffer does not reach the file */
    uint64_t next_token;
    uint32_t tokens_left;
    uint64_t last_8th, last_freed, last_time;
    uint64_t look_lo; /* time_lo of the next segment */
    /* events without hi yet: indices, in order */
    uint64_t current_lo;
    size_t *pending;
    size_t pending_count, pending_room;
    size_t unsaved_first; /* in stream_events: first without window */
    size_t *stream_events;
    size_t stream_count, stream_room;
};

struct full_buffer {
    struct sim_thread *thread;
    uint8_t *bytes;
    size_t from, to;
    uint64_t start, lo, hi;
    bool lose;
    size_t events_from, events_to; /* in stream_events */
};

struct sim {
    struct history *h;
    const struct history_options *o;
    struct prng prng;
    struct sim_thread threads[THREADS_MAX];
    uint64_t now;
    uint64_t token;
    uint64_t central[1 << 16];
    size_t central_count;
    uint64_t fresh_address;
    struct object shared[64];
    unsigned shared_count;
    struct full_buffer full[4096];
    size_t full_count;
    uint64_t saver_at, barrier_time, barriers;
    unsigned saver_next; /* thread to look at; o->threads: barrier is due */
    bool in_round;
};

#define GROW(array, count, room)                                               \
    do {                                                                       \
        if ((count) == (room)) {                                               \
            (room) = (room) == 0 ? 256 : (room)*2;                             \
            (array) = realloc((array), (room) * sizeof(*(array)));             \
        }                                                                      \
    } while (0)

/* --- Recorder ------------------------------------------------------------- */

static uint64_t clock_of(const struct sim *s, const struct sim_thread *t) {
    return s->now + (uint64_t)t->skew;
}

/* A time stands here: the interval before it ends with hi TIME. */
static void close_interval(struct sim *s, struct sim_thread *t, uint64_t hi) {
    for (size_t k = 0; k < t->pending_count; k++) {
        struct history_event *e = &s->h->events[t->pending[k]];
        e->hi = hi < e->lo ? e->lo : hi;
        e->i = k;
        e->n = t->pending_count;
    }
    t->pending_count = 0;
}

static void raise_lo(struct sim_thread *t, uint64_t lo) {
    if (lo > t->current_lo)
        t->current_lo = lo;
}

static void put_varint(struct sim_thread *t, uint64_t v) {
    t->length += mtf_varint_put(t->buffer + t->length, v);
}

static void begin_buffer(struct sim *s, struct sim_thread *t) {
    struct mtf_raw_buffer_state state = {0};
    state.time_ns = clock_of(s, t);
    state.next_token = t->next_token;
    state.tokens_left = t->tokens_left;
    state.alloc_call = MTF_CALL_MALLOC;
    state.free_call = MTF_CALL_FREE;
    t->buffer = calloc(1, s->o->buffer_bytes + 256);
    t->length = t->saved = 0;
    mtf_put_extended_head(t->buffer, MTF_RAW_BUFFER, sizeof(state));
    memcpy(t->buffer + 2, &state, sizeof(state));
    t->length = 2 + sizeof(state);
    t->last_8th = 0;
    t->last_freed = t->next_token;
    t->last_time = state.time_ns;
    t->look_lo = state.time_ns;
    t->lose = prng_below(&s->prng, 100) < s->o->lose_percent;
    raise_lo(t, state.time_ns);
}

/* Hands the buffer over and begins the next. */
static void hand_over(struct sim *s, struct sim_thread *t) {
    uint64_t hi = clock_of(s, t);
    close_interval(s, t, hi);
    s->full[s->full_count++] = (struct full_buffer){
        t,          t->buffer, t->saved, t->length,        t->buffer_start,
        t->look_lo, hi,        t->lose,  t->unsaved_first, t->stream_count};
    t->unsaved_first = t->stream_count;
    t->buffer_start += t->length;
    begin_buffer(s, t);
}

static void reserve(struct sim *s, struct sim_thread *t) {
    if (t->length + 40 > s->o->buffer_bytes)
        hand_over(s, t);
}

static void put_time(struct sim *s, struct sim_thread *t, uint64_t time) {
    reserve(s, t);
    if (time <= t->last_time) /* as a recorder does with a step of 0 */
        return;
    close_interval(s, t, time);
    put_varint(t, mtf_inline_payload(MTF_RAW_TIME, time - t->last_time));
    t->last_time = time;
    raise_lo(t, time);
}

static void take_tokens(struct sim *s, struct sim_thread *t) {
    if (t->tokens_left != 0)
        return;
    put_time(s, t, clock_of(s, t));
    reserve(s, t);
    uint64_t distance = s->token - t->next_token;
    put_varint(t, mtf_inline_payload(MTF_RAW_TOKENS,
                                     mtf_tokens_argument(distance, 64)));
    t->next_token = s->token;
    t->tokens_left = 64;
    s->token += 64;
}

static struct history_event *add_event(struct sim *s, struct sim_thread *t,
                                       unsigned kind) {
    struct history *h = s->h;
    GROW(h->events, h->event_count, h->event_room);
    GROW(t->pending, t->pending_count, t->pending_room);
    GROW(t->stream_events, t->stream_count, t->stream_room);
    struct history_event *e = &h->events[h->event_count];
    memset(e, 0, sizeof(*e));
    e->thread = t->id;
    e->kind = (uint8_t)kind;
    e->lost = t->lose;
    e->lo = t->current_lo;
    e->hi = UINT64_MAX;
    t->pending[t->pending_count++] = h->event_count;
    t->stream_events[t->stream_count++] = h->event_count;
    h->event_count++;
    return e;
}

static uint64_t record_alloc(struct sim *s, struct sim_thread *t) {
    take_tokens(s, t);
    reserve(s, t);
    put_varint(t, mtf_alloc_payload(t->size, t->last_8th));
    t->last_8th = t->size >> 3;
    t->tokens_left--;
    struct history_event *e = add_event(s, t, MTF_EVENT_ALLOC);
    e->size = t->size;
    e->address = t->address;
    return e->born = t->next_token++;
}

static void record_free(struct sim *s, struct sim_thread *t,
                        const struct object *o) {
    reserve(s, t);
    put_varint(t, mtf_free_payload(o->token, t->last_freed));
    t->last_freed = o->token;
    struct history_event *e = add_event(s, t, MTF_EVENT_FREE);
    e->needs = o->token;
    e->old_address = o->address;
}

static uint64_t record_realloc(struct sim *s, struct sim_thread *t) {
    take_tokens(s, t);
    reserve(s, t);
    bool moved = t->address != t->old.address;
    put_varint(t, mtf_zigzag((int64_t)(t->old.token - t->last_freed)) << 2 |
                      MTF_RAW_REALLOC);
    put_varint(t,
               mtf_size_code(t->size, t->last_8th) << 2 | (uint64_t)moved << 1);
    t->last_freed = t->old.token;
    t->last_8th = t->size >> 3;
    t->tokens_left--;
    struct history_event *e = add_event(s, t, MTF_EVENT_REALLOC);
    e->needs = t->old.token;
    e->size = t->size;
    e->address = t->address;
    e->old_address = t->old.address;
    return e->born = t->next_token++;
}

/* --- Program -------------------------------------------------------------- */

static uint64_t get_block(struct sim *s, struct sim_thread *t) {
    t->slow = t->cached == 0;
    if (t->slow)
        for (unsigned i = 0; i < BATCH; i++)
            t->cache[t->cached++] = s->central_count != 0
                                        ? s->central[--s->central_count]
                                        : (s->fresh_address += 16);
    return t->cache[--t->cached];
}

static void share_or_keep(struct sim *s, struct sim_thread *t,
                          struct object o) {
    if (s->shared_count < TCM_ARRAY_SIZE(s->shared) &&
        prng_below(&s->prng, 4) == 0)
        s->shared[s->shared_count++] = o;
    else
        t->own[t->owned++] = o;
}

static struct object pick(struct prng *p, struct object *a, unsigned *n) {
    unsigned i = (unsigned)prng_below(p, *n);
    struct object o = a[i];
    a[i] = a[--*n];
    return o;
}

static void begin_action(struct sim *s, struct sim_thread *t) {
    unsigned dice = (unsigned)prng_below(&s->prng, 100);
    /* sizes name events, so that the test can tell them apart */
    t->size = s->h->event_count * 8 + t->id;
    if (t->owned == OBJECTS_MAX)
        dice = 99;
    if (dice < 50 || t->owned == 0) {
        t->address = get_block(s, t);
        t->stage = STAGE_PUBLISH_ALLOC;
    } else if (dice < 60) {
        t->old = pick(&s->prng, t->own, &t->owned);
        t->slow = false;
        t->address =
            prng_below(&s->prng, 3) == 0 ? t->old.address : get_block(s, t);
        t->stage = STAGE_PUBLISH_REALLOC;
    } else {
        t->old = s->shared_count != 0 && dice < 75
                     ? pick(&s->prng, s->shared, &s->shared_count)
                     : pick(&s->prng, t->own, &t->owned);
        record_free(s, t, &t->old);
        t->stage = STAGE_RELEASE;
    }
}

/* The old block goes to the cache; when that is full the clock is read, and
   memory is given up in the next step. */
static void release(struct sim *s, struct sim_thread *t) {
    t->cache[t->cached++] = t->old.address;
    t->stage = STAGE_IDLE;
    if (t->cached > CACHE_MAX) {
        put_time(s, t, clock_of(s, t));
        t->stage = STAGE_GIVE;
    }
}

static void step(struct sim *s, struct sim_thread *t) {
    struct object made;
    switch (t->stage) {
    case STAGE_IDLE:
        begin_action(s, t);
        break;
    case STAGE_PUBLISH_ALLOC:
    case STAGE_PUBLISH_REALLOC:
        if (t->slow)
            put_time(s, t, clock_of(s, t) + 1);
        made.address = t->address;
        if (t->stage == STAGE_PUBLISH_ALLOC) {
            made.token = record_alloc(s, t);
            t->stage = STAGE_IDLE;
        } else {
            made.token = record_realloc(s, t);
            t->stage = STAGE_IDLE;
            if (t->address != t->old.address)
                t->stage = STAGE_RELEASE;
        }
        share_or_keep(s, t, made);
        break;
    case STAGE_RELEASE:
        release(s, t);
        break;
    case STAGE_GIVE:
        while (t->cached > CACHE_MAX / 2)
            s->central[s->central_count++] = t->cache[--t->cached];
        t->stage = STAGE_IDLE;
        break;
    }
    t->at = s->now + 5 + prng_below(&s->prng, 120);
    if (prng_below(&s->prng, 400) == 0)
        t->at += prng_below(&s->prng, 30000);
}

/* --- Saver ---------------------------------------------------------------- */

static void write_segment(struct sim *s, const struct full_buffer *b,
                          bool from_spool) {
    struct history *h = s->h;
    const struct sim_thread *t = b->thread;
    for (size_t i = b->events_from; i < b->events_to; i++)
        h->events[t->stream_events[i]].window = s->barriers;
    if (b->lose || b->from == b->to)
        return;
    GROW(h->items, h->item_count, h->item_room);
    struct history_item *item = &h->items[h->item_count++];
    memset(item, 0, sizeof(*item));
    item->item.kind = MTF_ITEM_DATA;
    item->item.thread = t->id;
    item->item.offset = b->start + b->from;
    item->item.buffer_start = b->start;
    item->item.time_lo = b->lo;
    item->item.time_hi = b->hi;
    item->item.from_spool = from_spool;
    item->item.length = (uint32_t)(b->to - b->from);
    item->data_at = h->byte_count;
    while (h->byte_count + item->item.length + 16 > h->byte_room) {
        h->byte_room = h->byte_room == 0 ? 1 << 16 : h->byte_room * 2;
        h->bytes = realloc(h->bytes, h->byte_room);
    }
    memcpy(h->bytes + h->byte_count, b->bytes + b->from, item->item.length);
    h->byte_count += item->item.length;
}

static void write_full(struct sim *s) {
    for (size_t i = 0; i < s->full_count; i++) {
        write_segment(s, &s->full[i], false);
        free(s->full[i].bytes);
    }
    s->full_count = 0;
}

/* Saves what T published of its buffer. */
static void look(struct sim *s, struct sim_thread *t) {
    uint64_t before = clock_of(s, t) - prng_below(&s->prng, 20);
    uint64_t after = clock_of(s, t) + prng_below(&s->prng, 20);
    write_full(s);
    if (t->length == t->saved)
        return;
    close_interval(s, t, after);
    struct full_buffer b = {
        t,          t->buffer, t->saved, t->length,        t->buffer_start,
        t->look_lo, after,     t->lose,  t->unsaved_first, t->stream_count};
    write_segment(s, &b, false);
    t->saved = t->length;
    t->unsaved_first = t->stream_count;
    t->look_lo = before < t->look_lo ? t->look_lo : before;
    raise_lo(t, t->look_lo);
}

static void put_barrier(struct sim *s) {
    struct history *h = s->h;
    GROW(h->items, h->item_count, h->item_room);
    struct history_item *item = &h->items[h->item_count++];
    memset(item, 0, sizeof(*item));
    item->is_barrier = true;
    item->time = s->barrier_time;
    item->item.kind = MTF_ITEM_BARRIER;
    item->item.time_lo = item->item.time_hi = s->barrier_time;
    s->barriers++;
}

static void saver_step(struct sim *s) {
    if (!s->in_round) {
        s->in_round = true;
        s->saver_next = 0;
        s->barrier_time = s->now;
    } else if (s->saver_next < s->o->threads) {
        look(s, &s->threads[s->saver_next++]);
    } else {
        write_full(s);
        put_barrier(s);
        s->in_round = false;
        s->saver_at =
            s->now + s->o->round_ns / 2 + prng_below(&s->prng, s->o->round_ns);
        return;
    }
    s->saver_at = s->now + prng_below(&s->prng, 3000);
}

/* The program is gone: what is left is in the spool, or saved once more. */
static void finish(struct sim *s) {
    write_full(s);
    bool spool = prng_below(&s->prng, 100) < s->o->spool_percent;
    for (unsigned i = 0; i < s->o->threads; i++) {
        struct sim_thread *t = &s->threads[i];
        if (spool) {
            close_interval(s, t, UINT64_MAX);
            struct full_buffer b = {t,
                                    t->buffer,
                                    t->saved,
                                    t->length,
                                    t->buffer_start,
                                    t->look_lo,
                                    UINT64_MAX,
                                    t->lose,
                                    t->unsaved_first,
                                    t->stream_count};
            write_segment(s, &b, true);
        } else {
            look(s, t);
        }
        free(t->buffer);
        free(t->pending);
        free(t->stream_events);
    }
    if (!spool) {
        s->barrier_time = s->now;
        put_barrier(s);
    }
}

void history_make(struct history *h, const struct history_options *o) {
    struct sim *s = calloc(1, sizeof(*s));
    memset(h, 0, sizeof(*h));
    s->h = h;
    s->o = o;
    s->token = 1000;
    s->now = 1000000000;
    prng_seed(&s->prng, o->seed);
    for (unsigned i = 0; i < o->threads; i++) {
        struct sim_thread *t = &s->threads[i];
        t->id = i + 1;
        t->at = s->now + prng_below(&s->prng, 5000);
        if (o->skew_ns != 0)
            t->skew = (int64_t)prng_below(&s->prng, 2 * o->skew_ns) -
                      (int64_t)o->skew_ns;
        t->buffer_start = 0;
        begin_buffer(s, t);
    }
    s->saver_at = s->now + prng_below(&s->prng, o->round_ns);
    while (h->event_count < o->events) {
        struct sim_thread *t = &s->threads[0];
        for (unsigned i = 1; i < o->threads; i++)
            if (s->threads[i].at < t->at)
                t = &s->threads[i];
        if (s->saver_at < t->at) {
            s->now = s->saver_at;
            saver_step(s);
        } else {
            s->now = t->at;
            step(s, t);
        }
    }
    h->last_time = s->now;
    finish(s);
    free(s);
}

void history_free(struct history *h) {
    free(h->events);
    free(h->items);
    free(h->bytes);
}

void history_item(const struct history *h, size_t i, struct mtf_item *item) {
    *item = h->items[i].item;
    item->data = h->bytes + h->items[i].data_at;
}
