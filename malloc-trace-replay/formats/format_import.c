/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A read of the source imports events until a block of the processed trace is
 * full: the caller's thread does the work, and at most one block is stored.
 */
#include "formats/format_import.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/stop.h"
#include "formats/format_take.h"
#include "traceformat/proc_layout.h"
#include "traceformat/raw_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Bytes of the processed trace ----------------------------------------- */

static bool store_bytes(void *ctx, const void *data, size_t n) {
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

/* --- Faults --------------------------------------------------------------- */

bool format_import_lost(const struct format_import *i) {
    const struct format_counts *c = &i->counts;
    return c->cut || (c->unknown_frees | c->unknown_reallocs | c->used_twice |
                      c->bad | c->breaks | c->dropped) != 0;
}

/* Prints all faults if some had no message. */
static void print_fault_counts(const struct format_import *i) {
    const struct format_counts *c = &i->counts;
    if (!i->tell || i->messages <= FORMAT_MESSAGES || !format_import_lost(i))
        return;
    tool_warn("%s: in all %" PRIu64 " frees and %" PRIu64
              " reallocs of unknown blocks, %" PRIu64
              " addresses allocated while in use, %" PRIu64
              " unreadable lines or records",
              tool_input_name(i->in), c->unknown_frees, c->unknown_reallocs,
              c->used_twice, c->bad);
}

/* --- Reading -------------------------------------------------------------- */

static enum format_result next_line(struct format_import *i,
                                    struct format_event *e, const char **why) {
    const char *p, *end;
    bool too_long, last;
    if (!format_reader_line(&i->reader, &p, &end, &too_long, &last)) {
        const char *early = i->format->ends_early == NULL
                                ? NULL
                                : i->format->ends_early(i->state);
        *why = early;
        return early == NULL ? FORMAT_END : FORMAT_CUT;
    }
    *why = "line of more than 64 KiB";
    if (too_long)
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
    TCM_ASSERT(i->writer->total_ops + i->writer->hot.ops ==
               c->mallocs + c->memaligns + c->reallocs + c->frees -
                   c->unknown_frees);
    TCM_ASSERT(c->live_blocks == i->blocks.count);
    TCM_ASSERT(c->live_blocks != 0 || c->live_bytes == 0);
    TCM_ASSERT(c->live_bytes <= c->peak_live_bytes);
    mtf_proc_writer_end(i->writer, values, n);
    i->ended = true;
    print_fault_counts(i);
}

static void note_cut(struct format_import *i, const char *why) {
    TCM_ASSERT(*why != '\0');
    i->counts.cut = true;
    format_import_fault(i, "%s", why);
}

/* Imports one event, or ends the trace. */
static void import_event(struct format_import *i) {
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
        format_import_fault(i, "%s %s before this",
                            tool_input_frame_name(i->in),
                            mtf_status_text(i->reader.source->status));
    }
    if (i->reader.failed) {
        i->failed = true;
        return;
    }
    switch (r) {
    case FORMAT_EVENT:
        format_take_event(i, &e);
        return;
    case FORMAT_NOTHING:
        return;
    case FORMAT_BAD:
        TCM_ASSERT(*why != '\0');
        i->counts.bad++;
        format_import_fault(i, "%s", why);
        return;
    case FORMAT_GIVE_UP:
        if (i->writer->total_ops + i->writer->hot.ops == 0) {
            format_import_refuse(i, "%s", why); /* not of this format */
            return;
        }
        note_cut(i, why);
        break;
    case FORMAT_CUT:
        note_cut(i, why);
        break;
    case FORMAT_END:
        break;
    }
    format_take_end(i);
    if (!i->failed)
        end_trace(i);
}

/* Imports a batch of calls from the window, if the format has batches. False:
   no calls, so import_event has to read on. */
static bool import_batch(struct format_import *i) {
    struct format_batch *b = &i->batch;
    size_t have;
    if (i->format->batch == NULL)
        return false;
    const uint8_t *p = format_reader_peek(&i->reader, 0, &have);
    b->from = format_reader_offset(&i->reader);
    b->count = 0;
    b->flags = 0;
    size_t taken = i->format->batch(i->state, p, have, b);
    TCM_ASSERT(taken <= have && b->count <= FORMAT_BATCH);
    format_reader_take(&i->reader, taken);
    format_take_batch(i, b);
    return b->count != 0;
}

/* Sets the status of a source that cannot go on. */
static enum mtf_source_result fail_source(struct format_import *i) {
    const struct mtf_source *from = i->reader.source;
    bool no_memory = i->no_memory || i->writer->failed;
    i->source.status = no_memory          ? MTF_NO_MEMORY
                       : i->reader.failed ? from->status
                                          : MTF_DAMAGED;
    i->source.error = i->reader.failed ? from->error : 0;
    return MTF_SOURCE_ERROR;
}

static struct format_import *import_of(struct mtf_source *source) {
    return TCM_CONTAINER_OF(source, struct format_import, source);
}

static enum mtf_source_result read_source(struct mtf_source *s, void *buf,
                                          size_t n, size_t *got) {
    struct format_import *i = import_of(s);
    *got = 0;
    while (i->out_at == i->out_end && !i->ended) {
        if (!import_batch(i))
            import_event(i);
        if (i->failed || i->no_memory || i->writer->failed)
            return fail_source(i);
        if (tool_stop_requested() && !i->ended) {
            note_cut(i, "interrupted");
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
                                        const struct format_type *format,
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
    i->foreign = format->is_native ? 1 : 0;
    i->state = calloc(1, format->state_bytes + 1);
    i->writer = malloc(sizeof(*i->writer));
    if (i->state == NULL || i->writer == NULL ||
        !format_reader_init(&i->reader, in)) {
        format_import_free(i);
        return NULL;
    }
    (void)snprintf(name, sizeof(name), "malloc-trace %s, from %s", TCM_VERSION,
                   format->title);
    mtf_proc_writer_begin_converted(i->writer, store_bytes, grow_stack, i,
                                    name);
    return i;
}

void format_import_free(struct format_import *i) {
    if (i == NULL)
        return;
    if (i->state != NULL && i->format->fini != NULL)
        i->format->fini(i->state);
    format_reader_fini(&i->reader);
    tool_input_close(i->in);
    format_blocks_fini(&i->blocks);
    tool_map_fini(&i->threads);
    if (i->writer != NULL)
        free(i->writer->stack);
    free(i->writer);
    free(i->state);
    free(i->out);
    free(i->seen);
    free(i);
}

void format_import_ahead(struct format_import *i) {
    format_reader_ahead(&i->reader);
}

void format_import_strictly(struct format_import *i) {
    i->strict = true;
}

struct mtf_source *format_import_source(struct format_import *i) {
    return &i->source;
}

const struct format_counts *
format_import_counts(const struct format_import *i) {
    return &i->counts;
}

bool format_import_refused(const struct format_import *i) {
    return i->refused;
}

const struct format_type *format_import_format(const struct format_import *i) {
    return i->format;
}

uint64_t format_import_used(const struct format_import *i) {
    return format_reader_offset(&i->reader);
}

/* --- Opening -------------------------------------------------------------- */

TCM_STATIC_ASSERT(
    FORMAT_SNIFF_BYTES <= TOOL_INPUT_PEEK_MAX,
    "tool_input_peek_bytes() returns the bytes that tell the format");

/* Tells whether IN is a raw trace, a spool, a processed trace, or empty. Reads
   no more than the magic: a pipe may not have more bytes yet. */
static bool is_own_trace(struct tool_input *in) {
    uint8_t first[8];
    size_t n = tool_input_peek(in, first);
    return n < sizeof(first) ? n == 0
                             : memcmp(first, MTF_PROC_MAGIC, n) == 0 ||
                                   memcmp(first, MTF_RAW_MAGIC, n) == 0 ||
                                   memcmp(first, MTF_SPOOL_MAGIC, n) == 0;
}

static uint64_t stored_bytes(struct mtf_source *from) {
    return tool_input_stored_bytes(import_of(from)->in);
}

static void free_import(struct mtf_source *from) {
    format_import_free(import_of(from));
}

struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format_type *format,
                                     struct format_import **import) {
    const uint8_t *p;
    *import = NULL;
    if (format == NULL && !is_own_trace(in)) {
        size_t n = tool_input_peek_bytes(in, FORMAT_SNIFF_BYTES, &p);
        format = format_by_content(p, n, n < FORMAT_SNIFF_BYTES);
    }
    if (format == NULL)
        return in;
    struct format_import *i = format_import_new(in, format, true);
    if (i == NULL)
        return NULL;
    const struct tool_input *under = i->in;
    struct tool_input *made = tool_input_of_source(
        format_import_source(i), tool_input_name(under),
        tool_input_file_size(under), stored_bytes, free_import);
    if (made == NULL)
        format_import_free(i);
    else
        *import = i;
    return made;
}

struct tool_input *format_open(const char *name) {
    struct format_import *import;
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return NULL;
    in = format_open_input(in, NULL, &import);
    if (in == NULL)
        errno = ENOMEM;
    return in;
}
