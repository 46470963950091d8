/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory table, compared with a count of the test's own: its blocks, page
 * by page, with what mincore tells; and with the heap's figures.
 */
#include "core/heap_memory.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"
#include "core/central_list.h"
#include "core/heap_census.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#include <sys/mman.h>

#define BLOCKS 20000u

struct block {
    char *start;
    size_t size; /* usable */
};
static struct block block[BLOCKS];
static struct prng random_numbers;

static void take(struct tcm_thread_cache *cache, struct block *b, size_t size) {
    b->start = test_alloc(cache, size);
    if (b->start == NULL)
        tap_bail("out of memory");
    b->size = tcm_block_info(b->start).size;
}

static void give(struct tcm_thread_cache *cache, struct block *b) {
    if (b->start != NULL)
        test_free(cache, b->start);
    b->start = NULL;
}

/* The test's own count of the heap. */
struct truth {
    uint64_t live, partly, other; /* resident pages */
    uint64_t usable;
    uint64_t absent; /* bytes of blocks */
    uint64_t committed;
};

/* Adds the pages of a range, whose blocks have LIVE[i] bytes of page i. */
static void count_pages(const struct tcm_range *range, const uint32_t *live,
                        struct truth *t) {
    size_t page = tcm_os_page_size(), pages = range->committed / page;
    unsigned char *resident = malloc(pages);
    if (mincore((void *)range->start, range->committed, resident) != 0)
        tap_bail("mincore");
    t->committed += range->committed;
    for (size_t i = 0; i < pages; i++) {
        bool is_resident = resident[i] & 1;
        t->live += is_resident && live[i] == page;
        t->partly += is_resident && live[i] != 0 && live[i] != page;
        t->other += is_resident && live[i] == 0;
        *(is_resident ? &t->usable : &t->absent) += live[i];
    }
    free(resident);
}

static struct truth count(void) {
    size_t page = tcm_os_page_size();
    struct truth t = {0};
    for (uint32_t r = 0; r < tcm_ranges.count; r++) {
        const struct tcm_range *range = &tcm_ranges.range[r];
        uint32_t *live = calloc(range->committed / page + 1, sizeof(*live));
        for (unsigned i = 0; i < BLOCKS; i++) {
            uintptr_t at = (uintptr_t)block[i].start - range->start;
            uintptr_t end = at + block[i].size;
            if (block[i].start == NULL || at >= range->committed)
                continue;
            for (; at < end; at = tcm_align_down(at, page) + page)
                live[at / page] +=
                    (uint32_t)tcm_min_u64(end - at, page - at % page);
        }
        if (range->committed != 0)
            count_pages(range, live, &t);
        free(live);
    }
    return t;
}

static uint64_t heap_bytes(const struct tcm_memory *m) {
    return m->usable_bytes + m->free_bytes + m->empty_bytes + m->reserve_bytes +
           m->absent_bytes + m->absent_free_bytes + m->returned_bytes;
}

static bool class_is_counted(const struct tcm_memory *m, unsigned size_class,
                             uint64_t cached) {
    const struct tcm_memory_class *got = &m->by_class[size_class];
    struct tcm_class_figures want;
    tcm_census_class(size_class, cached, &want);
    return got->size == want.size && got->spans == want.spans &&
           got->blocks == want.in_use && got->thread_cache == cached &&
           got->transfer_cache == want.transfer &&
           got->central_list == want.central;
}

/* Compares the table with the blocks that there are. */
static void test_table(const char *when) {
    struct tcm_memory *m = tcm_memory_new();
    struct truth t = count();
    struct tcm_heap_figures f;
    uint64_t cached[TCM_MAX_CLASSES];
    if (m == NULL)
        tap_bail("no table");
    uint64_t page = m->page_bytes;
    tcm_heap_figures(&f);
    tap_is_u64(m->live_pages, t.live, "%s: live pages", when);
    tap_is_u64(m->partly_pages, t.partly, "%s: partly live pages", when);
    tap_is_u64(m->empty_pages + m->reserve_bytes / page, t.other,
               "%s: pages of no block", when);
    tap_is_u64(m->usable_bytes, t.usable, "%s: resident bytes of blocks", when);
    tap_is_u64(m->absent_bytes, t.absent, "%s: other bytes of blocks", when);
    tap_is_u64(heap_bytes(m), t.committed, "%s: the parts are the heap", when);
    tap_is_u64(m->usable_bytes + m->free_bytes,
               (m->live_pages + m->partly_pages) * page,
               "%s: the bytes of pages with blocks", when);
    /* A larger page of the system may have both kinds of free pages. */
    if (page <= TCM_PAGE_SIZE)
        tap_is_u64(m->returned_bytes + m->reserve_bytes, f.released_bytes,
                   "%s: pages without memory, as the page heap counts", when);
    tap_is_u64(m->usable_bytes + m->free_bytes + m->empty_bytes +
                   m->never_bytes,
               m->resident_bytes, "%s: resident", when);
    tcm_census_cached(cached);
    bool good = true;
    uint64_t usable = m->by_class[0].usable_bytes;
    for (unsigned i = 1; i < tcm_class_count; i++) {
        good &= class_is_counted(m, i, cached[i]);
        usable += m->by_class[i].usable_bytes;
    }
    tap_ok(good, "%s: each class has its spans, blocks and free objects", when);
    tap_is_u64(usable, m->usable_bytes, "%s: the classes are the heap", when);
    tap_ok(m->by_class[0].blocks == f.large_blocks &&
               m->by_class[0].spans == f.large_blocks,
           "%s: large blocks", when);
    tcm_memory_delete(m);
}

/* Writes to about half of the blocks, and to a part of each. */
static void touch(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (block[i].start != NULL && prng_below(&random_numbers, 2))
            memset(block[i].start, 1,
                   1 + prng_below(&random_numbers, block[i].size));
    }
}

static size_t random_size(void) {
    unsigned bits = (unsigned)prng_below(&random_numbers, 15);
    size_t size = (size_t)1 << bits;
    if (prng_below(&random_numbers, 300) == 0)
        return prng_below(&random_numbers, (size_t)1 << 21);
    return size + prng_below(&random_numbers, size);
}

static void test_random(struct tcm_thread_cache *cache,
                        struct tcm_thread_cache *other) {
    test_table("an empty heap");
    for (unsigned i = 0; i < BLOCKS; i++)
        take(cache, &block[i], random_size());
    touch();
    test_table("full");
    for (unsigned i = 0; i < BLOCKS; i++)
        if (prng_below(&random_numbers, 3) != 0)
            give(i % 2 ? cache : other, &block[i]);
    test_table("freed at random");
    tcm_cache_flush(other);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        if (block[i].start == NULL)
            take(cache, &block[i], random_size());
    touch();
    test_table("used again");
    (void)tcm_heap_release(SIZE_MAX);
    test_table("free pages given back");
}

/* Frees and allocates between two steps of the walk. The walk must pass over
   each byte of the heap once, whatever becomes of the spans. */
static struct tcm_thread_cache *changing;
static unsigned steps;

static void change(const char *label) {
    if (strcmp(label, "memory_step") != 0)
        return;
    steps++;
    for (unsigned n = 0; n < 3000; n++) {
        struct block *b = &block[prng_below(&random_numbers, BLOCKS)];
        if (b->start != NULL)
            give(changing, b);
        else
            take(changing, b, random_size());
    }
}

static uint64_t committed_bytes(void) {
    struct tcm_page_figures f;
    tcm_page_heap_figures(&f);
    return f.committed << TCM_PAGE_SHIFT;
}

static void test_changes(struct tcm_thread_cache *cache) {
    bool sums = true, parts = true;
    changing = cache;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t committed = committed_bytes();
        tcm_testpoint_hook = change;
        struct tcm_memory *m = tcm_memory_new();
        tcm_testpoint_hook = NULL;
        if (m == NULL)
            tap_bail("no table");
        sums &= heap_bytes(m) == committed;
        parts &= m->usable_bytes + m->free_bytes ==
                 (m->live_pages + m->partly_pages) * m->page_bytes;
        tcm_memory_delete(m);
    }
    tap_ok(steps >= 40, "the heap changes during the walk (%u times)", steps);
    tap_ok(sums, "each byte is counted once all the same");
    tap_ok(parts, "and each page is of one kind");
    tcm_heap_verify();
    test_table("afterwards");
}

/*
 * A step of the walk that begins inside a span. In an empty heap 512 blocks of
 * a page each follow each other. The walk takes as many as a step has; then
 * those from number 100 on are freed, and other blocks come in their place.
 */
#define PAGES      512u
#define STEP_SPANS 256u /* as in heap_memory.c */
#define KEPT       100u

static struct tcm_span *single[PAGES];
static void (*replace)(void); /* called once */
static struct tcm_thread_cache *replacing;

static struct tcm_span *take_pages(size_t pages) {
    bool zeroed;
    void *p = tcm_large_alloc(pages << TCM_PAGE_SHIFT, 0, &zeroed);
    if (p == NULL)
        tap_bail("out of memory");
    memset(p, 1, pages << TCM_PAGE_SHIFT);
    return tcm_page_span(p);
}

static void replace_once(const char *label) {
    if (strcmp(label, "memory_step") != 0 || replace == NULL)
        return;
    for (unsigned i = KEPT; i < PAGES; i++)
        tcm_large_free(single[i]);
    replace();
    replace = NULL;
}

/* Makes the table while the blocks are replaced by what WITH allocates, and
   returns its bytes in blocks. The step ends at *AT. */
static uint64_t usable_while_replaced(void (*with)(void), uintptr_t *at) {
    for (unsigned i = 0; i < PAGES; i++)
        single[i] = take_pages(1);
    *at = single[0]->start + (STEP_SPANS << TCM_PAGE_SHIFT);
    if (single[STEP_SPANS]->start != *at)
        tap_bail("the blocks do not follow each other");
    replace = with;
    tcm_testpoint_hook = replace_once;
    struct tcm_memory *m = tcm_memory_new();
    tcm_testpoint_hook = NULL;
    if (m == NULL || replace != NULL)
        tap_bail("no table, or no step");
    uint64_t usable = m->usable_bytes;
    tcm_memory_delete(m);
    for (unsigned i = 0; i < KEPT; i++)
        tcm_large_free(single[i]);
    return usable;
}

static struct tcm_span *larger;

static void take_larger(void) {
    larger = take_pages(PAGES - KEPT - 50);
}

static unsigned odd_size; /* of a class whose spans the end of a step cuts */

static void take_objects(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        take(replacing, &block[i], odd_size);
        memset(block[i].start, 1, block[i].size);
        if ((uintptr_t)block[i].start > single[0]->start + (400u << 13))
            break;
    }
    /* Objects that a cache got after the walk had begun count as blocks. */
    tcm_cache_flush(replacing);
    tcm_transfer_flush();
}

static void test_cut_spans(struct tcm_thread_cache *cache) {
    uintptr_t at;
    uint64_t usable = usable_while_replaced(take_larger, &at);
    tap_ok(larger->start < at && tcm_span_end(larger) > at,
           "a step ends inside a large block");
    tap_is_u64(usable,
               (STEP_SPANS << TCM_PAGE_SHIFT) + (tcm_span_end(larger) - at),
               "the rest of the block is counted");
    tcm_large_free(larger);
    for (unsigned i = 1; i < tcm_class_count && odd_size == 0; i++)
        if ((STEP_SPANS - KEPT) % tcm_class[i].pages > 1)
            odd_size = tcm_class[i].size;
    replacing = cache;
    usable = usable_while_replaced(take_objects, &at);
    uint64_t want = STEP_SPANS << TCM_PAGE_SHIFT;
    for (unsigned i = 0; i < BLOCKS; i++) {
        uintptr_t start = (uintptr_t)block[i].start;
        uintptr_t end = start + block[i].size;
        want += end > at ? end - tcm_max_u64(start, at) : 0;
    }
    struct tcm_span *span = tcm_page_span((void *)at);
    tap_ok(span != NULL && span->state == TCM_SPAN_SMALL && span->start < at,
           "a step ends inside a span of objects of %u bytes", odd_size);
    tap_is_u64(usable, want, "the rest of its objects are counted");
    for (unsigned i = 0; i < BLOCKS; i++)
        give(cache, &block[i]);
    tcm_cache_flush(cache);
    tcm_transfer_flush();
}

static const char *refused;
static bool refuse(const char *call) {
    return strcmp(call, refused) == 0;
}

static void test_refusals(void) {
    static const char *const vital[] = {"mmap", "mincore"};
    tcm_testpoint_refuse = refuse;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(vital); i++) {
        refused = vital[i];
        struct tcm_memory *m = tcm_memory_new();
        tap_ok(m == NULL, "no table without %s", refused);
        tcm_memory_delete(m);
    }
    refused = "pagemap";
    struct tcm_memory *m = tcm_memory_new();
    tap_ok(m != NULL && m->huge_known == 0,
           "without the map of pages huge pages are not known");
    tcm_memory_delete(m);
    test_table("without the map of pages");
    tcm_testpoint_refuse = NULL;
}

/* Records have at least the bytes that the test makes them have. */
static void test_records(void) {
    struct tcm_memory *before = tcm_memory_new();
    size_t bytes = (size_t)3 << 20;
    for (size_t done = 0; done < bytes; done += 4096)
        memset(tcm_meta_alloc(4096), 1, 4096);
    char *private = tcm_arena_alloc((size_t)1 << 20, 0);
    memset(private, 1, (size_t)1 << 20);
    struct tcm_memory *now = tcm_memory_new();
    if (before == NULL || now == NULL)
        tap_bail("no table");
    uint64_t more = now->record_bytes - before->record_bytes;
    tap_ok(more >= bytes && more < bytes + ((size_t)1 << 20),
           "records (%llu bytes more)", (unsigned long long)more);
    more = now->arena_bytes - before->arena_bytes;
    tap_ok(more >= (size_t)1 << 20 && more < (size_t)3 << 19,
           "the private arena (%llu bytes more)", (unsigned long long)more);
    tap_ok(now->map_bytes >= before->map_bytes && before->map_bytes != 0,
           "the page map");
    tcm_arena_free(private);
    tcm_memory_delete(before);
    tcm_memory_delete(now);
}

int main(void) {
    tcm_heap_init();
    struct tcm_memory *m = tcm_memory_new();
    if (m == NULL)
        return tap_skip_all(
            "the system does not tell which pages are resident");
    tcm_memory_delete(m);
    prng_seed(&random_numbers, 29);
    struct tcm_thread_cache *cache = tcm_cache_new();
    struct tcm_thread_cache *other = tcm_cache_new();
    test_cut_spans(cache);
    test_random(cache, other);
    test_changes(cache);
    test_refusals();
    test_records();
    return tap_done();
}
