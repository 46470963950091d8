/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage costs no more than doc/raw-trace-format.md says: bytes that are
 * changed, zeroed or missing, at every kind of place of plain and compressed
 * traces, traces with spools and parts of flight recordings, cost the rest of
 * the buffers whose segments they hit (compressed: whose segments share a
 * frame with them). What is left goes through the sorter: the operations of
 * each thread are its events in their order, none is made up, what depends on
 * lost ones is counted, and that something is missing is told.
 */
#include "order_damage.h"

#include "prng.h"
#include "rounds.h"
#include "tap.h"

#include "trace/raw.h"

#include <unistd.h>

/* Damages of each kind of trace. */
static unsigned rounds;

/* --- Reading a damaged trace ---------------------------------------------- */

struct left {
    uint8_t *has;      /* by event of the history: it was read */
    uint64_t invented; /* events that are none of the history's */
    uint64_t damages;  /* told */
    bool failed, complete, begins_late;
    struct sorted out;
};

/* The event of the history at OFFSET of STREAM; NULL: there is none. */
static const struct history_event *
find_event(const struct trace *t, uint32_t stream, uint64_t offset) {
    size_t low = 0, high = t->event_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct history_event *e = t->events[middle].event;
        if (e->stream < stream || (e->stream == stream && e->offset < offset))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->event_count)
        return NULL;
    const struct history_event *e = t->events[low].event;
    return e->stream == stream && e->offset == offset ? e : NULL;
}

static bool is_event(const struct mtf_event *e, const struct history_event *v) {
    if (v == NULL || e->kind != v->kind)
        return false;
    switch (e->kind) {
    case MTF_EVENT_ALLOC:
        return e->token == v->born && e->size == v->size;
    case MTF_EVENT_FREE:
        return e->old_token == v->needs;
    case MTF_EVENT_REALLOC:
        return e->token == v->born && e->old_token == v->needs &&
               e->size == v->size;
    default:
        return true;
    }
}

/* Notes the events of ITEM, which continues S. */
static void take_data(struct left *left, const struct trace *t,
                      struct mtf_stream *s, const struct mtf_item *item) {
    struct mtf_placement place;
    mtf_stream_place(s, item, &place);
    const uint8_t *p = place.data, *end = p + place.length;
    while (p < end) {
        struct mtf_event e;
        uint64_t offset = item->offset + (uint64_t)(p - item->data);
        int n = mtf_raw_decode(&s->state, p, end, &e);
        if (n <= 0) {
            mtf_stream_lose(s);
            break;
        }
        p += n;
        const struct history_event *v = find_event(t, item->thread, offset);
        bool counts = e.kind == MTF_EVENT_ALLOC || e.kind == MTF_EVENT_FREE ||
                      e.kind == MTF_EVENT_REALLOC ||
                      e.kind == MTF_EVENT_THREAD_START ||
                      e.kind == MTF_EVENT_THREAD_END;
        if (!counts)
            left->invented += v != NULL;
        else if (!is_event(&e, v))
            left->invented++;
        else
            left->has[v - t->history->events] = 1;
    }
}

/* Reads and sorts the files of T. */
static void read_left(struct left *left, const struct trace *t) {
    struct mtf_stream *streams =
        calloc(t->stream_count + 1, sizeof(*streams)); /* the first: late */
    struct mtf_item item;
    memset(left, 0, sizeof(*left));
    left->has = calloc(1, t->history->event_count);
    struct tool_raw *raw = tool_raw_open(trace_name(t));
    struct sorter *s = sorter_begin(&left->out);
    left->begins_late = s->demux.begins_late = tool_raw_begins_late(raw);
    for (size_t i = 0; i <= t->stream_count; i++) {
        if (s->demux.begins_late)
            mtf_stream_init_late(&streams[i]);
        else
            mtf_stream_init(&streams[i]);
    }
    do {
        tool_raw_next(raw, &item);
        left->damages += item.kind == MTF_ITEM_DAMAGE;
        sorter_add(s, &item);
        uint32_t i = item.thread == MTF_THREAD_LATE ? 0 : item.thread;
        if (item.kind == MTF_ITEM_DATA && i <= t->stream_count)
            take_data(left, t, &streams[i], &item);
        else
            left->invented += item.kind == MTF_ITEM_DATA;
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    left->failed = item.kind == MTF_ITEM_FAILED;
    left->complete = tool_raw_complete(raw);
    tool_raw_close(raw);
    sorter_end(s);
    free(streams);
}

static void left_free(struct left *left) {
    free(left->has);
    sorted_free(&left->out);
}

/* --- Checks --------------------------------------------------------------- */

/* Walks the operations beside the events that are left. */
struct walk {
    const struct left *left;
    const struct trace *t;
    struct order_model m; /* made in the order of the operations */
    struct order_model_event *events;
    uint8_t *born, *late;     /* by token: read; maybe too late for its free */
    uint64_t *holds;          /* token, by slot */
    size_t *next;             /* by thread */
    uint64_t frees, reallocs; /* without their allocation */
};

static void walk_begin(struct walk *w, const struct left *left,
                       const struct trace *t) {
    const struct history *h = t->history;
    memset(w, 0, sizeof(*w));
    w->left = left;
    w->t = t;
    w->m.output = calloc(h->event_count, sizeof(*w->m.output));
    w->events = calloc(h->event_count, sizeof(*w->events));
    w->born = calloc(1, h->greatest_token + 1);
    w->late = calloc(1, h->greatest_token + 1);
    w->holds = calloc(h->event_count, sizeof(*w->holds));
    w->next = calloc(t->stream_count + 1, sizeof(*w->next));
    for (size_t i = 0; i < t->event_count; i++) {
        const struct history_event *e = t->events[i].event;
        if (left->has[e - h->events])
            w->born[e->born] = 1;
        /* what was lost came again behind later barriers, or was repeated */
        w->late[e->born] =
            t->kind == TRACE_LATE_PARTS || trace_may_lack(t, &t->events[i]);
    }
}

static void walk_end(struct walk *w) {
    free(w->m.output);
    free(w->events);
    free(w->born);
    free(w->late);
    free(w->holds);
    free(w->next);
}

/* Tells whether OP (NULL: none) cannot belong to event E, a free or realloc,
   although both are next, because E's allocation is missing. */
static bool is_without(const struct walk *w, const struct history_event *e,
                       const struct mtf_op *op) {
    if (e->needs == 0 || !w->born[e->needs])
        return e->needs != 0;
    if (!w->late[e->needs] || op == NULL)
        return w->late[e->needs];
    return op->kind == MTF_OP_REALLOC_NEW ||
           (op->kind != MTF_OP_FREE && op->kind != MTF_OP_REALLOC) ||
           w->holds[op->slot] != e->needs;
}

/* Returns the event that OP of THREAD must belong to; NULL: there is none. OP
   NULL: an event that has no operation. */
static struct order_model_event *walk_next(struct walk *w, uint32_t thread,
                                           const struct mtf_op *op) {
    const struct history *h = w->t->history;
    if (thread > w->t->stream_count)
        return NULL;
    for (size_t *i = &w->next[thread]; *i < h->event_count; ++*i) {
        const struct history_event *e = &h->events[*i];
        if (!w->left->has[*i] || e->thread != thread)
            continue;
        struct order_model_event *v = &w->events[*i];
        v->truth = *i;
        v->missing = is_without(w, e, op);
        if (v->missing && e->kind == MTF_EVENT_FREE) {
            w->frees++;
            continue;
        }
        w->reallocs += v->missing;
        ++*i;
        return v;
    }
    return NULL;
}

/* Tells whether the operations are the events that were read, thread by
   thread. */
static uint64_t wrong_operations(const struct left *left,
                                 const struct trace *t) {
    const struct tool_ops_counts *counts = &left->out.counts;
    struct walk w;
    uint64_t wrong = 0;
    uint32_t thread = 0;
    walk_begin(&w, left, t);
    for (size_t k = 0; k < left->out.count && wrong == 0; k++) {
        const struct mtf_op *op = &left->out.ops[k];
        if (op->kind == MTF_OP_SWITCH)
            thread = op->slot;
        if (op->kind == MTF_OP_SWITCH || op->kind == MTF_OP_TIME)
            continue;
        struct order_model_event *e = walk_next(&w, thread, op);
        if (e == NULL) {
            wrong++;
            break;
        }
        w.m.output[w.m.count++] = e;
        if (op->kind <= MTF_OP_LAST_OPERATION)
            w.holds[op->slot] = t->history->events[e->truth].born;
    }
    for (thread = 0; thread <= t->stream_count; thread++)
        wrong += walk_next(&w, thread, NULL) != NULL;
    wrong += check_same(&left->out, t->history, &w.m);
    if (left->begins_late) /* both are of blocks from before, then */
        wrong += counts->unmatched_frees + counts->untraced_frees != w.frees;
    else
        wrong += counts->unmatched_frees != w.frees ||
                 counts->unmatched_reallocs != w.reallocs;
    walk_end(&w);
    return wrong;
}

/* Counts of what went wrong, over all places of a trace. */
struct verdict {
    uint64_t invented, missing, operations, untold, refused;
    uint64_t lost, spared; /* events lost, and that might have been */
    unsigned told;
};

static void judge(struct verdict *v, const struct trace *t,
                  const struct damage *d) {
    struct left left;
    read_left(&left, t);
    uint64_t lost = 0, missing = 0;
    for (size_t i = 0; i < t->event_count; i++) {
        const struct traced *e = &t->events[i];
        bool has = left.has[e->event - t->history->events] != 0;
        bool may_lack = trace_may_lack(t, e);
        lost += !has;
        missing += !has && !may_lack;
        v->spared += has && may_lack;
    }
    bool refused = left.failed && !t->may_refuse;
    bool untold = lost != 0 && left.complete && left.out.lost_bytes == 0 &&
                  left.damages == 0 && !t->may_be_silent;
    uint64_t operations = t->may_invent ? 0 : wrong_operations(&left, t);
    v->lost += lost;
    v->refused += refused;
    v->missing += missing;
    v->untold += untold;
    v->operations += operations;
    v->invented += t->may_invent ? 0 : left.invented;
    bool invented = left.invented != 0 && !t->may_invent;
    if ((refused || missing || untold || operations || invented) &&
        v->told++ < 12)
        tap_diag("%s of %llu bytes at %llu of file %u: %s%llu lost, %llu of "
                 "them should not be, %llu operations wrong, %llu invented%s",
                 d->how, (unsigned long long)d->length,
                 (unsigned long long)d->at, d->file,
                 left.failed ? "refused, " : "", (unsigned long long)lost,
                 (unsigned long long)missing, (unsigned long long)operations,
                 (unsigned long long)left.invented,
                 untold ? ", and it is not told" : "");
    left_free(&left);
}

static void try_trace(enum trace_kind kind, const char *name) {
    struct trace t;
    struct verdict v = {0};
    struct damage whole = {.how = "nothing"};
    struct prng p;
    prng_seed(&p, kind + 1);
    trace_make(&t, kind);
    judge(&v, &t, &whole);
    tap_ok(v.lost + v.invented + v.missing + v.operations + v.refused == 0,
           "%s: all of it, %zu events", name, t.event_count);
    memset(&v, 0, sizeof(v));
    for (unsigned i = 0; i < rounds; i++) {
        struct damage d;
        trace_damage(&t, &p, &d);
        judge(&v, &t, &d);
        trace_mend(&t, &d);
    }
    for (size_t i = 0; i < t.place_count; i++) {
        if (!t.places[i].in_spool)
            continue;
        struct damage d;
        trace_lengthen(&t, &t.places[i], &d);
        judge(&v, &t, &d);
        trace_mend(&t, &d);
    }
    tap_is_u64(v.refused, 0, "%s: is read wherever it is damaged", name);
    tap_is_u64(v.missing, 0, "%s: no more is lost than the rest of a buffer%s",
               name, kind == TRACE_LZ4 ? ", of a frame" : "");
    tap_is_u64(v.invented, 0, "%s: nothing is made up", name);
    tap_is_u64(v.operations, 0,
               "%s: every thread's operations in order, the rest counted",
               name);
    tap_is_u64(v.untold, 0, "%s: what is lost is told", name);
    tap_ok(v.lost > rounds,
           "%s: %llu events lost in %u places, %llu others near", name,
           (unsigned long long)v.lost, rounds, (unsigned long long)v.spared);
    trace_free(&t);
}

int main(void) {
    rounds = rounds_of(500, 20000);
    trace_folder_make();
    try_trace(TRACE_PLAIN, "plain");
#if TCM_HAVE_LZ4
    try_trace(TRACE_LZ4, "LZ4");
#endif
    try_trace(TRACE_SPOOL, "file and spool");
    try_trace(TRACE_PARTS, "parts");
    try_trace(TRACE_LATE_PARTS, "parts, the first gone");
    trace_folder_remove();
    return tap_done();
}
