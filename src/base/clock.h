/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks. CLOCK_MONOTONIC is consistent across CPUs. On the supported platforms
 * it is read without a system call, and without a function that another library
 * can interpose (os_syscall.h). No function changes errno.
 */
#ifndef TCM_BASE_CLOCK_H
#define TCM_BASE_CLOCK_H

#include "base/atomic.h"
#include "base/check.h"

#include <time.h>

typedef int tcm_clock_function(clockid_t id, struct timespec *ts);
/* Function that reads a clock; the first reading stores it. */
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

/* Makes readings strictly increasing: returns the time to use for a reading of
   NOW when LAST is the latest time that was used. */
static inline uint64_t tcm_clock_after(uint64_t last, uint64_t now) {
    TCM_ASSERT(last != UINT64_MAX);
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
