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
#include "sort/sort_account.h"

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
