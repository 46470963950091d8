/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behind damage, a block of a processed trace is checked only against its own
 * head.
 */
#include "model/info.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/main.h"
#include "trace/ops.h"
#include "trace/trace_check.h"
#include "traceformat/raw_codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Problems ------------------------------------------------------------- */

void info_problem(struct info_file *f, int status, const char *fmt, ...) {
    va_list ap;
    char *text = NULL;
    /* A failure replaces any status, damage only success. */
    if (status == TOOL_FAILED || f->status == TOOL_OK)
        f->status = status;
    if (f->problem_count++ >= INFO_TEXTS)
        return;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    f->problems[f->problem_count - 1] = text;
}

void info_free(struct info_file *f) {
    for (unsigned i = 0; i < INFO_TEXTS; i++) {
        free(f->problems[i]);
        free(f->notices[i]);
    }
    raw_threads_free(&f->threads);
    info_live_free(&f->live);
}

/* --- Sums ----------------------------------------------------------------- */

bool info_has_times(const struct info_file *f) {
    for (size_t i = 0; i < f->threads.ids.count; i++)
        if (f->threads.thread[i].last_ns != 0)
            return true;
    return false;
}

uint64_t info_event_count(const struct info_file *f) {
    uint64_t n = 0;
    if (f->kind == INFO_PROCESSED) {
        for (unsigned k = 0; k <= MTF_OP_LAST_OPERATION; k++)
            n += f->ops[k];
        return n + f->ops[MTF_OP_FAILED];
    }
    for (unsigned k = MTF_EVENT_ALLOC; k <= MTF_EVENT_FAILED; k++)
        n += f->events[k];
    return n;
}

static bool event_makes(unsigned kind) {
    return kind == MTF_EVENT_REALLOC || (kind != 0 && kind < MTF_EVENT_FAILED &&
                                         !mtf_event_ends_block(kind));
}

/* Tells whether the sums agree: sizes with the calls that made blocks, and, in
   a raw trace, calls and events of threads with events of all kinds. */
static bool sums_agree(const struct info_file *f) {
    bool raw = f->kind == INFO_RAW;
    const uint64_t *n = raw ? f->events : f->ops;
    uint64_t made = 0, sizes = 0, calls = 0, events = 0;
    for (unsigned k = 0; k < (raw ? INFO_EVENT_KINDS : INFO_OP_KINDS); k++)
        made += (raw ? event_makes(k) : mtf_op_makes(k)) ? n[k] : 0;
    for (unsigned b = 0; b < INFO_SIZES; b++)
        sizes += f->live.sizes[b];
    if ((!raw || f->want_live) && sizes != made)
        return false;
    for (unsigned c = 0; c < MTF_CALL_LIMIT; c++)
        calls += f->calls[c];
    for (size_t i = 0; i < f->threads.ids.count; i++)
        events += f->threads.thread[i].events;
    return !raw || (calls == events - f->events[MTF_EVENT_FAILED] &&
                    events == info_event_count(f));
}

uint64_t info_at_most(const struct info_file *f) {
    const struct raw_threads *r = &f->threads;
    bool late = false;
    for (size_t i = 0; i < r->ids.count; i++)
        late = late || r->thread[i].id == MTF_THREAD_LATE;
    /* The events of a single thread are in order: the peak seen is the true
       one. */
    return late || raw_threads_with_events(r) > 1 ? info_live_at_most(&f->live)
                                                  : f->live.peak_bytes;
}

/* --- Names, in texts and as keys ------------------------------------------ */

const char *info_end_reason(uint64_t reason) {
    switch (reason) {
    case MTF_END_EXIT:
        return "the program ended";
    case MTF_END_STOP:
        return "stopped by call";
    case MTF_END_LIMIT:
        return "the output reached its limit";
    case MTF_END_FORCED:
        return "forced: the output failed";
    default:
        return "unknown";
    }
}

/* --- Raw traces: events --------------------------------------------------- */

static void raw_see_time(struct info_file *f, struct raw_thread *t,
                         uint64_t ns) {
    if (t->first_ns == 0)
        t->first_ns = ns;
    if (ns > t->last_ns)
        t->last_ns = ns;
    if (ns > f->last_ns)
        f->last_ns = ns;
}

/* Counts an event that is no call of the malloc family. */
static void raw_count_rare(struct info_file *f, struct raw_thread *t,
                           const struct mtf_event *e) {
    switch (e->kind) {
    case MTF_EVENT_TIME:
    case MTF_EVENT_BUFFER:
        raw_see_time(f, t, e->time_ns);
        break;
    case MTF_EVENT_THREAD_START:
        t->tid = e->value;
        break;
    case MTF_EVENT_THREAD_END:
        (void)snprintf(t->name, sizeof(t->name), "%.*s", (int)e->text_length,
                       (const char *)e->text);
        break;
    case MTF_EVENT_GAP:
        t->gap_events += e->value;
        break;
    default:
        break;
    }
}

/* Adds a successful call of the malloc family to the live blocks, at the time
   NS. */
static void raw_count_live(struct info_file *f, const struct mtf_event *e,
                           uint64_t ns) {
    struct info_live *l = &f->live;
    uint64_t bytes = l->bytes, blocks = l->blocks;
    switch (e->kind) {
    case MTF_EVENT_FREE:
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        info_live_freed(l, e->old_token);
        break;
    case MTF_EVENT_REALLOC:
        info_live_resized(l, e->old_token, e->token, e->size, ns);
        break;
    default:
        info_live_made(l, e->token, e->size, ns);
    }
    if (f->course != NULL)
        info_course_event(f->course, ns, l->bytes - bytes, l->blocks - blocks,
                          l->bytes);
}

/* Gets the index *OWNER of thread ID, which owns the next events of the late
   stream, at index STREAM. A new thread may move the list of threads, and with
   it the stream's state *S. False: no memory. */
static bool raw_find_owner(struct info_file *f, size_t stream, uint32_t id,
                           struct mtf_raw_state **s, size_t *owner) {
    struct raw_thread *t = raw_threads_find(&f->threads, id);
    if (t == NULL)
        return false;
    *owner = (size_t)(t - f->threads.thread);
    *s = &f->threads.thread[stream].stream.state;
    return true;
}

/*
 * Decodes one placed segment of the stream at index STREAM. Events of the late
 * stream belong to the thread that it named last.
 */
static bool raw_decode(struct info_file *f, size_t stream,
                       const struct mtf_item *i,
                       const struct mtf_placement *place) {
    const uint8_t *p = place->data, *end = p + place->length;
    struct mtf_raw_state *s = &f->threads.thread[stream].stream.state;
    bool late = i->thread == MTF_THREAD_LATE;
    size_t owner = stream;
    struct mtf_event e;
    if (late && s->as_thread != MTF_THREAD_NONE &&
        !raw_find_owner(f, stream, s->as_thread, &s, &owner))
        return false;
    while (p < end) {
        int n = mtf_raw_decode(s, p, end, &e);
        if (TCM_UNLIKELY(n <= 0)) {
            info_problem(f, TOOL_DAMAGED,
                         "%s: byte %" PRIu64 ": events of thread %" PRIu32
                         " cannot be decoded, %zu bytes lost",
                         i->file, i->file_offset, i->thread, (size_t)(end - p));
            f->undecodable_bytes += (uint64_t)(end - p);
            mtf_stream_lose(&f->threads.thread[stream].stream);
            return true;
        }
        p += n;
        f->events[e.kind]++;
        if (e.kind < MTF_EVENT_FAILED) {
            f->calls[e.call]++;
            f->threads.thread[owner].events++;
            f->requested_bytes += event_makes(e.kind) ? e.size : 0;
            if (f->want_live)
                raw_count_live(f, &e, s->time_ns);
        } else if (e.kind == MTF_EVENT_FAILED) {
            f->threads.thread[owner].events++;
        } else if (e.kind == MTF_EVENT_AS_THREAD) {
            if (late && !raw_find_owner(f, stream, e.thread, &s, &owner))
                return false;
        } else {
            raw_count_rare(f, &f->threads.thread[owner], &e);
        }
    }
    return true;
}

static bool raw_see_data(struct info_file *f, const struct mtf_item *item) {
    struct mtf_placement place;
    struct raw_thread *t = raw_threads_find(&f->threads, item->thread);
    if (t == NULL)
        return false;
    raw_see_time(f, t, item->time_lo);
    if (item->time_hi != UINT64_MAX)
        raw_see_time(f, t, item->time_hi);
    f->spool_buffers += item->from_spool;
    mtf_stream_place(&t->stream, item, &place);
    f->doubled_bytes += place.doubled;
    f->missing_bytes += place.gap;
    f->undecodable_bytes += place.undecodable;
    if (place.gap != 0 || place.undecodable != 0)
        info_problem(f, TOOL_DAMAGED,
                     "%s: byte %" PRIu64 ": thread %" PRIu32 ": %" PRIu64
                     " bytes are missing before this place, and %" PRIu64
                     " here cannot be decoded without them",
                     item->file, item->file_offset, item->thread, place.gap,
                     place.undecodable);
    return place.length == 0 ||
           raw_decode(f, (size_t)(t - f->threads.thread), item, &place);
}

/* --- Raw traces: other segments ------------------------------------------- */

/* Sample of the recorded process. */
struct sample {
    uint64_t rss_bytes, taken_bytes, returned_bytes;
};

static void sample_take(struct sample *s, struct mtf_account_value a) {
    if (a.field == MTF_ACCOUNT_RSS_ANON_BYTES)
        s->rss_bytes = a.value;
    else if (a.field == MTF_ACCOUNT_SYSTEM_BYTES_TAKEN)
        s->taken_bytes = a.value;
    else if (a.field == MTF_ACCOUNT_SYSTEM_BYTES_RETURNED)
        s->returned_bytes = a.value;
}

static void see_sample(struct info_file *f, uint64_t ns,
                       const struct sample *s) {
    uint64_t heap = s->taken_bytes > s->returned_bytes
                        ? s->taken_bytes - s->returned_bytes
                        : 0;
    if (f->course != NULL)
        info_course_sample(f->course, ns, s->rss_bytes, heap);
}

static void raw_see_sample(struct info_file *f, const struct mtf_item *item) {
    struct mtf_account_value a;
    struct sample s = {0};
    for (unsigned i = 0; mtf_item_account(item, i, &a); i++)
        sample_take(&s, a);
    f->peak_rss_bytes = tcm_max_u64(f->peak_rss_bytes, s.rss_bytes);
    see_sample(f, item->time_lo, &s);
}

static const char *raw_notice_text(uint64_t code) {
    switch (code) {
    case MTF_NOTICE_NO_SPOOL:
        return "recorded without a spool";
    case MTF_NOTICE_END_MODE:
        return "recorded on after the recorder's end";
    case MTF_NOTICE_NO_SAVER_TABLE:
        return "the saver shared the program's descriptors";
    case MTF_NOTICE_NO_LINES:
        return "an interpreter is not known";
    default:
        return "notice of a later version";
    }
}

static void raw_see_notice(struct info_file *f, const struct mtf_item *item) {
    char *text = NULL;
    if (f->notice_count++ >= INFO_TEXTS)
        return;
    if (asprintf(&text, "%s%s%.*s", raw_notice_text(item->number),
                 item->length > 2 ? ": " : "", (int)item->length - 2,
                 (const char *)item->data + 2) < 0)
        text = NULL;
    f->notices[f->notice_count - 1] = text;
}

static bool raw_see_item(struct info_file *f, const struct mtf_item *item) {
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        f->have_header = true;
        f->header = *item->info;
        return true;
    case MTF_ITEM_DATA:
        return raw_see_data(f, item);
    case MTF_ITEM_BARRIER:
        f->last_barrier_ns = item->time_lo;
        info_live_round(&f->live);
        if (item->time_lo > f->last_ns)
            f->last_ns = item->time_lo;
        return true;
    case MTF_ITEM_SAMPLE:
        raw_see_sample(f, item);
        return true;
    case MTF_ITEM_NOTICE:
        raw_see_notice(f, item);
        return true;
    case MTF_ITEM_FOOTER:
        f->have_footer = true;
        f->last_ns = tcm_max_u64(f->last_ns, item->time_lo);
        return true;
    default:
        return true;
    }
}

/* --- Raw traces: the whole trace ------------------------------------------ */

/* Copies the counts of the footer. Returns how it contradicts the streams, or
   NULL. */
static const char *raw_see_footer(struct info_file *f, struct tool_raw *t) {
    const uint64_t *e = f->events;
    f->counts = (struct tool_raw_counts){
        .mallocs = e[MTF_EVENT_ALLOC],
        .memaligns = e[MTF_EVENT_ALIGNED],
        .reallocs = e[MTF_EVENT_REALLOC] + e[MTF_EVENT_REALLOC_NEW] +
                    e[MTF_EVENT_REALLOC_END],
        .frees = e[MTF_EVENT_FREE] + e[MTF_EVENT_FREE_SIZE],
        .failed = e[MTF_EVENT_FAILED],
        .untraced = raw_threads_untraced(&f->threads),
        .dropped = raw_threads_dropped(&f->threads),
    };
    for (unsigned i = 0; i < MTF_ACCOUNT_LIMIT; i++)
        f->have_account[i] = tool_raw_account(t, i, &f->account[i]);
    f->untraced =
        tool_raw_in_all(t, MTF_ACCOUNT_UNTRACED_FREES, f->counts.untraced);
    f->dropped =
        tool_raw_in_all(t, MTF_ACCOUNT_DROPPED_EVENTS, f->counts.dropped);
    return tool_raw_footer_problem(t, &f->counts);
}

static void raw_conclude(struct info_file *f, struct tool_raw *t) {
    f->frame_name = tool_raw_frame_name(t);
    f->from_file = tool_raw_has_file(t);
    f->from_spool = tool_raw_has_spool(t);
    f->growing = tool_raw_is_growing(t);
    f->clean_end = tool_raw_clean_end(t);
    f->raw_bytes = tool_raw_bytes(t);
    f->stored_bytes = tool_raw_stored_bytes(t);
    TCM_ASSERT(sums_agree(f));
    const char *footer = raw_see_footer(f, t);
    f->complete = tool_raw_complete(t) && f->missing_bytes == 0 &&
                  f->undecodable_bytes == 0 && footer == NULL &&
                  f->dropped == 0;
    info_live_round(&f->live);
    if (f->course != NULL)
        info_course_end(f->course, f->last_ns);
    if (f->problem_count == 0 && footer != NULL)
        info_problem(f, TOOL_DAMAGED, "%s", footer);
    const char *problem = raw_end_problem(t);
    if (f->dropped != 0 && !f->growing)
        info_problem(f, TOOL_DAMAGED,
                     "%s: the recorder dropped %" PRIu64 " events", f->name,
                     f->dropped);
    else if (f->growing)
        info_problem(f, TOOL_DAMAGED, "%s: %s", f->name, problem);
    else if (problem != NULL && f->problem_count == 0)
        info_problem(f, TOOL_DAMAGED, "%s: byte %" PRIu64 ": %s", f->name,
                     f->raw_bytes, problem);
}

void info_read_raw(struct info_file *f, struct tool_input *in,
                   const char *name) {
    struct mtf_item item;
    struct tool_raw *t = tool_raw_from_input(in, name);
    if (t == NULL) {
        info_problem(f, TOOL_FAILED, "out of memory");
        return;
    }
    f->begins_late = tool_raw_begins_late(t);
    f->threads.begins_late = f->begins_late;
    for (;;) {
        tool_raw_next(t, &item);
        if (item.kind == MTF_ITEM_END || item.kind == MTF_ITEM_FAILED)
            break;
        if (item.kind == MTF_ITEM_DAMAGE)
            info_problem(f, TOOL_DAMAGED, "%s", tool_raw_item_text(t, &item));
        else if (!raw_see_item(f, &item)) {
            info_problem(f, TOOL_FAILED, "out of memory");
            break;
        }
    }
    if (item.kind == MTF_ITEM_FAILED)
        info_problem(f, TOOL_FAILED, "%s", tool_raw_item_text(t, &item));
    if (item.kind == MTF_ITEM_END || f->have_header) {
        f->kind = INFO_RAW;
        raw_conclude(f, t);
    }
    tool_raw_close(t);
}

struct proc_work {
    struct info_file *f;
    uint64_t time_ns;
    uint64_t most_slots; /* bound of the slots, by the bytes read so far */
    size_t thread;       /* index of the present thread; SIZE_MAX: none */
    size_t last_thread;  /* index of the thread of the last operation */
    uint64_t switches;   /* changes of thread between operations */
    uint64_t op;         /* number of the present operation, from 1 */
    uint64_t block_at;   /* offset of the present block */
    unsigned phase;      /* enum mtf_proc_phase, if known */
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];
    uint64_t unknown_reallocs; /* of blocks that are not in the trace */
    const char *lacks;         /* tool_check_lacks of the closing block */
    struct tool_ops ops;
};

/* --- Processed traces: contradictions ------------------------------------- */

/* Reports a contradiction; a tool_check_tell. */
static void tell_check(void *ctx, uint64_t offset, const char *text) {
    struct proc_work *w = ctx;
    info_problem(w->f, TOOL_DAMAGED, "%s: byte %" PRIu64 ": %s", w->f->name,
                 offset, text);
}

static void proc_contradicts(struct proc_work *w, const char *fmt, ...)
    TCM_PRINTF(2, 3);
static void proc_contradicts(struct proc_work *w, const char *fmt, ...) {
    char text[120];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tell_check(w, w->block_at, text);
}

/* Checks that the slot of OP is empty if OP makes a block, and holds a block
   otherwise. */
static void proc_check_slot(struct proc_work *w, const struct mtf_op *op) {
    bool fills = op->kind == MTF_OP_ALLOC || op->kind == MTF_OP_ALIGNED ||
                 op->kind == MTF_OP_REALLOC_NEW;
    if (w->ops.check.lost || w->f->live.failed ||
        info_live_slot_lives(&w->f->live, op->slot) != fills)
        return;
    proc_contradicts(
        w, "operation %" PRIu64 ": %s slot %" PRIu32 ", which holds %s", w->op,
        fills                        ? "an allocation takes"
        : op->kind == MTF_OP_REALLOC ? "a realloc names"
                                     : "a free names",
        op->slot, fills ? "a block" : "nothing");
}

/* --- Processed traces: counting ------------------------------------------- */

/* Counts a block of SIZE bytes that was made, if it is large. PRESENT: its
   present bytes, if NOTED. */
static void proc_count_large(struct info_file *f, uint64_t size, bool noted,
                             uint64_t present) {
    if (!noted && size <= MTF_PRESENT_ABOVE)
        return;
    f->large_blocks++;
    f->large_bytes += size;
    f->large_present += noted ? tcm_min_u64(present, size) : size;
}

/* Makes THREAD the thread of the operations that follow; 0: none. */
static void proc_switch_to(struct info_file *f, struct proc_work *w,
                           uint32_t thread) {
    struct raw_thread *t =
        thread == 0 ? NULL : raw_threads_find(&f->threads, thread);
    w->thread = t == NULL ? SIZE_MAX : (size_t)(t - f->threads.thread);
    if (t == NULL)
        return;
    t->life.began = true;
    if (t->first_ns == 0)
        t->first_ns = w->time_ns;
}

static void proc_count_event(struct info_file *f, struct proc_work *w,
                             const struct mtf_proc_block *b) {
    if (w->thread == SIZE_MAX) {
        tool_check_no_thread(&w->ops.check, b);
        return;
    }
    struct raw_thread *t = &f->threads.thread[w->thread];
    t->events++;
    t->last_ns = w->time_ns;
}

/* Adds an operation to the live blocks. */
static void proc_count_live(struct info_file *f, const struct proc_work *w,
                            const struct mtf_op *op) {
    struct info_live *l = &f->live;
    uint64_t bytes = l->bytes, blocks = l->blocks;
    if (mtf_op_makes(op->kind))
        f->impossible_slots +=
            !info_live_slot(l, op->slot, w->most_slots, op->size, w->time_ns);
    else
        info_live_slot_freed(l, op->slot);
    if (f->course != NULL)
        info_course_event(f->course, w->time_ns, l->bytes - bytes,
                          l->blocks - blocks, l->bytes);
}

static void proc_count_operation(struct info_file *f, struct proc_work *w,
                                 const struct mtf_proc_block *b,
                                 const struct mtf_op *op) {
    const struct tool_check *check = &w->ops.check;
    bool noted = check->noted;
    w->op++;
    proc_count_event(f, w, b);
    proc_check_slot(w, op);
    if (TCM_UNLIKELY(noted))
        tool_check_noted(&w->ops.check, b, op);
    if (w->thread != SIZE_MAX) {
        w->switches +=
            w->last_thread != SIZE_MAX && w->last_thread != w->thread;
        w->last_thread = w->thread;
    }
    if (w->phase < TCM_ARRAY_SIZE(w->phase_ops))
        w->phase_ops[w->phase]++;
    if (op->call < MTF_CALL_LIMIT)
        f->calls[op->call]++;
    proc_count_live(f, w, op);
    if (!mtf_op_makes(op->kind))
        return;
    w->unknown_reallocs += op->kind == MTF_OP_REALLOC_NEW &&
                           (op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0;
    f->requested_bytes += op->size;
    proc_count_large(f, op->size, noted, check->present);
}

static void proc_see_sample(struct info_file *f, const struct mtf_proc_block *b,
                            const struct mtf_op *op) {
    struct sample s = {0};
    size_t n;
    const uint8_t *p = mtf_proc_bytes(b, op, &n);
    if (n < sizeof(uint64_t))
        return;
    for (size_t i = sizeof(uint64_t); i + MTF_ACCOUNT_BYTES <= n;
         i += MTF_ACCOUNT_BYTES)
        sample_take(&s, mtf_get_account(p + i));
    see_sample(f, mtf_load_le64(p), &s);
}

static void proc_count_rare(struct info_file *f, struct proc_work *w,
                            const struct mtf_proc_block *b,
                            const struct mtf_op *op) {
    struct raw_thread *t = NULL;
    const uint8_t *text;
    size_t n;
    if (op->kind == MTF_OP_THREAD_START || op->kind == MTF_OP_THREAD_END)
        t = raw_threads_find(&f->threads, op->slot);
    tool_check_record(&w->ops.check, b, op, t == NULL ? NULL : &t->life);
    switch (op->kind) {
    case MTF_OP_TIME:
        w->time_ns = op->size;
        if (op->size > f->last_ns)
            f->last_ns = op->size;
        break;
    case MTF_OP_SWITCH:
        proc_switch_to(f, w, op->slot);
        break;
    case MTF_OP_PHASE:
        w->phase = op->slot;
        break;
    case MTF_OP_FAILED:
        proc_count_event(f, w, b);
        break;
    case MTF_OP_SAMPLE:
        proc_see_sample(f, b, op);
        break;
    case MTF_OP_THREAD_START:
        if (t != NULL)
            t->tid = op->size;
        break;
    case MTF_OP_THREAD_END:
        text = mtf_proc_bytes(b, op, &n);
        if (t != NULL)
            (void)snprintf(t->name, sizeof(t->name), "%.*s", (int)n,
                           (const char *)text);
        break;
    default:
        break;
    }
}

static void proc_begin_block(struct info_file *f, struct proc_work *w,
                             const struct mtf_proc_block *b) {
    f->blocks++;
    w->time_ns = b->head.time_ns;
    w->op = b->head.first_op;
    w->block_at = b->offset;
    w->most_slots = tool_ops_most_slots(&w->ops);
    proc_switch_to(f, w, b->head.thread);
}

static void proc_count_ops(struct info_file *f, struct proc_work *w,
                           const struct tool_ops_item *item) {
    for (size_t i = 0; i < item->count; i++) {
        const struct mtf_op *op = &item->op[i];
        if (op->kind < INFO_OP_KINDS)
            f->ops[op->kind]++;
        if (op->kind <= MTF_OP_LAST_OPERATION)
            proc_count_operation(f, w, item->block, op);
        else
            proc_count_rare(f, w, item->block, op);
    }
}

static void proc_end_block(struct info_file *f, struct proc_work *w,
                           const char *problem) {
    if (problem != NULL)
        proc_contradicts(w, "%s", problem);
    if (f->impossible_slots != 0) {
        proc_contradicts(w, "block with impossible slots");
        tool_check_lost(&w->ops.check);
    }
    f->impossible_slots = 0;
}

/* Compares the counts with those of the closing block B. */
static void proc_check_closing(struct info_file *f, struct proc_work *w,
                               const struct mtf_proc_block *b) {
    const uint64_t *ops = f->ops;
    struct tool_check_sums s = {0};
    uint64_t reallocs =
        ops[MTF_OP_REALLOC] + ops[MTF_OP_REALLOC_NEW] + ops[MTF_OP_REALLOC_END];
    uint64_t frees = ops[MTF_OP_FREE] + ops[MTF_OP_FREE_SIZE];
    tool_check_sum(&s, MTF_PROC_ACCOUNT_OPS,
                   ops[MTF_OP_ALLOC] + ops[MTF_OP_ALIGNED] + reallocs + frees);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MALLOCS, ops[MTF_OP_ALLOC]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MEMALIGNS, ops[MTF_OP_ALIGNED]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REALLOCS, reallocs);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FREES, frees);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FAILED_ALLOCATIONS, ops[MTF_OP_FAILED]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REQUESTED_BYTES, f->requested_bytes);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_UNMATCHED_REALLOCS,
                   w->unknown_reallocs);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_THREADS,
                   raw_threads_with_events(&f->threads));
    tool_check_sum(&s, MTF_PROC_ACCOUNT_SWITCHES, w->switches);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_PROLOGUE_OPS,
                   w->phase_ops[MTF_PROC_PHASE_PROLOGUE]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_EPILOGUE_OPS,
                   w->phase_ops[MTF_PROC_PHASE_EPILOGUE]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_PRESENT_BLOCKS, ops[MTF_OP_PRESENT]);
    if (!f->live.failed) {
        tool_check_sum(&s, MTF_PROC_ACCOUNT_LIVE_AT_END, f->live.blocks);
        tool_check_sum(&s, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES,
                       f->live.peak_bytes);
    }
    tool_check_closing(&w->ops.check, b, &s);
}

static void proc_see_closing(struct info_file *f, struct proc_work *w,
                             const struct mtf_proc_block *b) {
    w->lacks = tool_check_lacks(b);
    f->closed = true;
    f->complete = w->lacks == NULL;
    f->proc_account_count = 0;
    for (uint32_t at = 0; at + 10 <= b->head.length; at += 10) {
        uint16_t field;
        memcpy(&field, b->payload + at, 2);
        uint64_t value = mtf_load_le64(b->payload + at + 2);
        if (field == MTF_PROC_ACCOUNT_CLEAN_END)
            f->clean_end = value != 0;
        else if (field == MTF_PROC_ACCOUNT_GROWING)
            f->growing = value != 0;
        else if (field == MTF_PROC_ACCOUNT_BEGINS_LATE)
            f->begins_late = value != 0;
        else if (field == MTF_PROC_ACCOUNT_END_NS && value > f->last_ns)
            f->last_ns = value;
        if (f->proc_account_count == TCM_ARRAY_SIZE(f->proc_fields))
            continue;
        f->proc_fields[f->proc_account_count] = field;
        f->proc_values[f->proc_account_count++] = value;
    }
}

static void proc_see_header(struct info_file *f,
                            const struct mtf_proc_item *item) {
    f->proc_version = item->header.version;
    size_t n = tcm_min_u64(item->converter_length, sizeof(f->converter) - 1);
    if (n != 0)
        memcpy(f->converter, item->converter, n);
    if (item->header.raw_length == 0)
        return;
    enum mtf_status status = mtf_raw_parse_header(
        item->raw_header, item->header.raw_length, &f->header);
    f->have_header = status == MTF_OK;
    if (status != MTF_OK && status != MTF_TOO_NEW)
        info_problem(f, TOOL_DAMAGED,
                     "%s: byte %zu: the raw trace's header is damaged", f->name,
                     sizeof(item->header));
}

static void proc_see_damage(struct info_file *f, const struct proc_work *w,
                            const struct tool_ops_item *item) {
    bool stored = item->from->offset_is_stored;
    info_problem(
        f, TOOL_DAMAGED, "%s: byte %" PRIu64 ": %s%s%s, %" PRIu64 " bytes lost",
        f->name, item->offset, stored ? tool_input_frame_name(w->ops.in) : "",
        stored ? " " : "", item->problem, item->from->skipped);
}

static void proc_see_problem(struct info_file *f, int status,
                             const struct tool_ops_item *item) {
    info_problem(f, status, "%s: byte %" PRIu64 ": %s", f->name, item->offset,
                 item->problem);
}

static void proc_read_all(struct info_file *f, struct proc_work *w) {
    struct tool_ops_item item;
    for (;;) {
        tool_ops_next(&w->ops, &item);
        switch (item.kind) {
        case TOOL_OPS_HEADER:
            f->kind = INFO_PROCESSED;
            proc_see_header(f, item.from);
            break;
        case TOOL_OPS_BLOCK:
            proc_begin_block(f, w, item.block);
            break;
        case TOOL_OPS_SOME:
            proc_count_ops(f, w, &item);
            break;
        case TOOL_OPS_BLOCK_END:
            proc_end_block(f, w, item.problem);
            break;
        case TOOL_OPS_CLOSING:
            proc_check_closing(f, w, item.block);
            proc_see_closing(f, w, item.block);
            break;
        case TOOL_OPS_DAMAGE:
            proc_see_damage(f, w, &item);
            break;
        case TOOL_OPS_FAILED:
            proc_see_problem(f, TOOL_FAILED, &item);
            return;
        case TOOL_OPS_END:
            f->kind = INFO_PROCESSED;
            if (item.problem != NULL)
                proc_see_problem(f, TOOL_DAMAGED, &item);
            return;
        }
    }
}

void info_read_processed(struct info_file *f, struct tool_input *in) {
    struct proc_work *w = malloc(sizeof(*w));
    if (tool_input_is_compressed(in))
        f->frame_name = tool_input_frame_name(in);
    f->from_file = true;
    if (w == NULL) {
        info_problem(f, TOOL_FAILED, "out of memory");
    } else {
        memset(w, 0, offsetof(struct proc_work, ops));
        w->f = f;
        w->thread = w->last_thread = SIZE_MAX;
        tool_ops_init(&w->ops, in, tell_check, w);
        proc_read_all(f, w);
        tool_ops_fini(&w->ops);
        if (f->course != NULL)
            info_course_end(f->course, f->last_ns);
        TCM_ASSERT(f->kind != INFO_PROCESSED || sums_agree(f));
        if (f->status != TOOL_OK)
            f->complete = false;
        else if (f->closed && w->lacks != NULL)
            info_problem(f, TOOL_DAMAGED, "%s: %s", f->name, w->lacks);
    }
    free(w);
    f->raw_bytes = tool_input_bytes(in);
    f->stored_bytes = tool_input_stored_bytes(in);
    tool_input_close(in);
}
