/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/heap.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/lock.h"
#include "core/arena.h"
#include "core/cache_registry.h"
#include "core/meta_alloc.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"

static bool heap_ready;

bool tcm_heap_init(void) {
    if (heap_ready)
        return true;
    tcm_page_heap_init();
    tcm_thread_shards_init();
    tcm_registry_init();
    heap_ready = true;
    return true;
}

void *tcm_heap_alloc_one(unsigned size_class) {
    void *object;
    TCM_ASSERT(heap_ready && size_class != 0 && size_class < tcm_class_count);
    return tcm_transfer_remove(size_class, &object, 1) == 1 ? object : NULL;
}

void tcm_heap_free_one(unsigned size_class, void *ptr) {
    TCM_ASSERT(size_class == tcm_entry_class(tcm_page_entry(ptr)));
    /* The central list hands out whole cache lines; the transfer cache does
       not. */
    if (tcm_class[size_class].size < TCM_CACHE_LINE)
        tcm_central_return(size_class, &ptr, 1);
    else
        tcm_transfer_insert(size_class, &ptr, 1);
}

/* ------------------------------------------------------------------------ */
/* Large blocks                                                             */

/* Pages for SIZE; 0 if it is more than the largest request. */
static size_t pages_of(size_t size) {
    if (size > TCM_MAX_REQUEST)
        return 0;
    if (size == 0)
        return 1;
    return (size + TCM_PAGE_SIZE - 1) >> TCM_PAGE_SHIFT;
}

/* Block of SPAN, which is new, or NULL. */
static void *new_large_block(struct tcm_span *span) {
    if (span == NULL)
        return NULL;
    span->sampled = false;
    return (void *)span->start;
}

void *tcm_large_alloc(size_t size, size_t align, bool *zeroed) {
    TCM_ASSERT(heap_ready && (align == 0 || tcm_is_pow2(align)));
    size_t pages = pages_of(size);
    size_t align_pages = align <= TCM_PAGE_SIZE ? 1 : align >> TCM_PAGE_SHIFT;
    if (pages == 0 || align_pages > ((size_t)1 << TCM_ADDRESS_BITS) / 2)
        return NULL;
    return new_large_block(
        tcm_page_heap_alloc(pages, align_pages, TCM_SPAN_LARGE, 1, zeroed));
}

void *tcm_large_alloc_untouched(size_t size) {
    size_t pages = pages_of(size);
    TCM_ASSERT(heap_ready && pages != 0);
    return new_large_block(tcm_page_heap_alloc_zeroed(pages));
}

void tcm_large_free(struct tcm_span *span) {
    TCM_ASSERT(span->state == TCM_SPAN_LARGE);
    if (tcm_object_words) {
        tcm_page_set_note(span->start, span->word);
        span->word = 0;
    }
    tcm_page_heap_free(span);
}

bool tcm_large_resize(struct tcm_span *span, size_t size) {
    TCM_ASSERT(span->state == TCM_SPAN_LARGE);
    size_t pages = pages_of(size);
    return pages != 0 && tcm_page_heap_resize(span, pages);
}

/* ------------------------------------------------------------------------ */
/* Kinds of addresses                                                       */

static struct tcm_block_info small_info(struct tcm_span *span, uintptr_t a) {
    unsigned size_class = span->size_class;
    const struct tcm_class_info *c = &tcm_class[size_class];
    struct tcm_block_info info = {TCM_BLOCK_SMALL, size_class, c->size, span};
    uint64_t offset = a - span->start;
    uint64_t slot = tcm_class_slot(c, offset);
    if (slot * c->size != offset)
        info.kind = TCM_BLOCK_INTERIOR;
    if (slot >= c->objects)
        info.kind = TCM_BLOCK_FOREIGN;
    return info;
}

struct tcm_block_info tcm_block_info(const void *ptr) {
    struct tcm_block_info none = {TCM_BLOCK_FOREIGN, 0, 0, NULL};
    uintptr_t a = (uintptr_t)ptr;
    struct tcm_span *span = tcm_page_span(ptr);
    if (span == NULL)
        span = tcm_page_heap_find(ptr);
    if (span == NULL || a < span->start || a >= tcm_span_end(span))
        return none;
    struct tcm_block_info info = {TCM_BLOCK_LARGE, 0, tcm_span_bytes(span),
                                  span};
    switch (span->state) {
    case TCM_SPAN_SMALL:
        return small_info(span, a);
    case TCM_SPAN_LARGE:
        if (a != span->start)
            info.kind = TCM_BLOCK_INTERIOR;
        return info;
    case TCM_SPAN_PRIVATE:
        info.size = tcm_arena_block_size(span, ptr);
        info.kind = info.size != 0 ? TCM_BLOCK_PRIVATE : TCM_BLOCK_INTERIOR;
        return info;
    default:
        return none;
    }
}

uintptr_t tcm_block_start(const struct tcm_block_info *info, const void *ptr) {
    TCM_ASSERT(info->kind == TCM_BLOCK_INTERIOR);
    uintptr_t start = info->span->start;
    if (info->size_class == 0)
        return start;
    const struct tcm_class_info *c = &tcm_class[info->size_class];
    return start + tcm_class_slot(c, (uintptr_t)ptr - start) * c->size;
}

/* ------------------------------------------------------------------------ */
/* Fork                                                                     */

/* Shards first: so the lists that are locked are the ones that are unlocked. */
void tcm_heap_lock(void) {
    tcm_thread_shards_lock();
    tcm_registry_lock_all();
    tcm_transfer_lock_all();
    tcm_central_lock_all();
    tcm_page_heap_lock_all();
}

void tcm_heap_unlock(void) {
    tcm_page_heap_unlock_all();
    tcm_central_unlock_all();
    tcm_transfer_unlock_all();
    tcm_registry_unlock_all();
    tcm_thread_shards_unlock();
}

void tcm_heap_fork_prepare(void) {
    tcm_heap_lock();
    tcm_arena_lock();
    tcm_meta_lock();
}

void tcm_heap_fork_parent(void) {
    tcm_meta_unlock();
    tcm_arena_unlock();
    tcm_heap_unlock();
}

/*
 * The child's only thread holds the locks as the parent's did, so it gives them
 * back in the same way. A run that another thread was returning to the system
 * becomes FREE: it may or may not read as zero. Caches of the parent's other
 * threads are abandoned with their objects, because they may have been in the
 * middle of a change; their budget becomes unclaimed.
 */
void tcm_heap_fork_child(const struct tcm_thread_cache *own) {
    tcm_meta_fork_child();
    tcm_meta_unlock();
    tcm_arena_unlock();
    tcm_page_heap_fork_child();
    tcm_registry_forget_others(own);
    tcm_heap_unlock();
}

/* ------------------------------------------------------------------------ */
/* Settings and figures                                                     */

size_t tcm_heap_release(size_t bytes) {
    size_t pages = bytes / TCM_PAGE_SIZE + (bytes % TCM_PAGE_SIZE != 0);
    tcm_transfer_flush();
    return tcm_page_heap_release(pages) << TCM_PAGE_SHIFT;
}

bool tcm_heap_gather(struct tcm_thread_cache *cache, size_t size) {
    struct tcm_page_figures now;
    tcm_page_heap_figures(&now);
    if (now.committed <= size >> TCM_PAGE_SHIFT)
        return false;
    if (cache != NULL)
        tcm_cache_flush(cache);
    tcm_transfer_flush();
    if (size > TCM_MAX_SMALL)
        (void)tcm_page_heap_release(SIZE_MAX);
    return true;
}

void tcm_heap_settings(struct tcm_heap_settings *out) {
    out->cache_budget_bytes = tcm_registry_budget();
    tcm_lock(&tcm_page_heap.lock);
    out->limit_bytes = tcm_page_heap.limit_pages << TCM_PAGE_SHIFT;
    out->release_rate_milli = tcm_page_heap.release_rate_milli;
    out->release_at_once = tcm_page_heap.release_at_once;
    tcm_unlock(&tcm_page_heap.lock);
}

void tcm_heap_set(enum tcm_heap_setting which, uint64_t value) {
    if (which == TCM_SET_CACHE_BUDGET) {
        tcm_registry_set_budget(value);
        return;
    }
    if (which == TCM_SET_LIMIT)
        tcm_page_heap_set_limit(value >> TCM_PAGE_SHIFT);
    else if (which == TCM_SET_RELEASE_RATE)
        tcm_page_heap_set_rate((uint32_t)value);
    else
        tcm_page_heap_set_at_once(value != 0);
}

void tcm_heap_configure(const struct tcm_heap_settings *settings) {
    tcm_heap_set(TCM_SET_CACHE_BUDGET, settings->cache_budget_bytes);
    tcm_heap_set(TCM_SET_LIMIT, settings->limit_bytes);
    tcm_heap_set(TCM_SET_RELEASE_RATE, settings->release_rate_milli);
    tcm_heap_set(TCM_SET_RELEASE_AT_ONCE, settings->release_at_once);
}

void tcm_heap_figures(struct tcm_heap_figures *out) {
    struct tcm_registry_totals caches;
    tcm_registry_totals(&caches);
    *out = (struct tcm_heap_figures){
        .cached_bytes = caches.cached_bytes,
        .caches = caches.caches,
        .metadata_bytes = tcm_meta_mapped_bytes(),
    };
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        uint64_t size = tcm_class[size_class].size;
        struct tcm_central_figures central;
        tcm_central_figures(size_class, &central);
        out->central_bytes += central.free_objects * size;
        out->transfer_bytes += tcm_transfer_objects(size_class) * size;
        out->slack_bytes +=
            central.spans *
            ((uint64_t)tcm_class[size_class].pages * TCM_PAGE_SIZE -
             tcm_class[size_class].objects * size);
    }
    struct tcm_page_figures pages;
    tcm_page_heap_figures(&pages);
    out->heap_bytes = (pages.committed - pages.released) << TCM_PAGE_SHIFT;
    out->free_pages_bytes = (pages.free + pages.busy) << TCM_PAGE_SHIFT;
    out->released_bytes = pages.released << TCM_PAGE_SHIFT;
    out->large_bytes = pages.large << TCM_PAGE_SHIFT;
    out->large_blocks = pages.large_blocks;
    uint64_t idle = out->free_pages_bytes + out->central_bytes +
                    out->transfer_bytes + out->cached_bytes + out->slack_bytes;
    out->in_use_bytes = out->heap_bytes > idle ? out->heap_bytes - idle : 0;
}

/* Sums the counters. Most of them are part of the structure whose owner or lock
   protects them, so that counting needs no locked instruction. */
void tcm_stats_read(struct tcm_stats *out) {
#define X(name) out->name = tcm_load_relaxed(&tcm_stats.name);
    TCM_STATS(X)
#undef X
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        struct tcm_central_figures central;
        tcm_central_figures(size_class, &central);
        out->central_fetches += central.fetches;
        out->central_returns += central.returns;
        out->transfer_cache_hits += tcm_transfer_hits(size_class);
    }
    uint32_t shards = tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = 0; i < shards; i++) {
        out->spans_made += tcm_load_relaxed(&tcm_page_shard[i]->spans_made);
        out->spans_freed += tcm_load_relaxed(&tcm_page_shard[i]->spans_freed);
        out->system_bytes_taken +=
            tcm_load_relaxed(&tcm_page_shard[i]->taken_bytes);
    }
    struct tcm_registry_totals caches;
    tcm_registry_totals(&caches);
    out->thread_cache_misses += caches.misses;
    out->thread_cache_overflows += caches.overflows;
}

bool tcm_heap_is_stuck(uint64_t ns) {
    return tcm_registry_is_stuck(ns) || tcm_page_heap_is_stuck(ns);
}
