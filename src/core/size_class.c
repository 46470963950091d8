/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spacing: 8, then multiples of 16 up to 128, then eight classes per doubling.
 * A span is the shortest that wastes little and has SPAN_MIN_OBJECTS objects or
 * SPAN_MIN_BYTES bytes: when nine of ten objects die at random, a span of 16
 * objects becomes empty one time in five, one of 64 one time in a thousand.
 */
#include "core/size_class.h"
#include "base/bits.h"
#include "base/check.h"

#define CLASSES_PER_DOUBLING 8
#define SPAN_MIN_OBJECTS     16
#define SPAN_MIN_BYTES       ((size_t)32 << 10)
#define SPAN_WASTE_SHIFT     5 /* at most 1/32 of a span */
#define BATCH_BYTES          ((size_t)32 << 10)
#define BATCH_MIN            2
#define CACHED_BYTES         ((size_t)512 << 10)
#define CACHED_MIN           4
#define CACHED_MAX           1023 /* with the guard entry a power of two */

struct tcm_class_info tcm_class[TCM_MAX_CLASSES];
unsigned tcm_class_count;
uint32_t tcm_class_reciprocal[TCM_MAX_CLASSES];
uint8_t tcm_class_small[TCM_TABLE_SMALL / 8 + 1];
uint8_t tcm_class_medium[TCM_MAX_SMALL / 128 + 1];

static size_t next_size(size_t size) {
    if (size < 16)
        return 16;
    if (size < 128)
        return size + 16;
    return size + ((size_t)1 << tcm_log2_floor(size)) / CLASSES_PER_DOUBLING;
}

static uint16_t span_pages(size_t size) {
    for (size_t pages = 1;; pages++) {
        size_t bytes = pages << TCM_PAGE_SHIFT;
        size_t objects = bytes / size;
        if (objects == 0 ||
            (objects < SPAN_MIN_OBJECTS && bytes < SPAN_MIN_BYTES))
            continue;
        if (bytes - objects * size <= bytes >> SPAN_WASTE_SHIFT)
            return (uint16_t)pages;
    }
}

static uint16_t clamp(size_t value, size_t low, size_t high) {
    return (uint16_t)(value < low ? low : value > high ? high : value);
}

static void fill_class(struct tcm_class_info *c, size_t size) {
    c->size = (uint32_t)size;
    c->pages = span_pages(size);
    c->objects = (uint16_t)(((size_t)c->pages << TCM_PAGE_SHIFT) / size);
    c->batch = clamp(BATCH_BYTES / size, BATCH_MIN, TCM_MAX_BATCH);
    c->max_cached = clamp(CACHED_BYTES / size, CACHED_MIN, CACHED_MAX);
    c->slot_reciprocal = (((uint64_t)1 << 42) + size - 1) / size;
    tcm_class_reciprocal[c - tcm_class] =
        (uint32_t)((((uint64_t)1 << 32) + size - 1) / size);
    c->bucket_scale = ((uint64_t)4 << 32) / c->objects + 1;
    TCM_CHECK(c->objects <= TCM_MAX_OBJECTS);
    TCM_ASSERT(c->batch <= TCM_MAX_BATCH && c->batch <= c->max_cached);
    TCM_ASSERT(tcm_class_slot(c, c->objects * size - 1) == c->objects - 1u);
    TCM_ASSERT((c->objects - 1) * c->bucket_scale >> 32 == 3 || c->objects < 4);
}

/* Whether both tables lead each size to the smallest class that holds it. */
static bool tables_are_valid(void) {
    for (size_t size = 1; size <= TCM_MAX_SMALL; size++) {
        unsigned size_class = tcm_size_class(size);
        if (size_class == 0 || size_class >= tcm_class_count ||
            tcm_class[size_class].size < size ||
            tcm_class[size_class - 1].size >= size)
            return false;
    }
    return true;
}

void tcm_size_class_init(void) {
    unsigned size_class = 1;
    size_t small = 0;
    size_t medium = TCM_TABLE_SMALL / 128 + 1;
    for (size_t size = 8; size <= TCM_MAX_SMALL; size = next_size(size)) {
        TCM_CHECK(size_class < TCM_MAX_CLASSES);
        fill_class(&tcm_class[size_class], size);
        for (; small <= size / 8 && small <= TCM_TABLE_SMALL / 8; small++)
            tcm_class_small[small] = (uint8_t)size_class;
        for (; medium <= size / 128; medium++)
            tcm_class_medium[medium] = (uint8_t)size_class;
        size_class++;
    }
    tcm_class_count = size_class;
    TCM_ASSERT_SLOW(tables_are_valid());
}

unsigned tcm_size_class_aligned(size_t size, size_t align) {
    TCM_ASSERT(tcm_is_pow2(align));
    if (align > TCM_PAGE_SIZE || size > TCM_MAX_SMALL)
        return 0;
    /* A class that is a multiple of ALIGN holds the rounded size too; mostly
       the first class that is large enough is one. */
    size = size == 0 ? align : tcm_align_up(size, align);
    for (unsigned size_class = tcm_size_class(size);
         size_class != 0 && size_class < tcm_class_count; size_class++) {
        if ((tcm_class[size_class].size & (align - 1)) == 0)
            return size_class;
    }
    return 0;
}
