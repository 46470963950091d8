/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time. CLOCK_MONOTONIC is consistent across CPUs and, on the platforms we
 * run on, read without a system call. None changes errno.
 */
#ifndef TCM_BASE_CLOCK_H
#define TCM_BASE_CLOCK_H

#include "base/compiler.h"

#include <time.h>

static inline uint64_t tcm_clock_read_ns(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds of the monotonic clock. */
static inline uint64_t tcm_clock_ns(void) {
    return tcm_clock_read_ns(CLOCK_MONOTONIC);
}

/* The time that a reading of NOW stands for, when readings so far reached LAST
   and each is to be greater than those before. */
static inline uint64_t tcm_clock_after(uint64_t last, uint64_t now) {
    return now > last ? now : last + 1;
}

/* Nanoseconds since 1970. */
static inline uint64_t tcm_clock_wall_ns(void) {
    return tcm_clock_read_ns(CLOCK_REALTIME);
}

/* Processor time of the calling thread, of the whole process. */
static inline uint64_t tcm_clock_thread_cpu_ns(void) {
    return tcm_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t tcm_clock_process_cpu_ns(void) {
    return tcm_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
