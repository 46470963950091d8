/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repeatable pseudo-random numbers for tests: xoshiro256** seeded by
 * splitmix64 (Blackman and Vigna). The same seed gives the same numbers on
 * every machine.
 *
 * Threads: one generator a thread.
 */
#ifndef TESTS_LIB_PRNG_H
#define TESTS_LIB_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t s[4];
};

__attribute__((unused)) static inline void prng_seed(struct prng *p,
                                                     uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9E3779B97F4A7C15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        p->s[i] = z ^ (z >> 31);
    }
}

static inline uint64_t prng_rotl(uint64_t x, unsigned n) {
    return (x << n) | (x >> (64 - n));
}

__attribute__((unused)) static inline uint64_t prng_next(struct prng *p) {
    uint64_t *s = p->s;
    uint64_t result = prng_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = prng_rotl(s[3], 45);
    return result;
}

/* Returns a number from 0 to N - 1; 0 if N is 0. */
__attribute__((unused)) static inline uint64_t prng_below(struct prng *p,
                                                          uint64_t n) {
    return (uint64_t)(((unsigned __int128)prng_next(p) * n) >> 64);
}

#endif
