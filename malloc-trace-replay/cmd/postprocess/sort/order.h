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
#ifndef TOOL_CMD_POSTPROCESS_SORT_ORDER_H
#define TOOL_CMD_POSTPROCESS_SORT_ORDER_H
#include "cmd/postprocess/sort/demux.h"
#include "cmd/postprocess/sort/emit.h"
#include "cmd/postprocess/sort/heap.h"
#include "cmd/postprocess/sort/peak_bound.h"
#include "cmd/postprocess/sort/stall.h"

#define ORDER_SLACK_NS 20000u
/* A time record goes out when the last one is this old. */
#define ORDER_TIME_NS 1000000u
/* The same for a window, which is cut as exactly as these are. */
#define ORDER_TIME_FINE_NS 10000u
/* No recorder leaves so much between two barriers. */
#define ORDER_HELD_MAX ((uint64_t)1 << 30)

/* Widths of intervals: 16 classes for each power of two. */
#define ORDER_WIDTHS (64u * 16u)

struct order_sample {
    struct order_sample *next;
    uint64_t time_ns;
    size_t length;
    uint8_t data[];
};

struct order {
    struct demux *demux;
    struct emit *emit;
    /* The threads with an event in hand, by its hi: those whose event waits for
       nothing, as far as is known, and those whose event waits for an
       allocation. */
    struct heap hi, waiting;
    struct demux_thread *late; /* the late stream, if its event waits for its
                                  thread's own: it is in neither */
    struct heap later;         /* not permitted yet, by lo */
    struct heap ready; /* permitted as far as times tell, by estimated time */
    struct stall stall;
    struct demux_thread *current;
    uint64_t horizon;    /* never falls */
    uint64_t time_step;  /* between time records: ORDER_TIME_NS, or less */
    uint64_t barrier_ns; /* time of the last barrier; UINT64_MAX at the end */
    uint64_t conflicts;
    uint64_t waited; /* events whose turn came before their allocation's */
    struct peak_bound peak;

    struct order_sample *samples, **samples_end;

    uint64_t first_ns, last_ns;
    uint64_t widest_ns;
    uint64_t width_events; /* events in `widths` */
    uint64_t widths[ORDER_WIDTHS];
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

/* For stall.h. H: what is not above it is permitted by its times. */
uint64_t order_horizon(struct order *o);
/* T's next event is permitted as far as times tell, or is not: looks whether it
   waits. True: it does not. */
bool order_check(struct order *o, struct demux_thread *t);
/* T, which waits, shall go on without the allocation. */
void order_give_up(struct order *o, struct demux_thread *t);

/* Median width of the intervals, weighted by events, to 1/16. */
uint64_t order_median_ns(const struct order *o);

#endif
