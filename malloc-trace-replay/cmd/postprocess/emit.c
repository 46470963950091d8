/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop that sees every event. ALLOC and FREE are handled in it, the rest
 * out of line. A free or realloc whose allocation is missing for good carries
 * `none` and is counted; nothing is written for such a free, and such a realloc
 * becomes an allocation.
 */
#include "emit.h"

#include "traceformat/proc_codec.h"

#include <stdlib.h>
#include <string.h>

bool emit_init(struct emit *e, struct demux *d, struct mtf_proc_writer *w) {
    memset(e, 0, sizeof(*e));
    e->demux = d;
    e->writer = w;
    return slots_init(&e->slots);
}

void emit_fini(struct emit *e) {
    slots_fini(&e->slots);
    free(e->makers);
}

/* --- Waiting -------------------------------------------------------------- */

void emit_wait(struct emit *e, struct demux_thread *t) {
    t->waits = true;
    t->waits_for = t->events[t->at].token;
    t->next_waiter = e->waiters;
    e->waiters = t;
    e->waiting[t->waits_for % EMIT_WAIT_BITS]++;
}

void emit_forget(struct emit *e, struct demux_thread *t) {
    struct demux_thread **at = &e->waiters;
    while (*at != t)
        at = &(*at)->next_waiter;
    *at = t->next_waiter;
    e->waiting[t->waits_for % EMIT_WAIT_BITS]--;
    t->waits = false;
}

/* TOKEN was born and somebody may wait for it. True: somebody did. */
static TCM_NOINLINE bool wake(struct emit *e, uint64_t token) {
    bool woke = false;
    struct demux_thread **at = &e->waiters;
    while (*at != NULL) {
        struct demux_thread *t = *at;
        if (t->waits_for != token) {
            at = &t->next_waiter;
            continue;
        }
        *at = t->next_waiter;
        e->waiting[token % EMIT_WAIT_BITS]--;
        t->waits = false;
        t->next_waiter = e->woken;
        e->woken = t;
        woke = true;
    }
    return woke;
}

static TCM_ALWAYS_INLINE bool born(struct emit *e, uint64_t token) {
    return TCM_UNLIKELY(e->waiting[token % EMIT_WAIT_BITS] != 0) &&
           wake(e, token);
}

/* --- The late stream ------------------------------------------------------ */

/*
 * An event of the late stream comes after all of its thread's own. Those were
 * published before, but a round of the saver may find the late one first; with
 * the round after that they are in hand or written.
 */
static bool may_be_late(const struct emit *e, const struct demux_thread *late,
                        uint32_t id) {
    const struct demux_thread *own = demux_find(e->demux, id);
    if (own != NULL && own->in_hand)
        return false;
    return (own != NULL && own->ended) || e->demux->barriers == UINT64_MAX ||
           e->demux->barriers >= late->window + 2;
}

/* Handles AS_THREAD entries in front of the next event. False: it has to wait.
 */
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
    if (e->live_bytes > e->peak_live_bytes)
        e->peak_live_bytes = e->live_bytes;
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

/* The object of TOKEN, whose allocation by T was written and got PLACE. */
static TCM_ALWAYS_INLINE void new_object(struct emit *e,
                                         const struct demux_thread *t,
                                         uint64_t token, uint64_t size,
                                         struct mtf_proc_object place) {
    e->makers[place.slot] = t->out_id;
    slots_put(&e->slots, token, size, place);
    e->counts.requested_bytes += size;
    add_live(e, size);
}

/* Ends the object that a free or realloc names; false: it names none (`none`
   was set). */
static TCM_ALWAYS_INLINE bool end_object(struct emit *e,
                                         const struct demux_thread *t,
                                         uint64_t token,
                                         struct slots_object *o) {
    if (TCM_UNLIKELY(t->none) || !slots_take(&e->slots, token, o))
        return false;
    e->live_bytes -= o->size;
    return true;
}

static TCM_ALWAYS_INLINE void count_foreign(struct emit *e,
                                            const struct demux_thread *t,
                                            const struct slots_object *o) {
    e->counts.foreign_frees += e->makers[o->place.slot] != t->out_id;
}

/* A realloc; true: somebody waited for the token it made. */
static bool run_realloc(struct emit *e, struct demux_thread *t,
                        const struct demux_event *v) {
    struct slots_object o;
    uint64_t size = demux_event_size(v);
    unsigned call = demux_event_call(v);
    bool moved = (call & 32) != 0;
    call &= 31;
    e->counts.reallocs++;
    /* one step: the old size goes before the new one comes */
    if (end_object(e, t, v->token, &o)) {
        mtf_proc_put_realloc(e->writer, call, moved, size, &o.place);
    } else {
        e->counts.unmatched_reallocs += !e->demux->begins_late;
        mtf_proc_put_realloc_new(e->writer, call, MTF_PROC_FLAG_OLD_UNKNOWN,
                                 size, &o.place);
    }
    new_object(e, t, v->extra, size, o.place);
    return born(e, v->extra);
}

/* A free of what is not there. In a trace whose beginning was not kept that is
   a block from before, no event of the trace. */
static bool counts_as_untraced(struct emit *e) {
    e->counts.untraced_frees += e->demux->begins_late;
    return e->demux->begins_late;
}

/* Frees of rare kinds. */
static void run_rare_free(struct emit *e, struct demux_thread *t,
                          const struct demux_event *v) {
    bool is_free = demux_event_kind(v) == MTF_EVENT_FREE_SIZE;
    struct slots_object o;
    bool found = end_object(e, t, v->token, &o);
    if (found)
        count_foreign(e, t, &o);
    else if (counts_as_untraced(e))
        return;
    if (is_free)
        e->counts.frees++;
    else
        e->counts.reallocs++;
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

/* Anything but ALLOC and FREE; true: somebody waited for the token it made. */
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
        mtf_proc_put_aligned(w, call, (unsigned)v->extra, size, &place);
        new_object(e, t, v->token, size, place);
        return born(e, v->token);
    case MTF_EVENT_REALLOC_NEW:
        e->counts.reallocs++;
        mtf_proc_put_realloc_new(
            w, call,
            v->extra & MTF_EVENT_OLD_UNKNOWN ? MTF_PROC_FLAG_OLD_UNKNOWN : 0,
            size, &place);
        new_object(e, t, v->token, size, place);
        return born(e, v->token);
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        run_rare_free(e, t, v);
        return false;
    case MTF_EVENT_FAILED:
        e->counts.failed++;
        mtf_proc_put_failed(w, call, (unsigned)size,
                            v->extra ? MTF_PROC_FLAG_HAD_OLD : 0, v->token);
        return false;
    case MTF_EVENT_THREAD_START:
        mtf_proc_put_thread_start(w, t->out_id, (uint32_t)v->extra);
        return false;
    case MTF_EVENT_THREAD_END:
        run_thread_end(e, t, v);
        return false;
    case MTF_EVENT_MARK:
        mtf_proc_put_mark(w, (const void *)(uintptr_t)v->token, size);
        return false;
    case MTF_EVENT_EXTENSION:
        mtf_proc_put_extension(w, (unsigned)size, v->token);
        return false;
    default: /* MTF_EVENT_GAP */
        mtf_proc_put_loss(w, t->out_id, v->token, v->extra, v->extra + size);
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

/* The events of the array that fit into COUNT; *DONE says how many went. */
static enum emit_stop run_array(struct emit *e, struct demux_thread *t,
                                uint64_t count, uint64_t *done) {
    struct mtf_proc_writer *w = e->writer;
    struct demux_event *v = t->events + t->at, *end = t->events + t->count;
    struct demux_event *first = v;
    enum emit_stop stop = EMIT_DONE;
    if ((uint64_t)(end - v) > count)
        end = v + count;
    for (; v < end; v++) {
        unsigned kind = demux_event_kind(v);
        if (kind == MTF_EVENT_ALLOC) {
            uint64_t size = demux_event_size(v);
            struct mtf_proc_object place;
            mtf_proc_put_alloc(w, demux_event_call(v), size, &place);
            new_object(e, t, v->token, size, place);
            e->counts.mallocs++;
            if (born(e, v->token)) {
                stop = EMIT_WOKE;
                v++;
                break;
            }
        } else if (kind == MTF_EVENT_FREE) {
            struct slots_object o;
            if (TCM_UNLIKELY(!end_object(e, t, v->token, &o))) {
                if (!t->none) {
                    stop = EMIT_WAITS;
                    break;
                }
                t->none = false;
                if (counts_as_untraced(e))
                    continue;
                e->counts.unmatched_frees++;
            } else {
                count_foreign(e, t, &o);
                mtf_proc_put_free(w, demux_event_call(v), &o.place);
            }
            e->counts.frees++;
        } else if (kind == DEMUX_EVENT_AS_THREAD) {
            break;
        } else {
            t->at = (uint32_t)(v - t->events);
            if (!t->none && emit_check(e, t) == EMIT_WAITS) {
                stop = EMIT_WAITS;
                break;
            }
            if (run_rare(e, t, v))
                stop = EMIT_WOKE;
            t->none = false;
            if (stop == EMIT_WOKE) {
                v++;
                break;
            }
        }
    }
    t->at = (uint32_t)(v - t->events);
    *done = (uint64_t)(v - first);
    return stop;
}

/* Room for the makers of all slots that one array of events can need. */
static bool reserve_makers(struct emit *e) {
    size_t need = (size_t)e->writer->slot_count + DEMUX_BATCH;
    if (TCM_LIKELY(need <= e->makers_room))
        return true;
    size_t room = need + e->makers_room / 8;
    uint32_t *makers = realloc(e->makers, room * sizeof(*makers));
    if (makers == NULL) {
        e->slots.failed = true;
        return false;
    }
    e->makers = makers;
    e->makers_room = room;
    return true;
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
        if (!reserve_makers(e))
            return EMIT_DONE;
        mtf_proc_put_switch(e->writer, t->out_id);
        if (!t->counted || t->id == MTF_THREAD_LATE)
            if (is_call(demux_event_kind(&t->events[t->at])))
                count_thread(e, t);
        /* one at a time until the thread is counted */
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
