/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule of doc/ordering.md, written down as plainly as it can be: for each
 * event it looks at every thread. What the sorter does must be the same.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_MODEL_H
#define TESTS_UNIT_TOOLS_ORDER_MODEL_H

#include "order_history.h"

struct order_model {
    size_t *output;   /* indices of events */
    uint8_t *missing; /* by event: its allocation was missing */
    size_t count;
    uint64_t conflicts, unmatched, unmatched_reallocs;
};

void order_model_run(struct order_model *m, const struct history *h);
void order_model_free(struct order_model *m);

#endif
