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
