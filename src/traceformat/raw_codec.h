/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of events, inline because malloc and free do it. The decoder of
 * exactly these bytes is raw_decode.h; doc/raw-trace-format.md has the tables.
 *
 * The payload of an event's first varint has the type in its low two bits:
 *
 *   ALLOC    size code
 *   FREE     zigzag(token - last freed token)
 *   REALLOC  zigzag(old token - last freed token), then a second varint:
 *            size code << 2 | moved << 1 | reallocarray
 *   EXTENDED kind (5 bits) | argument or length
 *
 * Size code: sizes change by multiples of 8 most of the time, so the change of
 * size / 8 is coded, and the low three bits only when they are not 0:
 *
 *   low bits 0:   zigzag(size/8 - last size/8) << 1
 *   otherwise:    zigzag(size/8 - last size/8) << 4 | low bits << 1 | 1
 */
#ifndef MTF_RAW_CODEC_H
#define MTF_RAW_CODEC_H

#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

/* Sizes up to here have a size code that leaves room for the type bits. Larger
   ones can only fail (MTF_RAW_FAILED has all 64 bits). */
#define MTF_SIZE_MAX ((uint64_t)1 << 48)
/* No event written in one store is longer. */
#define MTF_HOT_EVENT_MAX 8u
/* Head of an extended event with bytes, and the most bytes it can have. */
#define MTF_EXTENDED_HEAD_MAX 2u
#define MTF_EXTENDED_MAX      127u
/* Distances of tokens and times up to here fit any event. */
#define MTF_ARGUMENT_MAX (((uint64_t)1 << 48) - 1)

/* Size code of SIZE after a size whose eighth was LAST_8TH, with SHIFT bits
   below it whose value is TYPE. Both forms are made and one is selected by a
   conditional move; the empty statement keeps the compiler from making a branch
   of it, which mixed sizes would mispredict. */
static TCM_ALWAYS_INLINE uint64_t mtf_size_payload(uint64_t size,
                                                   uint64_t last_8th,
                                                   unsigned shift,
                                                   uint64_t type) {
    uint64_t change = mtf_zigzag((int64_t)((size >> 3) - last_8th));
    uint64_t low = size & 7;
    uint64_t exact =
        (((change << 3) + low) << (1 + shift)) + (1u << shift) + type;
    uint64_t rounded = (change << (1 + shift)) + type;
    __asm__("" : "+r"(rounded), "+r"(exact));
    return low != 0 ? exact : rounded;
}

static TCM_ALWAYS_INLINE uint64_t mtf_size_code(uint64_t size,
                                                uint64_t last_8th) {
    return mtf_size_payload(size, last_8th, 0, 0);
}

static TCM_ALWAYS_INLINE uint64_t mtf_alloc_payload(uint64_t size,
                                                    uint64_t last_8th) {
    return mtf_size_payload(size, last_8th, 2, MTF_RAW_ALLOC);
}

static TCM_ALWAYS_INLINE uint64_t mtf_free_distance(uint64_t token,
                                                    uint64_t last_freed) {
    return mtf_zigzag((int64_t)(token - last_freed));
}

static inline uint64_t mtf_free_payload(uint64_t token, uint64_t last_freed) {
    return mtf_free_distance(token, last_freed) << 2 | MTF_RAW_FREE;
}

/* The varint word of that payload in SHIFT + 1 bytes. */
static TCM_ALWAYS_INLINE uint64_t mtf_free_word(uint64_t distance,
                                                size_t shift) {
    return ((distance << 3) + (MTF_RAW_FREE << 1 | 1)) << shift;
}

/* The farthest distance for which SHIFT + 1 bytes do. */
static TCM_ALWAYS_INLINE uint64_t mtf_free_reach(unsigned shift) {
    return ((uint64_t)1 << (7 * shift + 5)) - 1;
}

/* Kinds below 16; ARGUMENT at most MTF_ARGUMENT_MAX. */
static inline uint64_t mtf_inline_payload(enum mtf_raw_kind kind,
                                          uint64_t argument) {
    return argument << 7 | (uint64_t)kind << 2 | MTF_RAW_EXTENDED;
}

/* Argument of MTF_RAW_TOKENS: a block of COUNT (a power of two) tokens that
   begins DISTANCE after the end of the one before. */
static inline uint64_t mtf_tokens_argument(uint64_t distance, uint64_t count) {
    return distance << 5 | tcm_log2_floor(count);
}

/*
 * Writes the head of an extended event of LENGTH bytes (at most
 * MTF_EXTENDED_MAX), which is two bytes long, to P; the bytes stand behind it
 * already. In a spool the head must come last and in one store: a process
 * killed before it leaves a zero byte there, after it a whole event.
 */
static inline void mtf_put_extended_head(uint8_t *p, enum mtf_raw_kind kind,
                                         unsigned length) {
    uint64_t v = (uint64_t)length << 7 | (uint64_t)kind << 2;
    uint16_t head = (uint16_t)mtf_varint_word(v, 2);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    head = __builtin_bswap16(head);
#endif
    __asm__ volatile("" ::: "memory");
    memcpy(p, &head, sizeof(head));
}

/* Writes the low bytes of SIZE, as many as it needs (at least one), to P, which
   has 8 bytes of room; returns how many. The event's length tells a reader. */
static inline unsigned mtf_put_size(uint8_t *p, uint64_t size) {
    mtf_store_le64(p, size);
    return tcm_log2_floor(size | 1) / 8 + 1;
}

#endif
