/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaves are made without a lock: of two threads that make the same one, the
 * first to store it wins. A leaf takes 8 MiB of address space for 4 GiB of
 * addresses; memory is behind the entries that were touched.
 */
#include "core/page_map.h"
#include "base/check.h"
#include "base/linux/os_mem.h"

struct tcm_page_leaf *tcm_page_root[TCM_ROOT_SIZE];

/* Addresses that were reserved for leaves: a program that lowers its own
   RLIMIT_AS gets no new mapping for them. */
static struct tcm_page_leaf *placed;
static uintptr_t placed_first;
static size_t placed_count;

void tcm_page_map_place(const void *start, void *place, size_t count) {
    TCM_ASSERT((uintptr_t)start % ((uintptr_t)1 << TCM_ROOT_SHIFT) == 0);
    placed = place;
    placed_first = (uintptr_t)start >> TCM_ROOT_SHIFT;
    placed_count = count;
}

/* Memory for leaf I. Two threads may get the same for one of those placed. */
static struct tcm_page_leaf *leaf_memory(uintptr_t i) {
    struct tcm_page_leaf *leaf = placed + (i - placed_first);
    if (i - placed_first >= placed_count)
        return tcm_os_map(sizeof(*leaf));
    return tcm_os_commit(leaf, sizeof(*leaf)) ? leaf : NULL;
}

bool tcm_page_map_cover(const void *start, size_t length) {
    TCM_ASSERT(length != 0 && (uintptr_t)start <= UINTPTR_MAX - (length - 1));
    uintptr_t first = (uintptr_t)start >> TCM_ROOT_SHIFT;
    uintptr_t last = ((uintptr_t)start + length - 1) >> TCM_ROOT_SHIFT;
    if (last >= TCM_ROOT_SIZE)
        return false;
    for (uintptr_t i = first; i <= last; i++) {
        if (tcm_load_acquire(&tcm_page_root[i]) != NULL)
            continue;
        struct tcm_page_leaf *leaf = leaf_memory(i);
        if (leaf == NULL)
            return false;
        /* Mostly a few entries are used; a huge page behind them would be
           larger than the whole heap of a small program. */
        tcm_os_no_huge_pages(leaf, sizeof(*leaf));
        struct tcm_page_leaf *expected = NULL;
        /* Publishes a leaf of zeroes; pairs with the loads of the readers. */
        if (!tcm_cas_acq_rel(&tcm_page_root[i], &expected, leaf) &&
            expected != leaf)
            tcm_os_unmap(leaf, sizeof(*leaf));
    }
    return true;
}
