/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw trace by name: the file (or pipe, or stdin) and its spool read as one.
 *
 * NAME is a raw trace, plain or in LZ4 frames; or a spool; or a name of which
 * only NAME.spool exists; or a flight recording, of which only NAME.k0 to .k7
 * exist, or one of these: its parts are read as one. A regular file's
 * NAME.spool is read after it when it is of the same recording. If a living
 * recording holds the spool's lock the trace is still growing: it is read up to
 * its last barrier.
 *
 * Invariants: items of the file come in file order, then those made of the
 * spool's buffers, by thread and offset. Doubles are not removed here;
 * mtf_stream_place does that.
 */
#ifndef TOOL_TRACE_RAW_H
#define TOOL_TRACE_RAW_H

#include "base/compiler.h"
#include "common/collections.h"
#include "common/input.h"
#include "trace/check.h"
#include "traceformat/raw_reader.h"
#include "traceformat/site_codec.h"

struct tool_raw;

/*
 * NAME NULL or "-": stdin. NULL only without memory; that a file cannot be
 * opened or is no raw trace shows in the first item, MTF_ITEM_FAILED.
 */
struct tool_raw *tool_raw_open(const char *name);
/* Like tool_raw_open, and follows the trace: at the end of what is there of a
   pipe, or of a file that a living recording writes, calls WAIT, which is to
   come back to look again; false: as if the trace ended here. What the
   recording leaves is read to its end, with the spool. A flight recording
   forgets its past and cannot be followed: it is read as tool_raw_open does.
   IN: as of tool_raw_from_input; NULL: NAME is opened. */
struct tool_raw *tool_raw_follow(struct tool_input *in, const char *name,
                                 bool (*wait)(void *ctx), void *ctx);
/* Tells whether NAME can be opened and read again: a file, its spool or its
   parts. */
bool tool_raw_is_file(const char *name);
/* Like tool_raw_open, for an input from which no byte was taken yet (peeking is
   fine); it becomes the trace's. NAME as given to tool_input_open. */
struct tool_raw *tool_raw_from_input(struct tool_input *in, const char *name);
/* Reads and decompresses on a thread of its own where that is of use. Before
   the first item. */
void tool_raw_read_ahead(struct tool_raw *t);
void tool_raw_close(struct tool_raw *t);

/* Yields the next item; see mtf_raw_reader_next. item->file is set. */
void tool_raw_next(struct tool_raw *t, struct mtf_item *item);

/* A line for a DAMAGE or FAILED item, with file and byte offset. Valid until
   the next call. */
const char *tool_raw_item_text(struct tool_raw *t, const struct mtf_item *item);

/* Growing: "still being recorded". Known after tool_raw_open; of a trace that
   is followed, at MTF_ITEM_END. */
bool tool_raw_is_growing(const struct tool_raw *t);
/* A spool of the same recording was there and is read. */
bool tool_raw_has_spool(const struct tool_raw *t);
/* Tells whether a file was read at all, or the spool alone. */
bool tool_raw_has_file(const struct tool_raw *t);
/* A flight recording of which only the last part is left: streams begin where
   they begin, and what frees name may be from before. After tool_raw_open. */
bool tool_raw_begins_late(const struct tool_raw *t);
/* Name of its compression, as tool_input_frame_name; NULL: it is plain. */
const char *tool_raw_frame_name(const struct tool_raw *t);

/* So far: bytes before LZ4, and as stored, spool included. */
uint64_t tool_raw_bytes(const struct tool_raw *t);
uint64_t tool_raw_stored_bytes(const struct tool_raw *t);
/* Stored bytes that will be read in all, 0 if unknown (for progress). */
uint64_t tool_raw_total_bytes(const struct tool_raw *t);

/*
 * Whether anything is known to be missing, as far as the files show it, once
 * MTF_ITEM_END was yielded: no damage, not growing, and an end: a footer whose
 * reason is not MTF_END_FORCED, or a spool with the rest. What the streams show
 * (gaps, drops) is the caller's to add.
 */
bool tool_raw_complete(const struct tool_raw *t);
/* Its footer or its spool says that the recorder had to stop. */
bool tool_raw_forced_stop(const struct tool_raw *t);
/* A footer ended the file. */
bool tool_raw_clean_end(const struct tool_raw *t);
/* FIELD (enum mtf_account) of the last footer so far; false: it has none. */
bool tool_raw_account(const struct tool_raw *t, unsigned field,
                      uint64_t *value);
/* MTF_ACCOUNT_UNTRACED_FREES or _DROPPED_EVENTS of the recording, FOUND in the
   streams. Footer and spool know what no stream has, the footer also what a
   lost end of one had. */
uint64_t tool_raw_in_all(const struct tool_raw *t, unsigned field,
                         uint64_t found);

/* Counts of events that a reader found in the streams. */
struct tool_raw_counts {
    uint64_t mallocs, memaligns, reallocs, frees, failed;
    uint64_t untraced, dropped;
};
/*
 * How the footer contradicts COUNTS, a line with file and offset, or NULL: it
 * does not. If it does the trace is damaged. To be asked when MTF_ITEM_END was
 * yielded and the caller misses nothing. Valid until the next call.
 */
const char *tool_raw_footer_problem(struct tool_raw *t,
                                    const struct tool_raw_counts *counts);

/* --- Threads -------------------------------------------------------------- */

/*
 * The threads of a raw trace, found by number, with the state of their streams.
 *
 * Invariants: memory grows with the number of threads. A pointer to a thread is
 * good until the next one is made; numbers (indices) stay.
 */

struct raw_thread {
    uint32_t id;
    uint64_t events;   /* calls of the malloc family */
    uint64_t tid;      /* of the kernel; 0 unknown */
    uint64_t first_ns; /* 0 unknown */
    uint64_t last_ns;
    uint64_t gap_events;         /* dropped, by its own account */
    struct tool_check_life life; /* processed */
    char name[32];
    struct mtf_stream stream;
    struct mtf_site_state site; /* of the stream; kept by who decodes it */
};

struct raw_threads {
    struct raw_thread *thread; /* by first appearance */
    struct tool_ids ids;
    bool begins_late; /* a flight recording: its beginning was not kept */
};

/* The thread ID, made if it is new. NULL without memory. */
struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id);
void raw_threads_free(struct raw_threads *t);

/* Sums over all streams. */
uint64_t raw_threads_with_events(const struct raw_threads *t);
uint64_t raw_threads_dropped(const struct raw_threads *t);
uint64_t raw_threads_untraced(const struct raw_threads *t);

/* Once the trace is read: what its end lacks, beside damaged places, or NULL.
 */
const char *raw_end_problem(const struct tool_raw *t);

#endif
