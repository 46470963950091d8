/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers for sampling, from a state of 64 bits that is not 0. Threads:
 * the state's owner.
 */
#ifndef TCM_BASE_RANDOM_H
#define TCM_BASE_RANDOM_H

#include "base/compiler.h"

/* xorshift64* (Vigna 2014). */
static inline uint64_t tcm_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

/*
 * Draws the bytes to the next sample, exponentially distributed with MEAN: each
 * byte is as likely as any other to be a sample, whatever came before. It needs
 * comparisons only (von Neumann, Various techniques used in connection with
 * random digits, 1951): of a falling run of uniform numbers the first is the
 * fraction if the run's length is odd; otherwise 1 is added and the next run
 * decides.
 */
static inline uint64_t tcm_random_distance(uint64_t *state, uint64_t mean) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = tcm_random(state), last = first, length = 1;
        for (uint64_t next; (next = tcm_random(state)) < last; last = next)
            length++;
        if (length & 1)
            return (uint64_t)(((unsigned __int128)whole * mean) +
                              ((unsigned __int128)first * mean >> 64));
    }
}

#endif
