/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fields of struct demux_event for rare events:
 *
 *   kind               token             size                 extra
 *   ALIGNED            token made        size                 log2 of alignment
 *   REALLOC            token named       size                 token made
 *   REALLOC_NEW        token made        size                 flags
 *   FREE_SIZE          token named       0                    size given
 *   FAILED             size              log2 of alignment    1: a resize
 *   THREAD_START       0                 0                    kernel thread id
 *   THREAD_END, TEXT   address of text   length of text       0
 *   PAIR               argument          which                0
 *   GAP                events dropped    time_hi - time_ns    time_ns
 *   AS_THREAD          thread            0                    0
 *
 * TEXT and PAIR are plain kinds of these forms (trace_event.h). A text stays in
 * the event's segment. The word of a REALLOC has no bit left for MOVED, so its
 * call field is call | moved << 5. AS_THREAD entries are not counted as events.
 */
#include "sort/demux.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define PADDING    16u
#define SIZE_LIMIT (((uint64_t)1 << 53) - 1)

/* --- Threads -------------------------------------------------------------- */

void demux_init(struct demux *d, struct slots *slots) {
    memset(d, 0, sizeof(*d));
    d->slots = slots;
    tcm_dlist_init(&d->by_age);
}

void demux_fini(struct demux *d) {
    for (size_t i = 0; i < d->ids.count; i++) {
        struct demux_thread *t = d->threads[i];
        while (t->first != NULL) {
            struct demux_chunk *next = t->first->next;
            free(t->first);
            t->first = next;
        }
        free(t->events);
        free(t->sites);
        free(t->index);
        free(t);
    }
    tool_map_fini(&d->births);
    free(d->site_defs);
    free(d->threads);
    tool_ids_fini(&d->ids);
}

struct demux_thread *demux_find(const struct demux *d, uint32_t id) {
    size_t at = tool_ids_find(&d->ids, id);
    return at == SIZE_MAX ? NULL : d->threads[at];
}

struct demux_thread *demux_thread(struct demux *d, uint32_t id) {
    struct demux_thread *t = demux_find(d, id);
    if (t != NULL)
        return t;
    t = calloc(1, sizeof(*t));
    struct demux_thread **entry =
        t == NULL ? NULL : tool_ids_get(&d->ids, &d->threads, sizeof(t), id);
    if (entry == NULL) {
        free(t);
        d->failed = true;
        return NULL;
    }
    TCM_ASSERT(*entry == NULL);
    *entry = t;
    t->id = id;
    t->out_id = id == MTF_THREAD_LATE ? MTF_THREAD_NONE : id;
    t->lost = true;
    for (unsigned i = 0; i < DEMUX_HEAPS; i++)
        t->heap_at[i] = SIZE_MAX;
    tcm_dlist_init(&t->stall_link);
    if (d->begins_late)
        mtf_stream_init_late(&t->stream);
    else
        mtf_stream_init(&t->stream);
    return t;
}

struct demux_thread *demux_add(struct demux *d, const struct mtf_item *item) {
    struct demux_thread *t = demux_thread(d, item->thread);
    if (t == NULL)
        return NULL;
    struct mtf_placement place;
    mtf_stream_place(&t->stream, item, &place);
    d->gap_bytes += place.gap;
    d->undecodable_bytes += place.undecodable;
    d->last_time = tcm_max_u64(d->last_time, item->time_lo);
    if (item->time_hi != UINT64_MAX)
        d->last_time = tcm_max_u64(d->last_time, item->time_hi);
    if (place.length == 0)
        return NULL;
    struct demux_chunk *c = malloc(sizeof(*c) + place.length + PADDING);
    if (c == NULL) {
        d->failed = true;
        return NULL;
    }
    c->next = NULL;
    tcm_dlist_push_back(&d->by_age, &c->by_age);
    c->indexed = false;
    c->window = d->barriers;
    c->time_lo = item->time_lo;
    c->time_hi = item->time_hi;
    c->length = place.length;
    memcpy(c->data, place.data, place.length);
    memset(c->data + place.length, 0, PADDING);
    if (t->last == NULL)
        t->first = c;
    else
        t->last->next = c;
    t->last = c;
    if (!t->is_new) {
        t->is_new = true;
        t->next_new = d->new_threads;
        d->new_threads = t;
    }
    d->held_bytes += place.length;
    if (d->held_bytes > d->held_peak)
        d->held_peak = d->held_bytes;
    return t;
}

/* --- Decoding ------------------------------------------------------------- */

static TCM_ALWAYS_INLINE void put(struct demux_event *out, unsigned kind,
                                  unsigned call, uint64_t token, uint64_t size,
                                  uint64_t extra) {
    out->token = token;
    out->word = kind | call << 5 | size << 11;
    out->extra = extra;
}

/*
 * Set of the extended events, by number, that `convert` makes an entry for. The
 * number of events of an interval is needed before they are decoded, so `scan`
 * counts by this set.
 */
#define SORTED(kind) ((uint64_t)1 << MTF_RAW_##kind)
#define NONE(...)
#define PLAIN(name, text, raw, proc, form)                                     \
    | (uint64_t)(MTF_FORM_##form != MTF_FORM_OWN) << (raw)
static const uint64_t sorted =
    SORTED(ALIGNED) | SORTED(FAILED) | SORTED(FREE_SIZE) | SORTED(REALLOC_NEW) |
    SORTED(REALLOC_END) | SORTED(THREAD_START) | SORTED(THREAD_END) |
    SORTED(GAP) MTF_EVENTS(PLAIN, NONE, NONE);
#undef SORTED
#undef NONE
#undef PLAIN

/* Makes the entry of a plain event. Returns 0, no entry, if processed traces
   have no such kind. */
static TCM_NOINLINE unsigned convert_plain(const struct mtf_event *e,
                                           struct demux_event *out) {
    const struct mtf_kind *k = mtf_plain_of_event(e->kind);
    if (k == NULL || k->proc == 0)
        return 0;
    TCM_ASSERT((sorted >> k->raw & 1) != 0);
    if (k->form == MTF_FORM_TEXT)
        put(out, e->kind, 0, (uintptr_t)e->text, e->text_length, 0);
    else
        put(out, e->kind, 0, e->value, e->call, 0);
    return 1;
}

/* Makes the entry of an event that is no time. Returns the number of entries
   made, 0 or 1. */
static unsigned convert(struct demux *d, const struct mtf_event *e,
                        struct demux_event *out) {
    switch (e->kind) {
    case MTF_EVENT_ALLOC:
        put(out, e->kind, e->call, e->token, e->size, 0);
        return 1;
    case MTF_EVENT_FREE:
    case MTF_EVENT_REALLOC_END:
        put(out, e->kind, e->call, e->old_token, 0, 0);
        return 1;
    case MTF_EVENT_REALLOC:
        put(out, e->kind,
            e->call | ((e->flags & MTF_EVENT_MOVED) != 0 ? 32u : 0),
            e->old_token, e->size, e->token);
        return 1;
    case MTF_EVENT_ALIGNED:
        put(out, e->kind, e->call, e->token, e->size, e->align_log2);
        return 1;
    case MTF_EVENT_REALLOC_NEW:
        put(out, e->kind, e->call, e->token, e->size, e->flags);
        return 1;
    case MTF_EVENT_FREE_SIZE:
        put(out, e->kind, e->call, e->old_token, 0, e->size);
        return 1;
    case MTF_EVENT_FAILED:
        put(out, e->kind, e->call, e->size, e->align_log2, e->old_token != 0);
        return 1;
    case MTF_EVENT_THREAD_START:
        put(out, e->kind, 0, 0, 0, e->value);
        return 1;
    case MTF_EVENT_THREAD_END:
        put(out, e->kind, 0, (uintptr_t)e->text, e->text_length, 0);
        return 1;
    case MTF_EVENT_GAP: {
        uint64_t width = e->time_hi > e->time_ns ? e->time_hi - e->time_ns : 0;
        put(out, e->kind, 0, e->value, tcm_min_u64(width, SIZE_LIMIT),
            e->time_ns);
        return 1;
    }
    case MTF_EVENT_AS_THREAD:
        put(out, DEMUX_EVENT_AS_THREAD, 0, e->thread, 0, 0);
        return 1;
    case MTF_EVENT_PRESENT: /* present.c reads it from the raw trace */
        d->present_events++;
        return 0;
    case MTF_EVENT_SITE_DEF:
        demux_site_def(d, e);
        return 0;
    case MTF_EVENT_WRONG: /* report --errors reads it from the raw trace */
        d->wrong_frees++;
        return 0;
    case MTF_EVENT_EXTENSION:
        /* Tokens of the parent are in no event but this one. */
        if (e->call != MTF_EXTENSION_FREE_INHERITED ||
            !slots_has(d->slots, e->value))
            return convert_plain(e, out);
        d->inherited_frees++;
        put(out, MTF_EVENT_FREE, MTF_CALL_FREE, e->value, 0, 0);
        return 1;
    case MTF_EVENT_STATE: /* the decoder has noted it in the stream's state */
    case MTF_EVENT_UNTRACED:
    case MTF_EVENT_UNKNOWN: /* of a later version */
        return 0;
    default:
        return convert_plain(e, out);
    }
}

/* Enlarges the array. False: it is as large as it may be, or no memory. */
static bool make_room(struct demux *d, struct demux_thread *t) {
    uint32_t limit =
        d->array_bytes < DEMUX_ARRAYS_MAX ? DEMUX_BATCH : DEMUX_BATCH_MIN;
    uint32_t room =
        t->room == 0 ? 8 : (uint32_t)tcm_min_u64(t->room * 4, limit);
    if (room <= t->room)
        return false;
    struct demux_event *events = realloc(t->events, room * sizeof(*events));
    if (events == NULL) {
        d->failed = true;
        return false;
    }
    t->events = events;
    if (t->has_sites) {
        uint32_t *sites = realloc(t->sites, room * sizeof(*sites));
        if (sites == NULL) {
            d->failed = true;
            return false;
        }
        t->sites = sites;
    }
    d->array_bytes += (room - t->room) * sizeof(*events);
    t->room = room;
    return true;
}

static void free_array(struct demux *d, struct demux_thread *t) {
    TCM_ASSERT(d->array_bytes >= t->room * sizeof(*t->events));
    d->array_bytes -= t->room * sizeof(*t->events);
    free(t->events);
    t->events = NULL;
    t->room = 0;
    free(t->sites);
    t->sites = NULL;
}

/* --- Call sites ----------------------------------------------------------- */

void demux_site_def(struct demux *d, const struct mtf_event *e) {
    size_t need = d->site_defs_length + 1 + e->text_length;
    TCM_ASSERT(e->text_length <= MTF_EXTENDED_MAX);
    if (d->no_sites)
        return;
    if (need > d->site_defs_room) {
        size_t room = 2 * need;
        uint8_t *defs = realloc(d->site_defs, room);
        if (defs == NULL) {
            d->failed = true;
            return;
        }
        d->site_defs = defs;
        d->site_defs_room = room;
    }
    d->site_defs[d->site_defs_length] = (uint8_t)e->text_length;
    memcpy(d->site_defs + d->site_defs_length + 1, e->text, e->text_length);
    d->site_defs_length = need;
}

/* Makes T's list of sites when the first one comes: the entries that are in the
   array by then have none. */
static void need_sites(struct demux *d, struct demux_thread *t) {
    t->has_sites = true;
    if (t->sites != NULL || t->room == 0)
        return;
    t->sites = calloc(t->room, sizeof(*t->sites));
    if (t->sites == NULL)
        d->failed = true;
}

enum stop_at {
    STOP_TIME,  /* behind a time, which is in next_lo */
    STOP_CHUNK, /* at the end of the segment */
    STOP_FULL   /* the array is full */
};

/* Decodes into the array, from t->count on, up to a time, the segment's end or
   a full array. *EVENTS: the number of events, without AS_THREAD entries. */
static enum stop_at decode(struct demux *d, struct demux_thread *t,
                           uint64_t *events) {
    struct mtf_raw_state s = t->state;
    const uint8_t *p = t->p, *end = t->end;
    enum stop_at result;
    uint64_t uncounted = 0;
    uint32_t count = t->count, start = count;
    for (;;) {
        if (p >= end) {
            result = STOP_CHUNK;
            break;
        }
        if (TCM_UNLIKELY(count == t->room)) {
            if (!make_room(d, t)) {
                result = STOP_FULL;
                break;
            }
        }
        TCM_ASSERT(count < t->room);
        struct mtf_event e;
        unsigned n = mtf_raw_decode_hot(&s, p, end, &e);
        if (TCM_LIKELY(n != 0)) {
            p += n;
            if (TCM_UNLIKELY(t->sites != NULL))
                t->sites[count] = t->site.last;
            if (e.kind == MTF_EVENT_FREE) {
                slots_prefetch(d->slots, e.old_token);
                put(&t->events[count++], MTF_EVENT_FREE, e.call, e.old_token, 0,
                    0);
            } else {
                put(&t->events[count++], MTF_EVENT_ALLOC, e.call, e.token,
                    e.size, 0);
            }
            continue;
        }
        struct mtf_event rare;
        struct mtf_raw_state copy = s;
        int taken = mtf_raw_decode_slow(&copy, p, end, &rare);
        s = copy;
        if (taken <= 0) {
            if (taken == MTF_DECODE_BAD)
                d->bad_places++;
            else
                d->hidden_zero++;
            d->undecodable_bytes += (uint64_t)(end - p);
            t->lost = true;
            p = end;
            continue;
        }
        p += taken;
        if (rare.kind == MTF_EVENT_SITE) {
            if (!d->no_sites) {
                need_sites(d, t);
                mtf_site_decode(&t->site, rare.value);
            }
            continue;
        }
        if (rare.kind == MTF_EVENT_BUFFER && t->has_sites)
            memset(&t->site, 0, sizeof(t->site));
        if (rare.kind == MTF_EVENT_TIME || rare.kind == MTF_EVENT_BUFFER) {
            t->next_lo = rare.time_ns;
            result = STOP_TIME;
            break;
        }
        if (rare.kind == MTF_EVENT_GAP)
            t->dropped += rare.value;
        if (rare.kind == MTF_EVENT_AS_THREAD && t->id != MTF_THREAD_LATE)
            continue; /* has a meaning in the late stream only */
        if (t->sites != NULL)
            t->sites[count] = t->site.last;
        unsigned made = convert(d, &rare, &t->events[count]);
        if (rare.kind == MTF_EVENT_AS_THREAD) {
            /* of several in a row only the last counts */
            if (count != 0 && demux_event_kind(&t->events[count - 1]) ==
                                  DEMUX_EVENT_AS_THREAD) {
                t->events[count - 1] = t->events[count];
                continue;
            }
            uncounted++;
        }
        count += made;
    }
    TCM_ASSERT(t->at <= count && count <= t->room && start <= count);
    TCM_ASSERT(uncounted <= count - start);
    t->state = s;
    t->p = p;
    t->count = count;
    *events = count - start - uncounted;
    return result;
}

/* Counts the events from P to the next time or END. *TIME: that time, or
   UINT64_MAX. NOW: the last time before P. */
static uint64_t scan(const uint8_t *p, const uint8_t *end, uint64_t now,
                     uint64_t *time) {
    uint64_t count = 0;
    *time = UINT64_MAX;
    for (size_t n; p < end; p += n) {
        uint64_t v;
        n = mtf_raw_event_length(p, end, &v);
        if (n == 0)
            break;
        if ((v & 3) != MTF_RAW_EXTENDED) {
            count++;
            continue;
        }
        unsigned kind = mtf_raw_kind_of(v);
        if (kind == MTF_RAW_TIME) {
            *time = now + (v >> 7);
            break;
        }
        if (kind == MTF_RAW_BUFFER) {
            *time = mtf_load_le64(p + n - (v >> 7));
            break;
        }
        count += sorted >> kind & 1;
    }
    return count;
}

/* Frees the segment that was decoded and starts the next. False: there is
   none. */
static bool next_chunk(struct demux *d, struct demux_thread *t) {
    for (;;) {
        struct demux_chunk *done = t->first;
        if (t->p != NULL) {
            t->first = done->next;
            tcm_dlist_remove(&done->by_age);
            TCM_ASSERT(d->held_bytes >= done->length);
            d->held_bytes -= done->length;
            free(done);
            t->p = NULL;
            if (t->first == NULL)
                t->last = NULL;
        }
        struct demux_chunk *c = t->first;
        if (c == NULL)
            return false;
        t->p = c->data;
        t->end = c->data + c->length;
        t->window = c->window;
        if (t->lost && !mtf_raw_is_buffer_event(t->p, t->end)) {
            d->undecodable_bytes += c->length;
            continue;
        }
        t->lost = false;
        t->next_lo = tcm_max_u64(t->next_lo, c->time_lo);
        return true;
    }
}

/* Tells whether T's interval has THREAD_END and no other event. */
static bool is_end_alone(const struct demux_thread *t) {
    return t->n == 1 && t->at + 1 == t->count &&
           demux_event_kind(&t->events[t->at]) == MTF_EVENT_THREAD_END;
}

/* Ends T's interval at TIME, or at the time after its segment if that is
   earlier. A THREAD_END alone in its interval is estimated at lo: older
   recorders wrote no time after it, so its interval would reach to the next
   barrier, and successive threads would overlap. */
static void limit_interval(const struct demux *d, struct demux_thread *t,
                           uint64_t time) {
    t->hi = tcm_max_u64(tcm_min_u64(time, t->first->time_hi), t->lo);
    uint64_t end = t->hi == UINT64_MAX ? d->last_time : t->hi;
    if (is_end_alone(t))
        end = t->lo;
    t->est_width = end > t->lo ? end - t->lo : 0;
}

/*
 * Limits the last interval of a segment to the end of the next segment's first
 * interval: the first time in that, or the time after it. The time after its
 * own segment may be much later, because the saver reads the clock after the
 * buffer. Why: the sorter looks at a thread's next event alone, so no later
 * event of the thread may have a smaller hi.
 */
bool demux_tighten(const struct demux *d, struct demux_thread *t) {
    const struct demux_chunk *next = t->first->next;
    if (!t->open_end || next == NULL)
        return false;
    const uint8_t *end = next->data + next->length;
    uint64_t time = UINT64_MAX;
    t->open_end = false;
    if (!t->lost || mtf_raw_is_buffer_event(next->data, end))
        (void)scan(next->data, end, t->state.time_ns, &time);
    time = tcm_min_u64(time, next->time_hi);
    if (time >= t->hi)
        return false;
    limit_interval(d, t, time);
    return true;
}

/* Empties the array. False: no memory. In the late stream, the thread of the
   next events was named by an event that may be gone with the old entries: an
   entry that names it again comes first. */
static bool start_array(struct demux *d, struct demux_thread *t) {
    t->at = t->count = 0;
    if (TCM_LIKELY(t->id != MTF_THREAD_LATE ||
                   t->state.as_thread == MTF_THREAD_NONE))
        return true;
    if (t->room == 0 && !make_room(d, t))
        return false;
    put(&t->events[t->count++], DEMUX_EVENT_AS_THREAD, 0, t->state.as_thread, 0,
        0);
    return true;
}

bool demux_next_interval(struct demux *d, struct demux_thread *t) {
    t->in_hand = false;
    t->i = t->n = 0;
    if (!start_array(d, t))
        return false;
    for (;;) {
        if (t->p == NULL || t->p >= t->end) {
            if (!next_chunk(d, t)) {
                if (t->ended || d->array_bytes > DEMUX_ARRAYS_KEPT)
                    free_array(d, t);
                return false;
            }
        }
        uint64_t events;
        t->lo = tcm_max_u64(t->lo, t->next_lo);
        enum stop_at stop = decode(d, t, &events);
        if (d->failed)
            return false;
        t->n += events;
        if (t->n == 0 && stop != STOP_FULL)
            continue; /* AS_THREAD entries alone stay in front */
        uint64_t time = UINT64_MAX;
        if (stop == STOP_TIME)
            time = t->next_lo;
        else if (stop == STOP_FULL)
            t->n += scan(t->p, t->end, t->state.time_ns, &time);
        limit_interval(d, t, time);
        t->open_end = time == UINT64_MAX;
        (void)demux_tighten(d, t);
        t->in_hand = t->n != 0;
        if (t->in_hand)
            return true;
        if (!start_array(d, t))
            return false;
    }
}

bool demux_refill(struct demux *d, struct demux_thread *t) {
    uint64_t events = 0;
    while (events == 0 && t->p < t->end && start_array(d, t))
        if (decode(d, t, &events) != STOP_FULL)
            break;
    if (events == 0)
        t->n = t->i;
    return events != 0;
}

/* --- Tokens in hand ------------------------------------------------------- */

/*
 * `births` indexes the tokens that events in hand make. Only damaged traces
 * call demux_makes, so indexing starts with the first call. Each call indexes
 * the segments that came since the last one, and tokens are removed as their
 * events are written: no byte is decoded twice.
 *
 * The indexed segments of a thread are its oldest ones. A token that two events
 * in hand make (a damaged trace) is removed with the first of them.
 */

/* State at the end of a thread's last indexed segment. */
struct demux_index {
    struct mtf_raw_state state;
    struct demux_chunk *chunk; /* that segment */
    bool lost;                 /* coding state unknown until the next buffer */
};

static bool add_bits(struct tool_map *m, uint64_t number, uint64_t bits) {
    TCM_ASSERT(bits != 0);
    struct tool_map_entry *w = tool_map_get(m, number + 1);
    if (w == NULL)
        return false;
    w->value |= bits;
    return true;
}

static void take_bits(struct tool_map *m, uint64_t number, uint64_t bits) {
    struct tool_map_entry *w = tool_map_find(m, number + 1);
    if (w == NULL)
        return;
    w->value &= ~bits;
    if (w->value == 0)
        tool_map_remove(m, w);
}

/* Tokens of one word of `births`, for one access: they mostly come one after
   the other. */
struct births_run {
    uint64_t number, bits;
};

static uint64_t bit_of(uint64_t token) {
    return (uint64_t)1 << (token & 63);
}

/* Adds TOKEN to R, whose tokens go to M first if TOKEN is of another word.
   False: no memory. */
static bool add_birth(struct tool_map *m, struct births_run *r,
                      uint64_t token) {
    if (r->number == token >> 6 || r->bits == 0) {
        r->number = token >> 6;
        r->bits |= bit_of(token);
        return true;
    }
    bool good = add_bits(m, r->number, r->bits);
    *r = (struct births_run){token >> 6, bit_of(token)};
    return good;
}

static bool is_birth(unsigned kind) {
    return kind == MTF_EVENT_ALLOC || kind == MTF_EVENT_REALLOC ||
           kind == MTF_EVENT_ALIGNED || kind == MTF_EVENT_REALLOC_NEW;
}

/* The token that E, which is_birth, makes. */
static uint64_t token_of(const struct demux_event *e) {
    return demux_event_kind(e) == MTF_EVENT_REALLOC ? e->extra : e->token;
}

void demux_written(struct demux *d, const struct demux_event *v,
                   uint32_t count) {
    struct births_run r = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!is_birth(demux_event_kind(&v[i])))
            continue;
        uint64_t token = token_of(&v[i]);
        if (r.bits != 0 && r.number != token >> 6) {
            take_bits(&d->births, r.number, r.bits);
            r.bits = 0;
        }
        r.number = token >> 6;
        r.bits |= bit_of(token);
    }
    if (r.bits != 0)
        take_bits(&d->births, r.number, r.bits);
}

/* Indexes the events from P to END, or to where they cannot be decoded. False:
   no memory. */
static bool index_bytes(struct tool_map *m, struct demux_index *at,
                        const uint8_t *p, const uint8_t *end) {
    struct births_run r = {0};
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
            good = add_birth(m, &r, e.token);
    }
    at->state = s;
    return good && (r.bits == 0 || add_bits(m, r.number, r.bits));
}

/* Indexes the decoded events of T that are not written. False: no memory. */
static bool index_array(struct tool_map *m, const struct demux_thread *t) {
    struct births_run r = {0};
    for (uint32_t i = t->at; t->in_hand && i < t->count; i++)
        if (is_birth(demux_event_kind(&t->events[i])) &&
            !add_birth(m, &r, token_of(&t->events[i])))
            return false;
    return r.bits == 0 || add_bits(m, r.number, r.bits);
}

/* Indexes the segments of T that are not yet indexed. False: no memory. */
static bool index_thread(struct tool_map *m, struct demux_thread *t) {
    struct demux_chunk *c = t->first;
    if (c == NULL)
        return true;
    if (t->index == NULL) {
        t->index = malloc(sizeof(*t->index));
        if (t->index == NULL)
            return false;
    }
    struct demux_index *at = t->index;
    const uint8_t *p = NULL, *end = NULL;
    if (c->indexed) {
        c = at->chunk->next;
    } else {
        if (!index_array(m, t))
            return false;
        at->state = t->state;
        at->lost = t->lost;
        p = t->p;
        end = t->end;
    }
    for (; c != NULL; c = c->next, p = NULL) {
        c->indexed = true;
        at->chunk = c;
        if (p == NULL) {
            p = c->data;
            end = p + c->length;
            if (at->lost && !mtf_raw_is_buffer_event(p, end))
                continue;
            at->lost = false;
        }
        if (!index_bytes(m, at, p, end))
            return false;
    }
    return true;
}

bool demux_makes(struct demux *d, uint64_t token) {
    while (d->new_threads != NULL && !d->failed) {
        struct demux_thread *t = d->new_threads;
        d->new_threads = t->next_new;
        t->is_new = false;
        if (!index_thread(&d->births, t))
            d->failed = true;
    }
    if (d->failed)
        return true;
    const struct tool_map_entry *w =
        tool_map_find(&d->births, (token >> 6) + 1);
    return w != NULL && (w->value & bit_of(token)) != 0;
}
