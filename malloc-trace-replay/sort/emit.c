/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run_frequent is the loop that every event passes. It handles ALLOC and FREE;
 * other events are handled out of line. A thread's `none` says that its next
 * event is a free or realloc whose allocation is lost: the event is counted, a
 * free is not written, and a realloc becomes an allocation.
 */
#include "sort/emit.h"

#include "base/check.h"
#include "common/collections.h"
#include "traceformat/proc_writer.h"

#include <stdlib.h>
#include <string.h>

/* --- Waiters -------------------------------------------------------------- */

#define BUCKETS_FIRST 64u

static struct demux_thread **bucket_of(const struct emit_waiters *w,
                                       uint64_t token) {
    return &w->bucket[tool_hash(token, w->seed) & w->mask];
}

static bool waiters_init(struct emit_waiters *w) {
    memset(w, 0, sizeof(*w));
    w->seed = tool_hash_seed();
    w->mask = BUCKETS_FIRST - 1;
    w->bucket = calloc(BUCKETS_FIRST, sizeof(struct demux_thread *));
    return w->bucket != NULL;
}

static void waiters_fini(struct emit_waiters *w) {
    free(w->bucket);
}

static void waiters_enter(struct demux_thread **at, struct demux_thread *t) {
    t->next_waiter = *at;
    t->waiter_at = at;
    if (*at != NULL)
        (*at)->waiter_at = &t->next_waiter;
    *at = t;
}

static void waiters_remove(struct emit_waiters *w, struct demux_thread *t) {
    TCM_ASSERT(t->waits && *t->waiter_at == t && w->count != 0);
    TCM_ASSERT(w->counts[t->waits_for % EMIT_WAITER_COUNTS] != 0);
    *t->waiter_at = t->next_waiter;
    if (t->next_waiter != NULL)
        t->next_waiter->waiter_at = t->waiter_at;
    w->counts[t->waits_for % EMIT_WAITER_COUNTS]--;
    w->count--;
    t->waits = false;
}

static bool waiters_grow(struct emit_waiters *w) {
    struct demux_thread **old = w->bucket;
    size_t entries = w->mask + 1;
    w->bucket = calloc(2 * entries, sizeof(struct demux_thread *));
    if (w->bucket == NULL) {
        w->bucket = old;
        return false;
    }
    w->mask = 2 * entries - 1;
    for (size_t i = 0; i < entries; i++)
        for (struct demux_thread *t = old[i], *next; t != NULL; t = next) {
            next = t->next_waiter;
            waiters_enter(bucket_of(w, t->waits_for), t);
        }
    free(old);
    return true;
}

/* Adds T, which waits for TOKEN. False: no memory. */
static bool waiters_add(struct emit_waiters *w, struct demux_thread *t,
                        uint64_t token) {
    TCM_ASSERT(!t->waits);
    if (w->count > w->mask && !waiters_grow(w))
        return false;
    t->waits = true;
    t->waits_for = token;
    waiters_enter(bucket_of(w, token), t);
    w->counts[token % EMIT_WAITER_COUNTS]++;
    w->count++;
    return true;
}

/* Moves the threads that wait for TOKEN to the front of *WOKEN, a list by
   next_waiter. False: there are none. */
static bool waiters_wake(struct emit_waiters *w, uint64_t token,
                         struct demux_thread **woken) {
    bool woke = false;
    struct demux_thread *next;
    for (struct demux_thread *t = *bucket_of(w, token); t != NULL; t = next) {
        next = t->next_waiter;
        if (t->waits_for != token)
            continue;
        waiters_remove(w, t);
        t->next_waiter = *woken;
        *woken = t;
        woke = true;
    }
    return woke;
}

/* False: no thread waits for TOKEN. True: a thread may. */
static TCM_ALWAYS_INLINE bool waiters_may_have(const struct emit_waiters *w,
                                               uint64_t token) {
    return w->counts[token % EMIT_WAITER_COUNTS] != 0;
}

/* --- Begin and end -------------------------------------------------------- */

bool emit_init(struct emit *e, struct demux *d, struct mtf_proc_writer *w) {
    memset(e, 0, sizeof(*e));
    e->demux = d;
    e->writer = w;
    return slots_init(&e->slots) && waiters_init(&e->waiters);
}

void emit_fini(struct emit *e) {
    slots_fini(&e->slots);
    waiters_fini(&e->waiters);
    present_fini(&e->present);
}

/* --- Waiting -------------------------------------------------------------- */

void emit_wait(struct emit *e, struct demux_thread *t) {
    if (!waiters_add(&e->waiters, t, t->events[t->at].token))
        e->slots.failed = true;
}

void emit_forget(struct emit *e, struct demux_thread *t) {
    waiters_remove(&e->waiters, t);
}

/* Wakes the threads that wait for TOKEN, which was born. False: there are
   none. */
static TCM_NOINLINE bool wake(struct emit *e, uint64_t token) {
    return waiters_wake(&e->waiters, token, &e->woken);
}

static TCM_ALWAYS_INLINE bool born(struct emit *e, uint64_t token) {
    return TCM_UNLIKELY(waiters_may_have(&e->waiters, token)) && wake(e, token);
}

/* --- The late stream ------------------------------------------------------ */

/*
 * Tells whether the next event of the late stream, of thread ID, may be
 * written: after all events of the thread's own stream. The saver may find the
 * late event one round before the last of those.
 */
static bool may_be_late(const struct emit *e, const struct demux_thread *late,
                        uint32_t id) {
    const struct demux_thread *own = demux_find(e->demux, id);
    if (own != NULL && own->in_hand)
        return false;
    return (own != NULL && own->ended) || e->demux->barriers == UINT64_MAX ||
           e->demux->barriers >= late->window + 2;
}

/* Passes the AS_THREAD entries in front of the late stream's next event. False:
   the event has to wait. */
static bool pass_as_thread(struct emit *e, struct demux_thread *t) {
    for (uint32_t i = t->at; i < t->count; i++) {
        const struct demux_event *v = &t->events[i];
        if (demux_event_kind(v) != DEMUX_EVENT_AS_THREAD) {
            if (!may_be_late(e, t, t->out_id))
                return false;
            break;
        }
        t->out_id = (uint32_t)v->token;
        t->at = i + 1;
    }
    return true;
}

/* --- Events --------------------------------------------------------------- */

static TCM_ALWAYS_INLINE void add_live(struct emit *e, uint64_t size) {
    e->live_bytes += size;
    e->peak_live_bytes = tcm_max_u64(e->peak_live_bytes, e->live_bytes);
}

static void count_thread(struct emit *e, struct demux_thread *t) {
    if (t->out_id != t->id) {
        t = demux_thread(e->demux, t->out_id);
        if (t == NULL)
            return;
    }
    e->counts.threads += !t->counted;
    t->counted = true;
}

/* Writes the present bytes of the block of TOKEN, which the next record makes,
   if they are known and fewer than SIZE. */
static TCM_NOINLINE void note_present(struct emit *e, uint64_t token,
                                      uint32_t site, unsigned call,
                                      uint64_t size) {
    uint64_t bytes;
    if (present_of(&e->present, token, site, call, size, &bytes))
        mtf_proc_put_present(e->writer, bytes);
    if (e->present.failed)
        e->slots.failed = true;
}

/* Adds and counts the object of TOKEN, whose allocation was written and got
   PLACE. */
static TCM_ALWAYS_INLINE void new_object(struct emit *e, uint64_t token,
                                         uint64_t size,
                                         struct mtf_proc_object place) {
    slots_put(&e->slots, token, size, place);
    e->counts.requested_bytes += size;
    add_live(e, size);
}

/* Removes the object that a free or realloc of T names into *O. False: its
   allocation is missing. */
static TCM_ALWAYS_INLINE bool end_object(struct emit *e,
                                         const struct demux_thread *t,
                                         uint64_t token,
                                         struct slots_object *o) {
    if (TCM_UNLIKELY(t->none) || !slots_take(&e->slots, token, o))
        return false;
    e->live_bytes -= o->size;
    return true;
}

/* Blocks are made by plain calls, because the calls that free them are not
   known. */
void emit_inherited(struct emit *e, const struct inherited *in) {
    struct mtf_proc_writer *w = e->writer;
    struct mtf_proc_object place;
    struct demux_thread *t = demux_thread(e->demux, 1);
    if (t == NULL)
        return;
    count_thread(e, t);
    mtf_proc_put_phase(w, MTF_PROC_PHASE_PROLOGUE);
    mtf_proc_put_switch(w, t->id);
    for (size_t i = 0; i < in->count; i++) {
        const struct inherited_block *b = &in->block[i];
        if (b->present != INHERITED_ALL)
            mtf_proc_put_present(w, b->present);
        if (b->align_log2 != 0)
            mtf_proc_put_aligned(w, MTF_CALL_MEMALIGN, b->align_log2, b->size,
                                 &place);
        else
            mtf_proc_put_alloc(w, MTF_CALL_MALLOC, b->size, &place);
        e->counts.memaligns += b->align_log2 != 0;
        e->counts.mallocs += b->align_log2 == 0;
        new_object(e, b->token, b->size, place);
    }
    mtf_proc_put_phase(w, MTF_PROC_PHASE_RECORDED);
}

/* The call site of T's event at V. */
static TCM_ALWAYS_INLINE uint32_t site_of(const struct demux_thread *t,
                                          const struct demux_event *v) {
    return t->sites == NULL ? MTF_SITE_NONE : t->sites[v - t->events];
}

void emit_site_defs(struct emit *e) {
    struct demux *d = e->demux;
    for (size_t at = 0; at < d->site_defs_length;) {
        uint8_t n = d->site_defs[at];
        mtf_proc_put_site_def(e->writer, d->site_defs + at + 1, n);
        at += 1u + n;
    }
    d->site_defs_length = 0;
}

/* Writes a realloc of T. True: a thread waited for the token that it makes. */
static bool run_realloc(struct emit *e, struct demux_thread *t,
                        const struct demux_event *v) {
    struct slots_object o;
    uint64_t size = demux_event_size(v);
    unsigned call = demux_event_call(v);
    bool moved = (call & 32) != 0;
    call &= 31;
    e->counts.reallocs++;
    mtf_proc_put_site(e->writer, site_of(t, v));
    note_present(e, v->extra, site_of(t, v), call, size);
    /* one step: the old size goes before the new one comes */
    if (end_object(e, t, v->token, &o)) {
        mtf_proc_put_realloc(e->writer, call, moved, size, &o.place);
    } else {
        e->counts.unmatched_reallocs += !e->demux->begins_late;
        mtf_proc_put_realloc_new(e->writer, call, MTF_PROC_FLAG_OLD_UNKNOWN,
                                 size, &o.place);
    }
    new_object(e, v->extra, size, o.place);
    return born(e, v->extra);
}

/* Tells whether a free of a missing block is of a block from before the trace,
   and counts it then: the beginning of the recording was not kept, and such a
   free is no event of the trace. */
static bool counts_as_untraced(struct emit *e) {
    e->counts.untraced_frees += e->demux->begins_late;
    return e->demux->begins_late;
}

/* Writes a free of a rare kind. */
static void run_rare_free(struct emit *e, struct demux_thread *t,
                          const struct demux_event *v) {
    bool is_free = demux_event_kind(v) == MTF_EVENT_FREE_SIZE;
    struct slots_object o;
    bool found = end_object(e, t, v->token, &o);
    if (!found && counts_as_untraced(e))
        return;
    if (is_free)
        e->counts.frees++;
    else
        e->counts.reallocs++;
    if (found && e->free_sites)
        mtf_proc_put_site(e->writer, site_of(t, v));
    if (!found)
        e->counts.unmatched_frees++;
    else if (is_free)
        mtf_proc_put_free_size(e->writer, demux_event_call(v), &o.place,
                               v->extra);
    else
        mtf_proc_put_realloc_end(e->writer, demux_event_call(v), &o.place);
}

static void run_thread_end(struct emit *e, struct demux_thread *t,
                           const struct demux_event *v) {
    mtf_proc_put_thread_end(e->writer, t->out_id,
                            (const void *)(uintptr_t)v->token,
                            demux_event_size(v));
    t->ended = t->id == t->out_id;
}

static TCM_NOINLINE void put_plain(struct emit *e,
                                   const struct demux_event *v) {
    const struct mtf_kind *k = mtf_plain_of_event(demux_event_kind(v));
    enum mtf_proc_kind kind = (enum mtf_proc_kind)k->proc;
    if (k->form == MTF_FORM_TEXT)
        mtf_proc_put_text(e->writer, kind, (const void *)(uintptr_t)v->token,
                          demux_event_size(v));
    else
        mtf_proc_put_pair(e->writer, kind, (unsigned)demux_event_size(v),
                          v->token);
}

/* Writes an event that is neither ALLOC nor FREE. True: a thread waited for the
   token that it makes. */
static TCM_NOINLINE bool run_rare(struct emit *e, struct demux_thread *t,
                                  const struct demux_event *v) {
    struct mtf_proc_writer *w = e->writer;
    uint64_t size = demux_event_size(v);
    unsigned call = demux_event_call(v);
    struct mtf_proc_object place;
    switch (demux_event_kind(v)) {
    case MTF_EVENT_REALLOC:
        return run_realloc(e, t, v);
    case MTF_EVENT_ALIGNED:
        e->counts.memaligns++;
        mtf_proc_put_site(w, site_of(t, v));
        note_present(e, v->token, site_of(t, v), call, size);
        mtf_proc_put_aligned(w, call, (unsigned)v->extra, size, &place);
        new_object(e, v->token, size, place);
        return born(e, v->token);
    case MTF_EVENT_REALLOC_NEW:
        e->counts.reallocs++;
        mtf_proc_put_site(w, site_of(t, v));
        note_present(e, v->token, site_of(t, v), call, size);
        mtf_proc_put_realloc_new(
            w, call,
            v->extra & MTF_EVENT_OLD_UNKNOWN ? MTF_PROC_FLAG_OLD_UNKNOWN : 0,
            size, &place);
        new_object(e, v->token, size, place);
        return born(e, v->token);
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        run_rare_free(e, t, v);
        return false;
    case MTF_EVENT_FAILED:
        e->counts.failed++;
        mtf_proc_put_site(w, site_of(t, v));
        mtf_proc_put_failed(w, call, (unsigned)size,
                            v->extra ? MTF_PROC_FLAG_HAD_OLD : 0, v->token);
        return false;
    case MTF_EVENT_THREAD_START:
        mtf_proc_put_thread_start(w, t->out_id, (uint32_t)v->extra);
        return false;
    case MTF_EVENT_THREAD_END:
        run_thread_end(e, t, v);
        return false;
    case MTF_EVENT_GAP:
        mtf_proc_put_loss(w, t->out_id, v->token, v->extra, v->extra + size);
        return false;
    default:
        put_plain(e, v);
        return false;
    }
}

static bool is_call(unsigned kind) {
    return kind <= MTF_EVENT_FAILED;
}

enum emit_stop emit_check(struct emit *e, struct demux_thread *t) {
    if (TCM_UNLIKELY(t->id == MTF_THREAD_LATE) && !pass_as_thread(e, t))
        return EMIT_LATE;
    if (t->at == t->count || t->none)
        return EMIT_DONE;
    const struct demux_event *v = &t->events[t->at];
    if (demux_event_names(v) && !slots_has(&e->slots, v->token))
        return EMIT_WAITS;
    return EMIT_DONE;
}

/* Distance, in events, of the prefetch of the objects that they name. */
#define AHEAD 12

/*
 * Writes the frequent events from t->at to END, or to an event of another kind.
 * T has no `none` set. All that changes with each event stays in registers.
 */
static TCM_NOINLINE enum emit_stop run_frequent(struct emit *e,
                                                struct demux_thread *t,
                                                const struct demux_event *end) {
    struct mtf_proc_writer *w = e->writer;
    struct mtf_proc_hot hot = w->hot;
    const struct demux_event *v = t->events + t->at;
    const struct demux_event *ahead = t->events + t->count - 1;
    uint64_t live = e->live_bytes, requested = 0;
    uint64_t peak = e->peak_live_bytes;
    uint64_t mallocs = 0, frees = 0;
    bool free_sites = e->free_sites;
    enum emit_stop stop = EMIT_DONE;
    for (; v < end; v++) {
        unsigned kind = demux_event_kind(v);
        slots_prefetch(&e->slots,
                       (v + AHEAD < ahead ? v + AHEAD : ahead)->token);
        if (kind == MTF_EVENT_ALLOC) {
            uint64_t size = demux_event_size(v);
            struct mtf_proc_object place;
            uint32_t site = site_of(t, v);
            if (TCM_UNLIKELY(site != w->site))
                MTF_PROC_OUT_OF_LINE(w, &hot, mtf_proc_set_site(w, site));
            if (TCM_UNLIKELY(size > MTF_PRESENT_ABOVE))
                MTF_PROC_OUT_OF_LINE(
                    w, &hot,
                    note_present(e, v->token, site, demux_event_call(v), size));
            mtf_proc_put_alloc_hot(w, &hot, demux_event_call(v), size, &place);
            slots_put(&e->slots, v->token, size, place);
            requested += size;
            live += size;
            peak = live > peak ? live : peak;
            mallocs++;
            if (born(e, v->token)) {
                v++;
                stop = EMIT_WOKE;
                break;
            }
        } else if (kind == MTF_EVENT_FREE) {
            struct slots_object o;
            if (TCM_UNLIKELY(!slots_take(&e->slots, v->token, &o))) {
                stop = EMIT_WAITS;
                break;
            }
            live -= o.size;
            frees++;
            if (TCM_UNLIKELY(free_sites) && site_of(t, v) != w->site)
                MTF_PROC_OUT_OF_LINE(w, &hot,
                                     mtf_proc_set_site(w, site_of(t, v)));
            mtf_proc_put_free_hot(w, &hot, demux_event_call(v), &o.place);
        } else {
            break;
        }
    }
    w->hot = hot;
    TCM_ASSERT(live <= peak && v <= end);
    e->live_bytes = live;
    e->peak_live_bytes = peak;
    e->counts.requested_bytes += requested;
    e->counts.mallocs += mallocs;
    e->counts.frees += frees;
    t->at = (uint32_t)(v - t->events);
    return stop;
}

/* Writes one event that is rare, or whose allocation is missing. */
static enum emit_stop run_one(struct emit *e, struct demux_thread *t) {
    const struct demux_event *v = &t->events[t->at];
    if (!t->none && emit_check(e, t) == EMIT_WAITS)
        return EMIT_WAITS;
    bool woke = false;
    if (demux_event_kind(v) != MTF_EVENT_FREE) {
        woke = run_rare(e, t, v);
    } else if (!counts_as_untraced(e)) {
        e->counts.unmatched_frees++;
        e->counts.frees++;
    }
    t->none = false;
    t->at++;
    return woke ? EMIT_WOKE : EMIT_DONE;
}

/* Writes the events of T's array, up to COUNT. *DONE: the number of written
   events. */
static enum emit_stop run_array(struct emit *e, struct demux_thread *t,
                                uint64_t count, uint64_t *done) {
    uint32_t first = t->at;
    uint32_t end = first + (uint32_t)tcm_min_u64(t->count - first, count);
    enum emit_stop stop = EMIT_DONE;
    while (t->at < end && stop == EMIT_DONE) {
        if (!t->none)
            stop = run_frequent(e, t, t->events + end);
        if (stop != EMIT_DONE || t->at == end ||
            demux_event_kind(&t->events[t->at]) == DEMUX_EVENT_AS_THREAD)
            break;
        stop = run_one(e, t);
    }
    *done = t->at - first;
    if (TCM_UNLIKELY(e->demux->births.count != 0) && t->first->indexed)
        demux_written(e->demux, t->events + first, t->at - first);
    return stop;
}

enum emit_stop emit_run(struct emit *e, struct demux_thread *t,
                        uint64_t count) {
    while (count != 0) {
        uint64_t done;
        enum emit_stop stop = emit_check(e, t);
        if (stop != EMIT_DONE)
            return stop;
        if (t->at == t->count) {
            if (!demux_refill(e->demux, t))
                return EMIT_DONE;
            continue;
        }
        if (TCM_UNLIKELY(e->demux->site_defs_length != 0))
            emit_site_defs(e);
        mtf_proc_put_switch(e->writer, t->out_id);
        if (!t->counted || t->id == MTF_THREAD_LATE)
            if (is_call(demux_event_kind(&t->events[t->at])))
                count_thread(e, t);
        /* Until the thread is counted, each event may be its first call. */
        bool single = !t->counted || t->id == MTF_THREAD_LATE;
        stop = run_array(e, t, single ? 1 : count, &done);
        t->i += done;
        count -= done;
        if (stop != EMIT_DONE)
            return stop;
        if (e->writer->failed || e->slots.failed || e->demux->failed)
            return EMIT_DONE;
    }
    return EMIT_DONE;
}
