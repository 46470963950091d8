/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier finds each contradiction that is planted, by the check that is
 * meant for it. Each is planted in a child, so that the heap here stays whole.
 */
#include "core/central_list.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#include <sys/resource.h>

#define HEAP (&tcm_page_heap)

static struct tcm_thread_cache *cache;
static unsigned class_64, class_odd;
static void *held;             /* an object of 64 bytes, in use */
static struct tcm_span *small; /* its span */
static struct tcm_span *odd;   /* a span whose objects are no multiple of 64 */
static struct tcm_span *large; /* of 5 pages */

/* --- Page heap ---------------------------------------------------------- */

static void free_pages(void) {
    HEAP->free_pages++;
}
static void released_pages(void) {
    HEAP->released_pages--;
}
static void large_pages(void) {
    HEAP->large_pages++;
}
static void large_blocks(void) {
    HEAP->large_blocks--;
}

static struct tcm_span *a_run(void) {
    tcm_lock(&HEAP->lock);
    struct tcm_span *run = tcm_run_set_before(&HEAP->free, NULL);
    if (run == NULL)
        run = tcm_run_set_before(&HEAP->released, NULL);
    tcm_unlock(&HEAP->lock);
    return run;
}

static void run_in_no_tree(void) {
    struct tcm_span *run = a_run();
    struct tcm_run_set *set =
        run->state == TCM_SPAN_FREE ? &HEAP->free : &HEAP->released;
    tcm_run_tree_remove(&set->tree[tcm_run_tree_index(run->pages)], run);
}

static void run_without_bit(void) {
    memset(HEAP->free.nonempty, 0, sizeof(HEAP->free.nonempty));
    memset(HEAP->released.nonempty, 0, sizeof(HEAP->released.nonempty));
}

static void run_with_class(void) {
    a_run()->size_class = 1;
}

static void runs_not_merged(void) {
    struct tcm_span *run = a_run();
    tcm_lock(&HEAP->lock);
    struct tcm_span *upper = tcm_span_new(&tcm_page_heap.records, 1);
    tcm_run_remove(run);
    upper->range = run->range;
    upper->state = run->state;
    upper->start = run->start + TCM_PAGE_SIZE;
    upper->pages = run->pages - 1;
    run->pages = 1;
    tcm_run_insert(run);
    tcm_run_map_ends(upper, upper);
    tcm_unlock(&HEAP->lock);
}

static void unknown_state(void) {
    large->state = TCM_SPAN_NONE;
}
static void no_pages(void) {
    large->pages = 0;
}
static void wrong_range(void) {
    large->range++;
}
static void too_long(void) {
    large->pages += (size_t)1 << 30;
}

/* --- Page map ----------------------------------------------------------- */

static void map_without_start(void) {
    tcm_page_map_set_span(large->start, NULL);
}
static void map_without_end(void) {
    tcm_page_map_set_span(tcm_span_end(large) - TCM_PAGE_SIZE, NULL);
}
static void map_with_middle(void) {
    tcm_page_map_set_span(large->start + TCM_PAGE_SIZE, large);
}
static void map_of_another(void) {
    tcm_page_map_set_span(tcm_span_end(large) - TCM_PAGE_SIZE, small);
}
static void entry_of_large(void) {
    tcm_page_map_set_entry(large->start, 8);
}
static void entry_of_class(void) {
    tcm_page_map_set_entry(small->start,
                           (uint64_t)class_odd << TCM_ENTRY_SHIFT);
}

/* --- Spans of objects --------------------------------------------------- */

static void free_count(void) {
    small->free_count++;
}
static unsigned lowest_free(void) {
    unsigned w = 0;
    while (small->free_bits[w] == 0)
        w++;
    return w * 64 + (unsigned)__builtin_ctzll(small->free_bits[w]);
}
static void bit_flipped(void) {
    unsigned slot = lowest_free();
    small->free_bits[slot / 64] ^= (uint64_t)1 << (slot % 64);
}
static void bit_moved(void) {
    /* Moves a bit from a free object to a cached one. */
    void *cached = tcm_cache_peek(cache, class_64)->ptr;
    size_t slot = ((uintptr_t)cached - small->start) / tcm_class[class_64].size;
    bit_flipped();
    small->free_bits[slot / 64] |= (uint64_t)1 << (slot % 64);
    small->first_word = 0;
}
static void list_of_another_class(void) {
    tcm_dlist_remove(&small->link);
    tcm_dlist_push_front(&tcm_central[0][class_odd].spans[small->bucket],
                         &small->link);
}
static void first_word(void) {
    odd->free_bits[0] = 1;
    odd->first_word = odd->bit_words;
}
static void bit_beyond(void) {
    /* In place of another object, so that their number stays right. */
    unsigned w = 0;
    while (odd->free_bits[w] == 0)
        w++;
    odd->free_bits[w] &= odd->free_bits[w] - 1;
    odd->free_bits[odd->bit_words - 1] |= (uint64_t)1 << 63;
}
static void objects(void) {
    small->objects--;
}
static void central_spans(void) {
    tcm_central[0][class_64].span_count++;
}
static void central_objects(void) {
    tcm_central[0][class_64].free_objects--;
}
static void bucket(void) {
    small->bucket ^= 1;
}
static void not_listed(void) {
    tcm_dlist_remove(&small->link);
}

/* --- Parked objects ----------------------------------------------------- */

static void transfer_count(void) {
    tcm_transfer[0][class_64].count = tcm_transfer[0][class_64].capacity + 1;
}
static void transfer_holds_free(void) {
    /* The lowest free object of the span is in the central list. */
    size_t offset = lowest_free() * (size_t)tcm_class[class_64].size;
    void *at[1] = {(char *)small->start + offset};
    tcm_transfer_insert(class_64, at, 1);
}
static void transfer_holds_cached(void) {
    void *at[1] = {tcm_cache_peek(cache, class_64)->ptr};
    tcm_transfer_insert(class_64, at, 1);
}
static void cached_twice(void) {
    cache->cold[class_64].base[1].ptr = cache->cold[class_64].base[0].ptr;
}
static void cached_inside(void) {
    struct tcm_entry *e = &cache->cold[class_64].base[0];
    e->ptr = (char *)e->ptr + 8;
}
static void cached_of_other_class(void) {
    cache->cold[class_64].base[0].ptr = (void *)odd->start;
}
static void guard(void) {
    cache->cold[class_64].base[-1].ptr = held;
}
static void bin_end(void) {
    cache->bin[class_64].end--;
}
static void bin_top(void) {
    cache->bin[class_64].top = cache->cold[class_64].base - 1;
}
static void bin_region(void) {
    cache->cold[class_64].region = cache->cold[class_64].capacity - 1;
}
static void capacity_bytes(void) {
    cache->capacity_bytes++;
}
static void bin_zero(void) {
    cache->bin[0].end++;
}
static void word_of_another(void) {
    struct tcm_entry *base = cache->cold[class_64].base;
    base[0].word = base[1].word;
}

/* TEXT is the condition of the check that must fail. */
static const struct plant {
    const char *what;
    void (*make)(void);
    const char *text;
} plants[] = {
    {"free pages miscounted", free_pages, "sum->free =="},
    {"released pages miscounted", released_pages, "sum->released =="},
    {"pages of large blocks miscounted", large_pages, "sum->large =="},
    {"large blocks miscounted", large_blocks, "sum->large_blocks =="},
    {"a run in no tree", run_in_no_tree, "tcm_run_tree_holds"},
    {"a tree without its bit", run_without_bit, "nonempty"},
    {"a run with a class", run_with_class, "run->size_class == 0"},
    {"neighbours not merged", runs_not_merged, "span->state != last"},
    {"a span of unknown state", unknown_state, "TCM_SPAN_BUSY"},
    {"a span without pages", no_pages, "span->pages != 0"},
    {"a span of another range", wrong_range, "span->range == i"},
    {"a span beyond its range", too_long, "tcm_range_frontier"},
    {"a first page not in the map", map_without_start, "span != NULL"},
    {"a last page not in the map", map_without_end, "tcm_page_span"},
    {"an inner page in the map", map_with_middle, "tcm_page_span"},
    {"a page that is another's", map_of_another, "tcm_page_span"},
    {"an entry for a large block", entry_of_large, "entry == 0"},
    {"an entry of another class", entry_of_class, "TCM_ENTRY_SHIFT"},
    {"free objects miscounted", free_count, "free_count == bits_set"},
    {"a bit of a span flipped", bit_flipped, "free_count == bits_set"},
    {"a bit of a span moved", bit_moved, "direction == PARK_UNMARK"},
    {"a span in another class's list", list_of_another_class,
     "span->size_class =="},
    {"a bit below the first word", first_word, "span->first_word"},
    {"a bit beyond the last object", bit_beyond, "objects % 64"},
    {"a span of fewer objects", objects, "info->objects"},
    {"spans of a class miscounted", central_spans, "span_count"},
    {"objects of a class miscounted", central_objects, "free_objects"},
    {"a span in the wrong bucket", bucket, "span->bucket == b"},
    {"a span in no list", not_listed, "central->free_objects"},
    {"a transfer cache overfull", transfer_count, "transfer->capacity"},
    {"an object there and free", transfer_holds_free,
     "direction == PARK_UNMARK"},
    {"an object there and cached", transfer_holds_cached,
     "direction == PARK_UNMARK"},
    {"an object cached twice", cached_twice, "direction == PARK_UNMARK"},
    {"the inside of an object", cached_inside, "TCM_BLOCK_SMALL"},
    {"an object of another class", cached_of_other_class, "info.size_class"},
    {"a bin without guard", guard, "base[-1]"},
    {"a bin's end", bin_end, "bin->end == "},
    {"a bin's top", bin_top, "bin->top >= "},
    {"a bin longer than its memory", bin_region, "cold->region"},
    {"capacities miscounted", capacity_bytes, "capacity_bytes"},
    {"a bin of no class", bin_zero, "cache->bin[0]"},
    {"a word of another object", word_of_another, "tcm_object_word"},
};

static void plant_and_walk(void *argument) {
    const struct plant *plant = argument;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (plant != NULL)
        plant->make();
    tcm_heap_verify();
}

static void set_up(void) {
    bool zeroed;
    class_64 = tcm_size_class(64);
    for (class_odd = 1; tcm_class[class_odd].objects % 64 == 0 ||
                        class_odd == class_64 ||
                        tcm_class[class_odd].objects < 3;)
        class_odd++;
    cache = tcm_cache_new();
    tcm_cache_want_words(cache, true);
    static void *block[100];
    for (unsigned i = 0; i < 100; i++)
        block[i] = test_alloc(cache, 64);
    held = block[0];
    for (unsigned i = 100; i-- != 1;)
        test_free(cache, block[i]);
    small = tcm_page_span(held);
    odd = tcm_page_span(tcm_heap_alloc_one(class_odd));
    large = tcm_page_span(tcm_large_alloc(5 * TCM_PAGE_SIZE, 16, &zeroed));
    void *end = tcm_large_alloc(100 * TCM_PAGE_SIZE, 16, &zeroed);
    tcm_large_free(tcm_page_span(end));
}

/* Shows that the heap is whole without a plant. */
static void check_ground(void) {
    struct tcm_entry *base = cache->cold[class_64].base;
    tap_ok(cache->bin[class_64].top - base >= 2 && base[0].word != NULL &&
               base[0].word != base[1].word,
           "a bin with objects and words");
    tap_ok(small->state == TCM_SPAN_SMALL && small->free_count != 0 &&
               odd->state == TCM_SPAN_SMALL && odd->free_count != 0 &&
               large->state == TCM_SPAN_LARGE && large->pages == 5,
           "spans of objects, some of them free, and a large one");
    tap_ok(HEAP->released_pages != 0 && a_run()->pages > 1,
           "free pages of either kind");
}

int main(void) {
    if (!tcm_heap_init())
        tap_bail("no heap");
    set_up();
    check_ground();
    tcm_heap_verify();
    tcm_heap_verify();
    tap_ok(true, "a whole heap is found whole, and left as it was");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(plants); i++) {
        struct plant plant = plants[i];
        tap_ok(test_dies_with(plant_and_walk, &plant, plant.text), "%s",
               plant.what);
    }
    tcm_heap_verify();
    tap_ok(true, "the heap of the parent is still whole");
    return tap_done();
}
