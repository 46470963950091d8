/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processor time of the whole machine, from /proc/stat.
 *
 * Invariants: nothing here allocates.
 * Threads: any.
 */
#ifndef TOOL_COMMON_PROCESSOR_TIME_H
#define TOOL_COMMON_PROCESSOR_TIME_H

#include "base/compiler.h"

/* Sums over all processors since boot, in steps of a tick, usually 10 ms. */
struct tool_processor_time {
    uint64_t busy_ns;   /* user, nice, system, and interrupts */
    uint64_t stolen_ns; /* taken by the host of a virtual machine */
};

/* Reads the current sums. false: they are unknown, and *T is 0. */
bool tool_processor_time(struct tool_processor_time *t);

#endif
