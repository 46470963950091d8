/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/class_map.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"

/* The map becomes writable, and is charged as memory, in steps of this; one
   serves 512 MiB of heap. */
#define STEP ((size_t)64 << 10)

uintptr_t tcm_class_map_base = TCM_NO_BASE;

static size_t writable; /* bytes from the start; growth lock */

uint64_t *tcm_word_map;

static bool word_map_init(void) {
    if (!tcm_object_words)
        return true;
    size_t bytes = TCM_CLASS_MAP_PAGES * sizeof(uint64_t);
    void *map = tcm_os_reserve(bytes, tcm_os_page_size(), NULL);
    if (map == NULL)
        return false;
    if (!tcm_os_commit_read_only(map, bytes)) {
        tcm_os_unmap(map, bytes);
        return false;
    }
    tcm_os_no_huge_pages(map, bytes);
    tcm_word_map = map;
    return true;
}

static bool word_map_cover(size_t page, size_t end) {
    return !tcm_object_words ||
           tcm_os_commit(tcm_word_map + page, (end - page) * sizeof(uint64_t));
}

bool tcm_class_map_init(uintptr_t base) {
    TCM_ASSERT(base % TCM_GROW_STEP == 0);
    if (!tcm_os_commit_read_only((void *)base, TCM_CLASS_MAP_BYTES) ||
        !word_map_init())
        return false;
    tcm_os_no_huge_pages((void *)base, TCM_CLASS_MAP_BYTES);
    writable = 0;
    tcm_class_map_base = base;
    return true;
}

bool tcm_class_map_cover(uintptr_t start, size_t length) {
    uintptr_t base = tcm_class_map_base;
    size_t first = tcm_class_map_page(base, (void *)start);
    if (first >= TCM_CLASS_MAP_PAGES)
        return true;
    size_t end = first + (length >> TCM_PAGE_SHIFT);
    TCM_ASSERT(first >= TCM_CLASS_MAP_BYTES / TCM_PAGE_SIZE);
    TCM_ASSERT(end <= TCM_CLASS_MAP_PAGES && writable % STEP == 0);
    if (end <= writable)
        return true;
    end = tcm_align_up(end, STEP);
    if (!tcm_os_commit((void *)(base + writable), end - writable) ||
        !word_map_cover(writable, end))
        return false;
    writable = end;
    return true;
}
