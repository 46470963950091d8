/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain model of the rule of doc/ordering.md: it decodes the streams by
 * itself, and examines every thread for each event. The sorter has to write the
 * same order.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_MODEL_H
#define TESTS_UNIT_TOOLS_ORDER_MODEL_H

#include "order_history.h"

/* An event of the trace. */
struct order_model_event {
    size_t truth; /* its index in the history */
    uint64_t lo, hi;
    uint64_t i, n;     /* it is event I of the N of its interval */
    uint64_t interval; /* number of that in the stream, from 1 */
    uint64_t window;   /* barriers before its segment */
    bool missing;      /* its allocation was missing */
    bool ends_thread;
};

struct order_model {
    struct order_model_event **output;
    size_t count;
    size_t *at_barrier; /* by barrier: events in the output after it */
    uint64_t conflicts, unmatched, unmatched_reallocs;
    struct model_queue *queues; /* they own the events */
};

/* Sorts the LENGTH bytes at TRACE, a trace of H or what is left of one. */
void order_model_run(struct order_model *m, const struct history *h,
                     const void *trace, size_t length);
void order_model_free(struct order_model *m);

#endif
