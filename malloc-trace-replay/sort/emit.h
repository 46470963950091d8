/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of one thread, in their final order, into the processed trace: tokens
 * become slots, and everything is counted.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_EMIT_H
#define TOOL_SORT_EMIT_H

#include "sort/demux.h"
#include "sort/present.h"
#include "sort/sort_slots.h"
#include "trace/ops.h"
#include "traceformat/proc_writer.h"

/*
 * Threads whose next event waits for the birth of a token, found by it. Most
 * births wake no thread: a small table of counts by the token's low bits says
 * so at once; a hash table decides the rest.
 */
#define WAITERS_BITS 2048u

struct waiters {
    uint32_t counts[WAITERS_BITS];
    struct demux_thread **bucket; /* lists by next_waiter */
    size_t mask, count;
    uint64_t seed;
};

struct emit {
    struct slots slots;
    struct mtf_proc_writer *writer;
    struct demux *demux;
    struct tool_ops_counts counts;
    uint64_t live_bytes, peak_live_bytes;
    struct waiters waiters;
    struct demux_thread *woken; /* list of those whose token was born */
    struct present present;     /* its name and random number: the caller's */
    bool free_sites;            /* frees have call sites; the caller's */
};

bool emit_init(struct emit *e, struct demux *d, struct mtf_proc_writer *w);
void emit_fini(struct emit *e);

enum emit_stop {
    EMIT_DONE,  /* all COUNT events, or the interval's rest */
    EMIT_WAITS, /* the next event names a token not born yet */
    EMIT_LATE,  /* the next event is of a thread with events of its own */
    EMIT_WOKE   /* a birth others wait for: they are in `woken` */
};

/* Writes up to COUNT (at least 1) of T's next events. */
enum emit_stop emit_run(struct emit *e, struct demux_thread *t, uint64_t count);

/* Looks whether T's next event can be written as far as tokens tell; else what
   emit_run would say. */
enum emit_stop emit_check(struct emit *e, struct demux_thread *t);

/* T, stopped by EMIT_WAITS, waits from now on; or no longer. */
void emit_wait(struct emit *e, struct demux_thread *t);
void emit_forget(struct emit *e, struct demux_thread *t);

/* Writes the definitions of call sites that were read. */
void emit_site_defs(struct emit *e);

#endif
