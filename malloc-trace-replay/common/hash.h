/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashing of numbers that stand in a trace: which of them fall together must
 * not be for the trace to choose, or a small file makes every look a long walk.
 *
 * Threads: any number.
 */
#ifndef TOOL_COMMON_HASH_H
#define TOOL_COMMON_HASH_H

#include "base/compiler.h"

#include <stdint.h>

/* Random; another one for each table. */
uint64_t tool_hash_seed(void);

/* All 64 bits are good. */
static inline uint64_t tool_hash(uint64_t key, uint64_t seed) {
    uint64_t h = (key ^ seed) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32 ^ seed) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

#endif
