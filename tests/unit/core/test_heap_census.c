/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts by class and by block, compared with the blocks that the test has.
 */
#include "core/heap_census.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#define BLOCKS 1000u

static void *held[BLOCKS];

static void test_classes(struct tcm_thread_cache *cache) {
    unsigned size_class = tcm_size_class(100);
    uint64_t cached[TCM_MAX_CLASSES];
    struct tcm_class_figures c;
    for (unsigned i = 0; i < BLOCKS; i++)
        held[i] = test_alloc(cache, 100);
    tcm_census_cached(cached);
    tcm_census_class(size_class, cached[size_class], &c);
    tap_is_u64(c.size, tcm_class[size_class].size, "size of a class");
    tap_is_u64(c.in_use, BLOCKS, "its objects in use");
    tap_is_u64(c.in_use + c.central + c.transfer + c.cached, c.slots,
               "with the free ones that is all");
    for (unsigned i = 0; i < BLOCKS; i += 2)
        test_free(cache, held[i]);
    tcm_census_cached(cached);
    tcm_census_class(size_class, cached[size_class], &c);
    tap_is_u64(c.in_use, BLOCKS / 2, "half of them");
    tap_ok(cached[size_class] > 0 &&
               tcm_census_cache_bytes(cache) == cached[size_class] * c.size,
           "bytes in the one cache there is");
    for (unsigned i = 1; i < BLOCKS; i += 2)
        test_free(cache, held[i]);
    tcm_cache_flush(cache);
    tap_is_u64(tcm_census_cache_bytes(cache), 0, "none when it is empty");
}

static void add_word(void *ctx, uintptr_t start, size_t bytes, uint64_t word) {
    uint64_t *sum = ctx;
    if (word != 0)
        *sum += bytes + word;
    if (bytes > TCM_MAX_SMALL)
        tap_ok(tcm_census_is_block((void *)start), "a large block is one");
}

static void test_blocks(struct tcm_thread_cache *cache) {
    struct tcm_census before, now;
    bool zeroed;
    tcm_census_blocks(&before);
    tap_is_u64(before.blocks, 0, "no block to begin with");
    void *small = test_alloc(cache, 1);
    void *middle = test_alloc(cache, 1024);
    void *large = tcm_large_alloc((size_t)1 << 20, 1, &zeroed);
    void *larger = tcm_large_alloc((size_t)3 << 20, 1, &zeroed);
    tcm_census_blocks(&now);
    tap_is_u64(now.blocks, 4, "four blocks");
    tap_is_u64(now.bytes, 8 + 1024 + (4 << 20), "their bytes");
    tap_is_u64(now.histogram[4], 1, "8 has four bits");
    tap_is_u64(now.histogram[11], 1, "1,024 has eleven");
    tap_is_u64(now.histogram[21], 1, "1 MiB has 21");
    tap_is_u64(now.histogram[22], 1, "3 MiB has 22");
    tap_ok(tcm_census_is_block(small) && tcm_census_is_block(middle) &&
               tcm_census_is_block(large) && tcm_census_is_block(larger),
           "each is a block");
    tap_ok(!tcm_census_is_block((char *)small + 4) &&
               !tcm_census_is_block((char *)large + 8192) &&
               !tcm_census_is_block(&now) && !tcm_census_is_block(NULL),
           "an address inside, on the stack, or NULL is none");
    uint64_t sum = 0;
    struct tcm_span *span = tcm_page_span(larger);
    TCM_CHECK(span != NULL);
    span->word = 7;
    *tcm_object_word(middle, true) = 5;
    tcm_census_words(1023, add_word, &sum);
    tap_is_u64(sum, (3 << 20) + 1024 + 12, "words of objects and large blocks");
    sum = 0;
    tcm_census_words(1024, add_word, &sum);
    tap_is_u64(sum, (3 << 20) + 7, "of blocks above a size");
    span->word = 0;
    struct tcm_run_figures free, released;
    tcm_census_runs(&free, &released);
    uint64_t runs = free.runs;
    tcm_large_free(tcm_page_span(large));
    tcm_census_runs(&free, &released);
    tap_ok(free.runs == runs + 1 && free.longest_pages >= 128,
           "a freed one is a free run");
    tap_ok(!tcm_census_is_block(large), "and no block any more");
    tcm_large_free(tcm_page_span(larger));
    test_free(cache, small);
    test_free(cache, middle);
    tcm_cache_flush(cache);
    tcm_transfer_flush();
    tcm_census_blocks(&now);
    tap_is_u64(now.blocks, 0, "no block at the end");
    tap_ok(!tcm_census_is_block(small), "a free object is no block");
}

static void test_verify(struct tcm_thread_cache *cache) {
    for (unsigned i = 0; i < BLOCKS; i++)
        held[i] = test_alloc(cache, i);
    tcm_heap_verify_running(cache);
    tcm_heap_verify_running(TCM_NO_CACHE);
    tcm_heap_verify();
    for (unsigned i = 0; i < BLOCKS; i++)
        test_free(cache, held[i]);
    tcm_heap_verify_running(cache);
    tap_ok(true, "the heap is found whole with its locks held");
}

int main(void) {
    tcm_heap_init();
    struct tcm_thread_cache *cache = tcm_cache_new();
    test_classes(cache);
    test_blocks(cache);
    test_verify(cache);
    tcm_cache_destroy(cache);
    return tap_done();
}
