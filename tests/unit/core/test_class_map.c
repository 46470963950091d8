/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The class map against the page map: the same classes, for pages of its range
 * only, and no other address counts as a page of it.
 */
#include "core/page_map.h"
#include "core_test.h"

static uint8_t byte_of(uintptr_t a) {
    return tcm_class_map_get(tcm_class_map_base,
                             tcm_class_map_page(tcm_class_map_base, (void *)a));
}

static bool is_inside(uintptr_t base, uintptr_t a) {
    return tcm_class_map_page(base, (void *)a) < TCM_CLASS_MAP_PAGES;
}

static void test_outside(void) {
    static int here;
    uintptr_t base = tcm_class_map_base;
    tap_ok(!is_inside(base, 0) && !is_inside(base, 8) &&
               !is_inside(base, base - 1) &&
               !is_inside(base, base + TCM_CLASS_MAP_RANGE) &&
               !is_inside(base, (uintptr_t)&here) &&
               !is_inside(base, UINTPTR_MAX) &&
               !is_inside(base, 0xdeadbeefdeadbeefu),
           "addresses elsewhere are outside");
    tap_ok(is_inside(base, base) &&
               is_inside(base, base + TCM_CLASS_MAP_RANGE - 1),
           "both ends of the range are inside");
    bool none = true;
    for (uintptr_t a = 1; a != 0; a *= 2) {
        none &= !is_inside(TCM_NO_BASE, a) && !is_inside(TCM_NO_BASE, a - 1) &&
                !is_inside(TCM_NO_BASE, -a) && !is_inside(TCM_NO_BASE, ~a);
    }
    tap_ok(none, "without a map everything is");
}

static void test_own_pages(void) {
    bool zero = true;
    for (uintptr_t a = tcm_class_map_base;
         a < tcm_class_map_base + TCM_CLASS_MAP_BYTES; a += TCM_PAGE_SIZE)
        zero &= byte_of(a) == 0;
    tap_ok(zero, "the map's own pages are of no class");
    tap_is_u64(byte_of(tcm_class_map_base + TCM_CLASS_MAP_RANGE - 1), 0,
               "nor are pages that the heap has not reached");
    uintptr_t last =
        tcm_class_map_base + TCM_CLASS_MAP_RANGE - 2 * TCM_GROW_STEP;
    tap_ok(tcm_class_map_cover(last, 8 * TCM_GROW_STEP),
           "a range of the heap may go beyond the map");
}

/* Blocks of every class, and large ones, are allocated and freed. */
static void test_agrees(void) {
    enum { BLOCKS = 3000 };
    static void *block[BLOCKS];
    struct tcm_thread_cache *cache = tcm_cache_new();
    struct prng random;
    bool same = true, large = true;
    prng_seed(&random, 3);
    for (unsigned step = 0; step < 20 * BLOCKS; step++) {
        unsigned i = (unsigned)prng_below(&random, BLOCKS);
        if (block[i] != NULL)
            test_free(cache, block[i]);
        size_t size = (size_t)1 << prng_below(&random, 20);
        size += prng_below(&random, size);
        block[i] = test_alloc(cache, size);
        if (block[i] == NULL)
            tap_bail("no memory");
        uintptr_t a = (uintptr_t)block[i];
        unsigned size_class =
            (unsigned)(tcm_page_entry(block[i]) >> TCM_ENTRY_SHIFT);
        same &= byte_of(a) == tcm_class_scale(size_class) &&
                byte_of(a) / TCM_CLASS_SCALE == size_class;
        if (size > TCM_MAX_SMALL)
            large &= byte_of(a) == 0 && byte_of(a + size - 1) == 0;
    }
    tap_ok(same, "a block's byte is its class, scaled");
    tap_ok(large, "pages of large blocks are of no class");
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (block[i] != NULL)
            test_free(cache, block[i]);
    }
    tcm_heap_verify();
    tcm_cache_destroy(cache);
}

int main(void) {
    tcm_heap_init();
    if (tcm_class_map_base == TCM_NO_BASE)
        tap_skip("no address space for a class map");
    else {
        test_outside();
        test_own_pages();
        test_agrees();
    }
    return tap_done();
}
