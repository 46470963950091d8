/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier compares everything that core keeps twice: ranges with the page
 * map and the sets of runs, central lists with the spans' bitmaps, and every
 * object in a transfer cache or thread cache with its span. Such a parked
 * object is marked in its span's bitmap during the walk, so that an object that
 * is parked twice, or is in the central list too, is found.
 */
#include "base/check.h"
#include "core/arena.h"
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/heap.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"

struct page_sums {
    struct tcm_page_figures shard[TCM_PAGE_SHARDS];
    uint64_t spans[TCM_PAGE_SHARDS][TCM_MAX_CLASSES];
    uint64_t objects[TCM_PAGE_SHARDS][TCM_MAX_CLASSES];
};

static void verify_run(const struct tcm_span *run) {
    size_t i = tcm_run_tree_index(run->pages);
    const struct tcm_page_heap *heap = tcm_page_shard_of(run);
    const struct tcm_run_set *set =
        run->state == TCM_SPAN_FREE ? &heap->free : &heap->released;
    TCM_CHECK(tcm_run_tree_holds(&set->tree[i], run));
    TCM_CHECK((set->nonempty[i / 64] >> (i % 64) & 1) != 0);
    TCM_CHECK(run->size_class == 0);
}

static unsigned bits_set(const struct tcm_span *span) {
    unsigned n = 0;
    for (unsigned w = 0; w < span->bit_words; w++) {
        TCM_CHECK(w >= span->first_word || span->free_bits[w] == 0);
        n += (unsigned)__builtin_popcountll(span->free_bits[w]);
    }
    return n;
}

static void verify_small(const struct tcm_span *span) {
    const struct tcm_class_info *info = &tcm_class[span->size_class];
    TCM_CHECK(span->size_class != 0 && span->size_class < tcm_class_count);
    TCM_CHECK(span->pages == info->pages && span->objects == info->objects);
    TCM_CHECK(span->free_count == bits_set(span));
    TCM_CHECK(span->free_count < span->objects);
    if (span->objects % 64 != 0)
        TCM_CHECK(
            span->free_bits[span->bit_words - 1] >> (span->objects % 64) == 0);
}

/* Checks the pages of SPAN in the page map and the class map. */
static void verify_map(struct tcm_span *span) {
    bool small = span->state == TCM_SPAN_SMALL;
    for (size_t page = 0; page < span->pages; page++) {
        void *a = (void *)(span->start + (page << TCM_PAGE_SHIFT));
        bool end = page == 0 || page + 1 == span->pages;
        TCM_CHECK(tcm_page_span(a) == (small || end ? span : NULL));
        uint64_t entry = tcm_page_entry(a);
        TCM_CHECK(entry >> TCM_ENTRY_SHIFT == (small ? span->size_class : 0));
        size_t index = tcm_class_map_page(tcm_class_map_base, a);
        if (index < TCM_CLASS_MAP_PAGES)
            TCM_CHECK(tcm_class_map_get(tcm_class_map_base, index) ==
                      tcm_class_scale(small ? span->size_class : 0));
    }
}

static void verify_span(struct tcm_span *span, struct page_sums *sums) {
    /* The thread of the cache may be writing the map. */
    if (span->state != TCM_SPAN_MOVING)
        verify_map(span);
    struct tcm_page_figures *shard = &sums->shard[tcm_span_range(span)->shard];
    switch (span->state) {
    case TCM_SPAN_FREE:
        shard->free += span->pages;
        verify_run(span);
        break;
    case TCM_SPAN_SPARE:
        shard->free += span->pages;
        TCM_CHECK(span->size_class == 0);
        break;
    case TCM_SPAN_RELEASED:
        shard->released += span->pages;
        verify_run(span);
        break;
    case TCM_SPAN_LARGE:
        shard->large += span->pages;
        shard->large_blocks++;
        break;
    case TCM_SPAN_SMALL:
        verify_small(span);
        TCM_CHECK(span->home < tcm_class_parts(span->size_class));
        sums->spans[span->home][span->size_class]++;
        sums->objects[span->home][span->size_class] += span->free_count;
        break;
    default:
        TCM_CHECK(span->state == TCM_SPAN_BUSY ||
                  span->state == TCM_SPAN_MOVING);
    }
}

static void verify_ranges(struct page_sums *sums) {
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        unsigned last = TCM_SPAN_NONE;
        uintptr_t at = range->start;
        while (at < tcm_range_frontier(range)) {
            struct tcm_span *span = tcm_page_span((void *)at);
            TCM_CHECK(span != NULL && span->start == at);
            TCM_CHECK(span->pages != 0 && span->range == i);
            TCM_CHECK(tcm_span_end(span) <= tcm_range_frontier(range));
            TCM_CHECK(span->state != last ||
                      (last != TCM_SPAN_FREE && last != TCM_SPAN_RELEASED));
            verify_span(span, sums);
            last = span->state;
            at = tcm_span_end(span);
        }
    }
}

static void verify_list(uint32_t shard, unsigned size_class,
                        const struct page_sums *sums) {
    struct tcm_central *central = &tcm_central[shard][size_class];
    uint64_t objects = 0;
    for (unsigned b = 0; b < TCM_CENTRAL_BUCKETS; b++) {
        struct tcm_dlist *head = &central->spans[b];
        if (head->next == NULL)
            break; /* the class was never used */
        for (struct tcm_dlist *at = head->next; at != head; at = at->next) {
            const struct tcm_span *span =
                TCM_CONTAINER_OF(at, struct tcm_span, link);
            TCM_CHECK(span->state == TCM_SPAN_SMALL &&
                      span->size_class == size_class && span->home == shard);
            TCM_CHECK(span->bucket == b && span->free_count != 0);
            objects += span->free_count;
        }
    }
    TCM_CHECK(central->span_count == sums->spans[shard][size_class]);
    TCM_CHECK(central->free_objects == objects);
    TCM_CHECK(sums->objects[shard][size_class] == objects);
}

static void verify_central(const struct page_sums *sums) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            verify_list(i, size_class, sums);
}

/* ------------------------------------------------------------------------ */
/* Parked objects                                                           */

enum parking { PARK_MARK, PARK_UNMARK };

static void mark_parked(unsigned size_class, const void *object,
                        enum parking direction) {
    TCM_CHECK(tcm_page_span(object) != NULL);
    struct tcm_block_info info = tcm_block_info(object);
    TCM_CHECK(info.kind == TCM_BLOCK_SMALL && info.size_class == size_class);
    uint64_t slot = tcm_class_slot(&tcm_class[size_class],
                                   (uintptr_t)object - info.span->start);
    uint64_t bit = (uint64_t)1 << (slot % 64);
    uint64_t *word = &info.span->free_bits[slot / 64];
    TCM_CHECK(((*word & bit) != 0) == (direction == PARK_UNMARK));
    *word ^= bit;
}

static void park_one(const struct tcm_transfer *transfer, unsigned size_class,
                     enum parking direction) {
    TCM_CHECK(transfer->count <= transfer->capacity);
    for (uint32_t i = 0; i < transfer->count; i++)
        mark_parked(size_class, transfer->object[i], direction);
}

static void park_transfer(enum parking direction) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            park_one(&tcm_transfer[i][size_class], size_class, direction);
    }
}

static void verify_word(struct tcm_entry *entry) {
    const uint64_t *word = *tcm_bin_word(entry);
    TCM_CHECK(word == &tcm_no_word ||
              word == tcm_object_word(entry->ptr, false));
}

static void park_cache(struct tcm_thread_cache *cache, void *argument) {
    enum parking direction = *(enum parking *)argument;
    uint64_t bytes = 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        const struct tcm_bin_cold *cold = &cache->cold[size_class];
        const struct tcm_bin *bin = &cache->bin[size_class];
        TCM_CHECK(cold->base[-1].ptr == NULL);
        TCM_CHECK(bin->end == cold->base + cold->capacity);
        TCM_CHECK(bin->top >= cold->base && bin->top <= bin->end);
        TCM_CHECK(cold->capacity <= cold->region);
        bytes += (uint64_t)cold->capacity * tcm_class[size_class].size;
        for (struct tcm_entry *e = cold->base; e != bin->top; e++) {
            mark_parked(size_class, e->ptr, direction);
            if (tcm_object_words && cache->want_words)
                verify_word(e);
        }
    }
    TCM_CHECK(bytes == cache->capacity_bytes);
    TCM_CHECK(cache->bin[0].top == cache->bin[0].end);
}

static struct page_sums sums; /* used under the page heap's locks */

static void verify_set(const struct tcm_run_set *set) {
    for (size_t i = 0; i < TCM_SHORT_PAGES; i++)
        TCM_CHECK(tcm_run_tree_is_valid(&set->tree[i]));
}

/* Checks everything but the objects. */
static void verify_pages(void) {
    __builtin_memset(&sums, 0, sizeof(sums));
    tcm_lock_assert_held(&tcm_growth.lock);
    verify_ranges(&sums);
    for (uint32_t i = 0; i < tcm_page_shards; i++) {
        const struct tcm_page_heap *heap = tcm_page_shard[i];
        const struct tcm_page_figures *sum = &sums.shard[i];
        TCM_CHECK(heap->shard == i);
        verify_set(&heap->free);
        verify_set(&heap->released);
        TCM_CHECK(sum->free == heap->free_pages + heap->spare_pages);
        TCM_CHECK(sum->released == heap->released_pages);
        TCM_CHECK(sum->large == heap->large_pages);
        TCM_CHECK(sum->large_blocks == heap->large_blocks);
    }
}

void tcm_heap_verify(void) {
    tcm_page_heap_lock_all();
    verify_pages();
    tcm_page_heap_unlock_all();
    verify_central(&sums);
    tcm_arena_verify();
    enum parking direction = PARK_MARK;
    park_transfer(direction);
    tcm_registry_each(park_cache, &direction);
    direction = PARK_UNMARK;
    tcm_registry_each(park_cache, &direction);
    park_transfer(direction);
}

void tcm_heap_verify_running(struct tcm_thread_cache *cache) {
    tcm_arena_verify();
    tcm_heap_lock();
    verify_pages();
    verify_central(&sums);
    enum parking direction = PARK_MARK;
    park_transfer(direction);
    if (cache != TCM_NO_CACHE)
        park_cache(cache, &direction);
    direction = PARK_UNMARK;
    if (cache != TCM_NO_CACHE)
        park_cache(cache, &direction);
    park_transfer(direction);
    tcm_heap_unlock();
}
