/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a raw trace and counts what is in it.
 */
#include "cmd/malloc_trace/info.h"
#include "common/tool_main.h"
#include "common/tool_raw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Threads ------------------------------------------------------------ */

static size_t index_of(uint32_t id, size_t size) {
    return (uint32_t)(id * 2654435761u) & (size - 1);
}

static bool grow_index(struct info_file *f) {
    size_t size = f->index_size == 0 ? 64 : 2 * f->index_size;
    uint32_t *table = calloc(size, sizeof(*table));
    if (table == NULL)
        return false;
    for (size_t i = 0; i < f->thread_count; i++) {
        size_t at = index_of(f->threads[i].id, size);
        while (table[at] != 0)
            at = (at + 1) & (size - 1);
        table[at] = (uint32_t)i + 1;
    }
    free(f->thread_index);
    f->thread_index = table;
    f->index_size = size;
    return true;
}

/* The thread ID, made if it is new. NULL without memory. */
static struct info_thread *find_thread(struct info_file *f, uint32_t id) {
    if (2 * (f->thread_count + 1) > f->index_size && !grow_index(f))
        return NULL;
    size_t at = index_of(id, f->index_size);
    for (; f->thread_index[at] != 0; at = (at + 1) & (f->index_size - 1))
        if (f->threads[f->thread_index[at] - 1].id == id)
            return &f->threads[f->thread_index[at] - 1];
    if (f->thread_count == f->thread_capacity) {
        size_t capacity = f->thread_capacity == 0 ? 16 : 2 * f->thread_capacity;
        void *p = realloc(f->threads, capacity * sizeof(*f->threads));
        if (p == NULL)
            return NULL;
        f->threads = p;
        f->thread_capacity = capacity;
    }
    struct info_thread *t = &f->threads[f->thread_count++];
    f->thread_index[at] = (uint32_t)f->thread_count;
    memset(t, 0, sizeof(*t));
    t->id = id;
    if (f->begins_late)
        mtf_stream_init_late(&t->stream);
    else
        mtf_stream_init(&t->stream);
    return t;
}

/* --- Events ------------------------------------------------------------- */

static void see_time(struct info_file *f, struct info_thread *t, uint64_t ns) {
    if (t->first_ns == 0)
        t->first_ns = ns;
    if (ns > t->last_ns)
        t->last_ns = ns;
    if (ns > f->last_ns)
        f->last_ns = ns;
}

/* Everything but the calls of the malloc family. */
static void count_rare(struct info_file *f, struct info_thread *t,
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

/*
 * Decodes one placed segment of the stream of thread number STREAM. Events of
 * the late stream belong to the thread named last in it.
 */
static bool decode(struct info_file *f, size_t stream, const struct mtf_item *i,
                   const struct mtf_placement *place) {
    const uint8_t *p = place->data, *end = p + place->length;
    struct mtf_raw_state *s = &f->threads[stream].stream.state;
    size_t owner = stream;
    struct mtf_event e;
    while (p < end) {
        int n = mtf_raw_decode(s, p, end, &e);
        if (TCM_UNLIKELY(n <= 0)) {
            info_problem(f, TOOL_DAMAGED,
                         "%s: byte %" PRIu64 ": events of thread %" PRIu32
                         " cannot be decoded, %zu bytes lost",
                         i->file, i->file_offset, i->thread, (size_t)(end - p));
            f->undecodable_bytes += (uint64_t)(end - p);
            mtf_stream_lose(&f->threads[stream].stream);
            return true;
        }
        p += n;
        f->events[e.kind]++;
        if (e.kind < MTF_EVENT_FAILED) {
            f->calls[e.call]++;
            f->threads[owner].events++;
            if (e.kind != MTF_EVENT_FREE && e.kind != MTF_EVENT_FREE_SIZE &&
                e.kind != MTF_EVENT_REALLOC_END)
                f->requested_bytes += e.size;
        } else if (e.kind == MTF_EVENT_FAILED) {
            f->threads[owner].events++;
        } else if (e.kind == MTF_EVENT_AS_THREAD) {
            struct info_thread *t = find_thread(f, e.thread);
            if (t == NULL)
                return false;
            owner = (size_t)(t - f->threads);
            s = &f->threads[stream].stream.state;
        } else {
            count_rare(f, &f->threads[owner], &e);
        }
    }
    return true;
}

static bool see_data(struct info_file *f, const struct mtf_item *item) {
    struct mtf_placement place;
    struct info_thread *t = find_thread(f, item->thread);
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
           decode(f, (size_t)(t - f->threads), item, &place);
}

/* --- Other segments ----------------------------------------------------- */

static void see_accounts(struct info_file *f, const struct mtf_item *item) {
    uint16_t field;
    uint64_t value;
    if (item->kind == MTF_ITEM_FOOTER)
        memset(f->have_account, 0, sizeof(f->have_account));
    for (unsigned i = 0; mtf_item_account(item, i, &field, &value); i++) {
        if (item->kind == MTF_ITEM_FOOTER && field < MTF_ACCOUNT_LIMIT) {
            f->have_account[field] = true;
            f->account[field] = value;
        } else if (field == MTF_ACCOUNT_RSS_ANON_BYTES &&
                   value > f->peak_rss_bytes) {
            f->peak_rss_bytes = value;
        }
    }
}

static const char *notice_text(uint64_t code) {
    switch (code) {
    case MTF_NOTICE_NO_SPOOL:
        return "recorded without a spool";
    case MTF_NOTICE_END_MODE:
        return "recorded on after the recorder's own end";
    case MTF_NOTICE_NO_SAVER_TABLE:
        return "the saver shared the program's descriptors";
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
        if (item->time_lo > f->last_ns)
            f->last_ns = item->time_lo;
        return true;
    case MTF_ITEM_SAMPLE:
        f->segments[MTF_SEGMENT_SAMPLE]++;
        see_accounts(f, item);
        return true;
    case MTF_ITEM_NOTICE:
        f->segments[MTF_SEGMENT_NOTICE]++;
        see_notice(f, item);
        return true;
    case MTF_ITEM_FOOTER:
        f->segments[MTF_SEGMENT_FOOTER]++;
        see_accounts(f, item);
        return true;
    default:
        return true;
    }
}

/* --- The whole trace ---------------------------------------------------- */

static void conclude(struct info_file *f, const struct tool_raw *t) {
    f->compressed = tool_raw_is_compressed(t);
    f->from_file = tool_raw_has_file(t);
    f->from_spool = tool_raw_has_spool(t);
    f->growing = tool_raw_is_growing(t);
    f->clean_end = tool_raw_clean_end(t);
    f->raw_bytes = tool_raw_bytes(t);
    f->stored_bytes = tool_raw_stored_bytes(t);
    f->complete = tool_raw_complete(t) && f->missing_bytes == 0 &&
                  f->undecodable_bytes == 0 && info_dropped_events(f) == 0;
    if (f->growing)
        info_problem(f, TOOL_DAMAGED, "%s: still being recorded", f->name);
    else if (info_dropped_events(f) != 0)
        info_problem(f, TOOL_DAMAGED,
                     "%s: the recorder dropped %" PRIu64 " events", f->name,
                     info_dropped_events(f));
    else if (!f->complete && f->problem_count == 0 && f->clean_end)
        info_problem(f, TOOL_DAMAGED, "%s: recording was forced to stop",
                     f->name);
    else if (!f->complete && f->problem_count == 0)
        info_problem(f, TOOL_DAMAGED,
                     "%s: byte %" PRIu64 ": ends without a footer, and there "
                     "is no spool with the rest",
                     f->name, f->raw_bytes);
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

/* --- Sums --------------------------------------------------------------- */

uint64_t info_event_count(const struct info_file *f) {
    uint64_t n = 0;
    for (unsigned k = MTF_EVENT_ALLOC; k <= MTF_EVENT_FAILED; k++)
        n += f->events[k];
    return n;
}

uint64_t info_threads_with_events(const struct info_file *f) {
    uint64_t n = 0;
    for (size_t i = 0; i < f->thread_count; i++)
        n += f->threads[i].events != 0;
    return n;
}

uint64_t info_dropped_events(const struct info_file *f) {
    uint64_t n = 0;
    for (size_t i = 0; i < f->thread_count; i++) {
        const struct info_thread *t = &f->threads[i];
        uint64_t dropped = t->stream.state.dropped;
        n += t->gap_events > dropped ? t->gap_events : dropped;
    }
    return n;
}

uint64_t info_untraced_frees(const struct info_file *f) {
    uint64_t n = 0;
    for (size_t i = 0; i < f->thread_count; i++)
        n += f->threads[i].stream.state.untraced_frees;
    return n;
}
