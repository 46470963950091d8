/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-bench: a protobuf message, usually in gzip, of lines, each with one of
 *
 *     1 malloc   1 result id, 2 size, 3 alignment
 *     2 free     1 input id, 2 size hint, 3 alignment hint
 *     3 realloc  1 result id, 2 input id, 3 size
 *     4 calloc   1 result id, 2 number, 3 size
 *
 * Every field may be missing. A realloc without an input id, or whose input id
 * has no block, is a realloc of NULL.
 */
#include "formats/format_reader.h"
#include "traceformat/varint.h"

/* Bytes of the longest line that is read. */
#define LINE_MAX_BYTES 4096u
#define FIELDS         3u

enum { BENCH_MALLOC = 1, BENCH_FREE, BENCH_REALLOC, BENCH_CALLOC };

struct state {
    uint64_t unnamed; /* blocks without an id */
};

/* Reads a varint. Returns its length; 0: it is cut or too long. */
static TCM_ALWAYS_INLINE size_t read_varint(const uint8_t *p,
                                            const uint8_t *end, uint64_t *v) {
    *v = 0;
    if (TCM_LIKELY(p < end && *p < 0x80)) {
        *v = *p;
        return 1;
    }
    if (TCM_LIKELY(end - p >= 8)) {
        /* Up to 4 bytes in few steps and no branch for each: groups of 7 bits
           move together in pairs. */
        uint64_t w = mtf_load_le64(p), last = ~w & 0x80808080u;
        if (TCM_LIKELY(last != 0)) {
            w &= (last ^ (last - 1)) & 0x7f7f7f7fu;
            w = (w & 0x007f007fu) | (w & 0x7f007f00u) >> 1;
            *v = (w & 0x3fffu) | (w & 0x3fff0000u) >> 2;
            return (size_t)__builtin_ctzll(last) / 8 + 1;
        }
    }
    for (size_t i = 0; i < 10 && p + i < end; i++) {
        *v |= (uint64_t)(p[i] & 0x7f) << 7 * i;
        if ((p[i] & 0x80) == 0)
            return i + 1;
    }
    return 0;
}

/* Reads a field: its *NUMBER, and its value *V, or *V bytes at *BYTES. Returns
   the length of the field; 0: it is cut or invalid. */
static TCM_ALWAYS_INLINE size_t read_field(const uint8_t *p, const uint8_t *end,
                                           uint64_t *number, uint64_t *v,
                                           const uint8_t **bytes) {
    uint64_t tag;
    size_t n = read_varint(p, end, &tag), m;
    if (n == 0 || tag >> 3 == 0)
        return 0;
    *number = tag >> 3;
    *v = 0;
    *bytes = NULL;
    switch (tag & 7) {
    case 0:
        m = read_varint(p + n, end, v);
        return m == 0 ? 0 : n + m;
    case 1:
        return (size_t)(end - p) < n + 8 ? 0 : n + 8;
    case 2:
        m = read_varint(p + n, end, v);
        if (m == 0 || *v > (uint64_t)(end - p) - n - m)
            return 0;
        *bytes = p + n + m;
        return n + m + (size_t)*v;
    case 5:
        return (size_t)(end - p) < n + 4 ? 0 : n + 4;
    default:
        return 0;
    }
}

struct call {
    uint64_t kind; /* BENCH_...; 0: none */
    uint64_t value[FIELDS + 1];
    bool has[FIELDS + 1];
};

static TCM_ALWAYS_INLINE bool read_call(const uint8_t *p, const uint8_t *end,
                                        struct call *c) {
    uint64_t number, v;
    const uint8_t *bytes;
    while (p < end) {
        size_t n = read_field(p, end, &number, &v, &bytes);
        if (n == 0)
            return false;
        if (number <= FIELDS && bytes == NULL) {
            c->value[number] = v;
            c->has[number] = true;
        }
        p += n;
    }
    return true;
}

/* Reads a line, LENGTH bytes at P. */
static bool read_trace_line(const uint8_t *p, size_t length, struct call *c) {
    const uint8_t *end = p + length, *bytes;
    uint64_t number, v;
    while (p < end) {
        size_t n = read_field(p, end, &number, &v, &bytes);
        if (n == 0)
            return false;
        if (number >= BENCH_MALLOC && number <= BENCH_CALLOC && bytes != NULL) {
            c->kind = number;
            if (!read_call(bytes, bytes + v, c))
                return false;
        }
        p += n;
    }
    return true;
}

/* Id of the result. Ids of the file begin with 0; a block without an id gets
   one of its own. */
static uint64_t result_of(struct state *s, const struct call *c) {
    return c->has[1] ? c->value[1] + 1 : ((uint64_t)1 << 63) + ++s->unnamed;
}

/* Makes an event of C. False: the size of a calloc overflows, or an id has 64
   bits. */
static bool fill_event(struct state *s, const struct call *c,
                       struct format_event *e) {
    bool named = c->kind == BENCH_REALLOC && c->has[2];
    e->kind = FORMAT_ALLOC;
    e->call = MTF_CALL_MALLOC;
    if ((c->has[1] && c->value[1] >> 63 != 0) ||
        (named && c->value[2] >> 63 != 0))
        return false;
    switch (c->kind) {
    case BENCH_FREE:
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = c->has[1] ? c->value[1] + 1 : 0;
        e->flags = FORMAT_NO_BLOCK_IGNORED;
        return true;
    case BENCH_REALLOC:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->id = result_of(s, c);
        e->old = named ? c->value[2] + 1 : 0;
        e->size = c->value[3];
        e->flags = FORMAT_NO_BLOCK_IS_NULL | FORMAT_STAYED;
        return true;
    case BENCH_CALLOC:
        e->call = MTF_CALL_CALLOC;
        e->id = result_of(s, c);
        return !__builtin_mul_overflow(c->value[2], c->value[3], &e->size);
    default:
        e->id = result_of(s, c);
        e->size = c->value[2];
        if (c->has[3]) {
            e->call = MTF_CALL_MEMALIGN;
            e->align_log2 = format_align_log2(c->value[3]);
        }
        return true;
    }
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    size_t have, n;
    uint64_t number, v;
    const uint8_t *bytes;
    const uint8_t *p = format_reader_peek(r, LINE_MAX_BYTES, &have);
    struct call c = {0};
    if (have == 0)
        return FORMAT_END;
    n = read_field(p, p + have, &number, &v, &bytes);
    if (n == 0) {
        *why = have < LINE_MAX_BYTES ? "ends inside a line"
                                     : "not a protobuf message";
        return have < LINE_MAX_BYTES ? FORMAT_CUT : FORMAT_GIVE_UP;
    }
    format_reader_take(r, n);
    if (number != 1 || bytes == NULL)
        return FORMAT_NOTHING; /* the largest number of live blocks */
    *why = "unreadable line";
    if (!read_trace_line(bytes, (size_t)v, &c) || c.kind == 0)
        return FORMAT_BAD;
    return fill_event(state, &c, e) ? FORMAT_EVENT : FORMAT_BAD;
}

/* Longest line of read_common. */
#define COMMON_MAX 26

/* Makes *C of a line in the form that protobuf's own writers give most: malloc
   with id and size, or free with an id. COMMON_MAX bytes are there, at least.
   Returns the length of the line; 0: it has another form. */
static TCM_ALWAYS_INLINE size_t read_common(const uint8_t *p,
                                            const uint8_t *end,
                                            struct format_call *c) {
    const uint8_t *at = p + 4;
    uint64_t id, size = 0;
    bool frees = p[2] == (BENCH_FREE << 3 | 2);
    if (p[0] != 0x0a || p[1] >= 0x80 || p[3] + 2u != p[1] ||
        (!frees && p[2] != (BENCH_MALLOC << 3 | 2)) || *at++ != 0x08)
        return 0;
    size_t n = read_varint(at, end, &id);
    at += n;
    if (n == 0 || id >> 63 != 0)
        return 0;
    if (!frees) {
        if (*at++ != 0x10 || (n = read_varint(at, end, &size)) == 0)
            return 0;
        at += n;
    }
    if (at != p + 2 + p[1])
        return 0;
    *c = (struct format_call){
        .id = id + 1,
        .size = size,
        .kind = frees ? FORMAT_FREE : FORMAT_ALLOC,
        .call = frees ? MTF_CALL_FREE : MTF_CALL_MALLOC,
        .flags = frees ? FORMAT_NO_BLOCK_IGNORED : 0,
    };
    return (size_t)(at - p);
}

/* Reads calls without an alignment, up to a line that is cut. */
static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    struct state *s = state;
    const uint8_t *from = p, *end = p + n, *bytes;
    while (b->count < FORMAT_BATCH) {
        uint64_t number, v;
        size_t length =
            end - p < COMMON_MAX ? 0 : read_common(p, end, &b->call[b->count]);
        if (TCM_LIKELY(length != 0)) {
            b->call[b->count++].at = (uint32_t)(p - from);
            p += length;
            continue;
        }
        struct format_event e = {0};
        struct call c = {0};
        length = read_field(p, end, &number, &v, &bytes);
        if (length == 0 || number != 1 || bytes == NULL ||
            !read_trace_line(bytes, (size_t)v, &c) || c.kind == 0 ||
            (c.kind == BENCH_MALLOC && c.has[3]) || !fill_event(s, &c, &e))
            break;
        b->call[b->count] = format_call_of(&e, (size_t)(p - from));
        if (b->call[b->count].id == 0)
            break; /* a free of NULL */
        b->count++;
        p += length;
    }
    return (size_t)(p - from);
}

/* malloc-bench has no magic: all fields have to be valid, and the first ones
   lines. */
static bool is_bench(const uint8_t *p, size_t n, bool whole) {
    const uint8_t *end = p + n, *bytes;
    uint64_t number, v;
    size_t lines = 0, length;
    while (p < end && (length = read_field(p, end, &number, &v, &bytes)) != 0) {
        struct call c = {0};
        if (number > 2 || (number == 1) != (bytes != NULL))
            return false;
        if (number == 1 &&
            (!read_trace_line(bytes, (size_t)v, &c) || c.kind == 0))
            return false;
        lines += number == 1;
        p += length;
    }
    return lines >= (whole ? 1u : 8u) &&
           (p == end || (size_t)(end - p) < LINE_MAX_BYTES) &&
           (!whole || p == end || lines >= 4);
}

const struct format_type format_malloc_bench = {
    .name = "malloc-bench",
    .title = "malloc-bench protobuf",
    .ids = FORMAT_IDS_FROM_0,
    .matches = is_bench,
    .next = next_event,
    .batch = next_batch,
    .state_bytes = sizeof(struct state),
};
