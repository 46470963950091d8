/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Export: writes a processed trace in the format of another program; and the
 * output functions of the formats.
 *
 * Invariants: memory is bounded by the slots of the trace. A format may need
 * more for its file: doc/formats.md says which.
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_EXPORT_H
#define TOOL_FORMATS_FORMAT_EXPORT_H

#include "base/check.h"
#include "common/input.h"
#include "common/output.h"
#include "formats/format.h"
#include "traceformat/varint.h"

#include <string.h>

#define FORMAT_OUT_BYTES ((size_t)64 << 10)

/* Kinds of records that a format may have no place for. */
enum format_left {
    FORMAT_LEFT_FAILED, /* calls that failed */
    FORMAT_LEFT_EMPTY,  /* blocks of no bytes */
    FORMAT_LEFT_SITES,
    FORMAT_LEFT_SAMPLES,
    FORMAT_LEFT_PRESENT,
    FORMAT_LEFT_NOTES, /* FORMAT_PLAIN */
    FORMAT_LEFT_OTHER,
    FORMAT_LEFT_KINDS
};

struct format_out {
    struct tool_output *to;
    bool stock;          /* write only what the format's own tools can read */
    bool caller_reports; /* the caller prints how the input fails or lacks */
    bool no_memory;
    uint64_t left[FORMAT_LEFT_KINDS]; /* records that the format cannot hold */
    uint64_t changed;                 /* calls whose size was changed to fit */
    uint64_t ops, live; /* operations, live blocks; final in put_end */
    size_t used;
    char bytes[FORMAT_OUT_BYTES];
};

/*
 * One event of an export. A block is named by its slot, which is used again,
 * and by a tag: tags count from 1, and each allocation and realloc makes a new
 * one.
 */
struct format_put {
    struct format_event e; /* id, old: tags */
    uint32_t slot, thread;
    uint64_t time_ns;
    uint64_t op; /* operations before this one */
    /* the block that is freed or resized: */
    uint64_t old_size;
    uint64_t born_op; /* operation that made or resized it */
    uint32_t maker;   /* thread of that operation */
};

/* Outcome of an export. */
struct format_exported {
    bool lost;   /* the trace is damaged or incomplete */
    bool failed; /* the trace cannot be read */
    uint64_t events, ops;
};

/* Writes all of IN, a processed trace, to OUT as FORMAT, and prints messages.
   The caller closes IN and OUT->to. */
void format_export(struct tool_input *in, const struct format_type *format,
                   struct format_out *out, struct format_exported *done);

/* --- Output functions of the formats -------------------------------------- */

void format_out_flush(struct format_out *o);

/* Counts E as left out, unless it is a time, or a switch, start or end of a
   thread: most formats cannot hold these. */
void format_out_left(struct format_out *o, const struct format_event *e);
/* Tells whether E is a successful call; another event counts as left out. */
static inline bool format_out_is_call(struct format_out *o,
                                      const struct format_event *e) {
    bool is_call = e->kind <= FORMAT_REALLOC && (e->flags & FORMAT_FAILED) == 0;
    if (!is_call)
        format_out_left(o, e);
    return is_call;
}

/* Makes room for N bytes behind `used`. */
static inline void format_out_room(struct format_out *o, size_t n) {
    TCM_ASSERT(n <= FORMAT_OUT_BYTES);
    if (FORMAT_OUT_BYTES - o->used < n)
        format_out_flush(o);
}

void format_out_bytes(struct format_out *o, const void *data, size_t n);

static inline void format_out_char(struct format_out *o, char c) {
    format_out_room(o, 1);
    o->bytes[o->used++] = c;
}

static inline void format_out_str(struct format_out *o, const char *text) {
    size_t n = strlen(text);
    if (TCM_UNLIKELY(FORMAT_OUT_BYTES - o->used < n)) {
        format_out_bytes(o, text, n);
        return;
    }
    memcpy(o->bytes + o->used, text, n);
    o->used += n;
}

/* Decimal digits of 0 to 99: "000102...99". */
extern const char format_pairs[201];

/* Writes V at P, which has room for FORMAT_NUMBER_ROOM bytes. Returns the end
   of the digits. */
#define FORMAT_NUMBER_ROOM ((size_t)20)
static inline char *format_put_u64(char *p, uint64_t v) {
    /* The digits end at 20. A copy of constant length is faster. */
    char digits[40];
    size_t at = 20;
    for (; v >= 100; v /= 100) {
        at -= 2;
        memcpy(digits + at, format_pairs + 2 * (v % 100), 2);
    }
    if (v >= 10) {
        at -= 2;
        memcpy(digits + at, format_pairs + 2 * v, 2);
    } else {
        digits[--at] = (char)('0' + v);
    }
    memcpy(p, digits + at, 20);
    return p + 20 - at;
}

static inline void format_out_u64(struct format_out *o, uint64_t v) {
    format_out_room(o, FORMAT_NUMBER_ROOM);
    char *p = o->bytes + o->used;
    o->used += (size_t)(format_put_u64(p, v) - p);
}

/* Eight hexadecimal digits, the first one in the lowest byte. */
static inline uint64_t format_hex_digits(uint32_t v) {
    uint64_t x = (uint64_t)(v & 0xffff0000u) << 16 | (v & 0xffffu);
    x = (x << 8 | x) & 0x00ff00ff00ff00ffu;
    x = (x << 4 | x) & 0x0f0f0f0f0f0f0f0fu;
    uint64_t letters = (x + 0x0606060606060606u) >> 4 & 0x0101010101010101u;
    return __builtin_bswap64(x + 0x3030303030303030u +
                             letters * ('a' - '0' - 10));
}

/* Writes V in hexadecimal; room and result are those of format_put_u64. */
static inline char *format_put_hex(char *p, uint64_t v) {
    char digits[32];
    size_t n = (67u - (unsigned)__builtin_clzll(v | 1)) / 4;
    mtf_store_le64(digits, format_hex_digits((uint32_t)(v >> 32)));
    mtf_store_le64(digits + 8, format_hex_digits((uint32_t)v));
    memcpy(p, digits + 16 - n, 16);
    return p + n;
}

static inline void format_out_hex(struct format_out *o, uint64_t v) {
    format_out_room(o, FORMAT_NUMBER_ROOM);
    char *p = o->bytes + o->used;
    o->used += (size_t)(format_put_hex(p, v) - p);
}

/* Writes TEXT, a literal, at P. Returns its end. */
#define format_put_text(p, text)                                               \
    ((char *)memcpy((p), (text), sizeof(text) - 1) + sizeof(text) - 1)

#endif
