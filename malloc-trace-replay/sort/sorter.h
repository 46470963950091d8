/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and sorts a raw trace, and writes the bytes of a processed one.
 *
 *     struct sorter *s = sorter_new(&options);
 *     while ((step = sorter_step(s)) == SORTER_MORE)
 *         continue;
 *     if (step == SORTER_END && sorter_end(s))
 *         status = sorter_tell(s);
 *     sorter_free(s);
 *
 * The sorter reports damaged places on stderr when it finds them, and
 * sorter_tell all that is missing. The caller reports a trace that cannot be
 * read at all (sorter_problem).
 *
 * Invariants: memory depends on the live objects and the events between two
 * barriers, not on the length of the trace.
 * Threads: one user at a time.
 */
#ifndef TOOL_SORT_SORTER_H
#define TOOL_SORT_SORTER_H

#include "common/input.h"
#include "sort/inherited.h"
#include "trace/ops.h"
#include "trace/raw.h"
#include "traceformat/proc_writer.h"

/* Account of a sorted trace: counts, how exact the order is, and what is
   missing. Most of it goes into the trace's closing block. */
struct sort_account {
    struct tool_ops_counts counts;
    uint64_t ops, events;
    uint64_t peak_live_bytes, live_at_end;
    uint64_t untraced_frees, dropped_events;
    uint64_t order_conflicts, switches;
    uint64_t widest_ns, median_ns, p90_ns; /* intervals of events */
    uint64_t most_late_ns, median_late_ns, p90_late_ns; /* out of order by */
    uint64_t start_ns, end_ns;
    uint64_t waited; /* events whose turn came before their allocation's */
    uint64_t damaged_places; /* segments or frames */
    uint64_t bad_places;     /* in the streams and the footer */
    uint64_t lost_bytes; /* of streams: gaps and what could not be decoded */
    uint64_t raw_bytes, file_bytes, out_bytes;
    uint64_t prologue_ops, epilogue_ops, left_out_events; /* of a window */
    uint64_t present_blocks;
    uint64_t wrong_frees;
    bool complete, clean_end, growing, begins_late, forced_stop;
    bool is_part;     /* operations were left out or added on purpose */
    bool interrupted; /* by the user; set before the rest is gathered */
    const char *footer_problem; /* how it contradicts the streams, or NULL */
    const struct tool_raw *raw; /* has the footer */
};

struct sorter_options {
    const char *name;      /* as given to tool_raw_open */
    struct tool_input *in; /* the input of NAME, unread; owned by the sorter
                              from then on. NULL: the sorter opens NAME */
    bool quiet;            /* warn only of what is missing or damaged */
    bool no_sites;         /* leave call sites out */
    bool is_part;          /* WRITE feeds a window, which ends the trace */
    /* Blocks that the process inherited, which a prologue makes; NULL: none. */
    const struct inherited *inherited;
    bool fine_times; /* write times every ORDER_TIME_FINE_NS, for cuts */
    /* Called before the first bytes, with the raw trace's header; LENGTH 0: it
       has none. False: the sorter fails. NULL: not called. */
    bool (*begin)(void *ctx, const void *header, uint32_t length);
    /* Takes the next bytes. False: the sorter fails, and its caller knows
       why. */
    bool (*write)(void *ctx, const void *data, size_t n);
    /* Called when a trace that is followed has no more to read, after the bytes
       of all that was read; returns when it is time to look again. FRESH: bytes
       were read since the last call. False: the caller wants no more. NULL: the
       trace is not followed. */
    bool (*wait)(void *ctx, bool fresh);
    void *ctx; /* for these three */
};

struct sorter;

/* NULL: out of memory, and the input is closed. A trace that cannot be opened
   makes the first step fail. */
struct sorter *sorter_new(const struct sorter_options *options);
void sorter_free(struct sorter *s);

enum sorter_step { SORTER_MORE, SORTER_END, SORTER_FAILED };

/* Reads the next piece of the trace, and writes the events whose place is known
   with it. SORTER_END also after a signal to stop (common/stop.h). */
enum sorter_step sorter_step(struct sorter *s);
/* After SORTER_FAILED, or when another function returned false: a line that
   says why. NULL: WRITE or BEGIN returned false. */
const char *sorter_problem(const struct sorter *s);

/* After SORTER_END: gathers the account, and writes the closing block with it.
   False: failed. */
bool sorter_end(struct sorter *s);
/* After SORTER_END, with is_part: gathers the account, and writes the last
   block of operations; the window writes the closing block. False: failed. */
bool sorter_end_part(struct sorter *s);
/* Reports on stderr what the trace lacks. Returns TOOL_OK or TOOL_DAMAGED. */
int sorter_tell(const struct sorter *s);

/* Ends the trace that W writes with a closing block of the account A, and adds
   the sums of W to A. */
void sort_account_end(struct sort_account *a, struct mtf_proc_writer *w);

/* The account, after sorter_end or sorter_end_part. */
struct sort_account *sorter_account(struct sorter *s);
/* Tells whether a thread ID has appeared. */
bool sorter_has_thread(const struct sorter *s, uint32_t id);
/* The raw trace's header; NULL: none was read. */
const struct mtf_raw_header *sorter_header(const struct sorter *s);
/* Events written so far, without failed calls. */
uint64_t sorter_events(const struct sorter *s);
/* Stored bytes that were read so far, and that will be read in all (0:
   unknown). */
uint64_t sorter_stored_bytes(const struct sorter *s);
uint64_t sorter_total_bytes(const struct sorter *s);

#endif
