/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of `malloc-trace dump`: functions that both readers, of raw and of
 * processed traces, build them with.
 *
 *     OFFSET THREAD TIME EVENT
 *
 * Invariants: an event is exactly one line, whatever bytes its texts hold. The
 * first failed write stops the printing (`over`); dump_lines_close reports it.
 * Threads: one user at a time.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_LINES_H
#define TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_LINES_H

#include "base/compiler.h"
#include "base/fmt.h"
#include "common/input.h"
#include "common/output.h"
#include "traceformat/raw_reader.h"

/* Largest line: a record's text of MTF_PROC_BYTES_MAX, each byte as \xNN, and
   the columns before it. */
#define DUMP_LINE_MAX ((64u << 10) + 4096u)

struct dump_lines {
    struct tool_output *out;
    uint64_t from;     /* --from: least offset printed of the first file */
    uint64_t count;    /* --count: lines that may still be printed */
    bool over;         /* `count` is used up, or a write failed */
    bool first_file;   /* false in a spool or a later part */
    bool quiet;        /* print nothing */
    uint64_t start_ns; /* start of the recording, which times count from */
    bool left_out;     /* the current line is not printed */
    struct tcm_fmt f;
    char line[DUMP_LINE_MAX];
};

/* Offset, thread or time of a line that has none. */
#define DUMP_NONE UINT64_MAX

/* Opens stdout. False: out of memory. */
bool dump_lines_open(struct dump_lines *d);
/* False: not everything was written; errno says why. */
bool dump_lines_close(struct dump_lines *d);

/* Begins a line. The event happened between LO and HI, ns of the recording's
   clock; HI is DUMP_NONE if unknown. */
void dump_begin(struct dump_lines *d, uint64_t offset, uint64_t thread,
                uint64_t lo, uint64_t hi);
/* Begins a line with one time, DUMP_NONE for none. */
void dump_begin_at(struct dump_lines *d, uint64_t offset, uint64_t thread,
                   uint64_t time);
/* Ends the line and prints it, unless it is left out. */
void dump_end(struct dump_lines *d);

void dump_str(struct dump_lines *d, const char *s);
void dump_u64(struct dump_lines *d, uint64_t v);
/* TEXT in quotes, with \xNN for bytes that are no printable ASCII. */
void dump_quoted(struct dump_lines *d, const void *text, size_t n);
/* PREFIX and ID: "slot 17" */
void dump_id(struct dump_lines *d, const char *prefix, uint64_t id);

/* PREFIX, ID and " = ": "slot 17 = " */
void dump_result(struct dump_lines *d, const char *prefix, uint64_t id);
/* SIZE, and ", align A" where ALIGN_LOG2 is not 0; 255: no power of two. */
void dump_request(struct dump_lines *d, uint64_t size, unsigned align_log2);
/* " name=value" for each 10-byte field of a sample, footer or closing block. */
void dump_accounts(struct dump_lines *d, const uint8_t *p, size_t n,
                   const char *(*name)(unsigned field));
/* Plain event with a text, as a mark: NAME "TEXT" */
void dump_text(struct dump_lines *d, const char *name, const uint8_t *text,
               size_t n);
/* Plain event with two numbers: NAME NUMBER(ARGUMENT) */
void dump_pair(struct dump_lines *d, const char *name, unsigned number,
               uint64_t argument);
/* Call of MallocExtension or the like: extension NAME(ARGUMENT) */
void dump_extension(struct dump_lines *d, unsigned extension,
                    uint64_t argument);
/* Definition of a call site: the N bytes of its record. */
void dump_site_def(struct dump_lines *d, const uint8_t *p, size_t n);
/* gap, N events dropped, LO..HI */
void dump_gap(struct dump_lines *d, uint64_t events, uint64_t lo, uint64_t hi);

struct dump {
    struct dump_lines lines;
    const char *name; /* trace's name in messages */
    int status;       /* enum tool_status */
    uint64_t damages; /* damage lines so far */
};

/* Begins a line "damage: ...", which the caller ends. */
void dump_damage(struct dump *d, uint64_t offset, uint64_t thread);
/* Prints a damage line: LOST bytes cannot be read because of WHY. FRAME names a
   broken frame of compression ("LZ4 frame"), and AT is then an offset in the
   stored bytes; where FRAME is NULL, in the bytes of the trace.
   LOST_UNPACKED: LOST counts bytes before compression. */
void dump_lost(struct dump *d, uint64_t at, const char *frame, const char *why,
               uint64_t lost, bool lost_unpacked);
/* Part of a header's line: process, executable and recorder, where INFO has
   them. */
void dump_origin(struct dump_lines *l, const struct mtf_raw_info *info);
/* Prints on stderr that the trace is incomplete, and REASON; the exit status
   becomes 3. */
void dump_incomplete(struct dump *d, const char *reason);

/* --- Traces --------------------------------------------------------------- */

/* Prints the raw trace or spool NAME in the order of the file, until its end or
   until `over`. Closes IN, which is NULL where only a spool or parts of NAME
   exist. NAME: the argument of tool_input_open, NULL for stdin. */
void dump_raw(struct dump *d, struct tool_input *in, const char *name);

/* Prints the processed trace NAME, read from IN. Closes IN. */
void dump_processed(struct dump *d, struct tool_input *in, const char *name);

#endif
