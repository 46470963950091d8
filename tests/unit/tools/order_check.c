/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_check.h"

#include "tap.h"

#include <unistd.h>

void sort_trace(struct sorted *out, const void *trace, size_t length) {
    struct sorter *s = sorter_begin(out);
    struct history_reader r;
    struct mtf_item item;
    history_read_begin(&r, trace, length);
    while (history_read_next(&r, &item))
        sorter_add(s, &item);
    history_read_end(&r);
    sorter_end(s);
}

/* --- Model and sorter ----------------------------------------------------- */

struct slot_table {
    uint64_t *holds; /* by slot: token, 0 empty */
    size_t count;
};

static uint64_t *slot_of(struct slot_table *s, uint32_t slot) {
    if (slot >= s->count) {
        size_t count = ((size_t)slot + 1) * 2;
        s->holds = realloc(s->holds, count * sizeof(*s->holds));
        memset(s->holds + s->count, 0, (count - s->count) * sizeof(*s->holds));
        s->count = count;
    }
    return &s->holds[slot];
}

static bool is_call(const struct mtf_op *op) {
    return op->kind <= MTF_OP_LAST_OPERATION;
}

/* Tells whether OP is the operation of event E; MISSING: without its
   allocation. */
static bool is_same(struct slot_table *slots, const struct mtf_op *op,
                    const struct history_event *e, bool missing) {
    uint64_t *holds = is_call(op) ? slot_of(slots, op->slot) : NULL;
    uint64_t before = holds == NULL ? 0 : *holds;
    if (holds != NULL)
        *holds = e->born;
    switch (op->kind) {
    case MTF_OP_ALLOC:
        return e->kind == MTF_EVENT_ALLOC && e->size == op->size && before == 0;
    case MTF_OP_FREE:
        return e->kind == MTF_EVENT_FREE && before == e->needs;
    case MTF_OP_REALLOC:
        return e->kind == MTF_EVENT_REALLOC && e->size == op->size &&
               before == e->needs &&
               ((op->flags & MTF_PROC_FLAG_MOVED) != 0) ==
                   (e->address != e->old_address);
    case MTF_OP_REALLOC_NEW:
        return e->kind == MTF_EVENT_REALLOC && e->size == op->size && missing &&
               before == 0;
    case MTF_OP_THREAD_START:
        return e->kind == MTF_EVENT_THREAD_START && op->slot == e->thread;
    case MTF_OP_THREAD_END:
        return e->kind == MTF_EVENT_THREAD_END && op->slot == e->thread;
    default:
        return false;
    }
}

/* The next event of M that leaves something, from *AT on; NULL: none. */
static const struct order_model_event *
next_left(const struct history *h, const struct order_model *m, size_t *at) {
    while (*at < m->count) {
        const struct order_model_event *e = m->output[(*at)++];
        if (!e->missing || h->events[e->truth].kind != MTF_EVENT_FREE)
            return e;
    }
    return NULL;
}

uint64_t check_same(const struct sorted *out, const struct history *h,
                    const struct order_model *m) {
    struct slot_table slots = {0};
    uint64_t wrong = 0;
    uint32_t thread = 0;
    size_t at = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct mtf_op *op = &out->ops[i];
        if (op->kind == MTF_OP_SWITCH)
            thread = op->slot;
        if (op->kind == MTF_OP_SWITCH || op->kind == MTF_OP_TIME)
            continue;
        const struct order_model_event *e = next_left(h, m, &at);
        if (e == NULL) {
            wrong++;
            break;
        }
        const struct history_event *v = &h->events[e->truth];
        wrong += v->thread != thread || !is_same(&slots, op, v, e->missing);
    }
    wrong += next_left(h, m, &at) != NULL;
    free(slots.holds);
    return wrong;
}

/* --- Live blocks ---------------------------------------------------------- */

void check_live(struct check_live *c, const struct sorted *out) {
    struct slot_table sizes = {0};
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < out->count; i++) {
        const struct mtf_op *op = &out->ops[i];
        if (!is_call(op) || op->kind == MTF_OP_FAILED)
            continue;
        /* a block of 0 bytes counts, so sizes are kept plus 1 */
        uint64_t *size = slot_of(&sizes, op->slot);
        bool makes = mtf_op_makes(op->kind);
        c->bytes -= *size == 0 ? 0 : *size - 1;
        c->blocks -= *size != 0;
        *size = makes ? op->size + 1 : 0;
        c->bytes += makes ? op->size : 0;
        c->blocks += makes;
        c->peak_bytes = tcm_max_u64(c->peak_bytes, c->bytes);
    }
    free(sizes.holds);
}

/* --- Truth ---------------------------------------------------------------- */

static void check_times(struct check_truth *c, const struct history *h,
                        const struct order_model *m) {
    uint64_t greatest_lo = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct order_model_event *e = m->output[i];
        uint64_t time = h->events[e->truth].time;
        /* a time after memory was got is one later than the clock */
        c->time += e->lo > time + 1 || e->hi < time;
        c->interval += e->hi < greatest_lo;
        if (e->lo > greatest_lo)
            greatest_lo = e->lo;
    }
}

void check_truth(struct check_truth *c, const struct history *h,
                 const struct order_model *m) {
    uint32_t threads = 0;
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < h->event_count; i++)
        if (h->events[i].thread > threads)
            threads = h->events[i].thread;
    size_t *last = calloc(threads + 1, sizeof(*last));
    uint8_t *alive = calloc(1, h->greatest_token + 1);
    uint8_t *used = calloc(1, h->greatest_address + 1);
    for (size_t i = 0; i < m->count; i++) {
        size_t index = m->output[i]->truth;
        const struct history_event *e = &h->events[index];
        c->thread_order += last[e->thread] > index;
        last[e->thread] = index;
        if (e->needs != 0) {
            c->birth += !alive[e->needs];
            alive[e->needs] = 0;
        }
        if (e->born != 0)
            alive[e->born] = 1;
        /* a realloc that moves has both blocks for a moment */
        if (e->address != 0 && e->address != e->old_address) {
            c->address += used[e->address];
            used[e->address] = 1;
        }
        if (e->old_address != 0 && e->address != e->old_address) {
            c->address += !used[e->old_address];
            used[e->old_address] = 0;
        }
    }
    check_times(c, h, m);
    free(last);
    free(alive);
    free(used);
}

bool check_truth_holds(const struct check_truth *c) {
    return c->thread_order + c->birth + c->interval + c->time + c->address == 0;
}

/* --- Telling -------------------------------------------------------------- */

#define LL(x) ((unsigned long long)(x))

static void tell_event(const char *what, const struct history *h,
                       const struct order_model_event *e) {
    const struct history_event *v = &h->events[e->truth];
    tap_diag("%s: event %zu of thread %u%s, kind %u, at %llu in [%llu, %llu], "
             "window %llu, number %llu of %llu",
             what, e->truth, v->thread, v->stream != v->thread ? " (late)" : "",
             v->kind, LL(v->time), LL(e->lo), LL(e->hi), LL(e->window),
             LL(e->i), LL(e->n));
}

/* The first pair of events that (c) orders otherwise. */
static void tell_interval(const struct history *h,
                          const struct order_model *m) {
    const struct order_model_event *greatest = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct order_model_event *e = m->output[i];
        if (greatest != NULL && e->hi < greatest->lo) {
            tell_event("written", h, greatest);
            tell_event("after it", h, e);
            while (i-- != 0)
                if (h->events[m->output[i]->truth].stream ==
                    h->events[e->truth].stream) {
                    tell_event("that came after", h, m->output[i]);
                    break;
                }
            return;
        }
        if (greatest == NULL || e->lo > greatest->lo)
            greatest = e;
    }
}

void check_tell(const char *what, const struct history *h,
                const struct history_options *o, const struct sorted *out,
                const struct order_model *m) {
    struct check_truth c;
    char name[64];
    check_truth(&c, h, m);
    tap_diag("%s, seed %llu, saver's %llu: %u threads, %u events, buffers of "
             "%u bytes, rounds of %u ns",
             what, LL(o->seed), LL(o->saver_seed), o->threads, o->events,
             o->buffer_bytes, o->round_ns);
    tap_diag("model: %zu of %zu events, %llu conflicts, %llu + %llu unmatched",
             m->count, h->event_count, LL(m->conflicts), LL(m->unmatched),
             LL(m->unmatched_reallocs));
    tap_diag("sorter: %llu differ, %llu conflicts, %llu + %llu unmatched",
             LL(check_same(out, h, m)), LL(out->conflicts),
             LL(out->counts.unmatched_frees),
             LL(out->counts.unmatched_reallocs));
    tap_diag("peak %llu, true %llu", LL(out->peak_live_bytes),
             LL(h->peak_bytes));
    tap_diag("broken: thread order %llu, birth %llu, interval %llu, time %llu, "
             "address %llu",
             LL(c.thread_order), LL(c.birth), LL(c.interval), LL(c.time),
             LL(c.address));
    tell_interval(h, m);
    snprintf(name, sizeof(name), "test_order-%llu-%llu.raw", LL(o->seed),
             LL(o->saver_seed));
    FILE *f = fopen(name, "wb");
    if (f != NULL &&
        fwrite(h->trace.data, 1, h->trace.length, f) == h->trace.length &&
        fclose(f) == 0)
        tap_diag("the trace is in %s", name);
}
