/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_recorder.h"

#include "base/clock.h"

#define ROOM 40u /* of one event with what may stand before it */

/* Works like mtr_clock_ns of src/tracer/trace_clock.h. */
uint64_t recorder_clock(struct recorder *r, uint64_t now) {
    if (r->o->tick_ns == 0)
        return now;
    now -= now % r->o->tick_ns;
    if (!r->o->same_times)
        now = r->last_ns = tcm_clock_after(r->last_ns, now);
    return now;
}

/* --- Streams -------------------------------------------------------------- */

static void begin_buffer(struct recorder *r, struct rec_stream *s,
                         uint64_t clock) {
    memset(&s->e.out, 0, sizeof(s->e.out));
    put_buffer(&s->e, clock, 0, 0);
    s->saved = 0;
    s->look_lo = s->begin_ns = clock;
    s->as_thread = MTF_THREAD_NONE;
    s->lose = prng_below(&r->prng, 100) < r->o->lose_percent;
}

static void hand_over(struct recorder *r, struct rec_stream *s,
                      uint64_t clock) {
    RECORDER_GROW(r->full, r->full_count, r->full_room);
    r->full[r->full_count++] =
        (struct rec_full){.place = {.thread = s->id,
                                    .buffer_start = s->start,
                                    .time_lo = s->look_lo,
                                    .time_hi = clock},
                          .bytes = s->e.out.data,
                          .from = s->saved,
                          .to = s->e.out.length,
                          .begin_ns = s->begin_ns,
                          .lose = s->lose};
    s->start += s->e.out.length;
}

struct rec_stream *recorder_open(struct recorder *r, uint32_t id,
                                 uint64_t clock) {
    struct rec_stream *s = &r->streams[0];
    while (s->id != 0)
        s++;
    memset(s, 0, sizeof(*s));
    s->id = id;
    begin_buffer(r, s, clock);
    return s;
}

void recorder_close(struct recorder *r, struct rec_stream *s, uint64_t clock) {
    hand_over(r, s, clock);
    s->id = 0;
}

static void reserve(struct recorder *r, struct rec_stream *s, uint64_t clock) {
    if (s->e.out.length + ROOM <= r->o->buffer_bytes)
        return;
    hand_over(r, s, clock);
    begin_buffer(r, s, clock);
}

void recorder_time(struct recorder *r, struct rec_stream *s, uint64_t clock) {
    reserve(r, s, clock);
    if (clock > s->e.time_ns) /* as a recorder does with a step of 0 */
        put_time(&s->e, clock);
}

void recorder_prepare(struct recorder *r, struct rec_stream *s, uint32_t thread,
                      uint64_t clock, bool born) {
    if (born && s->e.tokens_left == 0) {
        recorder_time(r, s, clock);
        reserve(r, s, clock);
        put_tokens(&s->e, r->token, 6);
        r->token += 64;
    }
    reserve(r, s, clock);
    if (s->id == MTF_THREAD_LATE && s->as_thread != thread)
        put_payload(&s->e, mtf_inline_payload(MTF_RAW_AS_THREAD, thread));
    s->as_thread = thread;
}

struct history_event *recorder_event(struct recorder *r,
                                     const struct rec_stream *s,
                                     uint32_t thread, unsigned kind) {
    struct history *h = r->h;
    RECORDER_GROW(h->events, h->event_count, h->event_room);
    struct history_event *e = &h->events[h->event_count++];
    memset(e, 0, sizeof(*e));
    e->thread = thread;
    e->stream = s->id;
    e->offset = s->start + s->e.out.length;
    e->time = r->now;
    e->kind = (uint8_t)kind;
    return e;
}

/* --- Saver ---------------------------------------------------------------- */

static bool chance(struct recorder *r, unsigned percent) {
    return prng_below(&r->prng, 100) < percent;
}

static void write_data(struct recorder *r, const struct rec_full *b) {
    struct mtf_raw_place place = b->place;
    if (b->lose || b->from == b->to || chance(r, r->o->drop_percent))
        return;
    place.offset = place.buffer_start + b->from;
    if (!mtf_raw_write_data(&r->writer, &place, b->bytes + b->from,
                            b->to - b->from))
        abort();
    if (!chance(r, r->o->double_percent))
        return;
    /* as from a spool: the whole buffer, without a time after it */
    place.offset = place.buffer_start;
    place.time_lo = b->begin_ns;
    place.time_hi = UINT64_MAX;
    if (!mtf_raw_write_data(&r->writer, &place, b->bytes, b->to))
        abort();
}

static void write_full(struct recorder *r) {
    for (size_t i = 0; i < r->full_count; i++) {
        write_data(r, &r->full[i]);
        free(r->full[i].bytes);
    }
    r->full_count = 0;
}

/* Saves what is published of the buffer of S. */
static void look(struct recorder *r, struct rec_stream *s) {
    uint64_t before = r->now - prng_below(&r->prng, r->o->jitter_ns);
    uint64_t after = r->now + prng_below(&r->prng, r->o->jitter_ns);
    uint64_t awake = after;
    if (r->o->tick_ns != 0) { /* readings have one order: both are made now */
        before = recorder_clock(r, r->now);
        after = recorder_clock(r, r->now);
    }
    write_full(r);
    if (s->e.out.length == s->saved)
        return;
    struct rec_full b = {.place = {.thread = s->id,
                                   .buffer_start = s->start,
                                   .time_lo = s->look_lo,
                                   .time_hi = after},
                         .bytes = s->e.out.data,
                         .from = s->saved,
                         .to = s->e.out.length,
                         .begin_ns = s->begin_ns,
                         .lose = s->lose};
    write_data(r, &b);
    s->saved = s->e.out.length;
    s->look_lo = before < s->look_lo ? s->look_lo : before;
    r->saver_at = awake; /* it reads the clock before it goes on */
}

static void put_barrier(struct recorder *r) {
    struct history *h = r->h;
    if (!mtf_raw_write_barrier(&r->writer, r->barrier_time))
        abort();
    if (h->barrier_count == h->barrier_room) {
        h->barrier_room = h->barrier_room * 2 + 64;
        h->barrier_ends = realloc(h->barrier_ends,
                                  h->barrier_room * sizeof(*h->barrier_ends));
        h->barrier_times = realloc(h->barrier_times,
                                   h->barrier_room * sizeof(*h->barrier_times));
    }
    h->barrier_times[h->barrier_count] = r->barrier_time;
    h->barrier_ends[h->barrier_count++] = h->trace.length;
}

void recorder_saver_step(struct recorder *r) {
    if (!r->in_round) {
        r->in_round = true;
        r->saver_next = 0;
        r->barrier_time = recorder_clock(r, r->now);
    } else if (r->saver_next < RECORDER_STREAMS) {
        while (r->saver_next < RECORDER_STREAMS &&
               r->streams[r->saver_next].id == 0)
            r->saver_next++;
        if (r->saver_next < RECORDER_STREAMS)
            look(r, &r->streams[r->saver_next++]);
    } else {
        write_full(r);
        put_barrier(r);
        r->in_round = false;
        r->saver_at =
            r->now + r->o->round_ns / 2 + prng_below(&r->prng, r->o->round_ns);
        return;
    }
    if (r->saver_at < r->now)
        r->saver_at = r->now;
    r->saver_at += prng_below(&r->prng, 3000);
}

void recorder_begin(struct recorder *r, struct history *h,
                    const struct history_options *o) {
    memset(r, 0, sizeof(*r));
    r->h = h;
    r->o = o;
    r->token = 1000;
    r->now = 1000000000;
    prng_seed(&r->prng, o->saver_seed + 17);
    r->saver_at = r->now + prng_below(&r->prng, o->round_ns);
    begin_trace(&r->writer, &h->trace, false);
    recorder_open(r, MTF_THREAD_LATE, recorder_clock(r, r->now));
}

void recorder_finish(struct recorder *r) {
    write_full(r);
    bool spool = chance(r, r->o->spool_percent);
    for (unsigned i = 0; i < RECORDER_STREAMS; i++) {
        struct rec_stream *s = &r->streams[i];
        if (s->id == 0)
            continue;
        if (spool) {
            s->saved = 0; /* a spool has the whole buffer */
            s->look_lo = s->begin_ns;
            recorder_close(r, s, UINT64_MAX);
        } else {
            look(r, s);
            bytes_free(&s->e.out);
        }
    }
    write_full(r);
    if (!spool) {
        r->barrier_time = recorder_clock(r, r->now);
        put_barrier(r);
        mtf_raw_write_footer(&r->writer, r->now, NULL, 0);
    }
    free(r->full);
}
