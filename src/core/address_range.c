/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where address space is scarce (RLIMIT_AS, small address spaces) ranges are
 * shorter, so that the program itself can still map memory. In a process with a
 * fixed address layout the ranges are at fixed addresses too: the kernel's
 * choice depends on the other mappings, which differ between the libraries.
 */
#include "core/address_range.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "base/raw_io.h"
#include "core/class_map.h"
#include "core/page_map.h"

#define RANGE_MAX   TCM_CLASS_MAP_RANGE
#define RANGE_MIN   TCM_GROW_STEP
#define FIXED_PLACE ((uintptr_t)0x100000000000)

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

static size_t wanted_length(void) {
    uint64_t limit = tcm_os_address_limit();
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

static bool reserve(struct tcm_range_table *table, size_t length) {
    TCM_ASSERT(table->count < TCM_MAX_RANGES && length % TCM_GROW_STEP == 0);
    /* Alignment to a power of two; an odd length gets that of the one below. */
    size_t align = (size_t)1 << tcm_log2_floor(length);
    void *hint = NULL;
    if (tcm_os_layout_is_fixed())
        hint = (void *)tcm_align_up(
            FIXED_PLACE + (uintptr_t)table->count * RANGE_MAX, align);
    if (align > RANGE_MAX)
        align = RANGE_MAX;
    void *start = tcm_os_reserve(length, align, hint);
    if (start == NULL)
        return false;
    struct tcm_range *range = &table->range[table->count];
    range->start = (uintptr_t)start;
    range->length = length;
    range->committed = 0;
    if ((range->start + length) >> TCM_ADDRESS_BITS) {
        tcm_os_unmap(start, length);
        return false;
    }
    if (table->count == 0 && length == TCM_CLASS_MAP_RANGE &&
        tcm_class_map_init(range->start)) {
        range->start += TCM_CLASS_MAP_BYTES;
        range->length -= TCM_CLASS_MAP_BYTES;
    }
    TCM_ASSERT(range_is_valid(range));
    table->count++;
    return true;
}

void tcm_range_init(struct tcm_range_table *table) {
    if (table->count == 0)
        (void)reserve(table, wanted_length());
}

int tcm_range_with_room(struct tcm_range_table *table, size_t bytes) {
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tcm_range *range = &table->range[i];
        TCM_ASSERT(range_is_valid(range));
        if (range->length - range->committed >= bytes)
            return (int)i;
    }
    if (table->count == TCM_MAX_RANGES || bytes >> TCM_ADDRESS_BITS)
        return -1;
    size_t least = tcm_align_up(bytes, TCM_GROW_STEP);
    size_t length = wanted_length();
    while (length >= RANGE_MIN && length >= least) {
        if (reserve(table, length))
            return (int)table->count - 1;
        length /= 2;
    }
    if (reserve(table, least))
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
    if (last->committed != 0)
        return;
    tcm_os_unmap((void *)last->start, last->length);
    table->count--;
}
