/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a processed trace in the format of another program.
 *
 * Invariants: memory is bounded by live blocks; some formats need more to write
 * their file (doc/formats.md says which).
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_EXPORT_H
#define TOOL_FORMATS_FORMAT_EXPORT_H

#include "common/input.h"
#include "common/output.h"
#include "formats/format.h"
#include "traceformat/varint.h"

#include <string.h>

/* Bytes that one put takes at most. */
#define FORMAT_OUT_ROOM  ((size_t)256)
#define FORMAT_OUT_BYTES ((size_t)64 << 10)

struct format_out {
    struct tool_output *to;
    bool stock;          /* keep to what the format's own tools can read */
    bool told_by_caller; /* what the input lacks, and why it failed */
    bool no_memory;      /* a format had none for its state */
    uint64_t left_out;   /* records that have no place in the format */
    uint64_t changed;    /* records that had to be changed to fit in */
    uint64_t ops, live;  /* so far; complete in put_end */
    size_t used;
    char bytes[FORMAT_OUT_BYTES];
};

/*
 * One event. A block is named by a tag and by its slot. Tags are counted from
 * 1: each allocation and each realloc makes a new one. Slots are used again.
 */
struct format_put {
    struct format_event e; /* id, old: tags */
    uint32_t slot, thread;
    uint64_t time_ns;
    uint64_t op;       /* operations before this one */
    uint64_t old_size; /* of the block that is freed or resized */
    uint64_t born_op;  /* the operation that gave it that size */
    uint32_t maker;    /* the thread of that operation */
};

/* Outcome of an export. */
struct format_exported {
    bool lost;   /* the trace is damaged or lacks something */
    bool failed; /* it cannot be read */
    uint64_t events, ops;
};

/* Writes all of IN, a processed trace, as FORMAT, and prints messages. The
   caller closes both. */
void format_export(struct tool_input *in, const struct format_type *format,
                   struct format_out *out, struct format_exported *done);

/* --- For sinks ------------------------------------------------------------ */

void format_out_flush(struct format_out *o);

/* Counts E as left out, unless it is only a time, or which thread runs, starts
   or ends: many formats have no place for those. */
static inline void format_out_left(struct format_out *o,
                                   const struct format_event *e) {
    o->left_out += e->kind != FORMAT_SWITCH && e->kind != FORMAT_TIME &&
                   e->kind != FORMAT_THREAD_START &&
                   e->kind != FORMAT_THREAD_END;
}

static inline void format_out_room(struct format_out *o, size_t n) {
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

/* "000102...99". */
extern const char format_pairs[201];

/* V at P, where FORMAT_NUMBER_ROOM bytes may be written. Returns its end. */
#define FORMAT_NUMBER_ROOM ((size_t)20)
static inline char *format_put_u64(char *p, uint64_t v) {
    /* The digits end at 20; as many bytes are copied whatever their number. */
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

/* Eight digits, the first one in the lowest byte. */
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

/* TEXT, a literal, at P. Returns its end. */
#define format_put_text(p, text)                                               \
    ((char *)memcpy((p), (text), sizeof(text) - 1) + sizeof(text) - 1)

#endif
