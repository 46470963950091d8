/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_take.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "traceformat/proc_codec.h"

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

/* Times of the foreign trace that are closer together are not written. */
#define TIME_STEP_NS 1000000u
/* No address space has room for larger blocks. */
#define SIZE_LIMIT ((uint64_t)1 << 47)

/* Events seen of a thread: a call, any record, its start, its end. Only our
   own traces tell the last two. */
#define SEEN_CALL   1u
#define SEEN_RECORD 2u
#define SEEN_START  4u
#define SEEN_END    8u

void format_take_say(struct format_import *i, bool is_error, const char *fmt,
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

/* ID without the bits that say which process's it is. */
static uint64_t own_id(const struct format_type *f, uint64_t id) {
    return f->has_processes ? format_id_in_process(id) : id;
}

#define ID_ROOM 24u

/* ID as the file has it. */
static const char *id_text(const struct format_import *i, uint64_t id,
                           char text[ID_ROOM]) {
    const struct format_type *f = i->format;
    if (f->ids == FORMAT_IDS_HEX)
        (void)snprintf(text, ID_ROOM, "%#" PRIx64, own_id(f, id));
    else
        (void)snprintf(text, ID_ROOM, "%" PRIu64,
                       id - (f->ids == FORMAT_IDS_FROM_0));
    return text;
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

/* Makes the thread with this id the one of the events that follow. */
static void see_thread(struct format_import *i, uint64_t foreign) {
    i->threaded = i->threaded || i->thread != 0;
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
    uint64_t id = own_id(i->format, i->foreign);
    if (i->format->has_kernel_ids && id != 0 && id <= UINT32_MAX)
        mtf_proc_put_thread_start(i->writer, i->number, (uint32_t)id);
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
        format_lose(i, "thread %" PRIu64 " cannot %s here", e->thread,
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

static struct mtf_proc_object place_of(const struct format_block *b) {
    return (struct mtf_proc_object){b->birth, b->slot};
}

static void lose_twice(struct format_import *i, uint64_t id) {
    char text[ID_ROOM];
    format_lose(i, "%s is allocated, but was not freed", id_text(i, id, text));
}

void format_take_end(struct format_import *i) {
    if (!i->strict || i->counts.used_twice == 0 || i->failed)
        return;
    i->reader.line = i->twice_line;
    i->reader.from = i->twice_from;
    lose_twice(i, i->twice_id);
}

/* ID is about to name a new block. If another block has it, the free of that
   one is missing: frees it. Returns whether it did; the missing free may come
   late. */
static bool make_free(struct format_import *i, uint64_t id) {
    struct format_block *b = format_blocks_find(&i->blocks, id);
    if (b == NULL)
        return false;
    struct mtf_proc_object place = place_of(b);
    if (i->counts.used_twice++ == 0) {
        i->twice_id = id;
        i->twice_line = i->reader.line;
        i->twice_from = i->reader.from;
    }
    if (!i->strict || !i->threaded)
        lose_twice(i, id);
    enter_thread(i);
    i->counts.frees++;
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    mtf_proc_put_free(i->writer, MTF_CALL_FREE, &place);
    format_blocks_remove(&i->blocks, b);
    return true;
}

/* Makes ID, which names no other block, the name of the block at PLACE. */
static void name_block(struct format_import *i, uint64_t id,
                       const struct mtf_proc_object *place, uint64_t size,
                       bool owed) {
    struct format_blocks *t = &i->blocks;
    struct format_block b = {.id = id,
                             .size = size,
                             .birth = place->birth,
                             .slot = place->slot,
                             .maker = i->thread | (owed ? FORMAT_OWED : 0)};
    if (!format_blocks_reserve(t, 1)) {
        i->no_memory = true;
        return;
    }
    format_blocks_put(t, format_blocks_place(t, id, format_blocks_hash(t, id)),
                      &b);
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
    format_lose(i, "more present bytes than the block has");
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

/* Tells whether E is a free that was missing: make_free has put it into the
   trace. */
static bool is_late(struct format_import *i, const struct format_event *e) {
    if (e->kind != FORMAT_FREE || i->counts.used_twice == 0)
        return false;
    struct format_block *b = format_blocks_find(&i->blocks, e->old);
    if (b == NULL || (b->maker & FORMAT_OWED) == 0 ||
        b->maker == (i->thread | FORMAT_OWED))
        return false;
    b->maker &= ~FORMAT_OWED;
    i->counts.used_twice--;
    i->counts.late_frees++;
    return true;
}

static void put_free(struct format_import *i, const struct format_event *e) {
    struct format_block *b = format_blocks_find(&i->blocks, e->old);
    i->counts.frees++;
    if (b == NULL) {
        i->counts.unknown_frees++;
        char text[ID_ROOM];
        format_lose(i, "free of %s, which was not allocated",
                    id_text(i, e->old, text));
        return;
    }
    struct mtf_proc_object place = place_of(b);
    enter_thread(i);
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    if ((e->flags & FORMAT_SIZED) != 0)
        mtf_proc_put_free_size(i->writer, e->call, &place, e->size);
    else
        mtf_proc_put_free(i->writer, e->call, &place);
    format_blocks_remove(&i->blocks, b);
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
        char text[ID_ROOM];
        format_lose(i, "realloc of %s, which was not allocated",
                    id_text(i, e->old, text));
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

/* A realloc to 0 that freed B (NULL: it is not in the trace). */
static void put_realloc_end(struct format_import *i,
                            const struct format_event *e,
                            struct format_block *b) {
    i->counts.reallocs++;
    if (b == NULL) {
        i->counts.unknown_frees++;
        char text[ID_ROOM];
        format_lose(i, "realloc of %s, which was not allocated",
                    id_text(i, e->old, text));
        return;
    }
    struct mtf_proc_object place = place_of(b);
    enter_thread(i);
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    mtf_proc_put_realloc_end(i->writer, e->call, &place);
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
    struct mtf_proc_object place = place_of(b);
    uint64_t was = b->size;
    bool owed = (b->maker & FORMAT_OWED) != 0;
    bool moved = (e->flags & FORMAT_MOVED) != 0 ||
                 (e->id != e->old && (e->flags & FORMAT_STAYED) == 0);
    if (e->id != e->old) {
        format_blocks_remove(&i->blocks, b);
        owed |= make_free(i, e->id);
    }
    i->counts.reallocs++;
    enter_thread(i);
    note_present(i, e->size);
    mtf_proc_put_realloc(i->writer, e->call, moved, e->size, &place);
    count_live(i, was, e->size);
    name_block(i, e->id, &place, e->size, owed);
}

/* Tells whether a program can have made this call. */
static bool is_possible(const struct format_import *i,
                        const struct format_event *e) {
    if (i->format->is_ours || (e->id == 0 && e->kind != FORMAT_FREE))
        return true;
    if (e->kind == FORMAT_FREE)
        return (e->flags & FORMAT_SIZED) == 0 || e->size < SIZE_LIMIT;
    return e->size < SIZE_LIMIT && e->align_log2 < 48;
}

/* Tells whether the call does nothing, as a free of NULL. */
static bool is_nothing(const struct format_import *i,
                       const struct format_event *e) {
    return (e->kind == FORMAT_FREE && e->old == 0) ||
           ((e->flags & FORMAT_EMPTY_IS_NOTHING) != 0 &&
            format_blocks_find(&i->blocks, e->old) == NULL);
}

static void put_call(struct format_import *i, const struct format_event *e) {
    if (is_nothing(i, e)) {
        i->counts.null_frees++;
        return;
    }
    if (!is_possible(i, e)) {
        i->counts.bad++;
        if (e->size >= SIZE_LIMIT)
            format_lose(i, "block of %" PRIu64 " bytes: no program has one",
                        e->size);
        else
            format_lose(i, "block aligned to 2^%u bytes: no program has that",
                        e->align_log2);
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

/* A plain kind that processed traces have. */
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

/* Tells whether a format may give E. For assertions. */
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
        format_lose(i, "present bytes before a call that makes no block");
    }
}

/* --- Many calls ----------------------------------------------------------- */

/* Asks for the places of the ids before they are needed. HASH: of the ids. */
static void look_ahead(const struct format_import *i,
                       const struct format_batch *b,
                       uint64_t hash[FORMAT_BATCH]) {
    const struct format_blocks *t = &i->blocks;
    for (size_t n = 0; n < b->count; n++) {
        hash[n] = format_blocks_hash(t, b->call[n].id);
        __builtin_prefetch(&t->place[hash[n] & t->mask], 1);
    }
}

/* Does what `put_call` does before the first record. False: no memory. */
static bool enter_batch(struct format_import *i, const struct format_batch *b,
                        struct mtf_proc_hot *h) {
    i->writer->hot = *h;
    if ((b->flags & FORMAT_TIMED) != 0)
        see_time(i, b->time_ns);
    if ((b->flags & FORMAT_THREADED) != 0)
        see_thread(i, b->thread);
    else if (i->thread == 0)
        see_thread(i, i->foreign);
    if (i->no_memory)
        return false;
    i->counts.threads += (i->seen[i->thread] & SEEN_CALL) == 0;
    i->seen[i->thread] |= SEEN_CALL;
    enter_thread(i);
    *h = i->writer->hot;
    return true;
}

static void take_call(struct format_import *i, const struct format_batch *b,
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

static TCM_ALWAYS_INLINE void put_plain_alloc(struct format_import *i,
                                              struct mtf_proc_hot *h,
                                              const struct format_call *c,
                                              struct format_block *b) {
    struct mtf_proc_object place;
    mtf_proc_put_alloc_hot(i->writer, h, c->call, c->size, &place);
    format_blocks_put(&i->blocks, b,
                      &(struct format_block){.id = c->id,
                                             .size = c->size,
                                             .birth = place.birth,
                                             .slot = place.slot,
                                             .maker = i->thread});
    i->counts.mallocs++;
    i->counts.live_blocks++;
    count_live(i, 0, c->size);
}

static TCM_ALWAYS_INLINE void put_plain_free(struct format_import *i,
                                             struct mtf_proc_hot *h,
                                             const struct format_call *c,
                                             struct format_block *b) {
    struct mtf_proc_object place = place_of(b);
    mtf_proc_put_free_hot(i->writer, h, c->call, &place);
    i->counts.frees++;
    i->counts.live_blocks--;
    i->counts.live_bytes -= b->size;
    format_blocks_remove(&i->blocks, b);
}

/* A realloc of the block at C->old that gives it the id of C, where P is the
   empty place. False: it is another one, nothing was done. */
static TCM_ALWAYS_INLINE bool put_plain_realloc(struct format_import *i,
                                                const struct format_call *c,
                                                struct format_block *p) {
    struct format_blocks *t = &i->blocks;
    if (c->old == 0 || c->old == c->id || p->id != 0 || c->size >= SIZE_LIMIT)
        return false;
    struct format_block *b = format_blocks_find(t, c->old);
    if (b == NULL || b->maker >= FORMAT_OWED)
        return false;
    struct mtf_proc_object place = place_of(b);
    uint64_t was = b->size;
    format_blocks_remove(t, b);
    bool moved =
        (c->flags & FORMAT_MOVED) != 0 || (c->flags & FORMAT_STAYED) == 0;
    mtf_proc_put_realloc(i->writer, c->call, moved, c->size, &place);
    i->counts.reallocs++;
    count_live(i, was, c->size);
    name_block(i, c->id, &place, c->size, false);
    return true;
}

/* Calls that make a block at an id that is free, or free a block that is there,
   are put at once; all others are events like any. */
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
    look_ahead(i, b, hash);
    for (size_t n = 0; n < b->count; n++) {
        const struct format_call *c = &b->call[n];
        struct format_block *p =
            format_blocks_place(&i->blocks, c->id, hash[n]);
        TCM_ASSERT(c->id != 0);
        if (c->kind == FORMAT_ALLOC) {
            if (TCM_UNLIKELY(p->id != 0 || c->size >= SIZE_LIMIT))
                goto other;
            if (TCM_UNLIKELY(!entered) && !(entered = enter_batch(i, b, &h)))
                break;
            put_plain_alloc(i, &h, c, p);
        } else if (c->kind == FORMAT_FREE) {
            if (TCM_UNLIKELY(p->id == 0 || p->maker >= FORMAT_OWED))
                goto other;
            if (TCM_UNLIKELY(!entered) && !(entered = enter_batch(i, b, &h)))
                break;
            put_plain_free(i, &h, c, p);
        } else {
            bool done;
            MTF_PROC_OUT_OF_LINE(w, &h,
                                 done = entered && put_plain_realloc(i, c, p));
            if (TCM_UNLIKELY(!done)) {
            other:
                i->reader.from = b->from + c->at;
                MTF_PROC_OUT_OF_LINE(w, &h, take_call(i, b, c));
            }
        }
        if (TCM_UNLIKELY(i->failed || i->no_memory || w->failed))
            break;
    }
    w->hot = h;
}
