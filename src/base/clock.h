/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks. CLOCK_MONOTONIC is consistent across CPUs and, on the supported
 * platforms, read without a system call, nor by a function that a library could
 * stand before (os_syscall.h). No function changes errno.
 */
#ifndef TCM_BASE_CLOCK_H
#define TCM_BASE_CLOCK_H

#include "base/atomic.h"

#include <time.h>

typedef int tcm_clock_function(clockid_t id, struct timespec *ts);
/* Reads a clock; stored once, with the first reading. */
extern TCM_LOCAL tcm_clock_function *tcm_clock_read;

static inline uint64_t tcm_clock_read_ns(clockid_t id) {
    struct timespec ts;
    tcm_load_relaxed (&tcm_clock_read)(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds of the monotonic clock. */
static inline uint64_t tcm_clock_ns(void) {
    return tcm_clock_read_ns(CLOCK_MONOTONIC);
}

/* Makes readings strictly increasing: the time to use for a reading of NOW when
   the latest time used is LAST. */
static inline uint64_t tcm_clock_after(uint64_t last, uint64_t now) {
    return now > last ? now : last + 1;
}

/* Nanoseconds since 1970. */
static inline uint64_t tcm_clock_wall_ns(void) {
    return tcm_clock_read_ns(CLOCK_REALTIME);
}

/* CPU time of the calling thread, and of the whole process. */
static inline uint64_t tcm_clock_thread_cpu_ns(void) {
    return tcm_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t tcm_clock_process_cpu_ns(void) {
    return tcm_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
