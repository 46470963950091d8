/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cache_registry.h"
#include "base/bits.h"
#include "base/lock.h"
#include "core/central_list.h"
#include "core/meta_alloc.h"

#define TOTAL_BUDGET ((int64_t)32 << 20)
#define MIN_BUDGET   TCM_MIN_CACHE_BUDGET
#define CLAIM_STEP   ((uint64_t)64 << 10)

static struct tcm_lock registry_lock = TCM_LOCK_INIT(TCM_RANK_CACHE_REGISTRY);
static struct tcm_dlist registry = {&registry, &registry};
static struct tcm_dlist *next_victim = &registry;
static int64_t total_budget = TOTAL_BUDGET;
static int64_t unclaimed_budget = TOTAL_BUDGET;
static uint64_t gone_misses;
static uint64_t gone_overflows;
static struct tcm_pool cache_pool =
    TCM_POOL_INIT(sizeof(struct tcm_thread_cache));
static struct tcm_pool region_pool[TCM_MAX_REGION_LOG + 1];

void tcm_cache_init(void) {
    tcm_cache_init_model();
    for (unsigned k = 0; k <= TCM_MAX_REGION_LOG; k++)
        region_pool[k].record_bytes = sizeof(struct tcm_entry) << k;
}

struct tcm_entry *tcm_registry_get_region(unsigned log) {
    tcm_lock(&registry_lock);
    struct tcm_entry *entries = tcm_pool_get(&region_pool[log], NULL);
    tcm_unlock(&registry_lock);
    return entries;
}

void tcm_registry_put_region(unsigned log, struct tcm_entry *entries) {
    tcm_lock(&registry_lock);
    tcm_pool_put(&region_pool[log], entries);
    tcm_unlock(&registry_lock);
}

struct tcm_thread_cache *tcm_registry_get_cache(void) {
    tcm_lock(&registry_lock);
    struct tcm_thread_cache *cache = tcm_pool_get(&cache_pool, NULL);
    tcm_unlock(&registry_lock);
    return cache;
}

/* The registry lock is held. */
static void count_users(int32_t change) {
    tcm_store_relaxed(&tcm_central_users, tcm_central_users + (uint32_t)change);
}

void tcm_registry_add(struct tcm_thread_cache *cache) {
    tcm_lock(&registry_lock);
    cache->budget_bytes = MIN_BUDGET;
    unclaimed_budget -= (int64_t)MIN_BUDGET;
    tcm_dlist_push_back(&registry, &cache->link);
    count_users(1);
    tcm_unlock(&registry_lock);
}

void tcm_registry_remove(struct tcm_thread_cache *cache) {
    tcm_lock(&registry_lock);
    if (next_victim == &cache->link)
        next_victim = cache->link.prev;
    tcm_dlist_remove(&cache->link);
    count_users(-1);
    unclaimed_budget += (int64_t)cache->budget_bytes;
    gone_misses += cache->misses;
    gone_overflows += cache->overflows;
    tcm_pool_put(&cache_pool, cache);
    tcm_unlock(&registry_lock);
}

void tcm_registry_forget_others(const struct tcm_thread_cache *own) {
    struct tcm_dlist *next;
    for (struct tcm_dlist *at = registry.next; at != &registry; at = next) {
        struct tcm_thread_cache *cache =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        next = at->next;
        if (cache == own || !tcm_load_relaxed(&cache->attached))
            continue;
        tcm_dlist_remove(at);
        count_users(-1);
        unclaimed_budget += (int64_t)cache->budget_bytes;
        gone_misses += cache->misses;
        gone_overflows += cache->overflows;
        tcm_pool_put(&cache_pool, cache);
    }
    next_victim = &registry;
}

/* Takes from another cache, the next in turn that has more than the minimum;
   the registry lock is held. It notices in its next slow path. */
static uint64_t rob_a_cache(struct tcm_thread_cache *cache, uint64_t bytes) {
    struct tcm_dlist *at = next_victim;
    for (unsigned tries = 0; tries < 8; tries++) {
        at = at->next;
        if (at == &registry)
            continue;
        struct tcm_thread_cache *victim =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        if (victim == cache || victim->budget_bytes <= MIN_BUDGET)
            continue;
        uint64_t most = victim->budget_bytes - MIN_BUDGET;
        if (bytes > most)
            bytes = most;
        tcm_store_relaxed(&victim->budget_bytes, victim->budget_bytes - bytes);
        next_victim = at;
        return bytes;
    }
    next_victim = at;
    return 0;
}

bool tcm_registry_claim(struct tcm_thread_cache *cache, uint64_t bytes) {
    uint64_t want = bytes > CLAIM_STEP ? bytes : CLAIM_STEP;
    uint64_t got = 0;
    tcm_lock(&registry_lock);
    if (unclaimed_budget >= (int64_t)want) {
        unclaimed_budget -= (int64_t)want;
        got = want;
    } else {
        got = rob_a_cache(cache, want);
    }
    tcm_store_relaxed(&cache->budget_bytes, cache->budget_bytes + got);
    tcm_unlock(&registry_lock);
    return got >= bytes;
}

/* A lower total is taken from the caches that have more than the minimum. */
void tcm_cache_set_total_budget(uint64_t bytes) {
    if (bytes > INT64_MAX / 2)
        bytes = INT64_MAX / 2;
    tcm_lock(&registry_lock);
    unclaimed_budget += (int64_t)bytes - total_budget;
    total_budget = (int64_t)bytes;
    struct tcm_dlist *at = registry.next;
    for (; at != &registry && unclaimed_budget < 0; at = at->next) {
        struct tcm_thread_cache *cache =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        uint64_t have = cache->budget_bytes;
        uint64_t most = have > MIN_BUDGET ? have - MIN_BUDGET : 0;
        uint64_t take = tcm_min_u64(most, (uint64_t)-unclaimed_budget);
        tcm_store_relaxed(&cache->budget_bytes, have - take);
        unclaimed_budget += (int64_t)take;
    }
    tcm_unlock(&registry_lock);
}

uint64_t tcm_cache_total_budget(void) {
    tcm_lock(&registry_lock);
    uint64_t bytes = (uint64_t)total_budget;
    tcm_unlock(&registry_lock);
    return bytes;
}

void tcm_cache_each(void (*visit)(struct tcm_thread_cache *, void *),
                    void *argument) {
    tcm_lock(&registry_lock);
    for (struct tcm_dlist *at = registry.next; at != &registry; at = at->next)
        visit(TCM_CONTAINER_OF(at, struct tcm_thread_cache, link), argument);
    tcm_unlock(&registry_lock);
}

/*
 * Reads a pointer of a cache that may be in use: its owner's fast path stores
 * it plainly, on purpose; no compiler splits a pointer's store or this load.
 * The thread sanitizer is not to look.
 */
static __attribute__((no_sanitize("thread"), noinline)) uintptr_t
read_place(struct tcm_entry *const *place) {
    return (uintptr_t) * (struct tcm_entry *const volatile *)place;
}

/* A bin's two pointers can belong to different moments, hence the bound. */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned class) {
    uintptr_t top = read_place(&cache->bin[class].top);
    uintptr_t base = read_place(&cache->cold[class].base);
    uint64_t count = (top - base) / sizeof(struct tcm_entry);
    return top > base && count <= tcm_class[class].max_cached ? count : 0;
}

static void add_totals(struct tcm_thread_cache *cache, void *argument) {
    struct tcm_cache_totals *out = argument;
    out->caches++;
    out->misses += tcm_load_relaxed(&cache->misses);
    out->overflows += tcm_load_relaxed(&cache->overflows);
    for (unsigned class = 1; class < tcm_class_count; class ++)
        out->cached_bytes +=
            tcm_cache_objects(cache, class) * tcm_class[class].size;
}

void tcm_cache_totals(struct tcm_cache_totals *out) {
    *out = (struct tcm_cache_totals){0, 0, 0, 0};
    tcm_cache_each(add_totals, out);
    tcm_lock(&registry_lock);
    out->misses += gone_misses;
    out->overflows += gone_overflows;
    tcm_unlock(&registry_lock);
}

void tcm_cache_lock_all(void) {
    tcm_lock(&registry_lock);
}

void tcm_cache_unlock_all(void) {
    tcm_unlock(&registry_lock);
}
