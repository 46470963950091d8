/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a processed trace of a foreign one. Its bytes are a source, which all
 * readers of processed traces can read.
 *
 * Faults of foreign traces, and what becomes of them:
 * - a free or realloc of a block that was never allocated: the free is left
 *   out, the realloc makes a block;
 * - an address that is allocated while it is in use, so that a free is missing:
 *   it is freed first. A later free of it by another thread than the new
 *   block's is taken for the missing one: a recorder may note a free after the
 *   allocation that it made possible;
 * - a line or record that cannot be read: left out;
 * - an end in the middle: what is there is used.
 * All are counted, the first few printed one by one, and the closing block says
 * that the trace is not complete.
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
    uint64_t threads;
    uint64_t null_frees;
    uint64_t late_frees; /* see above: an order conflict, nothing is lost */
    /* what was lost */
    uint64_t unknown_frees, unknown_reallocs, used_twice, bad, breaks, dropped;
    bool cut;
};

struct format_import;

/* Reads IN as FORMAT. The import owns IN; without memory it closes IN and
   returns NULL. TELL: problems are printed on stderr. */
struct format_import *format_import_new(struct tool_input *in,
                                        const struct format_type *format,
                                        bool tell);
void format_import_free(struct format_import *i);
/* Reads ahead, see format_reader_ahead. */
void format_import_ahead(struct format_import *i);
/* Makes the first loss from now on end the trace, with MTF_DAMAGED and a
   message. */
void format_import_strictly(struct format_import *i);

struct mtf_source *format_import_source(struct format_import *i);
struct format_import *format_import_of(struct mtf_source *source);
const struct format_counts *format_import_counts(const struct format_import *i);
/* Tells whether something was lost so far. */
bool format_import_lost(const struct format_import *i);
/* Tells whether the import stopped with a message: at a loss, if strict, or
   because the input is no such trace. */
bool format_import_refused(const struct format_import *i);
const struct format_type *format_import_format(const struct format_import *i);
/* Bytes of the input that were used, counted when unpacked. */
uint64_t format_import_used(const struct format_import *i);
const struct tool_input *format_import_input(const struct format_import *i);

/* As tool_input_open. */
struct tool_input *format_open(const char *name);

/* The same for IN, of which nothing was read yet. FORMAT NULL: found by
   content. *IMPORT is the import, or NULL if the trace is not foreign; then IN
   itself is returned. Closing the result frees IN and the import. NULL: out of
   memory; IN is closed. */
struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format_type *format,
                                     struct format_import **import);

#endif
