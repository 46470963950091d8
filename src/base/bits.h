/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic on words: powers of two, alignment, overflow.
 */
#ifndef TCM_BASE_BITS_H
#define TCM_BASE_BITS_H

#include "base/check.h"
#include "base/compiler.h"

static inline bool tcm_is_pow2(uint64_t x) {
    return x != 0 && (x & (x - 1)) == 0;
}

/* Floor of log2; X must not be 0. */
static inline unsigned tcm_log2_floor(uint64_t x) {
    TCM_ASSERT(x != 0);
    return 63u - (unsigned)__builtin_clzll(x);
}

/* Ceiling of log2; X must not be 0. */
static inline unsigned tcm_log2_ceil(uint64_t x) {
    TCM_ASSERT(x != 0);
    return x <= 1 ? 0 : tcm_log2_floor(x - 1) + 1;
}

/* X rounded up to a multiple of ALIGN, a power of two. The caller has excluded
   overflow. */
static inline uint64_t tcm_align_up(uint64_t x, uint64_t align) {
    TCM_ASSERT(tcm_is_pow2(align) && x <= UINT64_MAX - (align - 1));
    return (x + align - 1) & ~(align - 1);
}

static inline uint64_t tcm_align_down(uint64_t x, uint64_t align) {
    TCM_ASSERT(tcm_is_pow2(align));
    return x & ~(align - 1);
}

static inline bool tcm_mul_overflows(size_t a, size_t b, size_t *product) {
    return __builtin_mul_overflow(a, b, product);
}

static inline bool tcm_add_overflows(size_t a, size_t b, size_t *sum) {
    return __builtin_add_overflow(a, b, sum);
}

static inline uint64_t tcm_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t tcm_max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

#endif
