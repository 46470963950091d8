/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large blocks: each a span of the page heap.
 */
#include "base/bits.h"
#include "core/heap.h"
#include "core/page_heap.h"

/* Pages for SIZE; 0 if it is more than the largest request. */
static size_t pages_of(size_t size) {
    if (size > TCM_MAX_REQUEST)
        return 0;
    if (size == 0)
        return 1;
    return (size + TCM_PAGE_SIZE - 1) >> TCM_PAGE_SHIFT;
}

void *tcm_large_alloc(size_t size, size_t align, bool *zeroed) {
    size_t pages = pages_of(size);
    size_t align_pages = align <= TCM_PAGE_SIZE ? 1 : align >> TCM_PAGE_SHIFT;
    if (pages == 0 || align_pages > ((size_t)1 << TCM_ADDRESS_BITS) / 2)
        return NULL;
    struct tcm_span *span =
        tcm_page_heap_alloc(pages, align_pages, TCM_SPAN_LARGE, 1, zeroed);
    return span == NULL ? NULL : (void *)span->start;
}

void tcm_large_free(struct tcm_span *span) {
    tcm_page_heap_free(span);
}

bool tcm_large_resize(struct tcm_span *span, size_t size) {
    size_t pages = pages_of(size);
    return pages != 0 && tcm_page_heap_resize(span, pages);
}
