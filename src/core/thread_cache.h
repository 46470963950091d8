/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread's cache of free objects: for each class a bin, an array used as a
 * stack. Pop and push are inline here; thread_cache.c refills and flushes bins
 * and adapts their capacities under the budget.
 *
 *       guard   0      1            top-1   top        end
 *      +------+------+------+- ... +------+------+ ... +
 *      | NULL | obj  | obj  |      | obj  | free |     |
 *      +------+------+------+- ... +------+------+ ... +
 *
 * Invariants: the entry below the first is a guard with a NULL pointer, so that
 * pop sees an empty bin by the pointer that it loads anyway; guard < top <=
 * end. A bin that was never used has top == end, above a shared guard: it is
 * empty and full at once. Bin 0, for "no class", is always so. The fast path
 * counts nothing: budgets count capacities, which change in slow paths only.
 *
 * Threads: a cache is used by the one thread that it is attached to. Other
 * threads read its counters, lower its budget (relaxed) and may shut it. A
 * detached cache is used by none.
 */
#ifndef TCM_CORE_THREAD_CACHE_H
#define TCM_CORE_THREAD_CACHE_H

#include "base/atomic.h"
#include "base/backoff.h"
#include "base/check.h"
#include "base/dlist.h"
#include "core/core_config.h"
#include "core/size_class.h"

struct tcm_entry {
    void *ptr;
#if TCM_OBJECT_WORDS
    uint64_t *word; /* its object word; valid while the cache wants words */
#endif
};

/* Where ENTRY has the address of its object word; NULL in builds without. */
#if TCM_OBJECT_WORDS
static TCM_ALWAYS_INLINE uint64_t **tcm_bin_word(struct tcm_entry *entry) {
    return &entry->word;
}
#else
static TCM_ALWAYS_INLINE uint64_t **tcm_bin_word(struct tcm_entry *entry) {
    (void)entry;
    return NULL;
}
#endif

/* The hot half of a bin; the cold half is in struct tcm_bin_cold. */
struct tcm_bin {
    struct tcm_entry *top; /* next free place */
    struct tcm_entry *end; /* first place beyond the capacity */
};
TCM_STATIC_ASSERT(sizeof(struct tcm_bin) == 8 * TCM_CLASS_SCALE,
                  "a scaled class finds its bin");

struct tcm_bin_cold {
    struct tcm_entry *base; /* first place; base[-1] is the guard */
    uint32_t capacity;      /* end - base */
    uint32_t region;        /* places in memory: 0, or at least capacity */
    uint32_t drained;       /* objects fetched since the last overflow */
    uint16_t fetch;         /* objects the next refill takes (slow start) */
    uint16_t seen;          /* objects at the sweep's last visit */
    uint8_t credit;         /* raises of capacity that misses have earned */
    uint8_t foreign;        /* objects refused before the first refill */
    bool active;            /* took a slow path since the sweep's last visit */
    bool fetched;           /* has been refilled before */
    bool bulk;              /* swings too far to gain by more capacity */
};

struct tcm_thread_cache {
    struct tcm_bin bin[TCM_MAX_CLASSES]; /* first: see tcm_bin_at */
    /* Bounds of the sizes that malloc's plain path serves, and of the pages
       that free's does: TCM_TABLE_SMALL + 1 and TCM_CLASS_MAP_PAGES, or 0 while
       the cache is shut. Beside the table, whose line malloc reads anyway. */
    size_t alloc_limit TCM_ALIGNED(TCM_CACHE_LINE);
    size_t free_pages;
    /* The scaled class by (size + 7) >> 3 up to TCM_TABLE_SMALL. A copy in each
       cache: malloc finds it with one instruction less. */
    uint8_t scaled_small[TCM_TABLE_SMALL / 8 + 1];
    struct tcm_bin_cold cold[TCM_MAX_CLASSES];
    struct tcm_dlist link;   /* in the registry of caches */
    uint64_t capacity_bytes; /* sum of capacity * size */
    uint64_t budget_bytes;   /* bound on capacity_bytes; registry lock */
    uint64_t owed_bytes;     /* to give back since it was lowered; same lock */
    uint64_t uses_asked;     /* misses and overflows in the last round in which
                                it was asked for budget; this and the next two:
                                same lock */
    uint32_t asked_round;
    bool in_use; /* then, since the round before */
    uint64_t with_capacity[TCM_MAX_CLASSES / 64]; /* a bit per such bin */
    uint32_t steal_class;      /* where the search for idle capacity goes on */
    struct tcm_backoff claims; /* of budget */
    uint32_t sweep_class;      /* where the search for idle bins goes on */
    uint32_t sweep_wait;       /* slow paths until the next step of the sweep */
    uint64_t taken_seen; /* taken_bytes of its shard at the last slow path */
    bool heap_grows;     /* took memory between the last two slow paths */
    bool attached;
    bool want_words;        /* fill in tcm_entry.word */
    uint64_t sample_left;   /* bytes to the next sample (api/alloc_probes.h) */
    uint64_t sample_random; /* 0: none was drawn yet */
    uint64_t misses;        /* counters, summed into the totals */
    uint64_t overflows;
};

/* Stand-in for the cache of a thread that has none: always shut, so that the
   plain paths do not touch its bins. With object words the bins are empty and
   full at once, so that the traced paths end in slow ones; without, they are
   all zero. */
extern TCM_LOCAL const struct tcm_thread_cache tcm_no_cache;
#define TCM_NO_CACHE ((struct tcm_thread_cache *)(uintptr_t)&tcm_no_cache)

/* The bin of a scaled class (size_class.h). */
static TCM_ALWAYS_INLINE struct tcm_bin *
tcm_bin_at(struct tcm_thread_cache *cache, uint64_t scaled) {
    TCM_ASSERT(scaled % TCM_CLASS_SCALE == 0 &&
               scaled < TCM_MAX_CLASSES * TCM_CLASS_SCALE);
    return (struct tcm_bin *)((char *)cache + scaled * 8);
}

/* Scaled class of SIZE, at most TCM_TABLE_SMALL. */
static TCM_ALWAYS_INLINE uint64_t
tcm_cache_scaled_small(const struct tcm_thread_cache *cache, size_t size) {
    TCM_ASSERT(size <= TCM_TABLE_SMALL);
    return cache->scaled_small[(size + 7) >> 3];
}

/*
 * Pop: returns the entry on top, whose pointer is NULL if the bin is empty; the
 * caller then calls tcm_cache_refill and peeks again.
 */
static TCM_ALWAYS_INLINE struct tcm_entry *
tcm_cache_peek(struct tcm_thread_cache *cache, unsigned size_class) {
    return cache->bin[size_class].top - 1;
}

static TCM_ALWAYS_INLINE void tcm_cache_drop_top(struct tcm_thread_cache *cache,
                                                 unsigned size_class) {
    TCM_ASSERT(tcm_cache_peek(cache, size_class)->ptr != NULL);
    cache->bin[size_class].top--;
}

/* True if PTR is the object that was freed last into its bin: a double free. */
static TCM_ALWAYS_INLINE bool tcm_cache_is_top(struct tcm_thread_cache *cache,
                                               unsigned size_class,
                                               const void *ptr) {
    return (cache->bin[size_class].top - 1)->ptr == ptr;
}

/* Push: false if the bin is full (the caller then calls tcm_cache_make_room and
   pushes again), or PTR is on top of it already. */
static TCM_ALWAYS_INLINE bool
tcm_cache_push_scaled(struct tcm_thread_cache *cache, uint64_t scaled,
                      void *ptr) {
    struct tcm_entry *top = tcm_bin_at(cache, scaled)->top;
    TCM_FORGET(scaled);
    if (TCM_UNLIKELY(top == tcm_bin_at(cache, scaled)->end ||
                     (top - 1)->ptr == ptr))
        return false;
    top->ptr = ptr;
    TCM_FORGET(scaled);
    tcm_bin_at(cache, scaled)->top = top + 1;
    return true;
}

static TCM_ALWAYS_INLINE bool tcm_cache_push(struct tcm_thread_cache *cache,
                                             unsigned size_class, void *ptr) {
    return tcm_cache_push_scaled(cache, tcm_class_scale(size_class), ptr);
}

/*
 * A cache is shut until its thread opens it. Requests on a shut cache do not
 * take the plain paths, which use bins without object words. Any thread may
 * shut all caches, detached ones too. A thread that opens one checks afterwards
 * whether it should be shut: the stores are sequentially consistent, so the
 * cache ends shut in either order. Not for TCM_NO_CACHE, which is always shut.
 */
void tcm_cache_open(struct tcm_thread_cache *cache);
void tcm_cache_shut(struct tcm_thread_cache *cache);
static inline bool tcm_cache_is_open(const struct tcm_thread_cache *cache) {
    return tcm_load_relaxed(&cache->alloc_limit) != 0;
}

/* --- Slow functions ------------------------------------------------------- */

/*
 * The life of a cache, empty and full bins, idle memory and budget. The caller
 * is the thread that CACHE is attached to. None calls upwards or reads the
 * clock; errno stays as it is.
 */

/* A new cache with nothing in it, attached, counted in the budget. NULL: out
   of memory. */
struct tcm_thread_cache *tcm_cache_new(void);
/* Returns all objects to the central lists and frees CACHE. */
void tcm_cache_destroy(struct tcm_thread_cache *cache);
/* Marks CACHE as used by no thread (detach), or by a thread again (attach). No
   lock, no loop. */
void tcm_cache_detach(struct tcm_thread_cache *cache);
void tcm_cache_attach(struct tcm_thread_cache *cache);

/*
 * Upkeep returns idle memory and keeps the budget. tcm_cache_refill only takes
 * objects, so its caller does the upkeep first: a recorder reads its clock
 * before memory is given up, and again after memory was obtained.
 * tcm_cache_make_room does its own upkeep.
 */
bool tcm_cache_upkeep_due(const struct tcm_thread_cache *cache);
void tcm_cache_upkeep(struct tcm_thread_cache *cache);

/* Gets at least one object into the bin of CLASS (not 0), which is empty.
   false: out of memory. */
bool tcm_cache_refill(struct tcm_thread_cache *cache, unsigned size_class);
/* Makes room in the bin of CLASS (not 0), which is full: raises its capacity or
   returns objects to the central list. false: the object is better not cached,
   or there is no memory for the bin; the caller passes it to tcm_heap_free_one.
 */
bool tcm_cache_make_room(struct tcm_thread_cache *cache, unsigned size_class);

/* Returns all objects to the central lists; the cache stays. */
void tcm_cache_flush(struct tcm_thread_cache *cache);

/* WANT: entries have their words from now on, whose tables are made as needed.
   Else no entry needs its word. */
void tcm_cache_want_words(struct tcm_thread_cache *cache, bool want);

#endif
