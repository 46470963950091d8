/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers of those who read foreign traces: the bytes, line by line or as they
 * are, and ids of blocks in a log of several processes.
 *
 * Invariants: memory is one window of FORMAT_WINDOW bytes. Offsets are those of
 * the decompressed bytes.
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_READER_H
#define TOOL_FORMATS_FORMAT_READER_H

#include "common/collections.h"
#include "common/input.h"
#include "formats/format.h"

#include <string.h>

#define FORMAT_WINDOW ((size_t)256 << 10)
/* No trace has longer lines. */
#define FORMAT_LINE_MAX ((size_t)64 << 10)

struct format_reader {
    struct tool_input *in;
    struct tool_ahead *ahead;  /* NULL: IN is read directly */
    struct mtf_source *source; /* says what is wrong, too */
    uint8_t *window;
    size_t at, end; /* bytes [at, end) of the window wait */
    uint64_t base;  /* offset of window[0] */
    uint64_t line;  /* number of the line taken last, from 1 */
    uint64_t from;  /* offset of what was taken last */
    bool at_end;    /* nothing follows the window */
    bool failed;    /* an error; tool_input_source has it */
    bool broke;     /* bytes were lost; the caller resets it */
    uint64_t breaks;
};

/* IN stays the caller's. False: out of memory. */
bool format_reader_init(struct format_reader *r, struct tool_input *in);
/* Reads IN on a thread of its own where that is of use, decompression included.
   Before anything is read; until format_reader_fini, IN is that thread's. */
void format_reader_ahead(struct format_reader *r);
void format_reader_fini(struct format_reader *r);

/* P, or behind the byte order mark of UTF-8 that some editors put before the
   first line, [P, END). */
const char *format_reader_behind_mark(const char *p, const char *end);
/* The next line, without its end (a newline, or carriage return and newline).
   False: there is none. *LONG_ONE: it was too long and is cut. *LAST: no
   newline follows. The line is valid until the next call. */
bool format_reader_line(struct format_reader *r, const char **p,
                        const char **end, bool *long_one, bool *last);

/* Tells whether the next line is in the window: taking it leaves those taken
   before it valid. */
bool format_reader_has_line(const struct format_reader *r);

/* Makes N bytes ready (at most FORMAT_WINDOW), or as many as there are; *HAVE
   says how many. They are taken by format_reader_take. */
const uint8_t *format_reader_see(struct format_reader *r, size_t n,
                                 size_t *have);
static inline void format_reader_take(struct format_reader *r, size_t n) {
    r->at += n;
}
static inline uint64_t format_reader_offset(const struct format_reader *r) {
    return r->base + r->at;
}

/* --- Words and numbers ---------------------------------------------------- */

/* The scan functions take words and numbers from the front of a line. Each
   moves *P behind what it took; where it returns false *P is anywhere. */

static inline void format_scan_blanks(const char **p, const char *end) {
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

static inline bool format_scan_at_end(const char **p, const char *end) {
    format_scan_blanks(p, end);
    return *p == end;
}

static inline bool format_scan_char(const char **p, const char *end, char c) {
    if (*p == end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* TEXT, a literal. */
#define format_scan_text(p, end, text)                                         \
    format_scan_bytes(p, end, text, sizeof(text) - 1)
static inline bool format_scan_bytes(const char **p, const char *end,
                                     const char *text, size_t n) {
    if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Decimal, at least one digit, below 2^64. */
static inline bool format_scan_u64(const char **p, const char *end,
                                   uint64_t *v) {
    const char *at = *p, *from = at;
    uint64_t n = 0;
    unsigned digit;
    for (; at < end && (digit = (unsigned)(*at - '0')) <= 9; at++) {
        if (TCM_UNLIKELY(n >= UINT64_MAX / 10) &&
            (n > UINT64_MAX / 10 || digit > UINT64_MAX % 10))
            return false;
        n = n * 10 + digit;
    }
    *p = at;
    *v = n;
    return at != from;
}

/* The value of a hexadecimal digit plus 1; 0 for any other character. */
static const uint8_t format_scan_hex_value[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Hexadecimal, with 0x or without. */
static inline bool format_scan_hex(const char **p, const char *end,
                                   uint64_t *v) {
    const char *at = *p, *from;
    uint64_t n = 0;
    if (end - at >= 2 && at[0] == '0' && (at[1] | 32) == 'x')
        at += 2;
    unsigned digit;
    for (from = at;
         at < end && (digit = format_scan_hex_value[(uint8_t)*at]) != 0; at++) {
        if (TCM_UNLIKELY(n >> 60 != 0))
            return false;
        n = n * 16 + digit - 1;
    }
    *p = at;
    *v = n;
    return at != from;
}

/* Blanks, then the number. */
static inline bool format_scan_next_u64(const char **p, const char *end,
                                        uint64_t *v) {
    format_scan_blanks(p, end);
    return format_scan_u64(p, end, v);
}
static inline bool format_scan_next_hex(const char **p, const char *end,
                                        uint64_t *v) {
    format_scan_blanks(p, end);
    return format_scan_hex(p, end, v);
}

/* NMEMB * SIZE; false: too large. */
static inline bool format_scan_product(uint64_t a, uint64_t b, uint64_t *v) {
    return !__builtin_mul_overflow(a, b, v);
}

/* --- Several processes ---------------------------------------------------- */

/* Processes of one log, each with addresses of its own. All zero at first. */
struct format_processes {
    uint64_t last;        /* process id of the last event */
    uint64_t bits;        /* high bits of its ids */
    struct tool_map rest; /* number by process id plus 1 */
};

/* Makes the ids of E, which are below 2^48, those of process PID. False: too
   many processes, or an id is too large. */
bool format_of_process(struct format_processes *p, uint64_t pid,
                       struct format_event *e);
void format_processes_fini(struct format_processes *p);

#endif
