/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's counters, of the calling thread in user mode and of threads
 * that it makes later.
 */
#ifndef TCM_BASE_LINUX_OS_PERF_H
#define TCM_BASE_LINUX_OS_PERF_H

#include "base/compiler.h"

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

#endif
