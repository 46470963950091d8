/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a processed trace of a foreign one, and gives its bytes as a source:
 * whoever reads processed traces reads these.
 *
 * What a foreign trace may lack, and what becomes of it:
 * - a free or realloc of a block that was never allocated: the free is left
 *   out, the realloc makes a block;
 * - an address that is allocated while it is in use, because its free is
 *   missing: it is freed before. If a free of it by another thread than the new
 *   block's comes later, that is the free that was missing: recorders may note
 *   it after the allocation that it made possible;
 * - a line or record that cannot be read: left out;
 * - an end in the middle: what is there is used.
 * All of them are counted, the first few told one by one, and the closing block
 * says that the trace is not complete.
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
    /* lost */
    uint64_t unknown_frees, unknown_reallocs, used_twice, bad, breaks, dropped;
    bool cut;
};

struct format_import;

/* Reads IN as FORMAT. IN becomes the import's, also when it cannot be made:
   NULL, out of memory. TELL: problems go to stderr. */
struct format_import *format_import_new(struct tool_input *in,
                                        const struct format *format, bool tell);
void format_import_free(struct format_import *i);
/* The first loss is the end, an error: MTF_DAMAGED, and a message is out. */
void format_import_strictly(struct format_import *i);

struct mtf_source *format_import_source(struct format_import *i);
struct format_import *format_import_of(struct mtf_source *source);
const struct format_counts *format_import_counts(const struct format_import *i);
/* Something was lost so far. */
bool format_import_lost(const struct format_import *i);
/* It stopped at the first loss, and said so. */
bool format_import_refused(const struct format_import *i);
const struct format *format_import_format(const struct format_import *i);
/* Bytes of the input that were used, of those that are no longer packed. */
uint64_t format_import_used(const struct format_import *i);
const struct tool_input *format_import_input(const struct format_import *i);

#endif
