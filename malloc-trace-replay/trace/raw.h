/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a raw trace by name: the file (or pipe, or stdin) and its spool, or the
 * parts of a flight recording, as one sequence of items.
 *
 * NAME is one of these:
 *
 *   - a raw trace, plain or compressed; a regular file's NAME.spool is read
 *     after it, when it belongs to the same recording
 *   - a spool
 *   - a name of which only NAME.spool exists
 *   - a flight recording, of which only the parts NAME.k0 to NAME.k7 exist, or
 *     one of its parts: all parts are read in their order
 *
 * If a running recording holds the spool's lock, the trace is still growing: it
 * is read up to its last barrier.
 *
 * Invariants: the items of the file come in file order, then those of the
 * spool's buffers, by thread and offset. Events that are in both are not
 * removed here; mtf_stream_place does that.
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_RAW_H
#define TOOL_TRACE_RAW_H

#include "base/compiler.h"
#include "common/collections.h"
#include "common/input.h"
#include "trace/trace_check.h"
#include "traceformat/raw_reader.h"
#include "traceformat/site_codec.h"

struct tool_raw;

/*
 * NAME NULL or "-": stdin. NULL: no memory. A file that cannot be opened or is
 * no raw trace yields MTF_ITEM_FAILED as its first item.
 */
struct tool_raw *tool_raw_open(const char *name);
/*
 * Like tool_raw_open, and follows the trace: at the present end of a pipe, or
 * of a file that a running recording writes, calls WAIT, which returns when it
 * is time to read on; false: the trace ends here. When the recording ends, the
 * rest is read, with the spool. A flight recording forgets its past and is not
 * followed: it is read like tool_raw_open does. IN: the input, as for
 * tool_raw_from_input; NULL: NAME is opened.
 */
struct tool_raw *tool_raw_follow(struct tool_input *in, const char *name,
                                 bool (*wait)(void *ctx), void *ctx);
/* Tells whether NAME can be opened and read again: a file, its spool or its
   parts. */
bool tool_raw_is_file(const char *name);
/* Reads the header of the raw trace NAME, perhaps behind a damaged beginning,
   or in its spool. False: it has none, or is no raw trace. */
bool tool_raw_read_header(const char *name, struct mtf_raw_info *info);
/* Like tool_raw_open, for an input of which no byte was read yet (peeking is
   fine), which then belongs to the trace. NAME: as given to tool_input_open. */
struct tool_raw *tool_raw_from_input(struct tool_input *in, const char *name);
/* Makes another thread read and decompress, where that is faster. To be called
   before the first item. */
void tool_raw_read_ahead(struct tool_raw *t);
void tool_raw_close(struct tool_raw *t);

/* Yields the next item; see mtf_raw_reader_next. item->file is set. */
void tool_raw_next(struct tool_raw *t, struct mtf_item *item);

/* A line for a DAMAGE or FAILED item, with file and byte offset. Valid until
   the next call. */
const char *tool_raw_item_text(struct tool_raw *t, const struct mtf_item *item);

/* Tells whether the trace is still being recorded. Known after tool_raw_open;
   for a trace that is followed, at MTF_ITEM_END. */
bool tool_raw_is_growing(const struct tool_raw *t);
/* Tells whether a spool of the recording is read. */
bool tool_raw_has_spool(const struct tool_raw *t);
/* Tells whether a file is read, not the spool alone. */
bool tool_raw_has_file(const struct tool_raw *t);
/* Tells whether the first parts of a flight recording are gone: streams then
   begin at any offset, and frees may name blocks from before. Known after
   tool_raw_open. */
bool tool_raw_begins_late(const struct tool_raw *t);
/* Returns the name of the file's compression, as tool_input_frame_name does;
   NULL: it is plain. */
const char *tool_raw_frame_name(const struct tool_raw *t);

/* Bytes read so far, decompressed and as stored, with the spool. */
uint64_t tool_raw_bytes(const struct tool_raw *t);
uint64_t tool_raw_stored_bytes(const struct tool_raw *t);
/* Stored bytes that will be read in all, for progress; 0: unknown. */
uint64_t tool_raw_total_bytes(const struct tool_raw *t);

/*
 * After MTF_ITEM_END: tells whether the files lack nothing. They have no
 * damage, are not growing, and have an end: a footer with another reason than
 * MTF_END_FORCED, or a spool with the rest. The caller adds what the streams
 * show (gaps, drops).
 */
bool tool_raw_complete(const struct tool_raw *t);
/* Tells whether the footer or the spool says that the recorder had to stop. */
bool tool_raw_forced_stop(const struct tool_raw *t);
/* Tells whether the file ends with a footer. */
bool tool_raw_clean_end(const struct tool_raw *t);
/* Gets FIELD (enum mtf_account) of the last footer so far; false: it has no
   such field. */
bool tool_raw_account(const struct tool_raw *t, unsigned field,
                      uint64_t *value);
/* Returns the recording's MTF_ACCOUNT_UNTRACED_FREES or _DROPPED_EVENTS, of
   which FOUND are in the streams. Footer and spool have events that are in no
   stream; the footer has also those of a lost end of a stream. */
uint64_t tool_raw_in_all(const struct tool_raw *t, unsigned field,
                         uint64_t found);

/* Counts of events in the streams, by a reader. */
struct tool_raw_counts {
    uint64_t mallocs, memaligns, reallocs, frees, failed;
    uint64_t untraced, dropped;
};
/*
 * Returns a line, with file and offset, that says how the footer contradicts
 * COUNTS; NULL: it does not. A trace with such a contradiction is damaged. To
 * be called after MTF_ITEM_END, by a caller that misses no events. Valid until
 * the next call.
 */
const char *tool_raw_footer_problem(struct tool_raw *t,
                                    const struct tool_raw_counts *counts);

/* --- Threads -------------------------------------------------------------- */

/*
 * The threads of a raw trace, found by id, with the states of their streams.
 *
 * Invariants: memory grows with the number of threads. A pointer to a thread is
 * valid until the next thread is made; indices stay valid.
 */

struct raw_thread {
    uint32_t id;
    uint64_t events;   /* calls of the malloc family */
    uint64_t tid;      /* of the kernel; 0 unknown */
    uint64_t first_ns; /* 0 unknown */
    uint64_t last_ns;
    uint64_t gap_events;         /* dropped events, by its GAP events */
    struct tool_check_life life; /* in a processed trace */
    char name[32];
    struct mtf_stream stream;
    struct mtf_site_state site; /* of the stream; the decoder keeps it */
};

struct raw_threads {
    struct raw_thread *thread; /* by first appearance */
    struct tool_ids ids;
    bool begins_late; /* tool_raw_begins_late */
};

/* Returns the thread with ID, which is made if it is new. NULL: no memory. */
struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id);
void raw_threads_free(struct raw_threads *t);

/* Sums over all threads: those with events, dropped events, untraced frees. */
uint64_t raw_threads_with_events(const struct raw_threads *t);
uint64_t raw_threads_dropped(const struct raw_threads *t);
uint64_t raw_threads_untraced(const struct raw_threads *t);

/* After MTF_ITEM_END: says what the trace's end lacks, beside damaged places;
   NULL: nothing. */
const char *raw_end_problem(const struct tool_raw *t);

#endif
