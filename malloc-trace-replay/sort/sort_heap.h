/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary heap of threads by a 64-bit key, the smaller thread id first among
 * equal keys. Each thread knows its place, so it can be moved and removed.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_SORT_HEAP_H
#define TOOL_SORT_SORT_HEAP_H

#include "sort/demux.h"

struct heap_item {
    uint64_t key;
    struct demux_thread *thread;
};

struct heap {
    struct heap_item *a;
    size_t count, room;
    unsigned which; /* index into heap_at of the threads */
};

/* False: no memory. */
bool heap_reserve(struct heap *h, size_t threads);
/* Puts T in with KEY, or moves it if it is in. */
void heap_put(struct heap *h, struct demux_thread *t, uint64_t key);
/* Takes T out, if it is in. */
void heap_remove(struct heap *h, struct demux_thread *t);

static inline bool heap_has(const struct heap *h,
                            const struct demux_thread *t) {
    size_t i = t->heap_at[h->which];
    return i < h->count && h->a[i].thread == t;
}

#endif
