/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each read of the source that finds no bytes takes events until a block of the
 * processed trace is full. So no thread runs beside the reader, and at most one
 * block waits.
 */
#include "formats/format_import.h"

#include "base/check.h"
#include "common/array.h"
#include "common/hash.h"
#include "common/main.h"
#include "common/stop.h"
#include "formats/format_reader.h"
#include "traceformat/proc_codec.h"
#include "traceformat/proc_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many problems are printed one by one. */
#define TOLD 5u
/* Times of the foreign trace that are closer together are not written. */
#define TIME_STEP_NS 1000000u
/* No address space has room for larger blocks. */
#define SIZE_LIMIT ((uint64_t)1 << 47)

/* What was seen of a thread: a call, any record, its start, its end. Only our
   own traces tell the last two. */
#define SEEN_CALL   1u
#define SEEN_RECORD 2u
#define SEEN_START  4u
#define SEEN_END    8u

struct block {
    struct mtf_proc_object place;
    uint64_t size;
    uint32_t maker;
    bool owed; /* the free of the block before it at this id may come yet */
};

struct format_import {
    struct mtf_source source;
    struct tool_input *in;
    const struct format *format;
    void *state;
    struct format_reader reader;
    bool tell, strict;
    bool ended;  /* the closing block is written */
    bool failed; /* and never will be: no memory, an error, or strict */
    bool no_memory;
    uint64_t told;

    struct mtf_proc_writer *writer;
    uint8_t *out;
    size_t out_at, out_end, out_room;

    struct tool_map ids; /* id to slot plus 1 */
    struct block *block; /* by slot */
    size_t block_room;

    struct tool_map threads; /* foreign id plus 1 to place in `seen` */
    uint8_t *seen;           /* SEEN_ bits */
    size_t seen_room;
    uint32_t thread, thread_count; /* places; 0: none yet */
    uint32_t number;               /* of the thread in the processed trace */
    uint64_t foreign;              /* id of that thread */

    bool noted; /* `present` is known of the block that is made next */
    uint64_t present;

    bool has_phases;
    unsigned phase;
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];

    bool timed;
    uint64_t first_ns, last_ns; /* as in the foreign trace */
    struct format_counts counts;
};

/* --- The bytes ------------------------------------------------------------ */

static bool take_bytes(void *ctx, const void *data, size_t n) {
    struct format_import *i = ctx;
    if (i->out_at == i->out_end)
        i->out_at = i->out_end = 0;
    if (!tool_array_reserve(&i->out, &i->out_room, i->out_end + n, 1))
        return false;
    memcpy(i->out + i->out_end, data, n);
    i->out_end += n;
    return true;
}

static bool grow_stack(void *ctx, uint32_t **stack, size_t *capacity) {
    (void)ctx;
    return tool_array_reserve(stack, capacity, *capacity + 1, sizeof(**stack));
}

/* --- What is told --------------------------------------------------------- */

/* Prints a message with the place of the reader. */
static void say(struct format_import *i, bool is_error, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static void say(struct format_import *i, bool is_error, const char *fmt, ...) {
    char text[200];
    va_list ap;
    bool lines = i->format->line != NULL;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (is_error ? tool_error : tool_warn)(
        "%s: %s %" PRIu64 ": %s", tool_input_name(i->in),
        lines ? "line" : "byte", lines ? i->reader.line : i->reader.from, text);
}

/* Something is lost here, and has been counted. */
#define lose(i, ...)                                                           \
    do {                                                                       \
        if ((i)->strict) {                                                     \
            if (!(i)->failed)                                                  \
                say((i), true, __VA_ARGS__);                                   \
            (i)->failed = true;                                                \
        } else if ((i)->tell && (i)->told++ < TOLD) {                          \
            say((i), false, __VA_ARGS__);                                      \
        }                                                                      \
    } while (0)

bool format_import_lost(const struct format_import *i) {
    const struct format_counts *c = &i->counts;
    return c->cut || (c->unknown_frees | c->unknown_reallocs | c->used_twice |
                      c->bad | c->breaks | c->dropped) != 0;
}

static void tell_sum(struct format_import *i) {
    const struct format_counts *c = &i->counts;
    if (!i->tell || i->told <= TOLD)
        return;
    tool_warn("%s: in all %" PRIu64 " frees and %" PRIu64
              " reallocs of blocks that are not in the trace, %" PRIu64
              " addresses used twice, %" PRIu64 " lines or records that cannot "
              "be read",
              tool_input_name(i->in), c->unknown_frees, c->unknown_reallocs,
              c->used_twice, c->bad);
}

/* --- Threads and times ---------------------------------------------------- */

/* The place of a thread in `seen`; 0: no memory. */
static uint32_t place_of_thread(struct format_import *i, uint64_t foreign) {
    struct tool_map_entry *entry = tool_map_get(&i->threads, foreign + 1);
    size_t n = (size_t)i->thread_count + 2, was = i->seen_room;
    if (entry == NULL || !tool_array_reserve(&i->seen, &i->seen_room, n, 1)) {
        i->no_memory = true;
        return 0;
    }
    memset(i->seen + was, 0, i->seen_room - was);
    if (entry->value == 0)
        entry->value = ++i->thread_count;
    return (uint32_t)entry->value;
}

/* What follows belongs to the thread with this id. */
static void see_thread(struct format_import *i, uint64_t foreign) {
    if (i->thread != 0 && foreign == i->foreign)
        return;
    i->foreign = foreign;
    i->thread = place_of_thread(i, foreign);
    i->number = i->format->is_ours ? (uint32_t)foreign : i->thread;
}

/* Called before each record, so that a thread whose events leave no record does
   not appear. */
static void enter_thread(struct format_import *i) {
    uint8_t *seen = &i->seen[i->thread];
    mtf_proc_put_switch(i->writer, i->number);
    if ((*seen & SEEN_RECORD) != 0)
        return;
    *seen |= SEEN_RECORD;
    if (i->format->has_kernel_ids && i->foreign != 0 &&
        i->foreign <= UINT32_MAX)
        mtf_proc_put_thread_start(i->writer, i->number, (uint32_t)i->foreign);
}

static void end_thread(struct format_import *i, const struct format_event *e) {
    struct tool_map_entry *entry = tool_map_find(&i->threads, e->thread + 1);
    if (entry == NULL)
        return; /* it did nothing */
    see_thread(i, e->thread);
    enter_thread(i);
    mtf_proc_put_thread_end(i->writer, i->thread, e->text, e->length);
    /* from now on this id is another thread's */
    tool_map_remove(&i->threads, tool_map_find(&i->threads, e->thread + 1));
    i->foreign = UINT64_MAX;
}

/* The start or end of a thread of our own traces, if it is possible here. */
static void put_life(struct format_import *i, const struct format_event *e) {
    bool starts = e->kind == FORMAT_THREAD_START;
    uint32_t place = place_of_thread(i, e->thread);
    if (place == 0)
        return;
    uint8_t *seen = &i->seen[place];
    if (starts ? (*seen & (SEEN_START | SEEN_END)) != 0
               : (*seen & (SEEN_RECORD | SEEN_END)) != SEEN_RECORD) {
        i->counts.bad++;
        lose(i, "thread %" PRIu64 " cannot %s here", e->thread,
             starts ? "start" : "end");
        return;
    }
    *seen |= starts ? SEEN_START : SEEN_END;
    if (starts)
        mtf_proc_put_thread_start(i->writer, (uint32_t)e->thread,
                                  (uint32_t)e->number);
    else
        mtf_proc_put_thread_end(i->writer, (uint32_t)e->thread, e->text,
                                e->length);
}

/* Times are counted from the first one of the foreign trace. */
static void see_time(struct format_import *i, uint64_t ns) {
    if (!i->timed)
        i->first_ns = i->last_ns = ns;
    i->timed = true;
    i->last_ns = ns > i->last_ns ? ns : i->last_ns;
    ns = ns > i->first_ns ? ns - i->first_ns : 0;
    if (ns >= i->writer->time_ns + TIME_STEP_NS)
        mtf_proc_put_time(i->writer, ns);
}

/* --- Blocks --------------------------------------------------------------- */

static void count_live(struct format_import *i, uint64_t was, uint64_t size) {
    struct format_counts *c = &i->counts;
    c->live_bytes += size - was;
    c->requested_bytes += size;
    if (c->live_bytes > c->peak_live_bytes)
        c->peak_live_bytes = c->live_bytes;
}

static struct block *block_of(struct format_import *i,
                              const struct tool_map_entry *e) {
    return &i->block[e->value - 1];
}

/* ID is about to name a new block. If another block has it, the free of that
   one is missing: frees it. Returns whether it did; the missing free may come
   late. */
static bool make_free(struct format_import *i, uint64_t id) {
    struct tool_map_entry *e = tool_map_find(&i->ids, id);
    if (e == NULL)
        return false;
    struct block *b = block_of(i, e);
    i->counts.used_twice++;
    lose(i, "%#" PRIx64 " is allocated, but was not freed", e->key);
    enter_thread(i);
    i->counts.frees++;
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    mtf_proc_put_free(i->writer, MTF_CALL_FREE, &b->place);
    tool_map_remove(&i->ids, e);
    return true;
}

/* Makes ID, which names no block, the name of the block at PLACE. */
static void name_block(struct format_import *i, uint64_t id,
                       const struct mtf_proc_object *place, uint64_t size,
                       bool owed) {
    struct tool_map_entry *e = tool_map_get(&i->ids, id);
    if (e == NULL ||
        !tool_array_reserve(&i->block, &i->block_room, (size_t)place->slot + 1,
                            sizeof(*i->block))) {
        i->no_memory = true;
        return;
    }
    e->value = (uint64_t)place->slot + 1;
    i->block[place->slot] = (struct block){*place, size, i->thread, owed};
}

/* Goes before the record that makes a block of SIZE. */
static void note_present(struct format_import *i, uint64_t size) {
    if (!i->noted)
        return;
    i->noted = false;
    if (i->present <= size) {
        mtf_proc_put_present(i->writer, i->present);
        return;
    }
    i->counts.bad++;
    lose(i, "more present bytes than the block has");
}

/* --- Events --------------------------------------------------------------- */

static void put_failed(struct format_import *i, const struct format_event *e) {
    bool aligned = mtf_call_is_aligned_alloc(e->call);
    bool had_old = e->kind == FORMAT_REALLOC && e->old != 0;
    i->counts.failed++;
    enter_thread(i);
    mtf_proc_put_failed(i->writer, e->call, aligned ? e->align_log2 : 0,
                        had_old ? MTF_PROC_FLAG_HAD_OLD : 0, e->size);
}

static void put_alloc(struct format_import *i, const struct format_event *e) {
    struct mtf_proc_object place;
    if (e->id == 0) {
        put_failed(i, e);
        return;
    }
    bool owed = make_free(i, e->id);
    enter_thread(i);
    note_present(i, e->size);
    if (mtf_call_is_aligned_alloc(e->call)) {
        i->counts.memaligns++;
        mtf_proc_put_aligned(i->writer, e->call, e->align_log2, e->size,
                             &place);
    } else {
        i->counts.mallocs++;
        mtf_proc_put_alloc(i->writer, e->call, e->size, &place);
    }
    i->counts.live_blocks++;
    count_live(i, 0, e->size);
    name_block(i, e->id, &place, e->size, owed);
}

/* Whether E is a free that was missing: make_free has put it into the trace. */
static bool is_late(struct format_import *i, const struct format_event *e) {
    if (e->kind != FORMAT_FREE || i->counts.used_twice == 0)
        return false;
    struct tool_map_entry *entry = tool_map_find(&i->ids, e->old);
    if (entry == NULL)
        return false;
    struct block *b = block_of(i, entry);
    if (!b->owed || b->maker == i->thread)
        return false;
    b->owed = false;
    i->counts.used_twice--;
    i->counts.late_frees++;
    return true;
}

static void put_free(struct format_import *i, const struct format_event *e) {
    struct tool_map_entry *entry = tool_map_find(&i->ids, e->old);
    struct block *b = entry == NULL ? NULL : block_of(i, entry);
    i->counts.frees++;
    if (b == NULL) {
        i->counts.unknown_frees++;
        lose(i, "free of %#" PRIx64 ", which was not allocated", e->old);
        return;
    }
    enter_thread(i);
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    if ((e->flags & FORMAT_SIZED) != 0)
        mtf_proc_put_free_size(i->writer, e->call, &b->place, e->size);
    else
        mtf_proc_put_free(i->writer, e->call, &b->place);
    tool_map_remove(&i->ids, entry);
}

/* A realloc whose old block is NULL, or is not in the trace. */
static void put_realloc_new(struct format_import *i,
                            const struct format_event *e) {
    struct mtf_proc_object place;
    bool is_null = e->old == 0 || (e->flags & FORMAT_EMPTY_IS_NULL) != 0;
    bool unknown = !is_null || (e->flags & FORMAT_OLD_UNKNOWN) != 0;
    i->counts.reallocs++;
    if (!is_null) { /* else the trace itself says so by a flag */
        i->counts.unknown_reallocs++;
        lose(i, "realloc of %#" PRIx64 ", which was not allocated", e->old);
    }
    bool owed = make_free(i, e->id);
    enter_thread(i);
    note_present(i, e->size);
    mtf_proc_put_realloc_new(i->writer, e->call,
                             unknown ? MTF_PROC_FLAG_OLD_UNKNOWN : 0, e->size,
                             &place);
    i->counts.live_blocks++;
    count_live(i, 0, e->size);
    name_block(i, e->id, &place, e->size, owed);
}

/* A realloc to 0 that freed the block of ENTRY (NULL: it is not in the
   trace). */
static void put_realloc_end(struct format_import *i,
                            const struct format_event *e,
                            struct tool_map_entry *entry) {
    i->counts.reallocs++;
    if (entry == NULL) {
        i->counts.unknown_frees++;
        lose(i, "realloc of %#" PRIx64 ", which was not allocated", e->old);
        return;
    }
    struct block *b = block_of(i, entry);
    enter_thread(i);
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    mtf_proc_put_realloc_end(i->writer, e->call, &b->place);
    tool_map_remove(&i->ids, entry);
}

static void put_realloc(struct format_import *i, const struct format_event *e) {
    struct tool_map_entry *entry =
        e->old == 0 ? NULL : tool_map_find(&i->ids, e->old);
    if (e->id == 0) {
        if (e->size == 0 && e->old != 0 && (e->flags & FORMAT_FAILED) == 0)
            put_realloc_end(i, e, entry);
        else
            put_failed(i, e);
        return;
    }
    if (entry == NULL) {
        put_realloc_new(i, e);
        return;
    }
    struct block b = *block_of(i, entry);
    bool moved = (e->flags & FORMAT_MOVED) != 0 ||
                 (e->id != e->old && (e->flags & FORMAT_STAYED) == 0);
    if (e->id != e->old) {
        tool_map_remove(&i->ids, entry);
        b.owed |= make_free(i, e->id);
    }
    i->counts.reallocs++;
    enter_thread(i);
    note_present(i, e->size);
    mtf_proc_put_realloc(i->writer, e->call, moved, e->size, &b.place);
    count_live(i, b.size, e->size);
    name_block(i, e->id, &b.place, e->size, b.owed);
}

/* Whether a program can have made this call. */
static bool is_possible(const struct format_import *i,
                        const struct format_event *e) {
    if (i->format->is_ours || (e->id == 0 && e->kind != FORMAT_FREE))
        return true;
    if (e->kind == FORMAT_FREE)
        return (e->flags & FORMAT_SIZED) == 0 || e->size < SIZE_LIMIT;
    return e->size < SIZE_LIMIT && e->align_log2 < 48;
}

/* Whether the call does nothing, as a free of NULL. */
static bool is_nothing(const struct format_import *i,
                       const struct format_event *e) {
    return (e->kind == FORMAT_FREE && e->old == 0) ||
           ((e->flags & FORMAT_EMPTY_IS_NOTHING) != 0 &&
            tool_map_find(&i->ids, e->old) == NULL);
}

static void put_call(struct format_import *i, const struct format_event *e) {
    if (is_nothing(i, e)) {
        i->counts.null_frees++;
        return;
    }
    if (!is_possible(i, e)) {
        i->counts.bad++;
        lose(i, "block of %" PRIu64 " bytes", e->size);
        return;
    }
    if ((e->flags & FORMAT_TIMED) != 0)
        see_time(i, e->time_ns);
    if ((e->flags & FORMAT_THREADED) != 0)
        see_thread(i, e->thread);
    else if (i->thread == 0)
        see_thread(i, i->foreign);
    if (i->no_memory || is_late(i, e))
        return;
    i->counts.threads += (i->seen[i->thread] & SEEN_CALL) == 0;
    i->seen[i->thread] |= SEEN_CALL;
    switch (e->kind) {
    case FORMAT_ALLOC:
        put_alloc(i, e);
        break;
    case FORMAT_FREE:
        put_free(i, e);
        break;
    default:
        put_realloc(i, e);
        break;
    }
}

/* Events that are no calls. */
static void put_other(struct format_import *i, const struct format_event *e) {
    switch (e->kind) {
    case FORMAT_SWITCH:
        see_thread(i, e->thread);
        enter_thread(i);
        break;
    case FORMAT_THREAD_START:
        put_life(i, e);
        break;
    case FORMAT_THREAD_END:
        if (i->format->is_ours)
            put_life(i, e);
        else
            end_thread(i, e);
        break;
    case FORMAT_TIME:
        mtf_proc_put_time(i->writer, e->time_ns);
        break;
    case FORMAT_MARK:
        mtf_proc_put_mark(i->writer, e->text, e->length);
        break;
    case FORMAT_EXTENSION:
        mtf_proc_put_extension(i->writer, (unsigned)e->number, e->size);
        break;
    case FORMAT_SAMPLE:
        mtf_proc_put_sample(i->writer, e->time_ns, e->text, e->length);
        break;
    case FORMAT_LOSS:
        mtf_proc_put_loss(i->writer, (uint32_t)e->thread, e->size, e->id,
                          e->old);
        i->counts.dropped += e->size;
        break;
    case FORMAT_PHASE:
        mtf_proc_put_phase(i->writer, (unsigned)e->number);
        i->phase = (unsigned)e->number;
        i->has_phases = true;
        break;
    case FORMAT_PRESENT:
        i->noted = true;
        i->present = e->size;
        break;
    default:
        break;
    }
}

static void put_event(struct format_import *i, const struct format_event *e) {
    uint64_t ops = i->writer->total_ops + i->writer->hot.ops;
    bool noted = i->noted;
    if (e->kind > FORMAT_REALLOC) {
        put_other(i, e);
        return;
    }
    put_call(i, e);
    if (i->has_phases && i->phase < TCM_ARRAY_SIZE(i->phase_ops))
        i->phase_ops[i->phase] +=
            i->writer->total_ops + i->writer->hot.ops - ops;
    if (noted && i->noted) {
        i->noted = false;
        i->counts.bad++;
        lose(i, "present bytes before a call that makes no block");
    }
}

/* --- Reading -------------------------------------------------------------- */

static enum format_result next_line(struct format_import *i,
                                    struct format_event *e, const char **why) {
    const char *p, *end;
    bool long_one, last;
    if (!format_reader_line(&i->reader, &p, &end, &long_one, &last)) {
        const char *early = i->format->ends_early == NULL
                                ? NULL
                                : i->format->ends_early(i->state);
        *why = early;
        return early == NULL ? FORMAT_END : FORMAT_CUT;
    }
    *why = "line of more than 64 KiB";
    if (long_one)
        return FORMAT_BAD;
    if (p == end)
        return FORMAT_NOTHING;
    enum format_result r = i->format->line(i->state, p, end, e, why);
    if (r == FORMAT_BAD && last) {
        *why = "the last line is cut";
        return FORMAT_CUT;
    }
    return r;
}

/* Writes the closing block. */
static void end_trace(struct format_import *i) {
    const struct format_counts *c = &i->counts;
    uint64_t events =
        c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
    struct mtf_account_value values[] = {
        {MTF_PROC_ACCOUNT_LIVE_AT_END, c->live_blocks},
        {MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES, c->peak_live_bytes},
        {MTF_PROC_ACCOUNT_THREADS, c->threads},
        {MTF_PROC_ACCOUNT_EVENTS, events},
        {MTF_PROC_ACCOUNT_MALLOCS, c->mallocs},
        {MTF_PROC_ACCOUNT_MEMALIGNS, c->memaligns},
        {MTF_PROC_ACCOUNT_REALLOCS, c->reallocs},
        {MTF_PROC_ACCOUNT_FREES, c->frees},
        {MTF_PROC_ACCOUNT_FAILED_ALLOCATIONS, c->failed},
        {MTF_PROC_ACCOUNT_REQUESTED_BYTES, c->requested_bytes},
        {MTF_PROC_ACCOUNT_UNMATCHED_FREES, c->unknown_frees},
        {MTF_PROC_ACCOUNT_UNMATCHED_REALLOCS, c->unknown_reallocs},
        {MTF_PROC_ACCOUNT_DROPPED_EVENTS, c->dropped},
        {MTF_PROC_ACCOUNT_ORDER_CONFLICTS, c->late_frees},
        {MTF_PROC_ACCOUNT_COMPLETE, !format_import_lost(i)},
        {MTF_PROC_ACCOUNT_CLEAN_END, !c->cut},
        {MTF_PROC_ACCOUNT_DAMAGED_PLACES,
         c->bad + c->breaks + c->used_twice + c->cut},
        {MTF_PROC_ACCOUNT_RAW_BYTES, format_import_used(i)},
        {MTF_PROC_ACCOUNT_PROLOGUE_OPS, i->phase_ops[MTF_PROC_PHASE_PROLOGUE]},
        {MTF_PROC_ACCOUNT_EPILOGUE_OPS, i->phase_ops[MTF_PROC_PHASE_EPILOGUE]},
    };
    size_t n = TCM_ARRAY_SIZE(values) - (i->has_phases ? 0 : 2);
    mtf_proc_writer_end(i->writer, values, n);
    i->ended = true;
    tell_sum(i);
}

static void end_early(struct format_import *i, const char *why) {
    i->counts.cut = true;
    lose(i, "%s", why);
}

/* Takes one event, or ends the trace. */
static void step(struct format_import *i) {
    struct format_event e;
    const char *why = "";
    memset(&e, 0, sizeof(e));
    enum format_result r =
        i->format->line != NULL
            ? next_line(i, &e, &why)
            : i->format->next(i->state, &i->reader, &e, &why);
    if (i->reader.broke) {
        i->reader.broke = false;
        i->counts.breaks = i->reader.breaks;
        lose(i, "%s %s before this", tool_input_frame_name(i->in),
             mtf_status_text(tool_input_source(i->in)->status));
    }
    if (i->reader.failed) {
        i->failed = true;
        return;
    }
    switch (r) {
    case FORMAT_EVENT:
        put_event(i, &e);
        return;
    case FORMAT_NOTHING:
        return;
    case FORMAT_BAD:
        i->counts.bad++;
        lose(i, "%s", why);
        return;
    case FORMAT_CUT:
    case FORMAT_GIVE_UP:
        end_early(i, why);
        break;
    case FORMAT_END:
        break;
    }
    if (!i->failed)
        end_trace(i);
}

static enum mtf_source_result fail(struct format_import *i) {
    struct mtf_source *from = tool_input_source(i->in);
    bool no_memory = i->no_memory || i->writer->failed;
    i->source.status = no_memory          ? MTF_NO_MEMORY
                       : i->reader.failed ? from->status
                                          : MTF_DAMAGED;
    i->source.error = i->reader.failed ? from->error : 0;
    return MTF_SOURCE_ERROR;
}

static enum mtf_source_result read_source(struct mtf_source *s, void *buf,
                                          size_t n, size_t *got) {
    struct format_import *i = format_import_of(s);
    *got = 0;
    while (i->out_at == i->out_end && !i->ended) {
        step(i);
        if (i->failed || i->no_memory || i->writer->failed)
            return fail(i);
        if (tool_stop_requested() && !i->ended) {
            end_early(i, "interrupted");
            end_trace(i);
        }
    }
    *got = i->out_end - i->out_at < n ? i->out_end - i->out_at : n;
    memcpy(buf, i->out + i->out_at, *got);
    i->out_at += *got;
    return *got != 0 ? MTF_SOURCE_DATA : MTF_SOURCE_END;
}

/* --- Begin and end -------------------------------------------------------- */

struct format_import *format_import_new(struct tool_input *in,
                                        const struct format *format,
                                        bool tell) {
    struct format_import *i = calloc(1, sizeof(*i));
    char name[128];
    if (i == NULL) {
        tool_input_close(in);
        return NULL;
    }
    i->in = in;
    i->format = format;
    i->tell = tell;
    i->source.read = read_source;
    i->foreign = format->is_ours ? 1 : 0;
    i->state = calloc(1, format->state_bytes + 1);
    i->writer = malloc(sizeof(*i->writer));
    if (i->state == NULL || i->writer == NULL ||
        !format_reader_init(&i->reader, in)) {
        format_import_free(i);
        return NULL;
    }
    (void)snprintf(name, sizeof(name), "malloc-trace %s, from %s", TCM_VERSION,
                   format->title);
    mtf_proc_writer_begin_converted(i->writer, take_bytes, grow_stack, i, name);
    return i;
}

void format_import_free(struct format_import *i) {
    if (i == NULL)
        return;
    if (i->state != NULL && i->format->fini != NULL)
        i->format->fini(i->state);
    format_reader_fini(&i->reader);
    tool_input_close(i->in);
    tool_map_fini(&i->ids);
    tool_map_fini(&i->threads);
    if (i->writer != NULL)
        free(i->writer->stack);
    free(i->writer);
    free(i->state);
    free(i->out);
    free(i->block);
    free(i->seen);
    free(i);
}

void format_import_strictly(struct format_import *i) {
    i->strict = true;
}

struct mtf_source *format_import_source(struct format_import *i) {
    return &i->source;
}

struct format_import *format_import_of(struct mtf_source *source) {
    return TCM_CONTAINER_OF(source, struct format_import, source);
}

const struct format_counts *
format_import_counts(const struct format_import *i) {
    return &i->counts;
}

bool format_import_refused(const struct format_import *i) {
    return i->strict && i->failed && !i->reader.failed;
}

const struct format *format_import_format(const struct format_import *i) {
    return i->format;
}

uint64_t format_import_used(const struct format_import *i) {
    return format_reader_offset(&i->reader);
}

const struct tool_input *format_import_input(const struct format_import *i) {
    return i->in;
}
