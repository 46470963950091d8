/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_history.h"

#include "order_recorder.h"

#define CACHE_MAX   12
#define BATCH       6
#define OBJECTS_MAX 400
#define LATE_MAX    6 /* actions of a thread after its end */

struct object {
    uint64_t token, address, size;
};

/* Next step of a thread. */
enum stage {
    STAGE_IDLE,
    STAGE_PUBLISH_ALLOC,   /* the allocator has provided the block */
    STAGE_RELEASE,         /* the free is published */
    STAGE_GIVE,            /* the clock was read before giving up memory */
    STAGE_PUBLISH_REALLOC, /* the allocator has provided the new block */
};

struct sim_thread {
    uint32_t id;
    uint64_t at; /* time of the next step */
    int64_t skew;
    enum stage stage;
    bool slow;  /* took from the central list in this step */
    bool begun; /* its start is published */
    bool ended; /* it has no cache, and its events go to the late stream */
    unsigned late_left;
    uint64_t address, size;
    struct object old;
    uint64_t cache[CACHE_MAX + BATCH + 1];
    unsigned cached;
    struct object own[OBJECTS_MAX];
    unsigned owned;
    struct rec_stream *stream;
};

struct sim {
    struct history *h;
    const struct history_options *o;
    struct prng prng;
    struct recorder r;
    struct sim_thread threads[HISTORY_THREADS_MAX];
    uint32_t next_id;
    uint64_t central[1 << 16];
    size_t central_count;
    uint64_t fresh_address;
    struct object shared[64];
    unsigned shared_count;
    uint64_t live_bytes;
};

/* --- Recording ------------------------------------------------------------ */

static uint64_t clock_of(struct sim *s, const struct sim_thread *t) {
    return recorder_clock(&s->r, s->r.now + (uint64_t)t->skew);
}

static void prepare(struct sim *s, struct sim_thread *t, bool born) {
    if (t->stream == NULL && !t->ended)
        t->stream = recorder_open(&s->r, t->id, clock_of(s, t));
    recorder_prepare(&s->r, t->stream, t->id, clock_of(s, t), born);
}

static void count_live(struct sim *s, uint64_t gone, uint64_t come) {
    s->live_bytes += come - gone;
    if (s->live_bytes > s->h->peak_bytes)
        s->h->peak_bytes = s->live_bytes;
}

/* An allocation, or a realloc of OLD if there is one. */
static struct object record_birth(struct sim *s, struct sim_thread *t,
                                  const struct object *old) {
    prepare(s, t, true);
    struct history_event *e =
        recorder_event(&s->r, t->stream, t->id,
                       old == NULL ? MTF_EVENT_ALLOC : MTF_EVENT_REALLOC);
    e->size = t->size;
    e->address = t->address;
    if (old == NULL) {
        e->born = put_alloc(&t->stream->e, t->size);
    } else {
        e->needs = old->token;
        e->old_address = old->address;
        e->born = put_realloc(&t->stream->e, t->size, old->token,
                              t->address != old->address, false);
    }
    count_live(s, old == NULL ? 0 : old->size, t->size);
    if (e->born > s->h->greatest_token)
        s->h->greatest_token = e->born;
    return (struct object){e->born, t->address, t->size};
}

static void record_free(struct sim *s, struct sim_thread *t,
                        const struct object *o) {
    prepare(s, t, false);
    struct history_event *e =
        recorder_event(&s->r, t->stream, t->id, MTF_EVENT_FREE);
    e->needs = o->token;
    e->old_address = o->address;
    put_free(&t->stream->e, o->token);
    count_live(s, o->size, 0);
}

static void record_start(struct sim *s, struct sim_thread *t) {
    prepare(s, t, false);
    recorder_event(&s->r, t->stream, t->id, MTF_EVENT_THREAD_START);
    PUT(&t->stream->e, mtf_raw_put_thread_start, t->id);
    t->begun = true;
}

static void record_end(struct sim *s, struct sim_thread *t) {
    prepare(s, t, false);
    recorder_event(&s->r, t->stream, t->id, MTF_EVENT_THREAD_END);
    PUT(&t->stream->e, mtf_raw_put_bytes, MTF_RAW_THREAD_END, "t", 1);
}

/* --- Program -------------------------------------------------------------- */

/* Begins a new thread in the place of T, which is gone. */
static void begin_thread(struct sim *s, struct sim_thread *t) {
    memset(t, 0, sizeof(*t));
    t->id = ++s->next_id;
    t->at = s->r.now + prng_below(&s->prng, 5000);
    if (s->o->skew_ns != 0)
        t->skew = (int64_t)prng_below(&s->prng, 2 * s->o->skew_ns) -
                  (int64_t)s->o->skew_ns;
}

static uint64_t get_block(struct sim *s, struct sim_thread *t) {
    t->slow = t->cached == 0;
    if (t->slow)
        for (unsigned i = 0; i < (t->ended ? 1 : BATCH); i++)
            t->cache[t->cached++] = s->central_count != 0
                                        ? s->central[--s->central_count]
                                        : (s->fresh_address += 16);
    return t->cache[--t->cached];
}

static void give_blocks(struct sim *s, struct sim_thread *t, unsigned keep) {
    while (t->cached > keep)
        s->central[s->central_count++] = t->cache[--t->cached];
}

static void share_or_keep(struct sim *s, struct sim_thread *t,
                          struct object o) {
    if (s->shared_count < TCM_ARRAY_SIZE(s->shared) &&
        (prng_below(&s->prng, 4) == 0 || t->ended))
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

/* Ends T, whose cache is given up as in a destructor: after a reading of the
   clock. */
static void end_thread(struct sim *s, struct sim_thread *t) {
    recorder_time(&s->r, t->stream, clock_of(s, t));
    record_end(s, t);
    /* Older recorders wrote no time behind the end. */
    if (t->id % 2 != 0)
        recorder_time(&s->r, t->stream, clock_of(s, t));
    recorder_close(&s->r, t->stream, clock_of(s, t));
    give_blocks(s, t, 0);
    t->stream = &s->r.streams[0];
    t->ended = true;
    t->late_left = (unsigned)prng_below(&s->prng, LATE_MAX);
}

static void begin_action(struct sim *s, struct sim_thread *t) {
    unsigned dice = (unsigned)prng_below(&s->prng, 100);
    if (t->ended && t->late_left-- == 0) {
        begin_thread(s, t);
        return;
    }
    if (!t->begun) {
        record_start(s, t);
        return;
    }
    if (!t->ended && prng_below(&s->prng, 1000) < s->o->end_permille) {
        end_thread(s, t);
        return;
    }
    /* Each event has its own size, so that the test can tell them apart. */
    t->size = s->h->event_count * 8 + t->id % 8;
    if (t->owned == OBJECTS_MAX)
        dice = 99;
    if (dice < 50 || (t->owned == 0 && s->shared_count == 0)) {
        t->address = get_block(s, t);
        t->stage = STAGE_PUBLISH_ALLOC;
    } else if (dice < 60 && t->owned != 0) {
        t->old = pick(&s->prng, t->own, &t->owned);
        t->slow = false;
        t->address =
            prng_below(&s->prng, 3) == 0 ? t->old.address : get_block(s, t);
        t->stage = STAGE_PUBLISH_REALLOC;
    } else {
        t->old = s->shared_count != 0 && (dice < 75 || t->owned == 0)
                     ? pick(&s->prng, s->shared, &s->shared_count)
                     : pick(&s->prng, t->own, &t->owned);
        record_free(s, t, &t->old);
        t->stage = STAGE_RELEASE;
    }
}

/* Puts the old block into the cache. When the cache is full, reads the clock;
   memory is given up in the next step. */
static void release(struct sim *s, struct sim_thread *t) {
    t->cache[t->cached++] = t->old.address;
    t->stage = STAGE_IDLE;
    if (t->cached > CACHE_MAX || t->ended) {
        recorder_time(&s->r, t->stream, clock_of(s, t));
        t->stage = STAGE_GIVE;
    }
}

static void step(struct sim *s, struct sim_thread *t) {
    struct object made;
    bool moved;
    switch (t->stage) {
    case STAGE_IDLE:
        begin_action(s, t);
        break;
    case STAGE_PUBLISH_ALLOC:
    case STAGE_PUBLISH_REALLOC:
        if (t->slow)
            recorder_time(&s->r, t->stream, clock_of(s, t) + 1);
        moved =
            t->stage == STAGE_PUBLISH_REALLOC && t->address != t->old.address;
        made = record_birth(s, t,
                            t->stage == STAGE_PUBLISH_REALLOC ? &t->old : NULL);
        t->stage = moved ? STAGE_RELEASE : STAGE_IDLE;
        share_or_keep(s, t, made);
        break;
    case STAGE_RELEASE:
        release(s, t);
        break;
    case STAGE_GIVE:
        give_blocks(s, t, t->ended ? 0 : CACHE_MAX / 2);
        t->stage = STAGE_IDLE;
        break;
    }
    if (t->at > s->r.now) /* another thread now */
        return;
    t->at = s->r.now + 5 + prng_below(&s->prng, 120);
    if (prng_below(&s->prng, 400) == 0)
        t->at += prng_below(&s->prng, 30000);
}

void history_make(struct history *h, const struct history_options *o) {
    struct sim *s = calloc(1, sizeof(*s));
    memset(h, 0, sizeof(*h));
    s->h = h;
    s->o = o;
    prng_seed(&s->prng, o->seed);
    recorder_begin(&s->r, h, o);
    for (unsigned i = 0; i < o->threads; i++)
        begin_thread(s, &s->threads[i]);
    while (h->event_count < o->events) {
        struct sim_thread *t = &s->threads[0];
        for (unsigned i = 1; i < o->threads; i++)
            if (s->threads[i].at < t->at)
                t = &s->threads[i];
        if (s->r.saver_at < t->at) {
            s->r.now = s->r.saver_at;
            recorder_saver_step(&s->r);
        } else {
            s->r.now = t->at;
            step(s, t);
        }
    }
    recorder_finish(&s->r);
    h->greatest_address = s->fresh_address;
    free(s);
}

void history_free(struct history *h) {
    free(h->events);
    bytes_free(&h->trace);
    free(h->barrier_ends);
    free(h->barrier_times);
}

/* --- Reading -------------------------------------------------------------- */

void history_read_begin(struct history_reader *r, const void *bytes,
                        size_t length) {
    memset(r, 0, sizeof(*r));
    memory_source_init(&r->memory, bytes, length, 0);
    r->buffer = malloc(MTF_READER_BUFFER);
    mtf_raw_reader_init(&r->reader, &r->memory.source, r->buffer);
}

bool history_read_next(struct history_reader *r, struct mtf_item *item) {
    mtf_raw_reader_next(&r->reader, item);
    return item->kind != MTF_ITEM_END && item->kind != MTF_ITEM_FAILED;
}

void history_read_end(struct history_reader *r) {
    free(r->buffer);
}
