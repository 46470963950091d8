/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far the peak of live bytes in the order found may be from that of the
 * run. Where intervals overlap the order is an estimate: how far live bytes go
 * up and down in the events whose intervals hold a moment bounds the error at
 * that moment (doc/ordering.md has the proof).
 *
 * It works on pieces of intervals, in windows from barrier to barrier: time is
 * cut into buckets, and a piece counts in all that it touches, so the bound is
 * never too small.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_PEAK_BOUND_H
#define TOOL_SORT_PEAK_BOUND_H

#include "base/compiler.h"

#define PEAK_BUCKETS 1024u

struct peak_piece {
    uint64_t hi, bytes;
};

struct peak_bound {
    uint64_t from, to; /* of the window */
    unsigned shift;    /* a bucket has 1 << shift ns */
    bool held;         /* the window goes on behind its barrier */
    /* bytes of the pieces that begin and end in each bucket */
    uint64_t begins[PEAK_BUCKETS], ends[PEAK_BUCKETS];
    bool used; /* any of them is not 0 */
    /* pieces that reach beyond the window: a heap, the least hi first, and the
       sum of all, with those that have no end */
    struct peak_piece *carried;
    size_t carried_count, carried_room;
    uint64_t carried_bytes;
    bool endless; /* there is one without end */
    /* since no piece was carried over a barrier: the thread of all pieces */
    uint32_t thread;
    bool any, many;

    uint64_t level;   /* most live bytes where a run began */
    uint64_t peak;    /* of the order found, before the window */
    uint64_t at_most; /* that the true peak can be, if above that */
    uint64_t less_by; /* what it may be less by */
    bool failed;      /* no memory */
};

void peak_bound_fini(struct peak_bound *b);
/* A barrier with the time TO was read: what is written from now on was
   published after the one before. */
void peak_bound_begin(struct peak_bound *b, uint64_t to);
/* A run of events of one interval begins with LIVE bytes. */
static inline void peak_bound_level(struct peak_bound *b, uint64_t live) {
    if (live > b->level)
        b->level = live;
}
/* It is over: its thread and interval, and the BYTES between the most and the
   least that were live in it. */
void peak_bound_add(struct peak_bound *b, uint32_t thread, uint64_t lo,
                    uint64_t hi, uint64_t bytes);
/* All published up to the barrier is written: LIVE bytes, PEAK so far. */
void peak_bound_end(struct peak_bound *b, uint64_t live, uint64_t peak);

/* The most that the true peak is above or below PEAK; REQUESTED bytes in all
   were asked for. */
uint64_t peak_bound_error(const struct peak_bound *b, uint64_t peak,
                          uint64_t requested);

#endif
