/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the events of one thread after another, in their final order, to the
 * processed trace: tokens become slots, and everything is counted. A second
 * reading of the raw trace finds the present bytes of large blocks (present.c).
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_EMIT_H
#define TOOL_SORT_EMIT_H

#include "common/collections.h"
#include "sort/demux.h"
#include "sort/inherited.h"
#include "sort/sort_slots.h"
#include "trace/ops.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_reader.h"

/* --- Present bytes -------------------------------------------------------- */

/*
 * Present bytes: how many bytes of a large block were backed by memory. A raw
 * trace has them at the end of a block, a processed trace at its allocation. So
 * the raw trace is read once more before the first large block is written.
 *
 * A recording has them of a sample of the blocks. Each other block gets those
 * of one of the last PRESENT_SAMPLES blocks of the sample that had its call
 * site, call and group of sizes, or else its group of sizes, chosen by a hash.
 *
 * Memory: up to 64 bytes for each block that has present bytes or that was long
 * and grew in place, and a KiB for each call site, call and group of sizes;
 * while the trace is read, 16 bytes more for each block, and the states of the
 * threads.
 */
#define PRESENT_SAMPLES 128u

/* Present bytes of the last blocks of a kind; UINT64_MAX: of a whole block. */
struct present_kind {
    uint64_t bytes[PRESENT_SAMPLES];
    uint64_t samples; /* seen so far */
};

/* All zero: no block has present bytes. */
struct present {
    const char *name;      /* of the trace; NULL: it cannot be read twice */
    uint64_t random;       /* of its header */
    bool is_sample;        /* of some blocks; else blocks without are whole */
    bool is_read;          /* `bytes` is filled */
    bool failed;           /* no memory */
    struct tool_map bytes; /* by token + 1 */
    struct tool_map place; /* of kinds, + 1 */
    struct present_kind *kind;
    size_t kinds, kinds_cap;
};

void present_fini(struct present *p);

/* Tells whether fewer than all SIZE bytes of the block of TOKEN, made by CALL
   at SITE, are present: *BYTES. Blocks come in the order of the trace; the
   first call reads the trace. */
bool present_of(struct present *p, uint64_t token, uint32_t site, unsigned call,
                uint64_t size, uint64_t *bytes);

/* --- Output --------------------------------------------------------------- */

/*
 * Threads whose next event waits for the birth of a token, found by that token.
 * Most births wake no thread: a small table of counts, by the token's low bits,
 * says so at once. A hash table decides the rest.
 */
#define EMIT_WAITER_COUNTS 2048u

struct emit_waiters {
    uint32_t counts[EMIT_WAITER_COUNTS];
    struct demux_thread **bucket; /* hash table: lists by next_waiter */
    size_t mask, count;           /* buckets - 1; threads */
    uint64_t seed;
};

struct emit {
    struct slots slots;
    struct mtf_proc_writer *writer;
    struct demux *demux;
    struct tool_ops_counts counts;
    uint64_t live_bytes, peak_live_bytes;
    struct emit_waiters waiters;
    struct demux_thread *woken; /* threads whose token was born; by next_waiter,
                                   emptied by the caller */
    struct present present;     /* the caller sets its name and random number */
    bool free_sites;            /* frees have call sites; set by the caller */
};

/* False: no memory; emit_fini is still to be called. */
bool emit_init(struct emit *e, struct demux *d, struct mtf_proc_writer *w);
void emit_fini(struct emit *e);

/* Writes the prologue that makes the blocks of IN, by the first thread. */
void emit_inherited(struct emit *e, const struct inherited *in);

/* Reason why emit_run returned. */
enum emit_stop {
    EMIT_DONE,  /* all COUNT events, or the interval's rest, are written */
    EMIT_WAITS, /* the next event names a token that is not born yet */
    EMIT_LATE,  /* the next event, of the late stream, is of a thread that has
                   events in its own stream */
    EMIT_WOKE   /* a token was born that threads waited for, now in `woken` */
};

/* Writes up to COUNT (at least 1) of T's next events. Without memory or output,
   e->slots, e->writer or the demux have failed. */
enum emit_stop emit_run(struct emit *e, struct demux_thread *t, uint64_t count);

/* Tells whether T's next event can be written, as far as tokens and threads
   allow: EMIT_DONE, or the reason that emit_run would stop for. */
enum emit_stop emit_check(struct emit *e, struct demux_thread *t);

/* Makes T, stopped by EMIT_WAITS, a waiter for the token that its next event
   names. Without memory e->slots has failed. */
void emit_wait(struct emit *e, struct demux_thread *t);
/* Ends T's waiting without the birth of its token. */
void emit_forget(struct emit *e, struct demux_thread *t);

/* Writes the definitions of call sites that were read. */
void emit_site_defs(struct emit *e);

#endif
