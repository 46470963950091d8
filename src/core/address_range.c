/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges are shorter where address space is scarce (RLIMIT_AS, small address
 * spaces), so that the program itself can still map memory. In a process with a
 * fixed address layout they are at fixed addresses: the kernel's choice depends
 * on the other mappings, which differ between the two libraries.
 */
#include "core/address_range.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_file.h"
#include "core/page_map.h"
#include "core/meta_alloc.h"

#include <sys/auxv.h>

#define RANGE_MAX   TCM_CLASS_MAP_RANGE
#define RANGE_MIN   TCM_GROW_STEP
#define CUT_BYTES   ((size_t)1 << 30) /* a range of a shard other than 0 */
#define FIXED_PLACE ((uintptr_t)0x100000000000)

struct tcm_range_table tcm_ranges;

/* Address space the process uses now; 0 if that is unknown. */
static uint64_t address_space_in_use(void) {
    char text[64];
    if (tcm_io_read_file("/proc/self/statm", text, sizeof(text)) <= 0)
        return 0;
    uint64_t pages = 0;
    for (const char *p = text; *p >= '0' && *p <= '9'; p++)
        pages = pages * 10 + (uint64_t)(*p - '0');
    return pages * tcm_os_page_size();
}

static size_t wanted_length(struct tcm_range_table *table) {
    if (table->count == 0 || table->address_limit != UINT64_MAX)
        table->address_limit = tcm_os_address_limit();
    uint64_t limit = table->address_limit;
    if (limit == UINT64_MAX)
        return RANGE_MAX;
    uint64_t used = address_space_in_use();
    uint64_t quarter = used < limit ? (limit - used) / 4 : 0;
    size_t length = RANGE_MAX;
    while (length > quarter && length > RANGE_MIN)
        length /= 2;
    return length;
}

static bool range_is_valid(const struct tcm_range *range) {
    return range->start % TCM_GROW_STEP == 0 && range->length != 0 &&
           range->committed <= range->length &&
           range->committed % TCM_GROW_STEP == 0;
}

/* True if no two ranges of TABLE overlap, with the one behind the last. */
static bool ranges_are_apart(const struct tcm_range_table *table) {
    for (uint32_t i = 0; i <= table->count; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct tcm_range *a = &table->range[i];
            const struct tcm_range *b = &table->range[j];
            if (a->start < b->start + b->length &&
                b->start < a->start + a->length)
                return false;
        }
    return true;
}

/* Adds the range that the caller has filled in behind the last one. */
static void publish_range(struct tcm_range_table *table) {
    TCM_ASSERT(range_is_valid(&table->range[table->count]));
    TCM_ASSERT_SLOW(ranges_are_apart(table));
    /* Publishes the range; pairs with the loads of threads that walk all ranges
       with only the lock of a shard. */
    tcm_store_release(&table->count, table->count + 1);
}

/*
 * Preferred address of the next range of TABLE, or NULL. For the first range it
 * is the aligned place below the C library, where the kernel maps too: as
 * random as the kernel's choice, and nearly always free. So one call of mmap
 * suffices, where the search for an aligned place takes three. In a static
 * program there is nothing below.
 */
static void *place_of_next(const struct tcm_range_table *table, size_t length,
                           size_t align) {
    if (tcm_os_layout_is_fixed())
        return (void *)tcm_align_up(
            FIXED_PLACE + (uintptr_t)table->count * RANGE_MAX, align);
    uintptr_t here = tcm_align_down((uintptr_t)&getauxval, align);
    length = tcm_align_up(length, align);
    return table->count == 0 && here > length ? (void *)(here - length) : NULL;
}

/* Places the page map's leaves and the records of the range at START at PLACE.
 */
static void place_records(void *start, char *place) {
    size_t leaves = RANGE_MAX >> TCM_ROOT_SHIFT;
    TCM_STATIC_ASSERT((RANGE_MAX >> TCM_ROOT_SHIFT) *
                                  sizeof(struct tcm_page_leaf) +
                              TCM_META_PLACES <=
                          TCM_RANGE_RECORDS,
                      "leaves and records fit");
    tcm_page_map_place(start, place, leaves);
    tcm_meta_place(place + leaves * sizeof(struct tcm_page_leaf));
}

static bool reserve_range(struct tcm_range_table *table, size_t length) {
    TCM_ASSERT(table->count < TCM_MAX_RANGES && length % TCM_GROW_STEP == 0);
    /* A range is aligned to the power of two at or below its length. */
    size_t align = (size_t)1 << tcm_log2_floor(length);
    void *place = place_of_next(table, length, align);
    if (align > RANGE_MAX)
        align = RANGE_MAX;
    void *start = tcm_os_reserve(length, align, place);
    if (start == NULL)
        return false;
    struct tcm_range *range = &table->range[table->count];
    range->start = (uintptr_t)start;
    range->length = length;
    range->committed = 0;
    range->shard = 0;
    if ((range->start + length) >> TCM_ADDRESS_BITS) {
        tcm_os_unmap(start, length);
        return false;
    }
    if (table->count == 0 && length == TCM_CLASS_MAP_RANGE &&
        tcm_class_map_init(range->start)) {
        range->start += TCM_CLASS_MAP_BYTES;
        range->length -= TCM_CLASS_MAP_BYTES + TCM_RANGE_RECORDS;
        place_records(start, (char *)start + RANGE_MAX - TCM_RANGE_RECORDS);
    }
    publish_range(table);
    return true;
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
    if (table->count == 0)
        (void)reserve_range(table, wanted_length(table));
}

int tcm_range_with_room(struct tcm_range_table *table, uint32_t shard,
                        size_t bytes) {
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tcm_range *range = &table->range[i];
        TCM_ASSERT(range_is_valid(range));
        if (range->shard == shard && range->length - range->committed >= bytes)
            return (int)i;
    }
    if (shard != 0)
        return bytes <= CUT_BYTES && cut_range(table, shard)
                   ? (int)table->count - 1
                   : -1;
    if (table->count == TCM_MAX_RANGES || bytes >> TCM_ADDRESS_BITS)
        return -1;
    size_t least = tcm_align_up(bytes, TCM_GROW_STEP);
    size_t length = wanted_length(table);
    while (length >= RANGE_MIN && length >= least) {
        if (reserve_range(table, length))
            return (int)table->count - 1;
        length /= 2;
    }
    if (reserve_range(table, least))
        return (int)table->count - 1;
    return -1;
}

bool tcm_range_commit(const struct tcm_range *range, size_t bytes) {
    TCM_ASSERT(range_is_valid(range) && bytes % TCM_GROW_STEP == 0);
    if (range->length - range->committed < bytes)
        return false;
    void *from = (void *)tcm_range_frontier(range);
    /* Memory first: a request for most of the address space fails here, before
       page map leaves are made for it. Committing twice does no harm. */
    return tcm_os_commit(from, bytes) && tcm_page_map_cover(from, bytes) &&
           tcm_class_map_cover((uintptr_t)from, bytes);
}

void tcm_range_drop_unused(struct tcm_range_table *table) {
    if (table->count <= 1)
        return;
    struct tcm_range *last = &table->range[table->count - 1];
    if (last->committed != 0 || last->shard != 0)
        return;
    tcm_os_unmap((void *)last->start, last->length);
    tcm_store_relaxed(&table->count, table->count - 1);
}
