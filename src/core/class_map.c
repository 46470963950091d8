/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/class_map.h"
#include "base/bits.h"
#include "base/os_mem.h"

/* The map becomes writable, and is charged as memory where that is counted, in
   such pieces; one serves 512 MiB of heap. */
#define STEP ((size_t)64 << 10)

uintptr_t tcm_class_map_base = TCM_NO_BASE;

static size_t writable; /* bytes from the start; page heap lock */

bool tcm_class_map_init(uintptr_t base) {
    if (!tcm_os_commit_read_only((void *)base, TCM_CLASS_MAP_BYTES))
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
    if (end <= writable)
        return true;
    end = tcm_align_up(end, STEP);
    if (!tcm_os_commit((void *)(base + writable), end - writable))
        return false;
    writable = end;
    return true;
}
