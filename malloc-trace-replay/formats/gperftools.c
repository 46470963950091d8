/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gperftools: processed stream of gperftools' tracing branch, which its replay
 * reads: records of 24 bytes, three little-endian words, without a header.
 *
 *     first word: type in byte 0, register in bytes 1 to 7; two more words
 *     0 malloc      register, size
 *     1 free        register
 *     2 free sized  register, size
 *     3 memalign    register, size, alignment
 *     4 realloc     old register, new register, size
 *     5 switch      -, thread
 *     6 end         of the current thread
 *     7 time        -, ns, processor
 *
 * A block takes the lowest free register; a realloc takes its new register
 * before it releases the old one.
 */
#include "common/collections.h"
#include "formats/format_export.h"
#include "formats/format_reader.h"
#include "traceformat/varint.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES ((size_t)24)

enum {
    REC_MALLOC,
    REC_FREE,
    REC_FREE_SIZED,
    REC_MEMALIGN,
    REC_REALLOC,
    REC_SWITCH,
    REC_END,
    REC_TIME,
    REC_LIMIT
};

struct record {
    uint8_t type;
    uint64_t reg, a, b;
};

struct state {
    uint64_t thread, time_ns;
    bool has_thread, timed;
};

static void load(const uint8_t *p, struct record *r) {
    uint64_t word = mtf_load_le64(p);
    r->type = (uint8_t)word;
    r->reg = word >> 8;
    r->a = mtf_load_le64(p + 8);
    r->b = mtf_load_le64(p + 16);
}

/* Makes an event of the call R. */
static void fill_event(const struct state *s, const struct record *r,
                       struct format_event *e) {
    e->kind = FORMAT_ALLOC;
    e->call = MTF_CALL_MALLOC;
    e->id = r->reg + 1;
    e->size = r->a;
    switch (r->type) {
    case REC_MEMALIGN:
        e->call = MTF_CALL_MEMALIGN;
        e->align_log2 = format_align_log2(r->b);
        break;
    case REC_REALLOC:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->old = r->reg + 1;
        e->id = r->a == UINT64_MAX ? 0 : r->a + 1;
        e->size = r->b;
        e->flags |= FORMAT_STAYED;
        break;
    case REC_FREE:
    case REC_FREE_SIZED:
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = r->reg + 1;
        e->id = e->size = 0;
        break;
    default:
        break;
    }
    if (s->has_thread) {
        e->thread = s->thread;
        e->flags |= FORMAT_THREADED;
    }
    if (s->timed) {
        e->time_ns = s->time_ns;
        e->flags |= FORMAT_TIMED;
    }
}

static enum format_result next_event(void *state, struct format_reader *reader,
                                     struct format_event *e, const char **why) {
    struct state *s = state;
    struct record r;
    size_t have;
    const uint8_t *p = format_reader_peek(reader, RECORD_BYTES, &have);
    if (have == 0)
        return FORMAT_END;
    *why = "ends inside a record";
    if (have < RECORD_BYTES)
        return FORMAT_CUT;
    load(p, &r);
    format_reader_take(reader, RECORD_BYTES);
    switch (r.type) {
    case REC_SWITCH:
        s->thread = r.a;
        s->has_thread = r.a != UINT64_MAX;
        return FORMAT_NOTHING;
    case REC_END:
        if (!s->has_thread)
            return FORMAT_NOTHING;
        e->kind = FORMAT_THREAD_END;
        e->thread = s->thread;
        s->has_thread = false;
        return FORMAT_EVENT;
    case REC_TIME:
        s->time_ns = r.a;
        s->timed = true;
        return FORMAT_NOTHING;
    default:
        *why = "unknown type of record";
        if (r.type >= REC_LIMIT)
            return FORMAT_BAD;
        fill_event(s, &r, e);
        return FORMAT_EVENT;
    }
}

static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    struct state *s = state;
    const uint8_t *from = p, *end = p + n;
    for (; end - p >= (ptrdiff_t)RECORD_BYTES; p += RECORD_BYTES) {
        struct record r;
        load(p, &r);
        if (b->count == 0 && r.type == REC_SWITCH) {
            s->thread = r.a;
            s->has_thread = r.a != UINT64_MAX;
            continue;
        }
        if (b->count == 0 && r.type == REC_TIME) {
            s->time_ns = r.a;
            s->timed = true;
            continue;
        }
        bool frees = r.type == REC_FREE || r.type == REC_FREE_SIZED;
        if (b->count == FORMAT_BATCH)
            break;
        struct format_call *c = &b->call[b->count];
        if (r.type == REC_REALLOC && r.a != UINT64_MAX) {
            *c = (struct format_call){.id = r.a + 1,
                                      .old = r.reg + 1,
                                      .size = r.b,
                                      .at = (uint32_t)(p - from),
                                      .kind = FORMAT_REALLOC,
                                      .call = MTF_CALL_REALLOC,
                                      .flags = FORMAT_STAYED};
            b->count++;
            continue;
        }
        if (!frees && r.type != REC_MALLOC)
            break;
        b->count++;
        c->id = r.reg + 1;
        c->old = 0;
        c->size = frees ? 0 : r.a;
        c->at = (uint32_t)(p - from);
        c->kind = frees ? FORMAT_FREE : FORMAT_ALLOC;
        c->call = frees ? MTF_CALL_FREE : MTF_CALL_MALLOC;
        c->flags = 0;
    }
    b->thread = s->thread;
    b->time_ns = s->time_ns;
    b->flags =
        (s->has_thread ? FORMAT_THREADED : 0u) | (s->timed ? FORMAT_TIMED : 0u);
    return (size_t)(p - from);
}

/* The stream has no magic: its first record has to switch to a thread, and all
   records have to be valid. */
static bool is_stream(const uint8_t *p, size_t n, bool whole) {
    if (n < RECORD_BYTES || p[0] != REC_SWITCH ||
        (whole && n % RECORD_BYTES != 0 && n < 4 * RECORD_BYTES))
        return false;
    for (; n >= RECORD_BYTES; p += RECORD_BYTES, n -= RECORD_BYTES) {
        struct record r;
        load(p, &r);
        if (r.type >= REC_LIMIT || r.reg >> 30 != 0 ||
            (r.type >= REC_SWITCH && r.reg != 0) ||
            (r.type <= REC_MEMALIGN && r.a >> 48 != 0))
            return false;
    }
    return true;
}

/* --- Writing -------------------------------------------------------------- */

/* Levels of bits that 2^32 registers need. */
#define LEVELS 6u

struct put_state {
    uint32_t *reg; /* by slot */
    size_t reg_room;
    /* Level 0 has a bit for each free register; each level above has a bit for
       each word below that is not 0. */
    uint64_t *free[LEVELS];
    size_t free_room[LEVELS];
    unsigned levels; /* in use; the last level is a single word */
    uint32_t used;   /* registers ever used */
    uint32_t thread;
    bool has_thread;
    uint64_t time_ns;
};

static void put_record(struct format_out *out, unsigned type, uint64_t reg,
                       uint64_t a, uint64_t b) {
    format_out_room(out, RECORD_BYTES);
    char *bytes = out->bytes + out->used;
    mtf_store_le64(bytes, reg << 8 | type);
    mtf_store_le64(bytes + 8, a);
    mtf_store_le64(bytes + 16, b);
    out->used += RECORD_BYTES;
}

/* Takes a register that was never used, when no register is free. */
static uint32_t take_new(struct put_state *s, struct format_out *out) {
    uint32_t reg = s->used;
    size_t word = reg;
    if (word >> 6 * s->levels != 0 || s->levels == 0)
        s->levels++;
    for (unsigned l = 0; l < s->levels; l++) {
        size_t was = s->free_room[l];
        word /= 64;
        if (word < was)
            continue;
        if (!tool_array_reserve(&s->free[l], &s->free_room[l], word + 1,
                                sizeof(**s->free))) {
            out->no_memory = true;
            return 0;
        }
        memset(s->free[l] + was, 0,
               (s->free_room[l] - was) * sizeof(**s->free));
    }
    TCM_ASSERT(s->levels <= LEVELS);
    s->used++;
    return reg;
}

/* Takes the lowest free register. */
static uint32_t take_least(struct put_state *s, struct format_out *out) {
    size_t reg = 0;
    if (s->used == 0 || s->free[s->levels - 1][0] == 0)
        return take_new(s, out);
    for (unsigned l = s->levels; l-- != 0;)
        reg = reg * 64 + (unsigned)__builtin_ctzll(s->free[l][reg]);
    size_t word = reg;
    for (unsigned l = 0; l < s->levels; l++) {
        s->free[l][word / 64] &= ~((uint64_t)1 << word % 64);
        if (s->free[l][word / 64] != 0)
            break;
        word /= 64;
    }
    return (uint32_t)reg;
}

static void give_back(struct put_state *s, uint32_t reg) {
    size_t word = reg;
    TCM_ASSERT(reg < s->used);
    for (unsigned l = 0; l < s->levels; l++) {
        uint64_t was = s->free[l][word / 64];
        s->free[l][word / 64] = was | (uint64_t)1 << word % 64;
        if (was != 0)
            break;
        word /= 64;
    }
}

/* Writes the thread and the time of P where they changed. */
static void put_thread_and_time(struct put_state *s, struct format_out *out,
                                const struct format_put *p) {
    if (!s->has_thread || s->thread != p->thread)
        put_record(out, REC_SWITCH, 0, p->thread, 0);
    s->has_thread = true;
    s->thread = p->thread;
    if (s->time_ns != p->time_ns)
        put_record(out, REC_TIME, 0, p->time_ns, 0);
    s->time_ns = p->time_ns;
}

static void put_call(struct put_state *s, struct format_out *out,
                     const struct format_put *p) {
    const struct format_event *e = &p->e;
    uint64_t size = e->size;
    uint32_t old = 0, made = 0;
    if (p->slot >= s->reg_room &&
        !tool_array_reserve(&s->reg, &s->reg_room, (size_t)p->slot + 1,
                            sizeof(*s->reg))) {
        out->no_memory = true;
        return;
    }
    put_thread_and_time(s, out, p);
    if (e->old != 0)
        old = s->reg[p->slot];
    if (e->id != 0)
        made = s->reg[p->slot] = take_least(s, out);
    if (e->id == 0) {
        put_record(out, REC_FREE_SIZED, old, p->old_size, 0);
    } else if (e->old != 0) {
        /* realloc to 0 returns NULL, which stops the stock replay */
        if (size == 0 && out->stock) {
            size = 1;
            out->changed++;
        }
        put_record(out, REC_REALLOC, old, made, size);
    } else if (mtf_call_is_aligned_alloc(e->call)) {
        put_record(out, REC_MEMALIGN, made, size, (uint64_t)1 << e->align_log2);
    } else {
        put_record(out, REC_MALLOC, made, size, 0);
    }
    if (e->old != 0)
        give_back(s, old);
}

static void put_event(void *state, struct format_out *out,
                      const struct format_put *p) {
    struct put_state *s = state;
    const struct format_event *e = &p->e;
    switch (e->kind) {
    case FORMAT_SWITCH:
    case FORMAT_TIME:
        return; /* put_thread_and_time writes these */
    case FORMAT_THREAD_END:
        if (s->has_thread && s->thread == e->thread) {
            put_record(out, REC_END, 0, 0, 0);
            s->has_thread = false;
        } else if (e->thread <= UINT32_MAX) {
            put_record(out, REC_SWITCH, 0, e->thread, 0);
            put_record(out, REC_END, 0, 0, 0);
            s->has_thread = false;
        }
        return;
    default:
        if (format_out_is_call(out, e))
            put_call(s, out, p);
    }
}

static void put_fini(void *state) {
    struct put_state *s = state;
    free(s->reg);
    for (unsigned l = 0; l < LEVELS; l++)
        free(s->free[l]);
}

const struct format_type format_gperftools = {
    .name = "gperftools",
    .title = "processed trace of gperftools' tracing branch",
    .ids = FORMAT_IDS_FROM_0,
    .matches = is_stream,
    .next = next_event,
    .batch = next_batch,
    .state_bytes = sizeof(struct state),
    .put = put_event,
    .put_fini = put_fini,
    .put_state_bytes = sizeof(struct put_state),
};
