/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines that `malloc-trace dump` prints: columns, names of blocks, texts,
 * and where to begin and to stop; and the state of the run.
 *
 *     OFFSET THREAD TIME WHAT
 *
 * Invariants: a line is one line, whatever bytes a trace holds as text. The
 * first failed write ends the printing (`over`), and dump_lines_close tells it.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_LINES_H
#define TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_LINES_H

#include "base/compiler.h"
#include "base/fmt.h"
#include "common/input.h"
#include "common/output.h"
#include "traceformat/raw_reader.h"

/* No record has a longer text; each byte of it can become four. */
#define DUMP_LINE_MAX ((64u << 10) + 4096u)

struct dump_lines {
    struct tool_output *out;
    uint64_t from;  /* lines of the first file before this offset are left out
                     */
    uint64_t count; /* lines that may still be printed */
    bool over;      /* nothing more is printed */
    bool first_file;
    bool quiet;        /* nothing is printed at all */
    uint64_t start_ns; /* times count from here */
    bool left_out;     /* the line at hand */
    struct tcm_fmt f;
    char line[DUMP_LINE_MAX];
};

#define DUMP_NONE UINT64_MAX /* offset, thread or time that a line has not */

/* Writes to stdout. False with errno on failure. */
bool dump_lines_open(struct dump_lines *d);
/* False: something was not written; errno says why. */
bool dump_lines_close(struct dump_lines *d);

/* Begins a line; LO and HI are its interval, HI DUMP_NONE if unknown. */
void dump_begin(struct dump_lines *d, uint64_t offset, uint64_t thread,
                uint64_t lo, uint64_t hi);
/* A line with one time, DUMP_NONE for none. */
void dump_begin_at(struct dump_lines *d, uint64_t offset, uint64_t thread,
                   uint64_t time);
/* Ends it and prints it, unless it is left out. */
void dump_end(struct dump_lines *d);

void dump_str(struct dump_lines *d, const char *s);
void dump_u64(struct dump_lines *d, uint64_t v);
/* In quotes, with \xNN for what is not printable ASCII. */
void dump_quoted(struct dump_lines *d, const void *text, size_t n);
/* "prefix17" */
void dump_id(struct dump_lines *d, const char *prefix, uint64_t id);

/* "ID = " */
void dump_made(struct dump_lines *d, const char *prefix, uint64_t id);
/* "(SIZE" and ", align A" where ALIGN_LOG2 is not 0; 255: no power of two. */
void dump_request(struct dump_lines *d, uint64_t size, unsigned align_log2);
/* Fields of a sample, footer or closing block, 10 bytes each: " name=value" */
void dump_accounts(struct dump_lines *d, const uint8_t *p, size_t n,
                   const char *(*name)(unsigned field));
/* Plain events: NAME "TEXT", and NAME WHICH(ARGUMENT). */
void dump_text(struct dump_lines *d, const char *name, const uint8_t *text,
               size_t n);
void dump_pair(struct dump_lines *d, const char *name, unsigned which,
               uint64_t argument);
/* Text of a call of MallocExtension or the like: "extension NAME(ARGUMENT)" */
void dump_extension(struct dump_lines *d, unsigned which, uint64_t argument);
/* A definition of a call site, N bytes. */
void dump_site_def(struct dump_lines *d, const uint8_t *p, size_t n);
/* "gap, N events dropped, LO..HI" */
void dump_gap(struct dump_lines *d, uint64_t events, uint64_t lo, uint64_t hi);

struct dump {
    struct dump_lines lines;
    const char *name; /* of the trace, for messages */
    int status;       /* enum tool_status */
    uint64_t damages; /* lines that tell of damage */
};

/* A line that something is damaged begins; the caller ends it. */
void dump_damage(struct dump *d, uint64_t offset, uint64_t thread);
/* A whole line: bytes that are LOST for WHY. AT: of the bytes of the trace; or
   of the stored ones, where a FRAME, as "LZ4 frame", is broken; else NULL. */
void dump_lost(struct dump *d, uint64_t at, const char *frame, const char *why,
               uint64_t lost, bool lost_unpacked);
/* Line of a header: process, executable, recorder, as far as it names them. */
void dump_origin(struct dump_lines *l, const struct mtf_raw_info *info);
/* Notes on stderr what the trace lacks; the exit status becomes 3. */
void dump_lacks(struct dump *d, const char *what);

/* --- Traces --------------------------------------------------------------- */

/* Takes IN, and prints until the end or until the lines are over. NAME: as
   given to tool_input_open, NULL for stdin. */
void dump_raw(struct dump *d, struct tool_input *in, const char *name);

/* Dumps the processed trace NAME; IN and D as of dump_raw. */
void dump_processed(struct dump *d, struct tool_input *in, const char *name);

#endif
