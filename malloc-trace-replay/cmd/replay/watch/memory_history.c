/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/memory_history.h"

#include "base/bits.h"
#include "base/check.h"

/* Bits of `state`. */
enum {
    PAGE_NOW = 1,    /* resident at this look */
    PAGE_BEFORE = 2, /* at the look before */
    PAGE_ONCE = 4    /* at any look before */
};

static uint64_t leaves(const struct memory_history *h) {
    return ((uint64_t)1 << (MEMORY_ADDRESS_BITS - h->page_shift)) /
           MEMORY_LEAF_PAGES;
}

size_t memory_history_directory_bytes(const struct memory_history *h) {
    return (size_t)leaves(h) * sizeof(struct memory_leaf *);
}

struct memory_leaf *memory_history_leaf(const struct memory_history *h,
                                        uint64_t page) {
    uint64_t at = page / MEMORY_LEAF_PAGES;
    return at < leaves(h) ? h->leaf[at] : NULL;
}

/* Returns the leaf of PAGE, which is made if it is missing. NULL: out of
   memory, or PAGE is out of range. */
static struct memory_leaf *make_leaf(struct memory_history *h, uint64_t page) {
    struct memory_leaf *l = memory_history_leaf(h, page);
    if (TCM_LIKELY(l != NULL) || page / MEMORY_LEAF_PAGES >= leaves(h))
        return l;
    l = h->take(h->ctx, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->next = h->first;
    h->first = h->leaf[page / MEMORY_LEAF_PAGES] = l;
    h->bytes += sizeof(*l);
    return l;
}

void memory_history_block(struct memory_history *h, uintptr_t address,
                          uint64_t size, uint32_t now) {
    uint64_t page = address >> h->page_shift;
    uint64_t last = (address + (size == 0 ? 0 : size - 1)) >> h->page_shift;
    TCM_ASSERT(now != 0);
    while (page <= last) {
        struct memory_leaf *l = make_leaf(h, page);
        size_t from = memory_history_place(page);
        size_t n =
            (size_t)tcm_min_u64(last - page + 1, MEMORY_LEAF_PAGES - from);
        for (size_t i = 0; l != NULL && i < n; i++)
            l->seen[from + i] = now;
        page += n;
    }
}

void memory_history_resident(struct memory_history *h, uint64_t page,
                             uint64_t count) {
    while (count != 0) {
        struct memory_leaf *l = memory_history_leaf(h, page);
        size_t from = memory_history_place(page);
        size_t n = (size_t)tcm_min_u64(count, MEMORY_LEAF_PAGES - from);
        for (size_t i = 0; l != NULL && i < n; i++)
            l->state[from + i] |= PAGE_NOW;
        page += n;
        count -= n;
    }
}

void memory_history_turn(struct memory_history *h, uint64_t *back,
                         uint64_t *again) {
    uint64_t gone = 0, come = 0;
    for (struct memory_leaf *l = h->first; l != NULL; l = l->next)
        for (size_t i = 0; i < MEMORY_LEAF_PAGES; i++) {
            uint8_t s = l->state[i];
            gone += (s & (PAGE_BEFORE | PAGE_NOW)) == PAGE_BEFORE;
            come += (s & (PAGE_ONCE | PAGE_BEFORE | PAGE_NOW)) ==
                    (PAGE_ONCE | PAGE_NOW);
            l->state[i] = (s & PAGE_NOW) != 0 ? PAGE_BEFORE | PAGE_ONCE
                                              : (uint8_t)(s & PAGE_ONCE);
        }
    *back = gone;
    *again = come;
}
