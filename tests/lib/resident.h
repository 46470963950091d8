/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resident memory of a test.
 */
#ifndef TESTS_LIB_RESIDENT_H
#define TESTS_LIB_RESIDENT_H

#include "tap.h"

#include <stdio.h>
#include <unistd.h>

/* Returns the resident memory of the process in KiB. */
static inline size_t resident_kib(void) {
    size_t total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%zu %zu", &total, &resident) != 2)
        tap_bail("no /proc/self/statm");
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

#endif
