/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of the events of all threads (doc/ordering.md).
 *
 * Every event has an interval [lo, hi] in which it was published. Let H be the
 * least of the hi of all threads' next events and the time of the last barrier
 * read. An event may be written when its lo is not above H and the allocation
 * that it names is written. While several threads' next events may be written,
 * the sorter stays with the current thread until its estimated time is
 * ORDER_SLACK_NS ahead of the least estimated time of the others.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_ORDER_H
#define TOOL_SORT_ORDER_H

#include "sort/demux.h"
#include "sort/emit.h"

#define ORDER_SLACK_NS 20000u
/* Time between time records for a window, which begins and ends at such a
   record. */
#define ORDER_TIME_FINE_NS 10000u
/* Bytes of events without a barrier that are held. No recorder writes more
   between two barriers. */
#define ORDER_HELD_MAX ((uint64_t)1 << 30)

/* Binary heap of threads by a 64-bit key; among equal keys the smaller thread
   id comes first. Each thread has its index in the heap, so it can be moved and
   removed. */
struct order_heap_item {
    uint64_t key;
    struct demux_thread *thread;
};

struct order_heap {
    struct order_heap_item *a;
    size_t count, room;
    unsigned which; /* which heap_at of a thread is its index in this heap */
};

/* Histogram of widths in ns, of events: 16 classes for each power of two. */
#define ORDER_WIDTHS (64u * 16u)

struct order_widths {
    uint64_t widest_ns;
    uint64_t events;
    uint64_t of[ORDER_WIDTHS];
};

struct order_sample {
    struct order_sample *next;
    uint64_t time_ns;
    size_t length;
    uint8_t data[];
};

/* Threads that cannot go on, for the moment when no event may be written. A
   thread is in one of the four at most. */
struct order_stall {
    /* not permitted by their times, and not known to wait for an allocation */
    struct tcm_dlist unchecked;
    /* waiting for an allocation, and not yet examined since the last barrier */
    struct tcm_dlist waiting;
    /* By lo. Pending: the allocation that they wait for may still be read.
       Missing: it is neither in hand nor written, and cannot come any more. */
    struct order_heap pending, missing;
};

struct order {
    struct demux *demux;
    struct emit *emit;
    /* The threads in hand, by the hi of their next event: those not known to
       wait for an allocation, and those that wait for one. */
    struct order_heap hi, waiting;
    struct demux_thread *late; /* the late stream while its event waits for the
                                  events of its thread; in neither heap then */
    struct order_heap later;   /* not permitted by their times, by lo */
    struct order_heap ready;   /* permitted by them, by estimated time */
    struct order_stall stall;
    struct demux_thread *current;
    uint64_t horizon;    /* never falls */
    uint64_t time_step;  /* between time records: TOOL_OPS_TIME_NS, or less */
    uint64_t barrier_ns; /* time of the last barrier; UINT64_MAX at the end */
    uint64_t conflicts;  /* events written against the rule */
    uint64_t waited;     /* events whose turn came before their allocation's */

    struct order_sample *samples, **samples_end; /* not yet written */

    uint64_t first_ns, last_ns; /* of all intervals, and of the recording's end;
                                   last_ns is 0 before the first event */
    struct order_widths intervals; /* widths of the events' intervals */
    /* For each event: by how much one of another thread that is written before
       it may have happened after it. */
    struct order_widths disorder;
    /* The greatest hi written so far, its thread, and the greatest hi of the
       other threads. */
    uint64_t most_hi, most_thread, other_hi;
    uint64_t held_max; /* ORDER_HELD_MAX, less in tests */
    bool failed;       /* no memory */
};

void order_init(struct order *o, struct demux *d, struct emit *e);
void order_fini(struct order *o);

/* Notes new events of T, which demux_add returned. If more than held_max bytes
   are held, writes them as if the input ended here, and counts that as a
   conflict. */
void order_add(struct order *o, struct demux_thread *t);
/* Keeps a sample of the allocator's counters, taken at TIME_NS, for its place
   in the order. */
void order_sample(struct order *o, uint64_t time_ns, const void *data,
                  size_t length);
/* Writes all events that a barrier with the time TIME_NS permits. */
void order_barrier(struct order *o, uint64_t time_ns);
/* Writes the rest, at the end of the input. The recording ended at END_NS, 0:
   unknown. */
void order_finish(struct order *o, uint64_t end_ns);

/* Returns the width in ns that PERCENT of the events do not exceed, to 1/16. */
uint64_t order_quantile_ns(const struct order_widths *w, unsigned percent);

#endif
