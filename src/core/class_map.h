/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size classes of the pages of the heap's first range, a byte each: what
 * free looks at. The page map knows the same for every address; here it takes
 * three instructions and a sixty-fourth of the cache lines, which is what
 * counts when a large heap is freed in random order.
 *
 *     base                 base + TCM_CLASS_MAP_BYTES              + RANGE
 *      +--------------------+--------------------------- ... ------+
 *      | a byte a page      | the heap                             |
 *      +--------------------+--------------------------- ... ------+
 *
 * The bytes lie at the low end of the range that they describe, so that one
 * address finds both. A byte is the class, scaled (tcm_bin_at); 0 for pages of
 * no class.
 *
 * Invariants: bytes of pages outside of the first range do not exist; its own
 * pages' bytes are 0. There is no map (tcm_class_map_base == TCM_NO_BASE) when
 * the range is shorter than TCM_CLASS_MAP_RANGE, as under RLIMIT_AS.
 *
 * Threads: as page_map.h; the base is set once, before any thread has a cache.
 */
#ifndef TCM_CLASS_MAP_H
#define TCM_CLASS_MAP_H

#include "base/atomic.h"
#include "core/core_config.h"

#define TCM_CLASS_MAP_RANGE ((size_t)64 << 30)
#define TCM_CLASS_MAP_PAGES (TCM_CLASS_MAP_RANGE >> TCM_PAGE_SHIFT)
#define TCM_CLASS_MAP_BYTES TCM_CLASS_MAP_PAGES
/* Nothing that a program may take for an address is within a range of this: not
   even the usual wrong ones, as a single bit, and no tagged one of aarch64. */
#define TCM_NO_BASE ((uintptr_t)0xb5d37a9000000000)

extern TCM_LOCAL uintptr_t tcm_class_map_base;

/* Page number of ADDRESS from BASE; not below TCM_CLASS_MAP_PAGES if it is
   elsewhere. */
static TCM_ALWAYS_INLINE size_t tcm_class_map_page(uintptr_t base,
                                                   const void *address) {
    return ((uintptr_t)address - base) >> TCM_PAGE_SHIFT;
}

static TCM_ALWAYS_INLINE uint8_t tcm_class_map_get(uintptr_t base,
                                                   size_t page) {
    return tcm_load_relaxed((const uint8_t *)base + page);
}

/* The owner of the page at ADDRESS stores the scaled class. Who is handed a
   block of the page later sees it by whatever handed the block over. */
static inline void tcm_class_map_set(uintptr_t address, uint8_t scaled) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    if (page < TCM_CLASS_MAP_PAGES)
        tcm_store_relaxed((uint8_t *)tcm_class_map_base + page, scaled);
}

#if TCM_OBJECT_WORDS
/*
 * In builds with object words another map of the same pages, elsewhere: for
 * each the address of the object word of the first object that starts in it, 0
 * if there is no table; the same as in the page map's entry (page_map.h). NULL
 * when there is no class map. Unlike the class map it is not touched for pages
 * that never had a table.
 */
extern TCM_LOCAL uint64_t *tcm_word_map;

static inline void tcm_word_map_set(uintptr_t address, uint64_t table) {
    size_t page = tcm_class_map_page(tcm_class_map_base, (void *)address);
    if (page >= TCM_CLASS_MAP_PAGES)
        return;
    /* Pairs with the dependent load of who frees: the table is zeroed. */
    if (table != 0 || tcm_load_relaxed(&tcm_word_map[page]) != 0)
        tcm_store_release(&tcm_word_map[page], table);
}
#endif

/* Makes the bytes at the low end of the range at BASE readable, all 0, and base
   known. false: no memory. */
bool tcm_class_map_init(uintptr_t base);
/* Makes the bytes of [START, START + LENGTH) of the heap writable. */
bool tcm_class_map_cover(uintptr_t start, size_t length);

#endif
