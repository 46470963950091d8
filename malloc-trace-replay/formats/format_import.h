/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Import of a foreign trace: a source (struct mtf_source) whose bytes are a
 * processed trace, made block by block while the foreign trace is read.
 *
 * Faults of foreign traces, and how they are repaired:
 *
 * | fault | repair |
 * |---|---|
 * | free of an unknown block | left out |
 * | realloc of an unknown block | makes a block |
 * | address allocated while in use: a free is missing | frees it first |
 * | unreadable line or record | left out |
 * | end in the middle | the events before it are kept |
 *
 * Each fault is counted, the first FORMAT_MESSAGES are printed, and the closing
 * block says that the trace is incomplete. A missing free may come late: a
 * recorder may note a free after the allocation that it made possible. So a
 * free of such an address, by another thread than the new block's, takes its
 * fault back.
 *
 * Invariants: memory is bounded by live blocks, threads, and a fixed amount.
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_IMPORT_H
#define TOOL_FORMATS_FORMAT_IMPORT_H

#include "common/input.h"
#include "formats/format.h"

struct format_counts {
    uint64_t mallocs, memaligns, reallocs, frees, failed;
    uint64_t requested_bytes, peak_live_bytes, live_bytes, live_blocks;
    uint64_t threads;    /* that made a call */
    uint64_t null_frees; /* and other calls that did nothing */
    uint64_t late_frees; /* missing frees that came late: no fault */
    /* faults: see format_import_lost */
    uint64_t unknown_frees, unknown_reallocs;
    uint64_t used_twice; /* addresses allocated while in use */
    uint64_t bad;        /* unreadable lines or records, impossible events */
    uint64_t breaks;     /* places where compression is broken */
    uint64_t dropped;    /* events that the recorder lost */
    bool cut;
};

struct format_import;

/* Begins to read IN as FORMAT, and owns IN. TELL: print faults on stderr.
   Returns NULL, and closes IN, if out of memory. */
struct format_import *format_import_new(struct tool_input *in,
                                        const struct format_type *format,
                                        bool tell);
void format_import_free(struct format_import *i);
/* Reads on a thread of its own: see format_reader_ahead. */
void format_import_ahead(struct format_import *i);
/* Makes the first fault end the trace, with MTF_DAMAGED and a message. */
void format_import_strictly(struct format_import *i);

struct mtf_source *format_import_source(struct format_import *i);
const struct format_counts *format_import_counts(const struct format_import *i);
/* Tells whether there was a fault so far. */
bool format_import_lost(const struct format_import *i);
/* Tells whether the import stopped with a message: at a fault, if strict, or
   because the input is not of the format. */
bool format_import_refused(const struct format_import *i);
const struct format_type *format_import_format(const struct format_import *i);
/* Bytes of the input read so far, counted after decompression. */
uint64_t format_import_used(const struct format_import *i);

/* Opens the trace NAME; a foreign one becomes a processed trace as it is read.
   NAME and errors as of tool_input_open. */
struct tool_input *format_open(const char *name);

/* Like format_open, for IN, of which nothing was read yet. FORMAT: the format
   of IN, NULL if its content is to tell. If IN is foreign *IMPORT is its
   import; else *IMPORT is NULL and IN is returned. Closing the result closes
   IN and frees the import. NULL: out of memory; IN is closed. */
struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format_type *format,
                                     struct format_import **import);

#endif
