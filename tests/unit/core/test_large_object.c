/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/bits.h"
#include "core/page_heap.h"
#include "core_test.h"

static bool filled(const unsigned char *p, size_t n, unsigned char value) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != value)
            return false;
    }
    return true;
}

static void test_sizes(void) {
    static const size_t sizes[] = {0,      1,      8192,    8193,
                                   262145, 999999, 4 << 20, (9 << 20) + 1};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(sizes); i++) {
        bool zeroed;
        unsigned char *p = tcm_large_alloc(sizes[i], 16, &zeroed);
        struct tcm_block_info info = tcm_block_info(p);
        tap_ok(info.kind == TCM_BLOCK_LARGE && info.size >= sizes[i] &&
                   info.size >= 1 && info.size < sizes[i] + 2 * TCM_PAGE_SIZE,
               "a large block of %zu bytes has %zu", sizes[i], info.size);
        memset(p, 0xee, info.size);
        tcm_large_free(info.span);
    }
}

static void test_alignment(void) {
    bool aligned = true;
    void *block[20];
    unsigned n = 0;
    for (size_t align = 16; align <= (size_t)64 << 20; align *= 4) {
        bool zeroed;
        block[n] = tcm_large_alloc(100, align, &zeroed);
        aligned &= block[n] != NULL && (uintptr_t)block[n] % align == 0;
        n++;
    }
    tap_ok(aligned, "blocks are aligned up to 64 MiB");
    tcm_heap_verify();
    while (n != 0)
        tcm_large_free(tcm_page_span(block[--n]));
    tcm_heap_verify();
}

static void test_impossible(void) {
    bool zeroed;
    tap_ok(tcm_large_alloc(SIZE_MAX, 16, &zeroed) == NULL, "SIZE_MAX");
    tap_ok(tcm_large_alloc(TCM_MAX_REQUEST, 16, &zeroed) == NULL, "half of it");
    tap_ok(tcm_large_alloc(TCM_MAX_REQUEST, (size_t)1 << 62, &zeroed) == NULL,
           "with a huge alignment");
    tap_ok(tcm_large_alloc(1, (size_t)1 << 63, &zeroed) == NULL,
           "the hugest alignment");
    tap_ok(tcm_large_alloc((size_t)1 << 47, 16, &zeroed) == NULL, "2^47");
    void *p = tcm_large_alloc(1 << 20, 16, &zeroed);
    tap_ok(p != NULL, "after which a megabyte can be had");
    tap_ok(!tcm_large_resize(tcm_page_span(p), SIZE_MAX) &&
               !tcm_large_resize(tcm_page_span(p), (size_t)1 << 50),
           "but not resized to nonsense");
    tap_is_u64(tcm_block_info(p).size, 1 << 20, "its size stays");
    tcm_large_free(tcm_page_span(p));
}

static void test_zeroed(void) {
    bool zeroed;
    tcm_heap_release(SIZE_MAX);
    unsigned char *p = tcm_large_alloc(3 << 20, 16, &zeroed);
    tap_ok(zeroed && filled(p, 3 << 20, 0), "fresh memory is zero, and known");
    memset(p, 0xff, 3 << 20);
    tcm_large_free(tcm_page_span(p));
    unsigned char *q = tcm_large_alloc(3 << 20, 16, &zeroed);
    tap_ok(q == p && !zeroed, "used memory is not known to be zero");
    tcm_large_free(tcm_page_span(q));
    tcm_heap_release(SIZE_MAX);
    q = tcm_large_alloc(3 << 20, 16, &zeroed);
    tap_ok(zeroed && filled(q, 3 << 20, 0), "given back, it is zero again");
    tcm_large_free(tcm_page_span(q));
}

static void test_resize(void) {
    bool zeroed;
    unsigned char *p = tcm_large_alloc(1 << 20, 16, &zeroed);
    unsigned char *q = tcm_large_alloc(1 << 20, 16, &zeroed);
    struct tcm_span *span = tcm_page_span(p);
    memset(p, 1, 1 << 20);
    memset(q, 2, 1 << 20);
    tap_ok(!tcm_large_resize(span, 2 << 20), "no growth over a neighbour");
    tap_ok(tcm_large_resize(span, 300000), "shrinking");
    tap_is_u64(tcm_block_info(p).size, tcm_align_up(300000, TCM_PAGE_SIZE),
               "to whole pages");
    tap_ok(tcm_block_info(p + 400000).kind == TCM_BLOCK_FOREIGN,
           "the tail is no block's any more");
    tap_ok(tcm_large_resize(span, 1 << 20), "growing back");
    tap_ok(filled(p, 300000, 1) && filled(q, 1 << 20, 2),
           "contents stay, the neighbour's too");
    tcm_large_free(tcm_page_span(q));
    tap_ok(tcm_large_resize(span, 5 << 20), "growing over a freed neighbour");
    memset(p, 3, 5 << 20);
    tap_ok(tcm_block_info(p + (4 << 20)).kind == TCM_BLOCK_INTERIOR,
           "an address inside is inside");
    tcm_heap_verify();
    tcm_large_free(span);
    tcm_heap_verify();
}

static void test_word(void) {
    bool zeroed;
    void *p = tcm_large_alloc(1 << 20, 16, &zeroed);
    uint64_t *word = tcm_object_word(p, false);
    tap_ok(word != NULL && *word == 0, "a large block's word is 0 at first");
    *word = 77;
    tcm_large_resize(tcm_page_span(p), 2 << 20);
    tap_is_u64(*tcm_object_word(p, true), 77, "and stays");
    tcm_large_free(tcm_page_span(p));
    p = tcm_large_alloc(1 << 20, 16, &zeroed);
    tap_is_u64(*tcm_object_word(p, false), 0, "a new block's is 0 again");
    tcm_large_free(tcm_page_span(p));
}

int main(void) {
    tcm_heap_init();
    test_sizes();
    test_alignment();
    test_zeroed();
    test_resize();
    test_word();
    test_impossible();
    return tap_done();
}
