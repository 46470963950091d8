/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/waiters.h"

#include "base/check.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_FIRST 64u

static struct demux_thread **bucket_of(const struct waiters *w,
                                       uint64_t token) {
    return &w->bucket[tool_hash(token, w->seed) & w->mask];
}

bool waiters_init(struct waiters *w) {
    memset(w, 0, sizeof(*w));
    w->seed = tool_hash_seed();
    w->mask = BUCKETS_FIRST - 1;
    w->bucket = calloc(BUCKETS_FIRST, sizeof(struct demux_thread *));
    return w->bucket != NULL;
}

void waiters_fini(struct waiters *w) {
    free(w->bucket);
}

static void enter(struct demux_thread **at, struct demux_thread *t) {
    t->next_waiter = *at;
    t->waiter_at = at;
    if (*at != NULL)
        (*at)->waiter_at = &t->next_waiter;
    *at = t;
}

void waiters_remove(struct waiters *w, struct demux_thread *t) {
    TCM_ASSERT(t->waits && *t->waiter_at == t && w->count != 0);
    TCM_ASSERT(w->counts[t->waits_for % WAITERS_BITS] != 0);
    *t->waiter_at = t->next_waiter;
    if (t->next_waiter != NULL)
        t->next_waiter->waiter_at = t->waiter_at;
    w->counts[t->waits_for % WAITERS_BITS]--;
    w->count--;
    t->waits = false;
}

static bool grow(struct waiters *w) {
    struct demux_thread **old = w->bucket;
    size_t entries = w->mask + 1;
    w->bucket = calloc(2 * entries, sizeof(struct demux_thread *));
    if (w->bucket == NULL) {
        w->bucket = old;
        return false;
    }
    w->mask = 2 * entries - 1;
    for (size_t i = 0; i < entries; i++)
        for (struct demux_thread *t = old[i], *next; t != NULL; t = next) {
            next = t->next_waiter;
            enter(bucket_of(w, t->waits_for), t);
        }
    free(old);
    return true;
}

bool waiters_add(struct waiters *w, struct demux_thread *t, uint64_t token) {
    TCM_ASSERT(!t->waits);
    if (w->count > w->mask && !grow(w))
        return false;
    t->waits = true;
    t->waits_for = token;
    enter(bucket_of(w, token), t);
    w->counts[token % WAITERS_BITS]++;
    w->count++;
    return true;
}

bool waiters_wake(struct waiters *w, uint64_t token,
                  struct demux_thread **woken) {
    bool woke = false;
    struct demux_thread *next;
    for (struct demux_thread *t = *bucket_of(w, token); t != NULL; t = next) {
        next = t->next_waiter;
        if (t->waits_for != token)
            continue;
        waiters_remove(w, t);
        t->next_waiter = *woken;
        *woken = t;
        woke = true;
    }
    return woke;
}
