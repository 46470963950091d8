/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cmt and cmt-text: CMT (Compact Memory Traces) in binary and as text.
 *
 * `cmt` has records of two or three numbers,
 *
 *     SIZE OLDREF [NEWDELTA]
 *
 * A number is groups of 7 bits, the least significant first; bit 7 is set in
 * the last group. T is the highest tag so far.
 *
 * | SIZE | OLDREF | meaning |
 * |---|---|---|
 * | not 0 | 0 | malloc: tag T + NEWDELTA |
 * | not 0 | N | realloc of tag T + 1 - N, to tag T + NEWDELTA |
 * | 0 | N | free of tag T + 1 - N; no NEWDELTA |
 *
 * `cmt-text` has lines:
 *
 *     malloc(SIZE) = PTR
 *     realloc(OLD, SIZE) = PTR
 *     free(PTR)
 *
 * PTR is hexadecimal, with 0x or without; a tag in angle brackets may follow,
 * and a comment after # or a blank. Pointers name blocks; tags are not used.
 */
#include "formats/format_export.h"
#include "formats/format_reader.h"
#include "traceformat/varint.h"

/* --- cmt: reading --------------------------------------------------------- */

/* Bytes of the longest number, of 64 bits. */
#define NUMBER_MAX 10u

struct state {
    uint64_t top; /* the highest tag */
};

/* Reads the number at P. Returns its length; 0: it is cut or too large. */
static size_t read_number(const uint8_t *p, const uint8_t *end, uint64_t *v) {
    uint64_t n = 0;
    for (size_t i = 0; i < NUMBER_MAX && p + i < end; i++) {
        uint64_t group = p[i] & 0x7f;
        if (i == NUMBER_MAX - 1 && group > 1)
            return 0;
        n |= group << 7 * i;
        if ((p[i] & 0x80) != 0) {
            *v = n;
            return i + 1;
        }
    }
    return 0;
}

/* Reads the record at P. Returns its length; 0: it is cut or has a number that
   is too large. */
static size_t read_record(const uint8_t *p, const uint8_t *end, uint64_t v[3]) {
    const uint8_t *from = p;
    for (unsigned i = 0; i < 3; i++) {
        size_t n = read_number(p, end, &v[i]);
        if (n == 0)
            return 0;
        p += n;
        if (i == 1 && v[0] == 0)
            break;
    }
    return (size_t)(p - from);
}

/* Returns why V is no valid record, or NULL. */
static const char *problem_of(const struct state *s, const uint64_t v[3]) {
    if (v[1] > s->top)
        return "refers to a block before the first one";
    if (v[0] == 0)
        return v[1] == 0 ? "frees no block" : NULL;
    if (v[2] == 0 || v[2] >= UINT64_MAX - s->top)
        return "makes no new tag";
    return NULL;
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    struct state *s = state;
    uint64_t v[3];
    size_t have;
    const uint8_t *p = format_reader_peek(r, 3 * NUMBER_MAX, &have);
    if (have == 0)
        return FORMAT_END;
    size_t n = read_record(p, p + have, v);
    if (n == 0) {
        *why = have < 3 * NUMBER_MAX ? "ends inside a record"
                                     : "number of more than 64 bits";
        return have < 3 * NUMBER_MAX ? FORMAT_CUT : FORMAT_GIVE_UP;
    }
    format_reader_take(r, n);
    *why = problem_of(s, v);
    if (*why != NULL)
        return FORMAT_GIVE_UP; /* later tags are relative to this one */
    e->size = v[0];
    e->old = v[1] == 0 ? 0 : s->top + 1 - v[1];
    if (v[0] == 0) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        return FORMAT_EVENT;
    }
    s->top += v[2];
    e->id = s->top;
    e->kind = v[1] == 0 ? FORMAT_ALLOC : FORMAT_REALLOC;
    e->call = v[1] == 0 ? MTF_CALL_MALLOC : MTF_CALL_REALLOC;
    e->flags = FORMAT_STAYED;
    return FORMAT_EVENT;
}

/* Reads the number at P, where 8 bytes can be read. Returns its length; 0: it
   is longer. */
static TCM_ALWAYS_INLINE size_t load_number(const uint8_t *p, uint64_t *v) {
    uint64_t w = mtf_load_le64(p), ends = w & 0x8080808080808080u;
    if (TCM_UNLIKELY(ends == 0))
        return 0;
    w &= (ends ^ (ends - 1)) & 0x7f7f7f7f7f7f7f7fu;
    /* groups of 7 bits into groups of 14, 28, 56 */
    w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
    w = (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
    *v = (w & 0x0fffffffu) | w >> 32 << 28;
    return ((size_t)__builtin_ctzll(ends) >> 3) + 1;
}

/* Bytes behind the size in the most frequent record, a malloc of the next tag:
   OLDREF 0, NEWDELTA 1. */
#define MALLOC_NEXT 0x8180u

static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    struct state *s = state;
    const uint8_t *from = p, *end = p + n;
    uint64_t top = s->top;
    struct format_call *c = b->call;
    for (; c < b->call + FORMAT_BATCH && end - p >= (ptrdiff_t)(3 * NUMBER_MAX);
         c++) {
        uint64_t size = 0, reference, step;
        size_t taken = load_number(p, &size), more;
        if (taken == 0)
            break;
        c->at = (uint32_t)(p - from);
        c->size = size;
        c->flags = 0;
        if (size != 0 && (mtf_load_le64(p + taken) & 0xffff) == MALLOC_NEXT) {
            if (top >= UINT64_MAX - 1)
                break;
            c->kind = FORMAT_ALLOC;
            c->call = MTF_CALL_MALLOC;
            c->old = 0;
            c->id = ++top;
            p += taken + 2;
            continue;
        }
        more = load_number(p + taken, &reference);
        taken += more;
        if (more == 0 || reference > top || (size | reference) == 0)
            break;
        if (size == 0) {
            c->kind = FORMAT_FREE;
            c->call = MTF_CALL_FREE;
            c->id = top + 1 - reference;
            p += taken;
            continue;
        }
        more = load_number(p + taken, &step);
        if (more == 0 || step == 0 || step >= UINT64_MAX - top)
            break;
        c->kind = reference == 0 ? FORMAT_ALLOC : FORMAT_REALLOC;
        c->call = reference == 0 ? MTF_CALL_MALLOC : MTF_CALL_REALLOC;
        c->flags = FORMAT_STAYED;
        c->old = reference == 0 ? 0 : top + 1 - reference;
        top += step;
        c->id = top;
        p += taken + more;
    }
    s->top = top;
    b->count = (size_t)(c - b->call);
    return (size_t)(p - from);
}

/* cmt has no magic: the file needs two records or more, all of them valid. */
static bool is_cmt(const uint8_t *p, size_t n, bool whole) {
    struct state s = {0};
    const uint8_t *end = p + n;
    size_t records = 0, length;
    uint64_t v[3];
    while (p < end && (length = read_record(p, end, v)) != 0) {
        /* no program asks for more than 2^40 bytes, no recorder skips tags */
        if (problem_of(&s, v) != NULL || v[0] >> 40 != 0 ||
            (v[0] != 0 && v[2] > 2))
            return false;
        if (v[0] != 0)
            s.top += v[2];
        p += length;
        records++;
    }
    return records >= 2 && (p == end || (size_t)(end - p) < 3 * NUMBER_MAX) &&
           (!whole || p == end || records >= 4);
}

/* --- cmt: writing --------------------------------------------------------- */

/* The stock reader takes numbers of up to four bytes, and no reference to tag
   1; so tags begin with 2. */
#define STOCK_MAX (((uint64_t)1 << 28) - 1)

struct put_state {
    uint64_t top;  /* the highest tag */
    uint64_t skip; /* tags in the file are tags of events plus SKIP */
};

/* Writes V at P, which has room for NUMBER_MAX bytes. Returns its end. */
static TCM_ALWAYS_INLINE char *store_number(char *p, uint64_t v) {
    for (; v > 0x7f; v >>= 7)
        *p++ = (char)(v & 0x7f);
    *p++ = (char)(v | 0x80);
    return p;
}

static void put_event(void *state, struct format_out *out,
                      const struct format_put *event) {
    struct put_state *s = state;
    const struct format_event *e = &event->e;
    if (!format_out_is_call(out, e))
        return;
    format_out_room(out, 3 * NUMBER_MAX);
    char *p = out->bytes + out->used;
    uint64_t size = e->size;
    uint64_t reference = e->old == 0 ? 0 : s->top + 1 - (e->old + s->skip);
    if (e->kind == FORMAT_FREE || e->id == 0)
        size = 0;
    else if (size == 0 || (out->stock && size > STOCK_MAX)) {
        size = size == 0 ? 1 : STOCK_MAX;
        out->changed++;
    }
    p = store_number(p, size);
    p = store_number(p, reference);
    if (size != 0) {
        s->skip = s->top == 0 && out->stock ? 1 : s->skip;
        p = store_number(p, e->id + s->skip - s->top);
        s->top = e->id + s->skip;
    }
    out->used = (size_t)(p - out->bytes);
}

const struct format_type format_cmt = {
    .name = "cmt",
    .title = "compact memory trace, binary",
    .ids = FORMAT_IDS_NUMBERS,
    .matches = is_cmt,
    .next = next_event,
    .batch = next_batch,
    .state_bytes = sizeof(struct state),
    .put = put_event,
    .put_state_bytes = sizeof(struct put_state),
};

/* --- cmt-text: reading ---------------------------------------------------- */

static bool text_read_pointer(const char **p, const char *end, uint64_t *v) {
    uint64_t tag;
    if (!format_scan_next_hex(p, end, v))
        return false;
    return !format_scan_char(p, end, '<') ||
           (format_scan_u64(p, end, &tag) && format_scan_char(p, end, '>'));
}

static bool text_read_result(const char **p, const char *end, uint64_t *v) {
    format_scan_blanks(p, end);
    if (!format_scan_char(p, end, ')'))
        return false;
    (void)format_scan_char(p, end, ' '); /* ltrace has more blanks */
    return format_scan_char(p, end, '=') && text_read_pointer(p, end, v);
}

static bool text_read_call(const char **p, const char *end,
                           struct format_event *e) {
    e->call = MTF_CALL_MALLOC;
    if (format_scan_text(p, end, "malloc(")) {
        e->kind = FORMAT_ALLOC;
        return format_scan_next_u64(p, end, &e->size) &&
               text_read_result(p, end, &e->id);
    }
    if (format_scan_text(p, end, "free(")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        if (!text_read_pointer(p, end, &e->old))
            return false;
        format_scan_blanks(p, end);
        if (!format_scan_char(p, end, ')'))
            return false;
        const char *at = *p;
        format_scan_blanks(&at, end);
        return at == end || *at != '='; /* ltrace has "= <void>" */
    }
    e->kind = FORMAT_REALLOC;
    e->call = MTF_CALL_REALLOC;
    if (!format_scan_text(p, end, "realloc(") ||
        !text_read_pointer(p, end, &e->old))
        return false;
    format_scan_blanks(p, end);
    return format_scan_char(p, end, ',') &&
           format_scan_next_u64(p, end, &e->size) &&
           text_read_result(p, end, &e->id);
}

static enum format_result text_read_line(void *state, const char *p,
                                         const char *end,
                                         struct format_event *e,
                                         const char **why) {
    (void)state;
    *why = "not a line of a compact memory trace";
    if (format_scan_at_end(&p, end) || *p == '#')
        return FORMAT_NOTHING;
    if (!text_read_call(&p, end, e))
        return FORMAT_BAD;
    const char *behind = p;
    if (!format_scan_at_end(&p, end) && p == behind && *p != '#')
        return FORMAT_BAD;
    return FORMAT_EVENT;
}

/* --- cmt-text: writing ---------------------------------------------------- */

/* A processed trace has no addresses: each slot gets a made-up one. */
static void text_put_pointer(struct format_out *out, uint32_t slot) {
    format_out_hex(out, ((uint64_t)slot + 1) << 4);
}

static void text_put_block(struct format_out *out, uint32_t slot,
                           uint64_t tag) {
    text_put_pointer(out, slot);
    format_out_char(out, '<');
    format_out_u64(out, tag);
    format_out_char(out, '>');
}

static void text_put(void *state, struct format_out *out,
                     const struct format_put *p) {
    const struct format_event *e = &p->e;
    (void)state;
    if (!format_out_is_call(out, e))
        return;
    if (e->kind == FORMAT_FREE || e->id == 0) {
        format_out_str(out, "free(");
        text_put_block(out, p->slot, e->old);
        format_out_str(out, ")\n");
        return;
    }
    /* the stock reader refuses size 0, and a tag of realloc's old pointer */
    uint64_t size = e->size;
    if (size == 0 && out->stock) {
        size = 1;
        out->changed++;
    }
    format_out_str(out, e->old != 0 ? "realloc(" : "malloc(");
    if (e->old != 0) {
        if (out->stock)
            text_put_pointer(out, p->slot);
        else
            text_put_block(out, p->slot, e->old);
        format_out_str(out, ", ");
    }
    format_out_u64(out, size);
    format_out_str(out, ") = ");
    text_put_block(out, p->slot, e->id);
    format_out_char(out, '\n');
}

const struct format_type format_cmt_text = {
    .name = "cmt-text",
    .title = "compact memory trace, as text",
    .has_addresses = true,
    .has_comments = true,
    .line = text_read_line,
    .put = text_put,
};
