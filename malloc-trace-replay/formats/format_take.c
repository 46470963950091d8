/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_take.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "traceformat/proc_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Live blocks ---------------------------------------------------------- */

#define PLACES_FIRST 64u

bool format_blocks_grow(struct format_blocks *t) {
    struct format_blocks old = *t;
    size_t places = old.place == NULL ? PLACES_FIRST : 2 * (old.mask + 1);
    t->place = calloc(places, sizeof(*t->place));
    if (t->place == NULL) {
        t->place = old.place;
        return false;
    }
    t->mask = places - 1;
    if (old.place == NULL)
        t->seed = tool_hash_seed();
    for (size_t i = 0; old.place != NULL && i <= old.mask; i++) {
        uint64_t id = old.place[i].id;
        if (id != 0)
            *format_blocks_place(t, id, format_blocks_hash(t, id)) =
                old.place[i];
    }
    free(old.place);
    return true;
}

void format_blocks_fini(struct format_blocks *t) {
    free(t->place);
    *t = (struct format_blocks){0};
}

/* Least distance of two times in the processed trace. */
#define TIME_STEP_NS 1000000u
/* Size that no block has: user address spaces have 2^47 bytes. */
#define SIZE_LIMIT ((uint64_t)1 << 47)

/* Events of a thread so far: a call, any record, start, end. The last two only
   in native formats. */
#define SEEN_CALL   1u
#define SEEN_RECORD 2u
#define SEEN_START  4u
#define SEEN_END    8u

void format_take_print(struct format_import *i, bool is_error, const char *fmt,
                       ...) {
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

/* ID without the bits of its process. */
static uint64_t id_in_process(const struct format_type *f, uint64_t id) {
    return f->has_processes ? format_id_in_process(id) : id;
}

#define ID_ROOM 24u

/* ID in the notation of the file. */
static const char *id_text(const struct format_import *i, uint64_t id,
                           char text[ID_ROOM]) {
    const struct format_type *f = i->format;
    if (f->ids == FORMAT_IDS_HEX)
        (void)snprintf(text, ID_ROOM, "%#" PRIx64, id_in_process(f, id));
    else
        (void)snprintf(text, ID_ROOM, "%" PRIu64,
                       id - (f->ids == FORMAT_IDS_FROM_0));
    return text;
}

/* --- Threads and times ---------------------------------------------------- */

/* Index of a thread in `seen`; 0: out of memory. */
static uint32_t index_of_thread(struct format_import *i, uint64_t foreign) {
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

/* Makes FOREIGN the thread of the events that follow. */
static void select_thread(struct format_import *i, uint64_t foreign) {
    i->threaded = i->threaded || i->thread != 0;
    if (i->thread != 0 && foreign == i->foreign)
        return;
    i->foreign = foreign;
    i->thread = index_of_thread(i, foreign);
    i->number = i->format->is_native ? (uint32_t)foreign : i->thread;
}

/* Writes the current thread, if it changed, and its start before its first
   record. Called only where a record follows: a thread without records does not
   appear in the trace. */
static void put_thread(struct format_import *i) {
    uint8_t *seen = &i->seen[i->thread];
    mtf_proc_put_switch(i->writer, i->number);
    if ((*seen & SEEN_RECORD) != 0)
        return;
    *seen |= SEEN_RECORD;
    uint64_t id = id_in_process(i->format, i->foreign);
    if (i->format->has_kernel_ids && id != 0 && id <= UINT32_MAX)
        mtf_proc_put_thread_start(i->writer, i->number, (uint32_t)id);
}

/* Ends a thread; its number may be used again, by a new thread. */
static void end_thread(struct format_import *i, const struct format_event *e) {
    struct tool_map_entry *entry = tool_map_find(&i->threads, e->thread + 1);
    if (entry == NULL)
        return; /* it made no call */
    select_thread(i, e->thread);
    put_thread(i);
    mtf_proc_put_thread_end(i->writer, i->thread, e->text, e->length);
    tool_map_remove(&i->threads, tool_map_find(&i->threads, e->thread + 1));
    i->foreign = UINT64_MAX;
}

/* Start or end of a thread in a native format. A thread starts at most once,
   before its end, and ends after a record. */
static void put_thread_life(struct format_import *i,
                            const struct format_event *e) {
    bool starts = e->kind == FORMAT_THREAD_START;
    uint32_t index = index_of_thread(i, e->thread);
    if (index == 0)
        return;
    uint8_t *seen = &i->seen[index];
    if (starts ? (*seen & (SEEN_START | SEEN_END)) != 0
               : (*seen & (SEEN_RECORD | SEEN_END)) != SEEN_RECORD) {
        i->counts.bad++;
        format_import_fault(i, "thread %" PRIu64 " cannot %s here", e->thread,
                            starts ? "start" : "end");
        return;
    }
    *seen = (uint8_t)(*seen | (starts ? SEEN_START : SEEN_END));
    if (starts)
        mtf_proc_put_thread_start(i->writer, (uint32_t)e->thread,
                                  (uint32_t)e->number);
    else
        mtf_proc_put_thread_end(i->writer, (uint32_t)e->thread, e->text,
                                e->length);
}

/* Writes a time, counted from the first one of the foreign trace. */
static void put_time(struct format_import *i, uint64_t ns) {
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

static struct mtf_proc_object object_of(const struct format_block *b) {
    return (struct mtf_proc_object){b->birth, b->slot};
}

static void fault_reuse(struct format_import *i, uint64_t id) {
    char text[ID_ROOM];
    format_import_fault(i, "%s is allocated while in use",
                        id_text(i, id, text));
}

void format_take_end(struct format_import *i) {
    if (!i->strict || i->counts.used_twice == 0 || i->failed)
        return;
    i->reader.line = i->twice_line;
    i->reader.from = i->twice_from;
    fault_reuse(i, i->twice_id);
}

/* Frees the block with the id ID, which a new block gets: its own free is
   missing, or comes late. Returns whether there was such a block. */
static bool put_missing_free(struct format_import *i, uint64_t id) {
    struct format_block *b = format_blocks_find(&i->blocks, id);
    if (b == NULL)
        return false;
    struct mtf_proc_object object = object_of(b);
    if (i->counts.used_twice++ == 0) {
        i->twice_id = id;
        i->twice_line = i->reader.line;
        i->twice_from = i->reader.from;
    }
    if (!i->strict || !i->threaded)
        fault_reuse(i, id);
    put_thread(i);
    i->counts.frees++;
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    mtf_proc_put_free(i->writer, MTF_CALL_FREE, &object);
    format_blocks_remove(&i->blocks, b);
    return true;
}

/* Adds the block OBJECT to the live ones. No live block has the id ID. */
static void add_block(struct format_import *i, uint64_t id,
                      const struct mtf_proc_object *object, uint64_t size,
                      bool pending) {
    struct format_blocks *t = &i->blocks;
    struct format_block b = {.id = id,
                             .size = size,
                             .birth = object->birth,
                             .slot = object->slot,
                             .maker = i->thread |
                                      (pending ? FORMAT_FREE_PENDING : 0)};
    if (!format_blocks_reserve(t, 1)) {
        i->no_memory = true;
        return;
    }
    format_blocks_put(t, format_blocks_place(t, id, format_blocks_hash(t, id)),
                      &b);
}

/* Writes the present bytes of a block of SIZE, whose record follows. */
static void put_present(struct format_import *i, uint64_t size) {
    if (!i->noted)
        return;
    i->noted = false;
    if (i->present <= size) {
        mtf_proc_put_present(i->writer, i->present);
        return;
    }
    i->counts.bad++;
    format_import_fault(i, "more present bytes than the block has");
}

/* --- Events --------------------------------------------------------------- */

static void put_failed(struct format_import *i, const struct format_event *e) {
    bool aligned = mtf_call_is_aligned_alloc(e->call);
    bool had_old = e->kind == FORMAT_REALLOC && e->old != 0;
    i->counts.failed++;
    put_thread(i);
    mtf_proc_put_failed(i->writer, e->call, aligned ? e->align_log2 : 0,
                        had_old ? MTF_PROC_FLAG_HAD_OLD : 0, e->size);
}

static void put_alloc(struct format_import *i, const struct format_event *e) {
    struct mtf_proc_object object;
    if (e->id == 0) {
        put_failed(i, e);
        return;
    }
    bool pending = put_missing_free(i, e->id);
    put_thread(i);
    put_present(i, e->size);
    if (mtf_call_is_aligned_alloc(e->call)) {
        i->counts.memaligns++;
        mtf_proc_put_aligned(i->writer, e->call, e->align_log2, e->size,
                             &object);
    } else {
        i->counts.mallocs++;
        mtf_proc_put_alloc(i->writer, e->call, e->size, &object);
    }
    i->counts.live_blocks++;
    count_live(i, 0, e->size);
    add_block(i, e->id, &object, e->size, pending);
}

/* Tells whether E is a missing free that comes late, and takes its fault back.
   put_missing_free has written it already. */
static bool take_late_free(struct format_import *i,
                           const struct format_event *e) {
    if (e->kind != FORMAT_FREE || i->counts.used_twice == 0)
        return false;
    struct format_block *b = format_blocks_find(&i->blocks, e->old);
    if (b == NULL || (b->maker & FORMAT_FREE_PENDING) == 0 ||
        b->maker == (i->thread | FORMAT_FREE_PENDING))
        return false;
    b->maker &= ~FORMAT_FREE_PENDING;
    i->counts.used_twice--;
    i->counts.late_frees++;
    return true;
}

/* Reports that the call NAME of E names a block that is not in the trace. */
static void fault_unknown(struct format_import *i, const struct format_event *e,
                          const char *name) {
    char text[ID_ROOM];
    format_import_fault(i, "%s of %s, which was not allocated", name,
                        id_text(i, e->old, text));
}

/* Counts the end of B by the call NAME of E, and gets its OBJECT. false: B is
   NULL, the block is not in the trace. */
static bool end_block(struct format_import *i, const struct format_event *e,
                      const char *name, const struct format_block *b,
                      struct mtf_proc_object *object) {
    if (b == NULL) {
        i->counts.unknown_frees++;
        fault_unknown(i, e, name);
        return false;
    }
    TCM_ASSERT(i->counts.live_blocks != 0);
    *object = object_of(b);
    put_thread(i);
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    return true;
}

static void put_free(struct format_import *i, const struct format_event *e) {
    struct format_block *b = format_blocks_find(&i->blocks, e->old);
    struct mtf_proc_object object;
    i->counts.frees++;
    if (!end_block(i, e, "free", b, &object))
        return;
    if ((e->flags & FORMAT_SIZED) != 0)
        mtf_proc_put_free_size(i->writer, e->call, &object, e->size);
    else
        mtf_proc_put_free(i->writer, e->call, &object);
    format_blocks_remove(&i->blocks, b);
}

/* A realloc of NULL, or of a block that is not in the trace. */
static void put_realloc_new(struct format_import *i,
                            const struct format_event *e) {
    struct mtf_proc_object object;
    bool is_null = e->old == 0 || (e->flags & FORMAT_NO_BLOCK_IS_NULL) != 0;
    bool unknown = !is_null || (e->flags & FORMAT_OLD_UNKNOWN) != 0;
    i->counts.reallocs++;
    if (!is_null) {
        i->counts.unknown_reallocs++;
        fault_unknown(i, e, "realloc");
    }
    bool pending = put_missing_free(i, e->id);
    put_thread(i);
    put_present(i, e->size);
    mtf_proc_put_realloc_new(i->writer, e->call,
                             unknown ? MTF_PROC_FLAG_OLD_UNKNOWN : 0, e->size,
                             &object);
    i->counts.live_blocks++;
    count_live(i, 0, e->size);
    add_block(i, e->id, &object, e->size, pending);
}

/* A realloc to 0 that freed B. NULL: the block is not in the trace. */
static void put_realloc_end(struct format_import *i,
                            const struct format_event *e,
                            struct format_block *b) {
    struct mtf_proc_object object;
    i->counts.reallocs++;
    if (!end_block(i, e, "realloc", b, &object))
        return;
    mtf_proc_put_realloc_end(i->writer, e->call, &object);
    format_blocks_remove(&i->blocks, b);
}

static void put_realloc(struct format_import *i, const struct format_event *e) {
    struct format_block *b =
        e->old == 0 ? NULL : format_blocks_find(&i->blocks, e->old);
    if (e->id == 0) {
        if (e->size == 0 && e->old != 0 && (e->flags & FORMAT_FAILED) == 0)
            put_realloc_end(i, e, b);
        else
            put_failed(i, e);
        return;
    }
    if (b == NULL) {
        put_realloc_new(i, e);
        return;
    }
    struct mtf_proc_object object = object_of(b);
    uint64_t was = b->size;
    bool pending = (b->maker & FORMAT_FREE_PENDING) != 0;
    bool moved = (e->flags & FORMAT_MOVED) != 0 ||
                 (e->id != e->old && (e->flags & FORMAT_STAYED) == 0);
    if (e->id != e->old) {
        format_blocks_remove(&i->blocks, b);
        pending |= put_missing_free(i, e->id);
    }
    i->counts.reallocs++;
    put_thread(i);
    put_present(i, e->size);
    mtf_proc_put_realloc(i->writer, e->call, moved, e->size, &object);
    count_live(i, was, e->size);
    add_block(i, e->id, &object, e->size, pending);
}

/* Tells whether an address space has room for the block of E. */
static bool is_possible(const struct format_import *i,
                        const struct format_event *e) {
    if (i->format->is_native || (e->id == 0 && e->kind != FORMAT_FREE))
        return true;
    if (e->kind == FORMAT_FREE)
        return (e->flags & FORMAT_SIZED) == 0 || e->size < SIZE_LIMIT;
    return e->size < SIZE_LIMIT && e->align_log2 < 48;
}

/* Tells whether the call did nothing, as a free of NULL. */
static bool does_nothing(const struct format_import *i,
                         const struct format_event *e) {
    return (e->kind == FORMAT_FREE && e->old == 0) ||
           ((e->flags & FORMAT_NO_BLOCK_IGNORED) != 0 &&
            format_blocks_find(&i->blocks, e->old) == NULL);
}

static void put_call(struct format_import *i, const struct format_event *e) {
    if (does_nothing(i, e)) {
        i->counts.null_frees++;
        return;
    }
    if (!is_possible(i, e)) {
        i->counts.bad++;
        if (e->size >= SIZE_LIMIT)
            format_import_fault(
                i, "block of %" PRIu64 " bytes, larger than an address space",
                e->size);
        else
            format_import_fault(i,
                                "block aligned to 2^%u bytes, larger than an "
                                "address space",
                                e->align_log2);
        return;
    }
    if ((e->flags & FORMAT_TIMED) != 0)
        put_time(i, e->time_ns);
    if ((e->flags & FORMAT_THREADED) != 0)
        select_thread(i, e->thread);
    else if (i->thread == 0)
        select_thread(i, i->foreign);
    if (i->no_memory || take_late_free(i, e))
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

/* A record of a plain kind: a text, or a number and an argument. */
static void put_plain(struct format_import *i, const struct format_event *e) {
    const struct mtf_kind *k = mtf_plain_of_op(e->op);
    TCM_ASSERT(k != NULL);
    if (k->form == MTF_FORM_TEXT)
        mtf_proc_put_text(i->writer, (enum mtf_proc_kind)k->proc, e->text,
                          e->length);
    else
        mtf_proc_put_pair(i->writer, (enum mtf_proc_kind)k->proc,
                          (unsigned)e->number, e->size);
}

/* Any event that is no call. */
static void put_other(struct format_import *i, const struct format_event *e) {
    switch (e->kind) {
    case FORMAT_SWITCH:
        select_thread(i, e->thread);
        put_thread(i);
        break;
    case FORMAT_THREAD_START:
        put_thread_life(i, e);
        break;
    case FORMAT_THREAD_END:
        if (i->format->is_native)
            put_thread_life(i, e);
        else
            end_thread(i, e);
        break;
    case FORMAT_TIME:
        mtf_proc_put_time(i->writer, e->time_ns);
        break;
    case FORMAT_PLAIN:
        put_plain(i, e);
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

/* Tells whether E is complete. For assertions. */
static bool event_is_valid(const struct format_event *e) {
    switch (e->kind) {
    case FORMAT_ALLOC:
        return mtf_call_is_plain_alloc(e->call) ||
               mtf_call_is_aligned_alloc(e->call);
    case FORMAT_FREE:
        return mtf_call_is_free(e->call) && e->id == 0;
    case FORMAT_REALLOC:
        return mtf_call_is_realloc(e->call);
    case FORMAT_PLAIN:
        return mtf_plain_of_op(e->op) != NULL;
    default:
        return e->kind > FORMAT_REALLOC && e->kind < FORMAT_LIVE;
    }
}

void format_take_event(struct format_import *i, const struct format_event *e) {
    TCM_ASSERT(event_is_valid(e));
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
        format_import_fault(i,
                            "present bytes before a call that makes no block");
    }
}

/* --- Batches -------------------------------------------------------------- */

/* Fetches the places of the ids into the processor's cache, and fills HASH with
   the hashes of the ids. */
static void prefetch_places(const struct format_import *i,
                            const struct format_batch *b,
                            uint64_t hash[FORMAT_BATCH]) {
    const struct format_blocks *t = &i->blocks;
    for (size_t n = 0; n < b->count; n++) {
        hash[n] = format_blocks_hash(t, b->call[n].id);
        __builtin_prefetch(&t->place[hash[n] & t->mask], 1);
    }
}

/* Writes time and thread before the first record of a batch, as put_call does.
   False: out of memory. */
static bool begin_batch(struct format_import *i, const struct format_batch *b,
                        struct mtf_proc_hot *h) {
    i->writer->hot = *h;
    if ((b->flags & FORMAT_TIMED) != 0)
        put_time(i, b->time_ns);
    if ((b->flags & FORMAT_THREADED) != 0)
        select_thread(i, b->thread);
    else if (i->thread == 0)
        select_thread(i, i->foreign);
    if (i->no_memory)
        return false;
    i->counts.threads += (i->seen[i->thread] & SEEN_CALL) == 0;
    i->seen[i->thread] |= SEEN_CALL;
    put_thread(i);
    *h = i->writer->hot;
    return true;
}

static void take_batch_call(struct format_import *i,
                            const struct format_batch *b,
                            const struct format_call *c) {
    struct format_event e = {.kind = c->kind,
                             .call = c->call,
                             .flags = b->flags | c->flags,
                             .size = c->size,
                             .thread = b->thread,
                             .time_ns = b->time_ns};
    if (c->kind == FORMAT_FREE) {
        e.old = c->id;
    } else {
        e.id = c->id;
        e.old = c->old;
    }
    format_take_event(i, &e);
}

static TCM_ALWAYS_INLINE void put_hot_alloc(struct format_import *i,
                                            struct mtf_proc_hot *h,
                                            const struct format_call *c,
                                            struct format_block *b) {
    struct mtf_proc_object object;
    mtf_proc_put_alloc_hot(i->writer, h, c->call, c->size, &object);
    format_blocks_put(&i->blocks, b,
                      &(struct format_block){.id = c->id,
                                             .size = c->size,
                                             .birth = object.birth,
                                             .slot = object.slot,
                                             .maker = i->thread});
    i->counts.mallocs++;
    i->counts.live_blocks++;
    count_live(i, 0, c->size);
}

static TCM_ALWAYS_INLINE void put_hot_free(struct format_import *i,
                                           struct mtf_proc_hot *h,
                                           const struct format_call *c,
                                           struct format_block *b) {
    struct mtf_proc_object object = object_of(b);
    mtf_proc_put_free_hot(i->writer, h, c->call, &object);
    i->counts.frees++;
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    format_blocks_remove(&i->blocks, b);
}

/* A realloc of a live block that gives it a new id, whose place is P. False: it
   is another realloc, which take_batch_call has to take. */
static TCM_ALWAYS_INLINE bool put_batch_realloc(struct format_import *i,
                                                const struct format_call *c,
                                                struct format_block *p) {
    struct format_blocks *t = &i->blocks;
    if (c->old == 0 || c->old == c->id || p->id != 0 || c->size >= SIZE_LIMIT)
        return false;
    struct format_block *b = format_blocks_find(t, c->old);
    if (b == NULL || b->maker >= FORMAT_FREE_PENDING)
        return false;
    struct mtf_proc_object object = object_of(b);
    uint64_t was = b->size;
    format_blocks_remove(t, b);
    bool moved =
        (c->flags & FORMAT_MOVED) != 0 || (c->flags & FORMAT_STAYED) == 0;
    mtf_proc_put_realloc(i->writer, c->call, moved, c->size, &object);
    i->counts.reallocs++;
    count_live(i, was, c->size);
    add_block(i, c->id, &object, c->size, false);
    return true;
}

/* Takes the hot path for calls that make a block at an unused id, or free a
   live block; any other call is taken as a single event. */
void format_take_batch(struct format_import *i, const struct format_batch *b) {
    struct mtf_proc_writer *w = i->writer;
    struct mtf_proc_hot h = w->hot;
    uint64_t hash[FORMAT_BATCH];
    bool entered = false;
    TCM_ASSERT(b->count <= FORMAT_BATCH && !i->noted && !i->has_phases);
    if (!format_blocks_reserve(&i->blocks, b->count)) {
        i->no_memory = true;
        return;
    }
    prefetch_places(i, b, hash);
    for (size_t n = 0; n < b->count; n++) {
        const struct format_call *c = &b->call[n];
        struct format_block *p =
            format_blocks_place(&i->blocks, c->id, hash[n]);
        TCM_ASSERT(c->id != 0);
        if (c->kind == FORMAT_ALLOC) {
            if (TCM_UNLIKELY(p->id != 0 || c->size >= SIZE_LIMIT))
                goto other;
            if (TCM_UNLIKELY(!entered) && !(entered = begin_batch(i, b, &h)))
                break;
            put_hot_alloc(i, &h, c, p);
        } else if (c->kind == FORMAT_FREE) {
            if (TCM_UNLIKELY(p->id == 0 || p->maker >= FORMAT_FREE_PENDING))
                goto other;
            if (TCM_UNLIKELY(!entered) && !(entered = begin_batch(i, b, &h)))
                break;
            put_hot_free(i, &h, c, p);
        } else {
            bool done;
            MTF_PROC_OUT_OF_LINE(w, &h,
                                 done = entered && put_batch_realloc(i, c, p));
            if (TCM_UNLIKELY(!done)) {
            other:
                i->reader.from = b->from + c->at;
                MTF_PROC_OUT_OF_LINE(w, &h, take_batch_call(i, b, c));
            }
        }
        if (TCM_UNLIKELY(i->failed || i->no_memory || w->failed))
            break;
    }
    w->hot = h;
}
