/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/sort_heap.h"

#include "base/check.h"
#include "common/collections.h"

static bool before(const struct heap_item *x, const struct heap_item *y) {
    return x->key != y->key ? x->key < y->key : x->thread->id < y->thread->id;
}

static void place(struct heap *h, size_t i, struct heap_item item) {
    h->a[i] = item;
    item.thread->heap_at[h->which] = i;
}

static void sift_up(struct heap *h, size_t i, struct heap_item item) {
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!before(&item, &h->a[parent]))
            break;
        place(h, i, h->a[parent]);
        i = parent;
    }
    place(h, i, item);
}

static void sift_down(struct heap *h, size_t i, struct heap_item item) {
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && before(&h->a[child + 1], &h->a[child]))
            child++;
        if (!before(&h->a[child], &item))
            break;
        place(h, i, h->a[child]);
        i = child;
    }
    place(h, i, item);
}

bool heap_reserve(struct heap *h, size_t threads) {
    return tool_array_reserve(&h->a, &h->room, threads, sizeof(*h->a));
}

/* Item I is not before its parent, nor are its children before it. */
static bool is_in_order(const struct heap *h, size_t i) {
    const struct heap_item *a = h->a;
    return a[i].thread->heap_at[h->which] == i &&
           (i == 0 || !before(&a[i], &a[(i - 1) / 2])) &&
           (2 * i + 1 >= h->count || !before(&a[2 * i + 1], &a[i])) &&
           (2 * i + 2 >= h->count || !before(&a[2 * i + 2], &a[i]));
}

void heap_put(struct heap *h, struct demux_thread *t, uint64_t key) {
    struct heap_item item = {key, t};
    size_t i = t->heap_at[h->which];
    if (!heap_has(h, t))
        i = h->count++;
    else if (!before(&item, &h->a[i])) {
        sift_down(h, i, item);
        TCM_ASSERT(is_in_order(h, t->heap_at[h->which]));
        return;
    }
    TCM_ASSERT(h->count <= h->room);
    sift_up(h, i, item);
    TCM_ASSERT(is_in_order(h, t->heap_at[h->which]));
}

void heap_remove(struct heap *h, struct demux_thread *t) {
    if (!heap_has(h, t))
        return;
    size_t i = t->heap_at[h->which];
    struct heap_item last = h->a[--h->count];
    t->heap_at[h->which] = SIZE_MAX;
    if (last.thread == t)
        return;
    if (i > 0 && before(&last, &h->a[(i - 1) / 2]))
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
    TCM_ASSERT(is_in_order(h, last.thread->heap_at[h->which]));
    TCM_ASSERT(!heap_has(h, t));
}
