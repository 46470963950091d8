/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library to preload before the recorder: a monotonic clock that ticks every
 * millisecond, like that of some machines. The recorder takes this library for
 * the vDSO, which the kernel maps into the process to read clocks.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* dlsym may allocate, and so call the recorder, which asks. */
unsigned long getauxval(unsigned long type) {
    unsigned long pair[2], value = 0;
    if (type == AT_SYSINFO_EHDR)
        return (unsigned long)__ehdr_start;
    int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    while (read(fd, pair, sizeof pair) == (ssize_t)sizeof pair)
        if (pair[0] == type)
            value = pair[1];
    close(fd);
    return value;
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
