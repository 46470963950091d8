/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator does not make two threads write to one cache line: neither when
 * they begin, nor when they free blocks of a third thread in turn. Caches stand
 * for threads; no second thread is needed.
 */
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/transfer_cache.h"
#include "core_test.h"

enum { MOST = 256 };

static uintptr_t line_of(const void *p) {
    return (uintptr_t)p / TCM_CACHE_LINE;
}

static unsigned shared_lines(void *const *a, unsigned n, void *const *b,
                             unsigned m, size_t size) {
    unsigned shared = 0;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < m; k++) {
            uintptr_t a0 = line_of(a[i]), b0 = line_of(b[k]);
            uintptr_t a1 = line_of((char *)a[i] + size - 1);
            uintptr_t b1 = line_of((char *)b[k] + size - 1);
            shared += a0 <= b1 && b0 <= a1;
        }
    }
    return shared;
}

static void take(struct tcm_thread_cache *cache, void **p, unsigned n,
                 size_t size) {
    for (unsigned i = 0; i < n; i++) {
        p[i] = test_alloc(cache, size);
        if (p[i] == NULL)
            tap_bail("no memory");
    }
}

static void give(struct tcm_thread_cache *cache, void **p, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        test_free(cache, p[i]);
}

/* Allocates MANY blocks of SIZE for each of two threads, in turn, by a third.
 */
static void test_handed(size_t size, unsigned many) {
    static void *all[2 * MOST], *hand[2][MOST], *own[2][MOST];
    struct tcm_thread_cache *maker = tcm_cache_new();
    struct tcm_thread_cache *thread[2] = {tcm_cache_new(), tcm_cache_new()};
    tcm_transfer_flush(); /* objects of earlier checks may share lines */
    take(maker, all, 2 * many, size);
    for (unsigned i = 0; i < 2 * many; i++)
        hand[i % 2][i / 2] = all[i];
    /* One thread frees and begins while the other still has its blocks. */
    give(thread[0], hand[0], many);
    take(thread[0], own[0], many, size);
    unsigned with_held = shared_lines(own[0], many, hand[1], many, size);
    give(thread[1], hand[1], many);
    take(thread[1], own[1], many, size);
    unsigned with_each_other = shared_lines(own[0], many, own[1], many, size);
    tap_ok(with_held == 0, "%u of %zu bytes: none beside what is still held",
           many, size);
    tap_ok(with_each_other == 0, "nor beside the other's new ones");
    give(thread[0], own[0], many);
    give(thread[1], own[1], many);
    tcm_heap_verify();
    tcm_cache_destroy(thread[0]);
    tcm_cache_destroy(thread[1]);
    tcm_cache_destroy(maker);
}

/* A thread that only frees keeps blocks in its cache after a few refusals. */
static void test_consumer(void) {
    static void *block[MOST];
    struct tcm_thread_cache *maker = tcm_cache_new();
    struct tcm_thread_cache *consumer = tcm_cache_new();
    unsigned size_class = tcm_size_class(32);
    take(maker, block, MOST, 32);
    give(consumer, block, 64);
    tap_is_u64(tcm_cache_objects(consumer, size_class), 0,
               "the first blocks of another thread are passed on");
    give(consumer, block + 64, MOST - 64);
    tap_ok(tcm_cache_objects(consumer, size_class) != 0,
           "a thread that goes on freeing keeps them");
    struct tcm_thread_cache *other = tcm_cache_new();
    void *mine = test_alloc(other, 32);
    take(maker, block, 10, 32);
    uint64_t before = tcm_cache_objects(other, size_class);
    give(other, block, 1);
    tap_is_u64(tcm_cache_objects(other, size_class), before + 1,
               "one that has allocated keeps the first at once");
    give(maker, block + 1, 9);
    test_free(other, mine);
    tcm_heap_verify();
    tcm_cache_destroy(other);
    tcm_cache_destroy(consumer);
    tcm_cache_destroy(maker);
}

/* The rest of shared lines is used in the end, so that nothing is lost. */
static void test_all_is_used(void) {
    enum { BLOCKS = 4096 };
    static void *block[BLOCKS];
    struct tcm_thread_cache *a = tcm_cache_new(), *b = tcm_cache_new();
    take(a, block, BLOCKS, 16);
    uint64_t spans = tcm_central[0][tcm_size_class(16)].span_count;
    for (unsigned i = 0; i < BLOCKS; i += 2)
        test_free(a, block[i]);
    tcm_cache_flush(a);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        block[i] = test_alloc(b, 16);
    tap_ok(tcm_central[0][tcm_size_class(16)].span_count <= spans + 1,
           "every other slot free: no new span is made");
    for (unsigned i = 0; i < BLOCKS; i++)
        test_free(b, block[i]);
    tcm_heap_verify();
    tcm_cache_destroy(a);
    tcm_cache_destroy(b);
}

int main(void) {
    tcm_heap_init();
    static const size_t sizes[] = {8, 16, 32, 48};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(sizes); i++) {
        test_handed(sizes[i], 1);
        test_handed(sizes[i], 8);
        test_handed(sizes[i], 24);
    }
    test_consumer();
    test_all_is_used();
    return tap_done();
}
