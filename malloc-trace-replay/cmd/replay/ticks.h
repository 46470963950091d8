/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock that single calls are timed with. How long its ticks are is
 * measured (latency.c).
 */
#ifndef TOOL_CMD_REPLAY_TICKS_H
#define TOOL_CMD_REPLAY_TICKS_H

#include "base/clock.h"

/* The processor's counter, read when all before is done and before anything
   after begins. */
static TCM_ALWAYS_INLINE uint64_t replay_ticks(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc\n\tlfence"
                         : "=a"(low), "=d"(high)
                         :
                         : "memory");
    return (uint64_t)high << 32 | low;
#else
    return tcm_clock_ns();
#endif
}

#endif
