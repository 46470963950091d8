/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses are chosen far from those that the kernel chooses, which lie near
 * the stack and the libraries: the program's mappings stay out of the heap's
 * way. The place is random in a process with a random address layout. With a
 * fixed layout it is fixed: the kernel's choice depends on the other mappings,
 * which differ between the two libraries.
 */
#include "core/address_range.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "core/meta_alloc.h"
#include "core/page_map.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#define RANGE_MAX TCM_CLASS_MAP_RANGE
#define CUT_BYTES ((size_t)1 << 30) /* a range of a shard other than 0 */
/* RLIMIT_AS from which on the class map is a small part of it. */
#define MUCH_ADDRESSES ((uint64_t)1 << 30)

#define LOW_PLACE ((uintptr_t)0x3000000000) /* for address spaces of 39 bits */
#if defined(__SANITIZE_THREAD__)
/* The sanitizer ends programs that map anything at other places. */
#define PLACE_RANGES 4u
#define FIXED_PLACE  LOW_PLACE
#define HIGH_PLACE   LOW_PLACE
#define HIGH_STEPS   1u
#else
#define PLACE_RANGES TCM_MAX_RANGES
#define FIXED_PLACE  ((uintptr_t)0x100000000000)
/* Between the places of programs and those of the kernel's choice on x86-64 and
   aarch64, also where it begins below (a third or a quarter of the address
   space, if the stack has no limit). */
#define HIGH_PLACE   ((uintptr_t)0x300000000000)
#define HIGH_STEPS   8192u /* 16 TiB */
#endif
#define HIGH_STEP ((uintptr_t)1 << TCM_ROOT_SHIFT)

struct tcm_range_table tcm_ranges;

static bool range_is_valid(const struct tcm_range *range) {
    return range->start % TCM_GROW_STEP == 0 &&
           range->length % TCM_GROW_STEP == 0 &&
           range->committed <= range->length &&
           range->committed % TCM_GROW_STEP == 0;
}

/* Adds the range that the caller has filled in behind the last one. */
static void publish_range(struct tcm_range_table *table) {
    TCM_ASSERT(range_is_valid(&table->range[table->count]));
    /* The range is complete before the count includes it. Threads without the
       growth lock look up only ranges of spans that they own. */
    tcm_store_release(&table->count, table->count + 1);
}

/* Number below MOST that differs between processes. */
static uint64_t random_number(uint64_t most) {
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t word = 0;
    if (random != NULL)
        memcpy(&word, random, sizeof(word));
    /* The C library makes a secret of these bytes: few bits of a product of
       all tell nothing of it. */
    return (word * UINT64_C(0x9e3779b97f4a7c15) >> 40) % most;
}

/* Preferred address number I, below PLACES, of the next range of TABLE. */
#define PLACES 2u
static void *place_of_next(struct tcm_range_table *table, unsigned i) {
    if (table->place == 0)
        table->place = tcm_os_layout_is_fixed()
                           ? FIXED_PLACE
                           : HIGH_PLACE + random_number(HIGH_STEPS) * HIGH_STEP;
    uintptr_t first = i == 0 ? table->place : LOW_PLACE;
    return (void *)(first +
                    (uintptr_t)(table->count % PLACE_RANGES) * RANGE_MAX);
}

/* Adds a range without class map at START, which may be NULL. */
static bool add_range(struct tcm_range_table *table, const void *start,
                      size_t length) {
    if (start == NULL || ((uintptr_t)start + length) >> TCM_ADDRESS_BITS)
        return false;
    table->range[table->count] =
        (struct tcm_range){.start = (uintptr_t)start, .length = length};
    publish_range(table);
    return true;
}

/* Adds a range of the kernel's choice, aligned to ALIGN. */
static bool add_range_anywhere(struct tcm_range_table *table, size_t length,
                               size_t align) {
    return add_range(table, tcm_os_find_free(length, align, NULL), length);
}

/* Makes a range in which LEAST bytes can be committed. */
static bool make_range(struct tcm_range_table *table, size_t least) {
    TCM_ASSERT(table->count < TCM_MAX_RANGES && least % TCM_GROW_STEP == 0);
    for (unsigned i = 0; i < PLACES; i++) {
        void *place = place_of_next(table, i);
        /* Shows that the address space has such a place, and room for LEAST; it
           need not have room for all that the range may become. */
        void *found = tcm_os_find_free(least, tcm_os_page_size(), place);
        if (found == NULL)
            return false;
        if (found == place)
            return add_range(table, place, tcm_align_up(least, RANGE_MAX));
    }
    for (size_t length = RANGE_MAX; length > least; length /= 2)
        if (add_range_anywhere(table, length, length))
            return true;
    return add_range_anywhere(table, least, TCM_GROW_STEP);
}

static bool make_range_with_class_map(struct tcm_range_table *table,
                                      void *start) {
    TCM_ASSERT(table->count == 0);
    if (start == NULL || !tcm_class_map_init((uintptr_t)start))
        return false;
    return add_range(table, (char *)start + TCM_CLASS_MAP_BYTES,
                     RANGE_MAX - TCM_CLASS_MAP_BYTES);
}

/* Cuts a range for SHARD off the high end of the first range, which keeps at
   least half of its room. false: the first range is too small or too full. */
static bool cut_range(struct tcm_range_table *table, uint32_t shard) {
    struct tcm_range *first = &table->range[0];
    if (table->count == 0 || table->count == TCM_MAX_RANGES ||
        (first->length - first->committed) / 2 < CUT_BYTES)
        return false;
    first->length -= CUT_BYTES;
    table->range[table->count] =
        (struct tcm_range){.start = first->start + first->length,
                           .length = CUT_BYTES,
                           .shard = shard};
    publish_range(table);
    return true;
}

void tcm_range_init(struct tcm_range_table *table) {
    if (table->count != 0)
        return;
    bool done = false;
    if (tcm_os_address_limit() >= MUCH_ADDRESSES) {
        for (unsigned i = 0; i < PLACES && !done; i++)
            done = make_range_with_class_map(table, place_of_next(table, i));
        done = done || make_range_with_class_map(
                           table, tcm_os_find_free(RANGE_MAX, RANGE_MAX, NULL));
    }
    if (!done && !make_range(table, TCM_GROW_STEP))
        return;
    /* The leaf is mapped ahead for programs that lock all that is to come: it
       does not count against their RLIMIT_MEMLOCK then. */
    (void)tcm_page_map_cover((void *)table->range[0].start, TCM_GROW_STEP);
}

int tcm_range_add(struct tcm_range_table *table, uint32_t shard, size_t bytes) {
    if (shard != 0)
        return bytes <= CUT_BYTES && cut_range(table, shard)
                   ? (int)table->count - 1
                   : -1;
    if (table->count == TCM_MAX_RANGES || bytes >> TCM_ADDRESS_BITS)
        return -1;
    return make_range(table, tcm_align_up(bytes, TCM_GROW_STEP))
               ? (int)table->count - 1
               : -1;
}

bool tcm_range_commit(struct tcm_range *range, size_t bytes,
                      uint64_t heap_bytes) {
    TCM_ASSERT(range_is_valid(range) && bytes % TCM_GROW_STEP == 0);
    if (range->length - range->committed < bytes)
        return false;
    void *from = (void *)tcm_range_frontier(range);
    /* Memory first: a request for most of the address space fails here, before
       page map leaves are made for it. */
    int rc = tcm_os_map_at(from, bytes);
    /* The range ends where a mapping of the program begins, or earlier. */
    if (rc == EEXIST)
        range->length = range->committed + bytes - TCM_GROW_STEP;
    if (rc != 0)
        return false;
    if (tcm_page_map_cover(from, bytes) &&
        tcm_class_map_cover((uintptr_t)from, bytes) &&
        tcm_meta_keep_reserve(heap_bytes))
        return true;
    tcm_os_unmap(from, bytes);
    return false;
}

void tcm_range_drop_unused(struct tcm_range_table *table) {
    if (table->count <= 1)
        return;
    struct tcm_range *last = &table->range[table->count - 1];
    if (last->committed != 0 || (last->shard != 0 && last->length == CUT_BYTES))
        return;
    tcm_store_relaxed(&table->count, table->count - 1);
}
