/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/processor_time.h"

#include "base/linux/os_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Columns of the line "cpu" of /proc/stat. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

bool tool_processor_time(struct tool_processor_time *t) {
    char text[512];
    uint64_t ticks[COLUMNS];
    long rate = sysconf(_SC_CLK_TCK);
    *t = (struct tool_processor_time){0};
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
