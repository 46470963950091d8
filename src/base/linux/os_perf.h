/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors: their counters, and the time that they were busy. Only the tools
 * have this file.
 *
 * Invariants: nothing here allocates.
 * Threads: any.
 */
#ifndef TCM_BASE_LINUX_OS_PERF_H
#define TCM_BASE_LINUX_OS_PERF_H

#include "base/compiler.h"

/* --- Counters ------------------------------------------------------------- */

/* Events of the calling thread in user mode, and of threads that it makes
   later. */
enum tcm_os_perf {
    TCM_OS_PERF_INSTRUCTIONS,
    TCM_OS_PERF_CYCLES,
    TCM_OS_PERF_CACHE_MISSES,
    TCM_OS_PERF_DTLB_MISSES, /* of loads */
    TCM_OS_PERF_EVENTS
};

/* Opens a descriptor that counts nothing yet. -1: errno. */
int tcm_os_perf_open(enum tcm_os_perf event);
/* Count from 0 on, and stop. */
void tcm_os_perf_start(int fd);
void tcm_os_perf_stop(int fd);
/* Reads the count, scaled up for the time in which another event had the
   counter. false: this event never had a counter. */
bool tcm_os_perf_read(int fd, uint64_t *count);

/* --- Time of the machine -------------------------------------------------- */

/* Sums over all processors since boot, in steps of a tick, usually 10 ms. */
struct tcm_processor_time {
    uint64_t busy_ns;   /* user, nice, system, and interrupts */
    uint64_t stolen_ns; /* taken by the host of a virtual machine */
};

/* Reads the current sums. false: they are unknown, and *T is 0. */
bool tcm_os_processor_time(struct tcm_processor_time *t);

#endif
