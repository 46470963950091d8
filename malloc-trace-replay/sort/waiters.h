/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads whose next event waits for the birth of a token, found by it.
 *
 * Most births wake no thread: a small table of counts by the token's low bits
 * says so at once; a hash table decides the rest.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_WAITERS_H
#define TOOL_SORT_WAITERS_H

#include "sort/demux.h"

#define WAITERS_BITS 2048u

struct waiters {
    uint32_t counts[WAITERS_BITS];
    struct demux_thread **bucket; /* lists by next_waiter */
    size_t mask, count;
    uint64_t seed;
};

bool waiters_init(struct waiters *w);
void waiters_fini(struct waiters *w);
/* T waits for TOKEN from now on. False: no memory. */
bool waiters_add(struct waiters *w, struct demux_thread *t, uint64_t token);
/* T, which waits, does so no longer. */
void waiters_remove(struct waiters *w, struct demux_thread *t);
/* TOKEN was born: those that waited for it go to the front of *WOKEN, a list by
   next_waiter. False: none did. */
bool waiters_wake(struct waiters *w, uint64_t token,
                  struct demux_thread **woken);

/* False: no thread waits for TOKEN. */
static TCM_ALWAYS_INLINE bool waiters_may_have(const struct waiters *w,
                                               uint64_t token) {
    return w->counts[token % WAITERS_BITS] != 0;
}

#endif
