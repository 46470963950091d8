/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of the events of a foreign trace: the importer's second half,
 * which keeps the live blocks and writes the records. format_import.h has the
 * first, which reads.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_TAKE_H
#define TOOL_FORMATS_FORMAT_TAKE_H

#include "common/hash.h"
#include "formats/format_blocks.h"
#include "formats/format_import.h"
#include "formats/format_reader.h"
#include "traceformat/proc_writer.h"

struct format_import {
    struct mtf_source source;
    struct tool_input *in;
    const struct format *format;
    void *state;
    struct format_reader reader;
    struct format_batch batch;
    bool tell, strict;
    bool ended;   /* the closing block is written */
    bool failed;  /* and never will be: no memory, an error, or refused */
    bool refused; /* the reason was told */
    bool no_memory;
    uint64_t told; /* messages */
    /* Strict: the first id that was used twice and whose free is still missing,
       and its place. Where threads are known it may come late. */
    uint64_t twice_id, twice_line, twice_from;
    bool threaded; /* threads are known */

    struct mtf_proc_writer *writer;
    uint8_t *out;
    size_t out_at, out_end, out_room;

    struct format_blocks blocks;

    struct tool_map threads; /* foreign id plus 1 to place in `seen` */
    uint8_t *seen;           /* bits */
    size_t seen_room;
    uint32_t thread, thread_count; /* places; 0: none yet */
    uint32_t number;               /* of the thread in the processed trace */
    uint64_t foreign;              /* id of that thread */

    bool noted; /* `present` is known of the block that is made next */
    uint64_t present;

    bool has_phases;
    unsigned phase;
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];

    bool timed;
    uint64_t first_ns, last_ns; /* as in the foreign trace */
    struct format_counts counts;
};

/* One event. */
void format_take_event(struct format_import *i, const struct format_event *e);
void format_take_batch(struct format_import *i, const struct format_batch *b);

/* Strict: refuses a trace in which an id was used twice and whose missing free
   did not come late. */
void format_take_end(struct format_import *i);

/* Prints a message with the place of the reader. */
void format_take_say(struct format_import *i, bool is_error, const char *fmt,
                     ...) TCM_PRINTF(3, 4);

/* So many problems are printed one by one. */
#define FORMAT_TOLD 5u

/* The trace cannot be imported; the first reason is told. */
#define format_refuse(i, ...)                                                  \
    do {                                                                       \
        if (!(i)->failed && ((i)->tell || (i)->strict))                        \
            format_take_say((i), true, __VA_ARGS__);                           \
        (i)->failed = (i)->refused = true;                                     \
    } while (0)

/* Something is lost here, and has been counted. */
#define format_lose(i, ...)                                                    \
    do {                                                                       \
        if ((i)->strict) {                                                     \
            format_refuse((i), __VA_ARGS__);                                   \
        } else if ((i)->tell && (i)->told++ < FORMAT_TOLD) {                   \
            format_take_say((i), false, __VA_ARGS__);                          \
        }                                                                      \
    } while (0)

#endif
