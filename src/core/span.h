/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a span: consecutive pages in one state.
 *
 *               carve                            central list
 *    RELEASED ----------+              +-----> MOVING <-----> SMALL
 *     ^    |            v              |         |
 *     |    +---------> (in use by its maker) ----|-------> LARGE
 *     |                 ^                        |           |
 *     |     carve       |                        v           v
 *    BUSY <---------- FREE <---------------------+-----------+
 *         (the system takes the memory)
 *
 * FREE      free, memory may be behind it, contents unknown
 * RELEASED  free, no memory behind it, reads as zero: never used or given back
 * BUSY      free, being given back without the lock; neighbours do not merge
 * SPARE     free and empty, kept in one piece for the next class (run_set.h)
 * MOVING    between page heap and central list; one thread knows of it
 * SMALL     objects of one class
 * LARGE     one block
 * PRIVATE   a piece of the private arena
 * NONE      record not in use
 *
 * Invariants: start and pages are changed by the state's owner only: under the
 * page heap lock (FREE, RELEASED, BUSY, SPARE), by the one thread that knows
 * of it (MOVING), or by the block's owner under the page heap lock (LARGE);
 * those of a SMALL span do not change. Bit I of free_bits is set if object I
 * is free and in no cache; free_count is the number of set bits; bits beyond
 * the last object are never set.
 *
 * Threads: any may read state, start, pages and class of a record found through
 * the page map (records are never unmapped). They are stable for the owner of a
 * block inside; for others they are a hint about an invalid pointer.
 */
#ifndef TCM_CORE_SPAN_H
#define TCM_CORE_SPAN_H

#include "base/dlist.h"
#include "core/core_config.h"

enum tcm_span_state {
    TCM_SPAN_NONE,
    TCM_SPAN_FREE,
    TCM_SPAN_RELEASED,
    TCM_SPAN_BUSY,
    TCM_SPAN_SPARE,
    TCM_SPAN_MOVING,
    TCM_SPAN_SMALL,
    TCM_SPAN_LARGE,
    TCM_SPAN_PRIVATE
};

struct tcm_span {
    union {
        struct tcm_dlist link; /* SMALL: list of its central list */
        struct {               /* FREE, RELEASED: node of a tree of runs */
            struct tcm_span *left;
            struct tcm_span *right;
        };
    };
    uintptr_t start;
    size_t pages;
    union {
        uint64_t word;   /* LARGE: its object word */
        uint64_t *words; /* SMALL: table of object words, or NULL */
        uint64_t window; /* FREE: in which it came to be (page_system.c) */
    };
    uint32_t range;     /* index of its address range */
    uint8_t state;      /* enum tcm_span_state; read without a lock, so each
                           store behind the first one is atomic */
    uint8_t size_class; /* SMALL: size class; else 0 */
    uint8_t bit_words;  /* words in free_bits, at least 1 */
    uint8_t first_word; /* words of free_bits below are 0 */
    union {
        struct { /* SMALL */
            uint16_t free_count;
            uint16_t objects;
        };
        uint32_t priority; /* FREE, RELEASED: in its tree */
    };
    uint8_t bucket; /* SMALL: which list of its central list */
    bool sampled;   /* LARGE: a listener was told (api/alloc_probes.h) */
    uint8_t home;   /* SMALL: shard whose central list has it */
    uint64_t free_bits[];
};

static inline size_t tcm_span_bytes(const struct tcm_span *span) {
    return span->pages << TCM_PAGE_SHIFT;
}

static inline uintptr_t tcm_span_end(const struct tcm_span *span) {
    return span->start + tcm_span_bytes(span);
}

/* True if the fields of SPAN, a record in use, agree with each other. For
   assertions, by the owner of the state. */
static inline bool tcm_span_is_valid(const struct tcm_span *span) {
    bool small = span->state == TCM_SPAN_SMALL;
    bool moving = span->state == TCM_SPAN_MOVING;
    return span->state > TCM_SPAN_NONE && span->state <= TCM_SPAN_PRIVATE &&
           span->pages != 0 && span->start % TCM_PAGE_SIZE == 0 &&
           tcm_span_end(span) <= (uintptr_t)1 << TCM_ADDRESS_BITS &&
           span->bit_words != 0 &&
           (moving || small == (span->size_class != 0)) &&
           (!small ||
            (span->objects != 0 && span->free_count <= span->objects &&
             span->bit_words == (span->objects + 63) / 64 &&
             span->first_word < span->bit_words));
}

#endif
