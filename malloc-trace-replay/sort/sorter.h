/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw trace, read and sorted: the bytes of a processed trace come out.
 *
 *     struct sorter *s = sorter_new(&options);
 *     while ((step = sorter_step(s)) == SORTER_MORE)
 *         continue;
 *     if (step == SORTER_END && sorter_end(s))
 *         status = sorter_tell(s);
 *     sorter_free(s);
 *
 * Damaged places are told on stderr when they are found, what is missing in all
 * by sorter_tell. That the trace cannot be read at all is the caller's to tell.
 *
 * Invariants: memory is that of the live objects and of the events between two
 * barriers, whatever the length of the trace.
 * Threads: one user at a time.
 */
#ifndef TOOL_SORT_SORTER_H
#define TOOL_SORT_SORTER_H

#include "common/input.h"
#include "trace/ops.h"
#include "trace/raw.h"
#include "traceformat/proc_writer.h"

/* Counts, how exact the order is, and what is missing. It goes into the closing
   block; what is missing is told on stderr. */
struct sort_account {
    struct tool_ops_counts counts;
    uint64_t ops, events;
    uint64_t peak_live_bytes, live_at_end;
    uint64_t untraced_frees, dropped_events;
    uint64_t order_conflicts, switches;
    uint64_t widest_ns, median_ns, p90_ns; /* intervals of events */
    uint64_t most_late_ns, median_late_ns, p90_late_ns;
    uint64_t start_ns, end_ns;
    uint64_t waited;
    uint64_t damaged_places; /* segments or frames */
    uint64_t lost_bytes; /* of streams: gaps and what could not be decoded */
    uint64_t bad_places;
    uint64_t raw_bytes, file_bytes, out_bytes;
    uint64_t prologue_ops, epilogue_ops, left_out_events; /* of a window */
    uint64_t present_blocks;
    uint64_t held_peak;
    bool complete, clean_end, growing, begins_late, has_spool, forced_stop;
    bool is_part;     /* operations were left out or added on purpose */
    bool interrupted; /* by the user; set before the rest is gathered */
    const char *footer_problem; /* it contradicts the streams; or NULL */
    const struct tool_raw *raw; /* has the footer */
};

struct sorter_options {
    const char *name;      /* as given to tool_raw_open */
    struct tool_input *in; /* its input, of which nothing was read; the
                              sorter's from then on. NULL: NAME is opened */
    bool quiet;            /* says only what is missing or damaged */
    bool no_sites;         /* call sites are left out */
    bool is_part;          /* WRITE leads to a window, which ends the trace */
    bool fine_times;       /* times stand densely enough to be cut at */
    /* Called before the first bytes, with the raw trace's header, LENGTH 0:
       there is none. NULL: not wanted. False: as write. */
    bool (*begin)(void *ctx, const void *header, uint32_t length);
    /* Takes the next bytes. False: the sorter fails, and its caller knows
       why. */
    bool (*write)(void *ctx, const void *data, size_t n);
    /* Called when nothing more is there of a trace that is followed, behind the
       bytes of what was read; it is to come back to look again. FRESH: there
       were some since the last call. False: nobody wants more. NULL: the trace
       is not followed. */
    bool (*wait)(void *ctx, bool fresh);
    void *ctx; /* of the three */
};

struct sorter;

/* NULL: out of memory; the input is closed then, too. That the trace cannot be
   opened shows in the first step. */
struct sorter *sorter_new(const struct sorter_options *options);
void sorter_free(struct sorter *s);

enum sorter_step { SORTER_MORE, SORTER_END, SORTER_FAILED };

/* Reads the next piece and writes what has its place by it. SORTER_END, too,
   when a stop was asked for. */
enum sorter_step sorter_step(struct sorter *s);
/* After SORTER_FAILED, or when another function returned false: a line that
   says why. NULL: WRITE or BEGIN returned false. */
const char *sorter_problem(const struct sorter *s);

/* After SORTER_END: gathers the account, and writes the closing block with it.
   False: failed. */
bool sorter_end(struct sorter *s);
/* Gathers the account of a trace whose bytes go through a window; writes what
   is left of the last block, and no closing block. */
bool sorter_end_part(struct sorter *s);
/* Says on stderr what the trace lacks. Returns TOOL_OK or TOOL_DAMAGED. */
int sorter_tell(const struct sorter *s);

/* Ends the trace that W writes, which a window left of a sorted one, by a
   closing block with the account, which then has the writer's sums, too. */
void sort_account_end(struct sort_account *a, struct mtf_proc_writer *w);

/* After sorter_end or sorter_end_part. */
struct sort_account *sorter_account(struct sorter *s);
/* Tells whether a thread ID has appeared. */
bool sorter_has_thread(const struct sorter *s, uint32_t id);
/* The raw trace's header; NULL: none was read. */
const struct mtf_raw_header *sorter_header(const struct sorter *s);
/* Events written so far. */
uint64_t sorter_events(const struct sorter *s);
/* Stored bytes that were read so far, and in all; 0: unknown. */
uint64_t sorter_stored_bytes(const struct sorter *s);
uint64_t sorter_total_bytes(const struct sorter *s);

#endif
