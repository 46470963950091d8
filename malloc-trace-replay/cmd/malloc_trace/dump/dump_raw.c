/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace dump of raw traces. The interval of an event ends at the next
 * time of its thread's stream: a second decoder runs ahead to that time, inside
 * the segment.
 */
#include "cmd/malloc_trace/dump/dump_lines.h"

#include "base/check.h"
#include "common/main.h"
#include "trace/raw.h"
#include "traceformat/trace_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct raw_dump {
    struct dump *d;
    struct tool_raw *raw;
    struct raw_threads threads;
    struct tool_raw_counts counts;
    bool in_spool;
    uint64_t last_offset; /* of the last segment, in the current file */
};

/* The bytes of a segment that are being decoded, [p, end). */
struct stretch {
    const struct mtf_item *item;
    size_t thread;  /* index of the stream */
    uint64_t shift; /* address + shift = offset in the file */
    const uint8_t *p, *end;
    struct mtf_raw_state ahead; /* state at AHEAD_P, behind the next time */
    const uint8_t *ahead_p;
    uint64_t lo, hi; /* interval of the events up to AHEAD_P */
};

/* --- Events --------------------------------------------------------------- */

static void put_failed(struct dump_lines *l, const struct mtf_event *e) {
    if (mtf_call_is_realloc(e->call)) {
        if (e->old_token != 0)
            dump_id(l, "#", e->old_token);
        else
            dump_str(l, "NULL");
        dump_str(l, ", ");
    }
    dump_request(l, e->size, e->align_log2);
    dump_str(l, ") failed");
}

/* Arguments of a call of the malloc family, and its outcome. */
static void put_call(struct dump_lines *l, const struct mtf_event *e) {
    dump_str(l, "(");
    switch (e->kind) {
    case MTF_EVENT_ALLOC:
        dump_request(l, e->size, 0);
        break;
    case MTF_EVENT_ALIGNED:
        dump_request(l, e->size, e->align_log2);
        break;
    case MTF_EVENT_FREE:
        dump_id(l, "#", e->old_token);
        break;
    case MTF_EVENT_FREE_SIZE:
        dump_id(l, "#", e->old_token);
        dump_str(l, ", ");
        dump_u64(l, e->size);
        break;
    case MTF_EVENT_REALLOC:
        dump_id(l, "#", e->old_token);
        dump_str(l, ", ");
        dump_u64(l, e->size);
        dump_str(l, (e->flags & MTF_EVENT_MOVED) != 0 ? ") moved" : ")");
        return;
    case MTF_EVENT_REALLOC_NEW:
        dump_str(l, (e->flags & MTF_EVENT_OLD_UNKNOWN) != 0 ? "unknown, "
                                                            : "NULL, ");
        dump_u64(l, e->size);
        break;
    case MTF_EVENT_REALLOC_END:
        dump_id(l, "#", e->old_token);
        dump_str(l, ", 0) freed it");
        return;
    default:
        put_failed(l, e);
        return;
    }
    dump_str(l, ")");
}

static void put_wrong(struct dump_lines *l, const struct mtf_event *e) {
    dump_str(l, "wrong ");
    dump_str(l, mtf_call_name(e->call));
    dump_str(l, ": ");
    dump_str(l, mtf_wrong_name(e->flags));
    if (e->old_token != 0)
        dump_id(l, ", #", e->old_token);
    if (e->flags == MTF_WRONG_INSIDE) {
        dump_id(l, ", byte ", e->value);
    } else if (e->flags == MTF_WRONG_FOREIGN) {
        char text[32];
        snprintf(text, sizeof(text), ", %#" PRIx64, e->value);
        dump_str(l, text);
    }
}

static void put_buffer(struct dump_lines *l, const struct mtf_raw_state *s) {
    dump_str(l, "buffer, cpu ");
    dump_u64(l, s->cpu);
    dump_str(l, ", next #");
    dump_u64(l, s->next_token);
    dump_str(l, ", left ");
    dump_u64(l, s->tokens_left);
    dump_str(l, ", untraced frees ");
    dump_u64(l, s->untraced_frees);
    dump_str(l, ", dropped ");
    dump_u64(l, s->dropped);
    dump_str(l, ", waits ");
    dump_u64(l, s->waits);
}

static void put_plain(struct dump_lines *l, const struct mtf_event *e) {
    const struct mtf_kind *k = mtf_plain_of_event(e->kind);
    if (k == NULL) {
        dump_str(l, "event of a later version, ");
        dump_u64(l, e->text_length);
        dump_str(l, " bytes");
    } else if (k->form == MTF_FORM_TEXT) {
        dump_text(l, k->name, e->text, e->text_length);
    } else {
        dump_pair(l, k->name, e->call, e->value);
    }
}

/* Events other than calls of the malloc family. */
static void put_other(struct dump_lines *l, const struct mtf_event *e,
                      const struct mtf_raw_state *s) {
    switch (e->kind) {
    case MTF_EVENT_BUFFER:
        put_buffer(l, s);
        break;
    case MTF_EVENT_UNTRACED:
        dump_id(l, "untraced frees ", e->value);
        break;
    case MTF_EVENT_THREAD_START:
        dump_id(l, "thread starts, kernel id ", e->value);
        break;
    case MTF_EVENT_THREAD_END:
        dump_str(l, "thread ends, name ");
        dump_quoted(l, e->text, e->text_length);
        break;
    case MTF_EVENT_EXTENSION:
        dump_extension(l, e->call, e->value);
        break;
    case MTF_EVENT_GAP:
        dump_gap(l, e->value, e->time_ns, e->time_hi);
        break;
    case MTF_EVENT_PRESENT:
        dump_id(l, "present bytes ", e->value);
        break;
    case MTF_EVENT_WRONG:
        put_wrong(l, e);
        break;
    case MTF_EVENT_SITE: /* decoded by decode_event */
        dump_id(l, "site ", e->value);
        break;
    case MTF_EVENT_SITE_DEF:
        dump_site_def(l, e->text, e->text_length);
        break;
    default:
        put_plain(l, e);
    }
}

static uint64_t shown_thread(uint32_t id) {
    return id == MTF_THREAD_LATE ? DUMP_NONE : id;
}

static void print_event(struct raw_dump *r, const struct stretch *s,
                        const struct mtf_event *e, uint64_t offset,
                        uint32_t thread) {
    struct dump_lines *l = &r->d->lines;
    if (e->kind == MTF_EVENT_BUFFER)
        dump_begin_at(l, offset, shown_thread(thread), e->time_ns);
    else
        dump_begin(l, offset, shown_thread(thread), s->lo, s->hi);
    if (e->kind > MTF_EVENT_FAILED) {
        put_other(l, e, &r->threads.thread[s->thread].stream.state);
    } else {
        if (e->kind == MTF_EVENT_ALLOC || e->kind == MTF_EVENT_ALIGNED ||
            e->kind == MTF_EVENT_REALLOC || e->kind == MTF_EVENT_REALLOC_NEW)
            dump_result(l, "#", e->token);
        dump_str(l, mtf_call_name(e->call));
        put_call(l, e);
    }
    dump_end(l);
}

/* --- Streams -------------------------------------------------------------- */

/* Moves the second decoder behind the next time, and sets HI to that time. */
static void find_next_time(struct stretch *s) {
    struct mtf_event e;
    s->hi = s->item->time_hi;
    while (s->ahead_p < s->end) {
        int n = mtf_raw_decode(&s->ahead, s->ahead_p, s->end, &e);
        if (n <= 0) {
            s->ahead_p = s->end;
            break;
        }
        s->ahead_p += n;
        if (e.kind == MTF_EVENT_TIME || e.kind == MTF_EVENT_BUFFER) {
            if (e.time_ns < s->hi)
                s->hi = e.time_ns;
            break;
        }
    }
    if (s->hi < s->lo)
        s->hi = s->lo;
}

static void count_event(struct tool_raw_counts *c, unsigned kind) {
    c->mallocs += kind == MTF_EVENT_ALLOC;
    c->memaligns += kind == MTF_EVENT_ALIGNED;
    c->reallocs += kind == MTF_EVENT_REALLOC || kind == MTF_EVENT_REALLOC_NEW ||
                   kind == MTF_EVENT_REALLOC_END;
    c->frees += kind == MTF_EVENT_FREE || kind == MTF_EVENT_FREE_SIZE;
    c->failed += kind == MTF_EVENT_FAILED;
}

/* Follows times, sites and gaps of the stream, and prints E. */
static void decode_event(struct raw_dump *r, struct stretch *s,
                         struct mtf_event *e, uint64_t offset) {
    struct raw_thread *t = &r->threads.thread[s->thread];
    uint32_t owner = t->stream.state.as_thread;
    count_event(&r->counts, e->kind);
    switch (e->kind) {
    case MTF_EVENT_STATE:
    case MTF_EVENT_AS_THREAD:
        return;
    case MTF_EVENT_TIME:
    case MTF_EVENT_BUFFER:
        if (e->time_ns > s->lo)
            s->lo = e->time_ns;
        t->last_ns = s->lo;
        if (e->kind == MTF_EVENT_TIME)
            return;
        owner = 0;
        memset(&t->site, 0, sizeof(t->site));
        break;
    case MTF_EVENT_SITE:
        e->value = mtf_site_decode(&t->site, e->value);
        break;
    case MTF_EVENT_GAP:
        t->gap_events += e->value;
        break;
    default:
        break;
    }
    print_event(r, s, e, offset, owner != 0 ? owner : t->id);
}

static void decode_stretch(struct raw_dump *r, struct stretch *s) {
    struct mtf_event e;
    while (s->p < s->end && !r->d->lines.over) {
        if (s->p >= s->ahead_p)
            find_next_time(s);
        TCM_ASSERT(s->lo <= s->hi && s->ahead_p <= s->end);
        struct mtf_stream *stream = &r->threads.thread[s->thread].stream;
        uint64_t offset = (uint64_t)(uintptr_t)s->p + s->shift;
        int n = mtf_raw_decode(&stream->state, s->p, s->end, &e);
        if (n <= 0) {
            dump_damage(r->d, offset, shown_thread(s->item->thread));
            dump_str(&r->d->lines, "events cannot be decoded, ");
            dump_u64(&r->d->lines, (uint64_t)(s->end - s->p));
            dump_str(&r->d->lines, " bytes lost");
            dump_end(&r->d->lines);
            mtf_stream_lose(stream);
            return;
        }
        s->p += n;
        decode_event(r, s, &e, offset);
    }
}

/* Prints how many bytes of the stream are missing before ITEM, if any. */
static void print_missing(struct raw_dump *r, const struct mtf_item *item,
                          const struct mtf_placement *place) {
    struct dump_lines *l = &r->d->lines;
    if (place->gap == 0 && place->undecodable == 0)
        return;
    dump_damage(r->d, item->file_offset, shown_thread(item->thread));
    dump_u64(l, place->gap);
    dump_str(l, " bytes of the stream are missing before here, ");
    dump_u64(l, place->undecodable);
    dump_str(l, " here are of no use without them");
    dump_end(l);
}

/* False: out of memory. */
static bool print_data(struct raw_dump *r, const struct mtf_item *item) {
    struct mtf_placement place;
    struct raw_thread *t = raw_threads_find(&r->threads, item->thread);
    if (t == NULL)
        return false;
    mtf_stream_place(&t->stream, item, &place);
    print_missing(r, item, &place);
    struct stretch s = {.item = item,
                        .thread = (size_t)(t - r->threads.thread),
                        .p = place.data,
                        .end = place.data + place.length,
                        .ahead = t->stream.state,
                        .ahead_p = place.data};
    size_t head = item->from_spool ? sizeof(struct mtf_spool_buffer)
                                   : sizeof(struct mtf_segment);
    s.shift = item->file_offset + head - (uint64_t)(uintptr_t)item->data;
    s.lo = item->time_lo > t->last_ns ? item->time_lo : t->last_ns;
    t->last_ns = s.lo;
    if (place.length != 0)
        decode_stretch(r, &s);
    return true;
}

/* --- Other segments ------------------------------------------------------- */

static void print_header(struct raw_dump *r, const struct mtf_item *item) {
    struct dump_lines *l = &r->d->lines;
    const struct mtf_raw_info *info = item->info;
    l->start_ns = info->fixed.start_ns;
    dump_begin_at(l, item->file_offset, DUMP_NONE, DUMP_NONE);
    dump_id(l, "header, version ", info->fixed.version);
    dump_origin(l, info);
    dump_end(l);
}

/* Present bytes, one line for each block. */
static void print_present(struct raw_dump *r, const struct mtf_item *item) {
    struct dump_lines *l = &r->d->lines;
    uint64_t offset = item->file_offset + sizeof(struct mtf_segment);
    struct mtf_present p;
    for (unsigned i = 0; mtf_item_present(item, i, &p) && !l->over; i++) {
        dump_begin_at(l, offset + i * sizeof(p), DUMP_NONE, item->time_lo);
        dump_id(l, "present bytes ", p.bytes);
        dump_id(l, " of #", p.token);
        dump_end(l);
    }
}

/* Definitions of call sites, one line each. */
static void print_sites(struct raw_dump *r, const struct mtf_item *item) {
    struct dump_lines *l = &r->d->lines;
    struct mtf_event e;
    uint32_t at = 0;
    for (uint32_t from = 0; mtf_item_site_def(item, &at, &e) && !l->over;
         from = at) {
        dump_begin_at(l, item->file_offset + sizeof(struct mtf_segment) + from,
                      DUMP_NONE, item->time_lo);
        dump_site_def(l, e.text, e.text_length);
        dump_end(l);
    }
}

/* Barrier, sample, footer or notice. */
static void print_segment(struct raw_dump *r, const struct mtf_item *item) {
    struct dump_lines *l = &r->d->lines;
    dump_begin_at(l, item->file_offset, DUMP_NONE, item->time_lo);
    switch (item->kind) {
    case MTF_ITEM_BARRIER:
        dump_id(l, "barrier ", item->number);
        break;
    case MTF_ITEM_SAMPLE:
    case MTF_ITEM_FOOTER:
        dump_str(l, item->kind == MTF_ITEM_SAMPLE ? "sample" : "footer");
        dump_accounts(l, item->data, item->length, mtf_account_name);
        break;
    default:
        dump_id(l, "notice ", item->number);
        dump_str(l, " ");
        dump_quoted(l, item->data + 2, item->length - 2);
    }
    dump_end(l);
}

/* Prints a line "file:" where ITEM is the first one of another file: offsets
   begin at 0 again in a spool and in each part of a flight recording. */
static void print_file(struct raw_dump *r, const struct mtf_item *item) {
    struct dump_lines *l = &r->d->lines;
    if (item->kind == MTF_ITEM_DAMAGE)
        return;
    bool next_part = !item->from_spool && item->file_offset < r->last_offset;
    bool to_spool = item->from_spool && !r->in_spool;
    r->last_offset = item->file_offset;
    if (to_spool && !tool_raw_has_file(r->raw)) {
        r->in_spool = true;
        return; /* the spool is the only file */
    }
    if (!next_part && !to_spool)
        return;
    l->first_file = false;
    r->in_spool = item->from_spool;
    dump_begin_at(l, DUMP_NONE, DUMP_NONE, DUMP_NONE);
    dump_str(l, next_part ? "file: the next part of "
                          : "file: what follows is from ");
    dump_quoted(l, item->file, strlen(item->file));
    dump_end(l);
}

/* --- The whole trace ------------------------------------------------------ */

/* False: out of memory. */
static bool print_item(struct raw_dump *r, const struct mtf_item *item) {
    print_file(r, item);
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        print_header(r, item);
        return true;
    case MTF_ITEM_DATA:
        return print_data(r, item);
    case MTF_ITEM_DAMAGE:
        dump_lost(r->d, item->file_offset,
                  item->offset_is_stored ? tool_raw_frame_name(r->raw) : NULL,
                  mtf_status_text(item->status), item->skipped,
                  item->lost_unpacked);
        return true;
    case MTF_ITEM_PRESENT:
        print_present(r, item);
        return true;
    case MTF_ITEM_SITES:
        print_sites(r, item);
        return true;
    default:
        print_segment(r, item);
        return true;
    }
}

/* Compares the counted events with the footer's account, and prints what is
   missing. */
static void check_end(struct raw_dump *r) {
    const char *problem = raw_end_problem(r->raw);
    if (problem != NULL && (r->d->damages == 0 || tool_raw_is_growing(r->raw)))
        dump_incomplete(r->d, problem);
    r->counts.untraced = raw_threads_untraced(&r->threads);
    r->counts.dropped = raw_threads_dropped(&r->threads);
    const char *footer = tool_raw_footer_problem(r->raw, &r->counts);
    if (r->d->damages == 0 && footer != NULL) {
        dump_damage(r->d, DUMP_NONE, DUMP_NONE);
        dump_str(&r->d->lines, footer);
        dump_end(&r->d->lines);
    }
    if (tool_raw_in_all(r->raw, MTF_ACCOUNT_DROPPED_EVENTS,
                        r->counts.dropped) != 0)
        dump_incomplete(r->d, "the recorder dropped events");
}

void dump_raw(struct dump *d, struct tool_input *in, const char *name) {
    struct raw_dump r = {.d = d};
    struct mtf_item item = {0};
    bool has_memory = (r.raw = tool_raw_from_input(in, name)) != NULL;
    if (has_memory)
        r.threads.begins_late = tool_raw_begins_late(r.raw);
    while (has_memory && !d->lines.over) {
        tool_raw_next(r.raw, &item);
        if (item.kind == MTF_ITEM_END || item.kind == MTF_ITEM_FAILED)
            break;
        has_memory = print_item(&r, &item);
    }
    if (!has_memory)
        tool_out_of_memory();
    else if (item.kind == MTF_ITEM_FAILED)
        tool_error("%s", tool_raw_item_text(r.raw, &item));
    else if (item.kind == MTF_ITEM_END)
        check_end(&r);
    if (!has_memory || item.kind == MTF_ITEM_FAILED)
        d->status = TOOL_FAILED;
    raw_threads_free(&r.threads);
    tool_raw_close(r.raw);
}
