/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size classes of the pages of the heap's first range, one byte per page:
 * what free reads. The page map has the same for every address; here a look-up
 * takes three instructions and touches a sixty-fourth of the cache lines, which
 * matters when a large heap is freed in random order.
 *
 *     base                 base + TCM_CLASS_MAP_BYTES
 *      +--------------------+--------------------------- ... ------+
 *      | a byte per page    | the heap                             |
 *      +--------------------+--------------------------- ... ------+
 *      |<------------------- TCM_CLASS_MAP_RANGE ----------------->|
 *
 * The bytes are at the low end of the range that they describe, so that one
 * address finds both. A byte is the scaled class (size_class.h), or 0 for a
 * page without class.
 *
 * Invariants: only pages of the first range have bytes; those of the map's own
 * pages are 0. There is no map (tcm_class_map_base == TCM_NO_BASE) when the
 * range is shorter than TCM_CLASS_MAP_RANGE, as under RLIMIT_AS.
 *
 * Threads: as in page_map.h. The base is set once, before any thread has a
 * cache; the length of the writable part changes under the growth lock.
 */
#ifndef TCM_CORE_CLASS_MAP_H
#define TCM_CORE_CLASS_MAP_H

#include "base/atomic.h"
#include "base/check.h"
#include "core/core_config.h"

#define TCM_CLASS_MAP_RANGE ((size_t)64 << 30)
#define TCM_CLASS_MAP_PAGES (TCM_CLASS_MAP_RANGE >> TCM_PAGE_SHIFT)
#define TCM_CLASS_MAP_BYTES TCM_CLASS_MAP_PAGES
/* No address that a program frees, not even a wrong or tagged one (aarch64), is
   likely to be within a range of this. */
#define TCM_NO_BASE ((uintptr_t)0xb5d37a9000000000)

extern TCM_LOCAL uintptr_t tcm_class_map_base;

/* Page number of ADDRESS from BASE; TCM_CLASS_MAP_PAGES or more if it is
   elsewhere. */
static TCM_ALWAYS_INLINE size_t tcm_class_map_page(uintptr_t base,
                                                   const void *address) {
    return ((uintptr_t)address - base) >> TCM_PAGE_SHIFT;
}

static TCM_ALWAYS_INLINE uint8_t tcm_class_map_get(uintptr_t base,
                                                   size_t page) {
    TCM_ASSERT(page < TCM_CLASS_MAP_PAGES);
    return tcm_load_relaxed((const uint8_t *)base + page);
}

/* Stores the scaled class of the page at ADDRESS, which the caller owns. A
   thread that is handed a block of the page sees it by whatever handed the
   block over. */
static inline void tcm_class_map_set(uintptr_t address, uint8_t scaled) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    TCM_ASSERT(page >= TCM_CLASS_MAP_PAGES ||
               page >= TCM_CLASS_MAP_BYTES / TCM_PAGE_SIZE);
    if (page < TCM_CLASS_MAP_PAGES)
        tcm_store_relaxed((uint8_t *)tcm_class_map_base + page, scaled);
}

/*
 * In builds with object words a second map of the same pages, in other memory:
 * the table half of the page map's entry (page_map.h). NULL when there is no
 * class map. Unlike the class map it is not touched for pages that never had a
 * table.
 */
extern TCM_LOCAL uint64_t *tcm_word_map;

static inline void tcm_word_map_set(uintptr_t address, uint64_t table) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    if (page >= TCM_CLASS_MAP_PAGES)
        return;
    TCM_ASSERT(tcm_word_map != NULL && table % sizeof(uint64_t) == 0);
    /* Pairs with the freeing thread's load, which is followed by an address
       dependency: the table is zeroed. */
    if (table != 0 || tcm_load_relaxed(&tcm_word_map[page]) != 0)
        tcm_store_release(&tcm_word_map[page], table);
}

/* Makes the bytes at the low end of the range at BASE readable, all 0, and sets
   the base. false: out of memory. */
bool tcm_class_map_init(uintptr_t base);
/* Makes the bytes of the heap's pages in [START, START + LENGTH) writable.
   false: out of memory. The growth lock is held. */
bool tcm_class_map_cover(uintptr_t start, size_t length);

#endif
