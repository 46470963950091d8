/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds known amounts of memory for known times: a line on standard output for
 * each has the bytes, and the nanoseconds of CLOCK_MONOTONIC between which they
 * were live. All of it is written to. Besides there is a small block at times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void *block[64];
static size_t blocks;

static void hold(size_t count) {
    while (blocks < count) {
        block[blocks] = malloc(MIB);
        memset(block[blocks], 1, MIB);
        blocks++;
    }
    while (blocks > count)
        free(block[--blocks]);
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
    static const size_t counts[] = {4, 24, 60, 10, 30};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        char line[100];
        hold(counts[i]);
        long long from = now_ns();
        for (int k = 0; k < 20; k++) {
            usleep(20000);
            /* the recorder samples while there are events */
            free(malloc(100));
        }
        int n = snprintf(line, sizeof(line), "%zu %lld %lld\n", counts[i] * MIB,
                         from, now_ns());
        if (write(1, line, (size_t)n) != n)
            return 1;
    }
    return 0;
}
