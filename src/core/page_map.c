/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaves are made without a lock: of two threads that make the same one, the
 * first to store it wins. A leaf takes 4 MiB of address space for 2 GiB of
 * addresses; memory is behind the entries that were touched.
 */
#include "core/page_map.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"

struct tcm_page_leaf *tcm_page_root[TCM_ROOT_SIZE];

bool tcm_page_map_cover(const void *start, size_t length) {
    TCM_ASSERT(length != 0 && (uintptr_t)start <= UINTPTR_MAX - (length - 1));
    uintptr_t first = (uintptr_t)start >> TCM_ROOT_SHIFT;
    uintptr_t last = ((uintptr_t)start + length - 1) >> TCM_ROOT_SHIFT;
    if (last >= TCM_ROOT_SIZE)
        return false;
    for (uintptr_t i = first; i <= last; i++) {
        if (tcm_load_acquire(&tcm_page_root[i]) != NULL)
            continue;
        struct tcm_page_leaf *leaf = tcm_os_map(sizeof(*leaf));
        if (leaf == NULL)
            return false;
        /* Usually a few entries are used. A huge page behind them would be
           larger than the whole heap of a small program. */
        tcm_os_no_huge_pages(leaf, sizeof(*leaf));
        struct tcm_page_leaf *expected = NULL;
        /* Publishes a leaf of zeroes; pairs with the loads of the readers. */
        if (!tcm_cas_acq_rel(&tcm_page_root[i], &expected, leaf))
            tcm_os_unmap(leaf, sizeof(*leaf));
    }
    return true;
}

/* --- The class map -------------------------------------------------------- */

/* Step in which the class map becomes writable and is charged as memory; one
   serves 512 MiB of heap. */
#define CLASS_MAP_STEP ((size_t)64 << 10)
#define WORD_MAP_BYTES (TCM_CLASS_MAP_PAGES * sizeof(uint64_t))

uintptr_t tcm_class_map_base = TCM_NO_BASE;

/* A bit for each step that is writable; growth lock. */
static uint64_t class_map_writable[TCM_CLASS_MAP_BYTES / CLASS_MAP_STEP / 64];

uint64_t *tcm_word_map;

/* Maps zeros to be read, at AT or anywhere (NULL). NULL: that is impossible. */
static void *map_zeros(void *at, size_t bytes) {
    void *map = tcm_os_reserve(bytes, TCM_GROW_STEP, at);
    if (map == NULL)
        return NULL;
    if ((at != NULL && map != at) || !tcm_os_commit_read_only(map, bytes)) {
        tcm_os_unmap(map, bytes);
        return NULL;
    }
    tcm_os_no_huge_pages(map, bytes);
    return map;
}

static bool class_map_cover_step(size_t step) {
    size_t page = step * CLASS_MAP_STEP;
    if ((class_map_writable[step / 64] >> (step % 64) & 1) != 0)
        return true;
    if (!tcm_os_commit((void *)(tcm_class_map_base + page), CLASS_MAP_STEP) ||
        (tcm_object_words && !tcm_os_commit(tcm_word_map + page,
                                            CLASS_MAP_STEP * sizeof(uint64_t))))
        return false;
    class_map_writable[step / 64] |= (uint64_t)1 << (step % 64);
    return true;
}

bool tcm_class_map_init(uintptr_t base) {
    TCM_ASSERT(base % TCM_GROW_STEP == 0);
    void *map = map_zeros((void *)base, TCM_CLASS_MAP_BYTES);
    if (map == NULL)
        return false;
    if (tcm_object_words &&
        (tcm_word_map = map_zeros(NULL, WORD_MAP_BYTES)) == NULL) {
        tcm_os_unmap(map, TCM_CLASS_MAP_BYTES);
        return false;
    }
    __builtin_memset(class_map_writable, 0, sizeof(class_map_writable));
    tcm_class_map_base = base;
    return true;
}

bool tcm_class_map_cover(uintptr_t start, size_t length) {
    uintptr_t base = tcm_class_map_base;
    size_t first = tcm_class_map_page(base, (void *)start);
    if (first >= TCM_CLASS_MAP_PAGES)
        return true;
    /* A range of the kernel's choice may begin in this one. */
    size_t end =
        tcm_min_u64(first + (length >> TCM_PAGE_SHIFT), TCM_CLASS_MAP_PAGES);
    TCM_ASSERT(first >= TCM_CLASS_MAP_BYTES / TCM_PAGE_SIZE);
    for (size_t step = first / CLASS_MAP_STEP; step * CLASS_MAP_STEP < end;
         step++)
        if (!class_map_cover_step(step))
            return false;
    return true;
}

void tcm_page_map_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                       void *ctx) {
    for (size_t i = 0; i < TCM_ROOT_SIZE; i++) {
        const struct tcm_page_leaf *leaf = tcm_load_acquire(&tcm_page_root[i]);
        if (leaf != NULL)
            visit(ctx, (uintptr_t)leaf, sizeof(*leaf));
    }
    if (tcm_class_map_base != TCM_NO_BASE)
        visit(ctx, tcm_class_map_base, TCM_CLASS_MAP_BYTES);
    if (tcm_word_map != NULL)
        visit(ctx, (uintptr_t)tcm_word_map, WORD_MAP_BYTES);
}
