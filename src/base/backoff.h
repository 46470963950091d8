/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exponential back-off, counted in chances instead of time: after an attempt
 * that failed the next chances are not used, twice as many each time.
 *
 * Threads: one, or several for whom the counts are hints.
 */
#ifndef TCM_BASE_BACKOFF_H
#define TCM_BASE_BACKOFF_H

#include "base/atomic.h"
#include "base/compiler.h"

struct tcm_backoff {
    uint32_t wait; /* chances that are not used */
    uint32_t last; /* chances that the last failure cost; 0: it was none */
};

/* True if this chance is not to be used. Else the caller makes the attempt, and
   calls tcm_backoff_note. */
static inline bool tcm_backoff_waits(struct tcm_backoff *b) {
    uint32_t wait = tcm_load_relaxed(&b->wait);
    if (wait != 0)
        tcm_store_relaxed(&b->wait, wait - 1);
    return wait != 0;
}

/* Tells the outcome of an attempt. After the first failure FIRST chances are
   not used, after several in a row at most MOST. */
static inline void tcm_backoff_note(struct tcm_backoff *b, bool succeeded,
                                    uint32_t first, uint32_t most) {
    uint32_t last = tcm_load_relaxed(&b->last);
    uint32_t next = last == 0 ? first : last < most / 2 ? 2 * last : most;
    if (succeeded)
        next = 0;
    tcm_store_relaxed(&b->last, next);
    tcm_store_relaxed(&b->wait, next);
}

#endif
