/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/thread_cache.h"
#include "base/check.h"
#include "core/class_map.h"

#if TCM_OBJECT_WORDS
/* The traced paths do not ask whether the thread has a cache: it may have
   released it, and records on. */
static const struct tcm_entry no_entries[2];
#define NO_PLACE ((struct tcm_entry *)(uintptr_t)no_entries + 1)

const struct tcm_thread_cache tcm_no_cache = {
    .bin = {[0 ... TCM_MAX_CLASSES - 1] = {.top = NO_PLACE, .end = NO_PLACE}},
};
#else
const struct tcm_thread_cache tcm_no_cache;
#endif

void tcm_cache_open(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    tcm_store_seq_cst(&cache->free_pages, TCM_CLASS_MAP_PAGES);
    tcm_store_seq_cst(&cache->alloc_limit, TCM_TABLE_SMALL + 1);
}

void tcm_cache_shut(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    tcm_store_seq_cst(&cache->alloc_limit, 0);
    tcm_store_seq_cst(&cache->free_pages, 0);
}

/*
 * Reads a pointer of a cache that may be in use. Its owner's fast path stores
 * it plainly, on purpose: no compiler splits a pointer's store or this load.
 * Hidden from the thread sanitizer.
 */
static __attribute__((no_sanitize("thread"), noinline)) uintptr_t
read_place(struct tcm_entry *const *place) {
    return (uintptr_t) * (struct tcm_entry *const volatile *)place;
}

/* The two pointers may be of different moments, hence the bound. */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned size_class) {
    uintptr_t top = read_place(&cache->bin[size_class].top);
    uintptr_t base = read_place(&cache->cold[size_class].base);
    uint64_t count = (top - base) / sizeof(struct tcm_entry);
    return top > base && count <= tcm_class[size_class].max_cached ? count : 0;
}
