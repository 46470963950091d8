/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library to preload before the recorder: a monotonic clock that ticks every
 * millisecond, like that of some machines. The recorder takes this library for
 * the vDSO, which the kernel maps into the process to read clocks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

unsigned long getauxval(unsigned long type) {
    unsigned long (*next)(unsigned long) =
        (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    if (type == AT_SYSINFO_EHDR)
        return (unsigned long)__ehdr_start;
    return next(type);
}

int __vdso_clock_gettime(clockid_t id, struct timespec *ts) {
    int status = (int)syscall(SYS_clock_gettime, id, ts);
    if (status == 0 && id == CLOCK_MONOTONIC)
        ts->tv_nsec -= ts->tv_nsec % 1000000;
    return status;
}

int __kernel_clock_gettime(clockid_t id, struct timespec *ts) {
    return __vdso_clock_gettime(id, ts);
}

/* Where the recorder calls the C library. */
int clock_gettime(clockid_t id, struct timespec *ts) {
    return __vdso_clock_gettime(id, ts);
}
