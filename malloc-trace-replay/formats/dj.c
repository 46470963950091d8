/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tracing malloc of glibc's dj/malloc branch records: an array of
 * records in the recorder's byte order and word size. The first one has type
 * MAGIC.
 *
 *     u32 thread, u32 type and path, words: ptr1, ptr2, size, size2, size3
 *
 * A record of 64-bit words has 64 bytes, one of 32-bit words 36.
 */
#include "formats/dj_record.h"
#include "formats/format_reader.h"
#include "formats/formats.h"

#include <string.h>

#define RECORD_64   ((size_t)64)
#define RECORD_32   ((size_t)36)
#define MAGIC_VALUE 0x1234u

struct state {
    bool known, wide, swapped;
};

static uint32_t load32(const struct state *s, const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return s->swapped ? __builtin_bswap32(v) : v;
}

static uint64_t load_word(const struct state *s, const uint8_t *p, unsigned i) {
    uint64_t v;
    if (!s->wide)
        return load32(s, p + 8 + 4 * (size_t)i);
    memcpy(&v, p + 8 + 8 * (size_t)i, sizeof(v));
    return s->swapped ? __builtin_bswap64(v) : v;
}

static void load(const struct state *s, const uint8_t *p, struct dj_record *r) {
    r->thread = load32(s, p);
    r->type = load32(s, p + 4) & 0xff;
    r->ptr1 = load_word(s, p, 0);
    r->ptr2 = load_word(s, p, 1);
    r->size = load_word(s, p, 2);
    r->size2 = load_word(s, p, 3);
}

/* Byte order and word size, by the first record. */
static bool find_shape(struct state *s, const uint8_t *p, size_t n) {
    for (unsigned i = 0; i < 4; i++) {
        struct dj_record r;
        s->wide = (i & 1) == 0;
        s->swapped = (i & 2) != 0;
        if (n < (s->wide ? RECORD_64 : RECORD_32))
            continue;
        load(s, p, &r);
        if (r.type == DJ_MAGIC && r.ptr1 == MAGIC_VALUE &&
            r.size == (s->wide ? 8u : 4u))
            return true;
    }
    return false;
}

static enum format_result next(void *state, struct format_reader *reader,
                               struct format_event *e, const char **why) {
    struct state *s = state;
    struct dj_record r;
    size_t have, bytes;
    const uint8_t *p = format_reader_see(reader, RECORD_64, &have);
    if (have == 0)
        return FORMAT_END;
    *why = "does not begin with the record that tells its byte order";
    if (!s->known && !find_shape(s, p, have))
        return FORMAT_GIVE_UP;
    s->known = true;
    bytes = s->wide ? RECORD_64 : RECORD_32;
    *why = "ends inside a record";
    if (have < bytes)
        return FORMAT_CUT;
    load(s, p, &r);
    format_reader_take(reader, bytes);
    if (dj_fill(&r, e))
        return FORMAT_EVENT;
    *why = "record of no known type";
    return r.type == DJ_UNUSED || r.type == DJ_MAGIC ? FORMAT_NOTHING
                                                     : FORMAT_BAD;
}

/* Calls of one thread, of records of one shape: a copy for the common one. */
static TCM_ALWAYS_INLINE size_t many_of(const struct state *s, const uint8_t *p,
                                        size_t n, struct format_batch *b) {
    size_t bytes = s->wide ? RECORD_64 : RECORD_32, at = 0;
    if (n >= bytes)
        b->thread = load32(s, p);
    b->flags = FORMAT_THREADED;
    for (; n - at >= bytes && b->count < FORMAT_BATCH; at += bytes) {
        const uint8_t *r = p + at;
        unsigned type = load32(s, r + 4) & 0xff;
        bool frees = type == DJ_FREE;
        uint64_t old = load_word(s, r, 0);
        uint64_t id = frees ? old : load_word(s, r, 1);
        if (type == DJ_UNUSED || type > DJ_REALLOC || id == 0 ||
            load32(s, r) != b->thread)
            break;
        b->call[b->count++] = (struct format_call){
            .id = id,
            .old = type == DJ_REALLOC ? old : 0,
            .size = frees ? 0 : load_word(s, r, 2),
            .at = (uint32_t)at,
            .kind = dj_calls[type].kind,
            .call = dj_calls[type].call,
        };
    }
    return at;
}

static size_t many(void *state, const uint8_t *p, size_t n,
                   struct format_batch *b) {
    const struct state *s = state;
    static const struct state common = {
        .known = true, .wide = true, .swapped = false};
    if (!s->known)
        return 0;
    return s->wide && !s->swapped ? many_of(&common, p, n, b)
                                  : many_of(s, p, n, b);
}

static bool is_dj(const uint8_t *p, size_t n, bool whole) {
    struct state s;
    (void)whole;
    return find_shape(&s, p, n);
}

const struct format format_dj = {
    .name = "dj",
    .title = "trace of glibc's dj/malloc branch",
    .has_kernel_ids = true,
    .is = is_dj,
    .next = next,
    .many = many,
    .state_bytes = sizeof(struct state),
};
