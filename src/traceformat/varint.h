/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Varints with their length in the low bits of the first byte.
 *
 *   length   low bits of the first byte   payload bits
 *   1        1                            7
 *   2        10                           14
 *   ...
 *   8        10000000                     56
 *
 * A varint of n bytes is the little-endian number ((payload << 1 | 1) <<
 * (n-1)). The first byte is never 0, so that zeroed memory marks the end of the
 * bytes written. A value may be written longer than it needs; readers take any
 * length.
 */
#ifndef TCM_TRACEFORMAT_VARINT_H
#define TCM_TRACEFORMAT_VARINT_H

#include "base/bits.h"
#include "base/check.h"
#include "base/compiler.h"

#include <string.h>

#define MTF_VARINT_MAX_BYTES 8
#define MTF_VARINT_MAX       (((uint64_t)1 << 56) - 1)

static inline uint64_t mtf_zigzag(int64_t v) {
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t mtf_unzigzag(uint64_t v) {
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Bytes that V needs, minus one; V is not 0 and at most MTF_VARINT_MAX. x * 37
   / 256 is x / 7 for all x below 64, and takes two additions instead of a
   multiplication. */
static TCM_ALWAYS_INLINE unsigned mtf_varint_shift(uint64_t v) {
    TCM_ASSERT(v != 0 && v <= MTF_VARINT_MAX);
    return tcm_log2_floor(v) * 37 >> 8;
}

/* Bytes that V needs; V at most MTF_VARINT_MAX. */
static inline unsigned mtf_varint_length(uint64_t v) {
    return mtf_varint_shift(v | 1) + 1;
}

/* The encoded bytes as a little-endian word; N from mtf_varint_length. */
static inline uint64_t mtf_varint_word(uint64_t v, unsigned n) {
    TCM_ASSERT(n != 0 && n <= MTF_VARINT_MAX_BYTES && v >> 7 * n == 0);
    return (v << 1 | 1) << (n - 1);
}

enum { mtf_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

/* Words anywhere in memory. */
typedef uint16_t mtf_word16 __attribute__((aligned(1), may_alias));
typedef uint64_t mtf_word64 __attribute__((aligned(1), may_alias));

/* One store, because a process may be killed after it, and a spool must not
   have a part of an event: a call of memcpy may write bytes one by one. */
static inline void mtf_store_le64(void *p, uint64_t v) {
    if (mtf_big_endian)
        v = __builtin_bswap64(v);
    *(mtf_word64 *)p = v;
}

static inline uint64_t mtf_load_le64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    if (mtf_big_endian)
        v = __builtin_bswap64(v);
    return v;
}

/* Writes V in one 8-byte store, so P needs 8 bytes of room whatever the length;
   returns the length. */
static inline unsigned mtf_varint_put(void *p, uint64_t v) {
    unsigned n = mtf_varint_length(v);
    mtf_store_le64(p, mtf_varint_word(v, n));
    return n;
}

/* Writes V in MTF_VARINT_MAX_BYTES bytes: a value written over it later has the
   same length. */
static inline void mtf_varint_put_long(void *p, uint64_t v) {
    mtf_store_le64(p, mtf_varint_word(v, MTF_VARINT_MAX_BYTES));
}

/* Reads a varint where 8 bytes can be read from P. Returns its length, or 0 for
   a first byte of 0. The caller checks the length against its end. */
static inline unsigned mtf_varint_get_unchecked(const void *p, uint64_t *v) {
    uint64_t w = mtf_load_le64(p);
    if ((w & 0xff) == 0)
        return 0;
    unsigned n = (unsigned)__builtin_ctzll(w) + 1;
    *v = (w << (64 - 8 * n)) >> (64 - 7 * n);
    return n;
}

/* Reads a varint that ends before END: 0 also when it is cut. */
static inline unsigned mtf_varint_get(const uint8_t *p, const uint8_t *end,
                                      uint64_t *v) {
    if (end - p >= 8)
        return mtf_varint_get_unchecked(p, v);
    uint8_t copy[8] = {0};
    size_t room = end > p ? (size_t)(end - p) : 0;
    TCM_ASSERT(room < sizeof(copy));
    memcpy(copy, p, room);
    unsigned n = mtf_varint_get_unchecked(copy, v);
    return n <= room ? n : 0;
}

#endif
