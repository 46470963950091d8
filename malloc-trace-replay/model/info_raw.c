/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/info.h"

#include "common/main.h"

#include <inttypes.h>
#include <stdio.h>

/* --- Events ------------------------------------------------------------- */

static void see_time(struct info_file *f, struct raw_thread *t, uint64_t ns) {
    if (t->first_ns == 0)
        t->first_ns = ns;
    if (ns > t->last_ns)
        t->last_ns = ns;
    if (ns > f->last_ns)
        f->last_ns = ns;
}

/* Everything but the calls of the malloc family. */
static void count_rare(struct info_file *f, struct raw_thread *t,
                       const struct mtf_event *e) {
    switch (e->kind) {
    case MTF_EVENT_TIME:
    case MTF_EVENT_BUFFER:
        see_time(f, t, e->time_ns);
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

/* A call of the malloc family. */
static void count_call(struct info_file *f, const struct mtf_event *e,
                       uint64_t ns) {
    struct info_live *l = &f->live;
    switch (e->kind) {
    case MTF_EVENT_FREE:
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        if (f->want_live)
            info_live_freed(l, e->old_token);
        return;
    case MTF_EVENT_REALLOC:
        if (f->want_live)
            info_live_resized(l, e->old_token, e->token, e->size, ns);
        break;
    default:
        if (f->want_live)
            info_live_made(l, e->token, e->size, ns);
    }
    f->requested_bytes += e->size;
}

/* What follows in the late stream, at index STREAM, belongs to thread ID. A new
   thread may move the list, and with it the stream's state *S. */
static bool find_owner(struct info_file *f, size_t stream, uint32_t id,
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
static bool decode(struct info_file *f, size_t stream, const struct mtf_item *i,
                   const struct mtf_placement *place) {
    const uint8_t *p = place->data, *end = p + place->length;
    struct mtf_raw_state *s = &f->threads.thread[stream].stream.state;
    bool late = i->thread == MTF_THREAD_LATE;
    size_t owner = stream;
    struct mtf_event e;
    if (late && s->as_thread != MTF_THREAD_NONE &&
        !find_owner(f, stream, s->as_thread, &s, &owner))
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
            count_call(f, &e, s->time_ns);
        } else if (e.kind == MTF_EVENT_FAILED) {
            f->threads.thread[owner].events++;
        } else if (e.kind == MTF_EVENT_AS_THREAD) {
            if (late && !find_owner(f, stream, e.thread, &s, &owner))
                return false;
        } else {
            count_rare(f, &f->threads.thread[owner], &e);
        }
    }
    return true;
}

static bool see_data(struct info_file *f, const struct mtf_item *item) {
    struct mtf_placement place;
    struct raw_thread *t = raw_threads_find(&f->threads, item->thread);
    if (t == NULL)
        return false;
    see_time(f, t, item->time_lo);
    if (item->time_hi != UINT64_MAX)
        see_time(f, t, item->time_hi);
    f->spool_buffers += item->from_spool;
    f->segments[MTF_SEGMENT_DATA] += !item->from_spool;
    mtf_stream_place(&t->stream, item, &place);
    f->doubled_bytes += place.doubled;
    f->missing_bytes += place.gap;
    f->undecodable_bytes += place.undecodable;
    if (place.gap != 0 || place.undecodable != 0)
        info_problem(f, TOOL_DAMAGED,
                     "%s: byte %" PRIu64 ": thread %" PRIu32 " lacks %" PRIu64
                     " bytes before here, and %" PRIu64
                     " here are of no use without them",
                     item->file, item->file_offset, item->thread, place.gap,
                     place.undecodable);
    return place.length == 0 ||
           decode(f, (size_t)(t - f->threads.thread), item, &place);
}

/* --- Other segments ----------------------------------------------------- */

static void see_sample(struct info_file *f, const struct mtf_item *item) {
    struct mtf_account_value a;
    for (unsigned i = 0; mtf_item_account(item, i, &a); i++)
        if (a.field == MTF_ACCOUNT_RSS_ANON_BYTES &&
            a.value > f->peak_rss_bytes)
            f->peak_rss_bytes = a.value;
}

static const char *notice_text(uint64_t code) {
    switch (code) {
    case MTF_NOTICE_NO_SPOOL:
        return "recorded without a spool";
    case MTF_NOTICE_END_MODE:
        return "recorded on after the recorder's own end";
    case MTF_NOTICE_NO_SAVER_TABLE:
        return "the saver shared the program's descriptors";
    case MTF_NOTICE_NO_LINES:
        return "an interpreter is not known";
    default:
        return "notice of a later version";
    }
}

static void see_notice(struct info_file *f, const struct mtf_item *item) {
    char *text = NULL;
    if (f->notice_count++ >= INFO_TEXTS)
        return;
    if (asprintf(&text, "%s%s%.*s", notice_text(item->number),
                 item->length > 2 ? ": " : "", (int)item->length - 2,
                 (const char *)item->data + 2) < 0)
        text = NULL;
    f->notices[f->notice_count - 1] = text;
}

static bool see_item(struct info_file *f, const struct mtf_item *item) {
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        f->have_header = true;
        f->header = *item->info;
        return true;
    case MTF_ITEM_DATA:
        return see_data(f, item);
    case MTF_ITEM_BARRIER:
        f->segments[MTF_SEGMENT_BARRIER]++;
        f->last_barrier_ns = item->time_lo;
        info_live_round(&f->live);
        if (item->time_lo > f->last_ns)
            f->last_ns = item->time_lo;
        return true;
    case MTF_ITEM_SAMPLE:
        f->segments[MTF_SEGMENT_SAMPLE]++;
        see_sample(f, item);
        return true;
    case MTF_ITEM_NOTICE:
        f->segments[MTF_SEGMENT_NOTICE]++;
        see_notice(f, item);
        return true;
    case MTF_ITEM_FOOTER:
        f->segments[MTF_SEGMENT_FOOTER]++;
        return true;
    case MTF_ITEM_PRESENT:
        f->segments[MTF_SEGMENT_PRESENT]++;
        return true;
    case MTF_ITEM_SITES:
        f->segments[MTF_SEGMENT_SITES]++;
        return true;
    default:
        return true;
    }
}

/* --- The whole trace ---------------------------------------------------- */

/* Takes over what the footer says. Returns what contradicts the streams, or
   NULL. */
static const char *see_footer(struct info_file *f, struct tool_raw *t) {
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

static void conclude(struct info_file *f, struct tool_raw *t) {
    f->frame_name = tool_raw_frame_name(t);
    f->from_file = tool_raw_has_file(t);
    f->from_spool = tool_raw_has_spool(t);
    f->growing = tool_raw_is_growing(t);
    f->clean_end = tool_raw_clean_end(t);
    f->raw_bytes = tool_raw_bytes(t);
    f->stored_bytes = tool_raw_stored_bytes(t);
    const char *footer = see_footer(f, t);
    f->complete = tool_raw_complete(t) && f->missing_bytes == 0 &&
                  f->undecodable_bytes == 0 && footer == NULL &&
                  f->dropped == 0;
    info_live_round(&f->live);
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
        else if (!see_item(f, &item)) {
            info_problem(f, TOOL_FAILED, "out of memory");
            break;
        }
    }
    if (item.kind == MTF_ITEM_FAILED)
        info_problem(f, TOOL_FAILED, "%s", tool_raw_item_text(t, &item));
    if (item.kind == MTF_ITEM_END || f->have_header) {
        f->kind = INFO_RAW;
        conclude(f, t);
    }
    tool_raw_close(t);
}
