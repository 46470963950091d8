/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Size classes and the tables that find them.
 *
 * Invariants: classes are numbered from 1 by rising size; class 0 means "no
 * class": a large block. The smallest size is 8, all others are multiples of
 * 16, so objects are aligned as C requires for their size. An object wastes at
 * most 1/8 of a request above 128 bytes. The tables are constant.
 */
#ifndef TCM_CORE_SIZE_CLASS_H
#define TCM_CORE_SIZE_CLASS_H

#include "base/check.h"
#include "core/core_config.h"

struct tcm_class_info {
    uint32_t size; /* bytes of an object */
    /* ceil(2^42 / size): n / size is n * slot_reciprocal >> 42, n in a span */
    uint64_t slot_reciprocal;
    /* 2^34 / objects: n * bucket_scale >> 32 is 0 to 3 for n < objects */
    uint64_t bucket_scale;
    uint16_t pages;      /* of a span */
    uint16_t objects;    /* of a span, at most TCM_MAX_OBJECTS */
    uint16_t batch;      /* objects moved at once */
    uint16_t max_cached; /* objects in a bin at most */
};

/* Slot of the object that holds byte OFFSET of a span of class INFO; exact for
   offsets below 2^19, which is longer than any span of small objects. */
static TCM_ALWAYS_INLINE uint64_t
tcm_class_slot(const struct tcm_class_info *info, uint64_t offset) {
    TCM_ASSERT(offset < (uint64_t)1 << 19);
    return (offset * info->slot_reciprocal) >> 42;
}

enum { tcm_class_count = 98 }; /* with class 0 */
TCM_STATIC_ASSERT(tcm_class_count <= TCM_MAX_CLASSES,
                  "the classes fit the tables");
extern TCM_LOCAL const struct tcm_class_info tcm_class[TCM_MAX_CLASSES];
/* ceil(2^32 / size): n / size is n * reciprocal >> 32, n < TCM_PAGE_SIZE. In
   few cache lines, for the fast paths. */
extern TCM_LOCAL const uint32_t tcm_class_reciprocal[TCM_MAX_CLASSES];
/* Class by (size + 7) >> 3 up to TCM_TABLE_SMALL, by (size + 127) >> 7 above.
   */
extern TCM_LOCAL const uint8_t tcm_class_small[TCM_TABLE_SMALL / 8 + 1];
extern TCM_LOCAL const uint8_t tcm_class_medium[TCM_MAX_SMALL / 128 + 1];

/*
 * A scaled class, as the fast paths look it up: the offset of the class's bin
 * in a thread cache in units of 8 bytes, so that one address of the form base +
 * 8 * index reaches the bin.
 */
#define TCM_CLASS_SCALE 2
TCM_STATIC_ASSERT(TCM_MAX_CLASSES *TCM_CLASS_SCALE <= 256,
                  "a scaled class is a byte");
static TCM_ALWAYS_INLINE uint8_t tcm_class_scale(unsigned size_class) {
    TCM_ASSERT(size_class < TCM_MAX_CLASSES);
    return (uint8_t)(size_class * TCM_CLASS_SCALE);
}
/* Reciprocal of a scaled class. */
static TCM_ALWAYS_INLINE uint64_t tcm_scaled_reciprocal(uint64_t scaled) {
    const char *at = (const char *)tcm_class_reciprocal;
    return *(const uint32_t *)(at + scaled * (4 / TCM_CLASS_SCALE));
}

/* Class of a SIZE above TCM_TABLE_SMALL, 0 when it is large. */
static TCM_ALWAYS_INLINE unsigned tcm_size_class_medium(size_t size) {
    if (TCM_LIKELY(size <= TCM_MAX_SMALL))
        return tcm_class_medium[(size + 127) >> 7];
    return 0;
}

/* Class of SIZE, 0 when it is large. malloc(0) is a block of the smallest
   class. */
static TCM_ALWAYS_INLINE unsigned tcm_size_class(size_t size) {
    if (TCM_LIKELY(size <= TCM_TABLE_SMALL))
        return tcm_class_small[(size + 7) >> 3];
    return tcm_size_class_medium(size);
}

/* Smallest class of at least SIZE whose objects are all aligned to ALIGN (a
   power of two); 0 when there is none. */
unsigned tcm_size_class_aligned(size_t size, size_t align);

/* Class that serves a request; ALIGN is 0 (no request) or a power of two. 0: a
   large block serves it. */
static TCM_ALWAYS_INLINE unsigned tcm_size_class_request(size_t size,
                                                         size_t align) {
    return align < TCM_MIN_ALIGN ? tcm_size_class(size)
                                 : tcm_size_class_aligned(size, align);
}

#endif
