/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of the sorter's output for a simulated history.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_CHECK_H
#define TESTS_UNIT_TOOLS_ORDER_CHECK_H

#include "order_history.h"
#include "order_model.h"

#include "order_sort.h"

/* Sorts LENGTH bytes of a raw trace. */
void sort_trace(struct sorted *out, const void *trace, size_t length);

/* Walks output and model side by side. Returns how many differ: another thread,
   kind or size, or a slot that does not hold the block the event names. */
uint64_t check_same(const struct sorted *out, const struct history *h,
                    const struct order_model *m);

/* Counts of contradictions between the order in M and the guarantee of
   doc/ordering.md. */
struct check_truth {
    uint64_t thread_order, birth, interval; /* (a), (b), (c) */
    uint64_t time;    /* events outside their intervals in the history */
    uint64_t address; /* memory given out while it was used */
};
void check_truth(struct check_truth *c, const struct history *h,
                 const struct order_model *m);
bool check_truth_holds(const struct check_truth *c);

/* Live blocks and bytes, counted from the operations of the output. */
struct check_live {
    uint64_t bytes, peak_bytes, blocks;
};
void check_live(struct check_live *c, const struct sorted *out);

/* Reports a failure as a diagnostic, and writes the trace of H to a file. */
void check_tell(const char *what, const struct history *h,
                const struct history_options *o, const struct sorted *out,
                const struct order_model *m);

#endif
