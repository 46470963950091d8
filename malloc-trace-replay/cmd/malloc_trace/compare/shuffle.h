/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random order (Fisher and Yates) by splitmix64, so that a seed repeats it.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_SHUFFLE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_SHUFFLE_H

#include "base/compiler.h"

static inline uint64_t shuffle_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* ORDER gets 0 to N - 1. */
static inline void shuffle(size_t *order, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)(shuffle_next(state) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

#endif
