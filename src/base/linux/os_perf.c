/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_perf.h"

#include "base/linux/os_file.h"
#include "base/linux/os_syscall.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* --- Counters ------------------------------------------------------------- */

int tcm_os_perf_open(enum tcm_os_perf event) {
    static const struct {
        uint32_t type;
        uint64_t config;
    } of[TCM_OS_PERF_EVENTS] = {
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
        {PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_DTLB |
                                 PERF_COUNT_HW_CACHE_OP_READ << 8 |
                                 PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
    };
    struct perf_event_attr attr = {
        .type = of[event].type,
        .size = sizeof(attr),
        .config = of[event].config,
        .read_format =
            PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = 1,
        .inherit = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return (int)tcm_syscall(SYS_perf_event_open, &attr, 0, -1, -1,
                            PERF_FLAG_FD_CLOEXEC);
}

void tcm_os_perf_start(int fd) {
    (void)tcm_call(ioctl, fd, PERF_EVENT_IOC_RESET, 0);
    (void)tcm_call(ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
}

void tcm_os_perf_stop(int fd) {
    (void)tcm_call(ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
}

bool tcm_os_perf_read(int fd, uint64_t *count) {
    uint64_t v[3]; /* the count, time enabled, time with a counter */
    if (tcm_call(read, fd, v, sizeof(v)) != (ssize_t)sizeof(v) || v[2] == 0)
        return false;
    *count = v[1] == v[2]
                 ? v[0]
                 : (uint64_t)((double)v[0] * (double)v[1] / (double)v[2]);
    return true;
}

/* --- Time of the machine -------------------------------------------------- */

/* Columns of the line "cpu" of /proc/stat. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

bool tcm_os_processor_time(struct tcm_processor_time *t) {
    char text[512];
    uint64_t ticks[COLUMNS];
    long rate = sysconf(_SC_CLK_TCK);
    *t = (struct tcm_processor_time){0};
    if (tcm_io_read_file("/proc/stat", text, sizeof(text)) <= 0 ||
        strncmp(text, "cpu ", 4) != 0 || rate <= 0)
        return false;
    char *at = text + 4;
    for (unsigned i = 0; i < COLUMNS; i++)
        ticks[i] = strtoull(at, &at, 10);
    uint64_t tick_ns = 1000000000u / (uint64_t)rate;
    t->busy_ns = tick_ns * (ticks[USER] + ticks[NICE] + ticks[SYSTEM] +
                            ticks[IRQ] + ticks[SOFTIRQ]);
    t->stolen_ns = tick_ns * ticks[STEAL];
    return true;
}
