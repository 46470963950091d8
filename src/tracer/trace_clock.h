/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of the recorder's times.
 *
 * Invariants: of two readings that threads order (by a lock, or a block handed
 * over), the later one is greater. So what a thread published before a reading
 * comes before everything with a later time (doc/ordering.md).
 * Threads: any. Why not the system's clock alone: it shows the same time twice
 * if it ticks more slowly than it is read. Only then do readings pass through
 * one word.
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
