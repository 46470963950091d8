/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input of the readers of foreign traces: bytes or lines of a file, words and
 * numbers of a line, and ids of blocks in a log of several processes.
 *
 * Invariants: memory is one window of FORMAT_WINDOW bytes. Offsets count
 * decompressed bytes.
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_READER_H
#define TOOL_FORMATS_FORMAT_READER_H

#include "base/check.h"
#include "common/collections.h"
#include "common/input.h"
#include "formats/format.h"

#include <string.h>

#define FORMAT_WINDOW ((size_t)256 << 10)
/* Bytes of the longest line that is read; a longer one is skipped. */
#define FORMAT_LINE_MAX ((size_t)64 << 10)

struct format_reader {
    struct tool_input *in;
    struct tool_ahead *ahead;  /* NULL: IN is read directly */
    struct mtf_source *source; /* bytes of IN, and status and errno if failed */
    uint8_t *window;
    size_t at, end; /* bytes [at, end) of the window are not taken yet */
    uint64_t base;  /* offset of window[0] */
    uint64_t line;  /* number of the last line taken, from 1 */
    uint64_t from;  /* offset of the last line or record */
    bool at_end;    /* no bytes follow the window */
    bool failed;    /* reading failed: see `source` */
    bool broke;     /* bytes were lost; the caller resets it */
    uint64_t breaks;
};

/* IN stays the caller's. False: out of memory. */
bool format_reader_init(struct format_reader *r, struct tool_input *in);
/* Starts a thread that reads and decompresses IN ahead, if that is faster. Call
   it before anything is read. The thread owns IN until format_reader_fini. */
void format_reader_ahead(struct format_reader *r);
void format_reader_fini(struct format_reader *r);

/* Skips the byte order mark of UTF-8 that some editors write before the first
   line, [P, END). Returns the start of the line. */
const char *format_reader_skip_mark(const char *p, const char *end);
/* Takes the next line, without its end (a newline, or carriage return and
   newline). False: the input is at its end. *TOO_LONG: the line has more than
   FORMAT_LINE_MAX bytes, is skipped, and is returned empty. *LAST: no newline
   follows. The line is valid until the next call. */
bool format_reader_line(struct format_reader *r, const char **p,
                        const char **end, bool *too_long, bool *last);

/* Tells whether the next line is in the window, so that earlier lines stay
   valid when it is taken. */
bool format_reader_has_line(const struct format_reader *r);

/* Reads until N bytes are in the window, at most FORMAT_WINDOW, or the input is
   at its end. Returns the bytes, *HAVE of them, which format_reader_take
   takes. */
const uint8_t *format_reader_peek(struct format_reader *r, size_t n,
                                  size_t *have);
static inline void format_reader_take(struct format_reader *r, size_t n) {
    TCM_ASSERT(n <= r->end - r->at);
    r->at += n;
}
static inline uint64_t format_reader_offset(const struct format_reader *r) {
    return r->base + r->at;
}

/* --- Words and numbers ---------------------------------------------------- */

/* Each scan function takes its word or number from the front of the line
   [*P, END) and moves *P behind it. On false *P may be anywhere in the line. */

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

/* TEXT is a literal. */
#define format_scan_text(p, end, text)                                         \
    format_scan_bytes(p, end, text, sizeof(text) - 1)
static inline bool format_scan_bytes(const char **p, const char *end,
                                     const char *text, size_t n) {
    if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

/* A decimal number below 2^64. */
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

/* Value of a hexadecimal digit plus 1; 0 for any other character. */
static const uint8_t format_scan_hex_value[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* A hexadecimal number below 2^64, with 0x or without. */
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

/* A hexadecimal number with 0x. */
static inline bool format_scan_pointer(const char **p, const char *end,
                                       uint64_t *v) {
    return end - *p >= 2 && memcmp(*p, "0x", 2) == 0 &&
           format_scan_hex(p, end, v);
}

/* Skips blanks, then takes the number. */
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

/* Seconds with a decimal point. *NS: nanoseconds. */
static inline bool format_scan_seconds(const char **p, const char *end,
                                       uint64_t *ns) {
    uint64_t seconds, fraction = 0, unit = 1000000000u;
    if (!format_scan_u64(p, end, &seconds) ||
        seconds >= UINT64_MAX / 1000000000u || !format_scan_char(p, end, '.'))
        return false;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        unit /= 10;
        fraction += unit * (uint64_t)(**p - '0');
    }
    *ns = seconds * 1000000000u + fraction;
    return true;
}

/* *V = A * B. False: the product does not fit. */
static inline bool format_scan_product(uint64_t a, uint64_t b, uint64_t *v) {
    return !__builtin_mul_overflow(a, b, v);
}

/* The name of a function of the malloc family or of an operator new or delete,
   mangled or not, which ends before "(", "@" or a blank. Returns enum mtf_call;
   0: another name, and *P stays. */
uint8_t format_scan_call(const char **p, const char *end);

/* --- Several processes ---------------------------------------------------- */

/* Processes of one log, each with its own address space: the state of a reader,
   or the first member of it. All 0 at first. */
struct format_processes {
    uint64_t last;           /* process id of the last event */
    uint64_t bits;           /* high bits of ids of that process */
    struct tool_map numbers; /* by process id plus 1; numbers from 1 */
};

/* Adds the bits of process PID to the ids of E, so that equal addresses of two
   processes differ. Returns FORMAT_EVENT; or FORMAT_BAD with *WHY: too many
   processes, or an id of more than FORMAT_ID_BITS. */
enum format_result format_processes_tag(struct format_processes *p,
                                        uint64_t pid, struct format_event *e,
                                        const char **why);
/* STATE: of a reader, which begins with a struct format_processes. */
void format_processes_fini(void *state);

/* Members that the descriptions of these formats share. */
#define FORMAT_OF_PROCESSES                                                    \
    .has_kernel_ids = true, .has_addresses = true, .has_processes = true,      \
    .fini = format_processes_fini

#endif
