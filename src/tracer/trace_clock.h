/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of the recorder's times.
 *
 * Invariants: if one reading is made after another, by any order that threads
 * know (a lock, a block handed over), the later reading is greater. So what a
 * thread published before it read the clock comes before everything with a
 * later time (doc/ordering.md).
 * Threads: any. Why not the system's clock alone: a clock that ticks more
 * slowly than it is read shows the same time twice. Then, and only then,
 * readings pass through one word.
 */
#ifndef TCM_TRACER_TRACE_CLOCK_H
#define TCM_TRACER_TRACE_CLOCK_H

#include "base/atomic.h"
#include "base/clock.h"

enum mtr_clock_kind { MTR_CLOCK_UNKNOWN = 0, MTR_CLOCK_FINE, MTR_CLOCK_COARSE };

extern uint32_t mtr_clock_kind;

/* Reads the clock when it is not known to be fine. */
uint64_t mtr_clock_other_ns(void);

static inline uint64_t mtr_clock_ns(void) {
    if (TCM_LIKELY(tcm_load_relaxed(&mtr_clock_kind) == MTR_CLOCK_FINE))
        return tcm_clock_ns();
    return mtr_clock_other_ns();
}

#endif
