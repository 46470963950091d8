/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of the events of all threads (doc/ordering.md).
 *
 * Every event has an interval [lo, hi] in which it was published. Let H be the
 * least of the next events' hi and of the time of the last barrier read. An
 * event may be written when its lo is not above H and the allocation it names
 * is written. Among those permitted the sorter stays with the current thread
 * until that is ORDER_SLACK_NS ahead of the least estimated time of the others.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_ORDER_H
#define TOOL_SORT_ORDER_H

#include "sort/demux.h"
#include "sort/emit.h"

#define ORDER_SLACK_NS 20000u
/* Time between time records for a window, which is cut as exactly as they
   are. */
#define ORDER_TIME_FINE_NS 10000u
/* No recorder leaves so much between two barriers. */
#define ORDER_HELD_MAX ((uint64_t)1 << 30)

/* Binary heap of threads by a 64-bit key, the smaller thread id first among
   equal keys. Each thread knows its place, so it can be moved and removed. */
struct order_heap_item {
    uint64_t key;
    struct demux_thread *thread;
};

struct order_heap {
    struct order_heap_item *a;
    size_t count, room;
    unsigned which; /* index into heap_at of the threads */
};

/* Widths, by events: 16 classes for each power of two. */
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

/* Threads that cannot go on, kept for when no event may be written. */
struct order_stall {
    /* not permitted, and not known to wait */
    struct tcm_dlist unchecked;
    /* wait, and nothing was made of it since the last barrier */
    struct tcm_dlist waiting;
    /* By lo; a thread is in one of the two at most. Those of which neither it
       is known that their allocation is in hand, nor decided that it is not;
       and those of which that is decided, until they go on. */
    struct order_heap pending, missing;
};

struct order {
    struct demux *demux;
    struct emit *emit;
    /* The threads with an event in hand, by its hi: those whose event waits for
       nothing, as far as is known, and those whose event waits for an
       allocation. */
    struct order_heap hi, waiting;
    struct demux_thread *late; /* the late stream, if its event waits for its
                                  thread's own: it is in neither */
    struct order_heap later;   /* not permitted yet, by lo */
    struct order_heap
        ready; /* permitted as far as times tell, by estimated time */
    struct order_stall stall;
    struct demux_thread *current;
    uint64_t horizon;    /* never falls */
    uint64_t time_step;  /* between time records: TOOL_OPS_TIME_NS, or less */
    uint64_t barrier_ns; /* time of the last barrier; UINT64_MAX at the end */
    uint64_t conflicts;
    uint64_t waited; /* events whose turn came before their allocation's */

    struct order_sample *samples, **samples_end;

    uint64_t first_ns, last_ns;
    struct order_widths intervals;
    /* How much later an event may have happened than one that stands behind it,
       for this one; and the greatest hi so far, with its thread, and the
       greatest of another thread. */
    struct order_widths disorder;
    uint64_t most_hi, most_thread, other_hi;
    uint64_t held_max; /* bytes held without a barrier */
    bool failed;       /* no memory */
};

void order_init(struct order *o, struct demux *d, struct emit *e);
void order_fini(struct order *o);

/* New events of T are queued. If more than held_max bytes are held, all is
   written as if the input ended here, which is counted as a conflict. */
void order_add(struct order *o, struct demux_thread *t);
/* A sample of the allocator's counters, taken at TIME_NS. */
void order_sample(struct order *o, uint64_t time_ns, const void *data,
                  size_t length);
/* A barrier with this time was read: writes all that may be written. */
void order_barrier(struct order *o, uint64_t time_ns);
/* The input ended: writes the rest. */
void order_finish(struct order *o);

/* The width that is not exceeded for PERCENT of the events, to 1/16. */
uint64_t order_quantile_ns(const struct order_widths *w, unsigned percent);

#endif
