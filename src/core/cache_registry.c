/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cache_registry.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/dlist.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "base/lock.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/thread_cache.h"
#include "core/thread_shard.h"

#define TOTAL_BUDGET ((int64_t)48 << 20)
#define MIN_BUDGET   TCM_MIN_CACHE_BUDGET
#define LEAST_BUDGET TCM_LEAST_CACHE_BUDGET
#define CACHES_ASKED 8u /* when budget is short */
#define ROUND_CLAIMS 256u

static struct tcm_lock registry_lock = TCM_LOCK_INIT(TCM_RANK_CACHE_REGISTRY);
static struct tcm_dlist registry = {&registry, &registry};
static struct tcm_dlist *last_asked = &registry;
static int64_t total_budget = TOTAL_BUDGET;
static int64_t unclaimed_budget = TOTAL_BUDGET;
static uint64_t owed_total;
static uint32_t claims;
static uint64_t removed_misses;
static uint64_t removed_overflows;
static struct tcm_pool cache_pool =
    TCM_POOL_INIT(sizeof(struct tcm_thread_cache));

/* Idle regions, by the shard of the thread that gave them up. */
static struct {
    struct tcm_lock lock;
    struct tcm_pool pool[TCM_MAX_REGION_LOG + 1];
} TCM_ALIGNED(TCM_CACHE_LINE) regions[TCM_PAGE_SHARDS];

void tcm_registry_init(void) {
    for (uint32_t shard = 0; tcm_debug && shard < TCM_PAGE_SHARDS; shard++)
        tcm_lock_init_rank(&regions[shard].lock, TCM_RANK_REGIONS);
}

/* A region that lies idle in a shard other than OWN. NULL: there is none, or
   others are at it. */
static struct tcm_entry *idle_region(uint32_t own, unsigned log) {
    struct tcm_entry *entries = NULL;
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = 0; i < n && entries == NULL; i++) {
        if (i == own || tcm_load_relaxed(&regions[i].pool[log].free) == NULL ||
            !tcm_lock_try(&regions[i].lock))
            continue;
        if (regions[i].pool[log].free != NULL)
            entries = tcm_pool_get(&regions[i].pool[log]);
        tcm_unlock(&regions[i].lock);
    }
    return entries;
}

/* Locks the regions of shard OWN, and returns the pool of those of 2^LOG
   entries. Pools are made when they are first used. */
static struct tcm_pool *lock_regions(uint32_t own, unsigned log) {
    struct tcm_pool *pool = &regions[own].pool[log];
    TCM_ASSERT(log <= TCM_MAX_REGION_LOG);
    tcm_lock(&regions[own].lock);
    pool->record_bytes = sizeof(struct tcm_entry) << log;
    return pool;
}

struct tcm_entry *tcm_registry_get_region(unsigned log) {
    uint32_t own = tcm_thread_shard();
    struct tcm_entry *entries = NULL;
    if (tcm_load_relaxed(&regions[own].pool[log].free) == NULL)
        entries = idle_region(own, log);
    if (entries != NULL)
        return entries;
    entries = tcm_pool_get(lock_regions(own, log));
    tcm_unlock(&regions[own].lock);
    return entries;
}

void tcm_registry_put_region(unsigned log, struct tcm_entry *entries) {
    uint32_t own = tcm_thread_shard();
    TCM_ASSERT(entries != NULL);
    tcm_pool_put(lock_regions(own, log), entries);
    tcm_unlock(&regions[own].lock);
}

struct tcm_thread_cache *tcm_registry_get_cache(void) {
    tcm_lock(&registry_lock);
    struct tcm_thread_cache *cache = tcm_pool_get(&cache_pool);
    tcm_unlock(&registry_lock);
    return cache;
}

static void count_caches(int32_t change) {
    tcm_lock_assert_held(&registry_lock);
    TCM_ASSERT(change > 0 || tcm_cache_count != 0);
    tcm_store_relaxed(&tcm_cache_count, tcm_cache_count + (uint32_t)change);
}

/* Budget of each cache that other caches cannot take. */
static uint64_t least_budget(void) {
    uint64_t share = (uint64_t)total_budget;
    if (tcm_cache_count > 1)
        share /= tcm_cache_count;
    return tcm_min_u64(MIN_BUDGET, share > LEAST_BUDGET ? share : LEAST_BUDGET);
}

/* True if the caches' budgets, debts and number add up to the totals. */
static bool sums_are_valid(void) {
    int64_t budgets = unclaimed_budget;
    uint64_t owed = 0;
    uint32_t caches = 0;
    tcm_lock_assert_held(&registry_lock);
    for (struct tcm_dlist *at = registry.next; at != &registry; at = at->next) {
        const struct tcm_thread_cache *cache =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        budgets += (int64_t)cache->budget_bytes;
        owed += cache->owed_bytes;
        caches++;
    }
    return budgets == total_budget && owed == owed_total &&
           caches == tcm_cache_count;
}

/* Bound on the debt of all caches, unless the total itself is lowered. */
static uint64_t debt_limit(void) {
    return (uint64_t)total_budget / 2;
}

/* Capacity of CACHE beyond BUDGET. */
static uint64_t capacity_beyond(const struct tcm_thread_cache *cache,
                                uint64_t budget) {
    uint64_t held = tcm_load_relaxed(&cache->capacity_bytes);
    return held > budget ? held - budget : 0;
}

/* Takes up to BYTES from CACHE's budget, which stays at least the least one.
   Returns the bytes taken. The cache shrinks in its next slow path; until then
   it owes its excess capacity. The debt of all caches stays at most LIMIT. */
static uint64_t take_budget(struct tcm_thread_cache *cache, uint64_t bytes,
                            uint64_t limit) {
    tcm_lock_assert_held(&registry_lock);
    TCM_ASSERT(owed_total >= cache->owed_bytes);
    uint64_t have = cache->budget_bytes, least = least_budget();
    uint64_t take = tcm_min_u64(bytes, have > least ? have - least : 0);
    uint64_t others = owed_total - cache->owed_bytes;
    uint64_t may_owe = others < limit ? limit - others : 0;
    uint64_t owes = capacity_beyond(cache, have - take);
    if (owes > may_owe) {
        take -= tcm_min_u64(take, owes - may_owe);
        owes = capacity_beyond(cache, have - take);
    }
    if (take == 0)
        return 0;
    TCM_ASSERT(take <= bytes && have - take >= least);
    tcm_store_relaxed(&cache->budget_bytes, have - take);
    tcm_store_relaxed(&cache->owed_bytes, owes);
    owed_total = others + owes;
    return take;
}

void tcm_registry_end_debt(struct tcm_thread_cache *cache) {
    tcm_lock(&registry_lock);
    uint64_t owes = capacity_beyond(cache, cache->budget_bytes);
    TCM_ASSERT(owed_total >= cache->owed_bytes);
    owed_total = owed_total - cache->owed_bytes + owes;
    tcm_store_relaxed(&cache->owed_bytes, owes);
    tcm_unlock(&registry_lock);
}

/* The next cache in cyclic order; NULL once in each round. */
static struct tcm_thread_cache *next_in_turn(void) {
    tcm_lock_assert_held(&registry_lock);
    last_asked = last_asked->next;
    return last_asked == &registry
               ? NULL
               : TCM_CONTAINER_OF(last_asked, struct tcm_thread_cache, link);
}

/* A new cache gets the least budget even if that much is not unclaimed; then a
   few other caches in turn give what they have above the least. */
void tcm_registry_add(struct tcm_thread_cache *cache) {
    tcm_lock(&registry_lock);
    count_caches(1);
    cache->budget_bytes = least_budget();
    unclaimed_budget -= (int64_t)cache->budget_bytes;
    for (unsigned i = 0; i < CACHES_ASKED && unclaimed_budget < 0; i++) {
        struct tcm_thread_cache *giver = next_in_turn();
        if (giver != NULL)
            unclaimed_budget += (int64_t)take_budget(
                giver, (uint64_t)-unclaimed_budget, debt_limit());
    }
    tcm_dlist_push_back(&registry, &cache->link);
    TCM_ASSERT_SLOW(sums_are_valid());
    tcm_unlock(&registry_lock);
}

void tcm_registry_remove(struct tcm_thread_cache *cache) {
    tcm_lock(&registry_lock);
    if (last_asked == &cache->link)
        last_asked = cache->link.prev;
    tcm_dlist_remove(&cache->link);
    count_caches(-1);
    unclaimed_budget += (int64_t)cache->budget_bytes;
    removed_misses += cache->misses;
    removed_overflows += cache->overflows;
    owed_total -= cache->owed_bytes;
    TCM_ASSERT_SLOW(sums_are_valid());
    tcm_pool_put(&cache_pool, cache);
    tcm_unlock(&registry_lock);
}

void tcm_registry_forget_others(const struct tcm_thread_cache *own) {
    tcm_lock_assert_held(&registry_lock);
    struct tcm_dlist *next;
    for (struct tcm_dlist *at = registry.next; at != &registry; at = next) {
        struct tcm_thread_cache *cache =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        next = at->next;
        if (cache == own || !tcm_load_relaxed(&cache->attached))
            continue;
        tcm_dlist_remove(at);
        count_caches(-1);
        unclaimed_budget += (int64_t)cache->budget_bytes;
        removed_misses += cache->misses;
        removed_overflows += cache->overflows;
        owed_total -= cache->owed_bytes;
        tcm_pool_put(&cache_pool, cache);
    }
    last_asked = &registry;
    TCM_ASSERT_SLOW(sums_are_valid());
}

/*
 * True if CACHE may keep its budget from a cache that has OTHERS and wants
 * BYTES more: it is in use, and would soon be the poorer one. Busy caches that
 * took budget from each other in turn would each time empty bins that are
 * filled again. CACHE is in use if it took slow paths between the last two
 * rounds of ROUND_CLAIMS claims in which it was asked.
 */
static bool may_keep_budget(struct tcm_thread_cache *cache, uint64_t others,
                            uint64_t bytes) {
    tcm_lock_assert_held(&registry_lock);
    uint32_t round = claims / ROUND_CLAIMS;
    if (cache->asked_round != round) {
        uint64_t uses = tcm_load_relaxed(&cache->misses) +
                        tcm_load_relaxed(&cache->overflows);
        cache->in_use = uses != cache->uses_asked;
        cache->uses_asked = uses;
        cache->asked_round = round;
    }
    return cache->in_use && cache->budget_bytes < others + 2 * bytes;
}

/* Takes budget from the next cache in turn that has more than the least and may
   not keep it. Returns the bytes taken. */
static uint64_t take_budget_in_turn(const struct tcm_thread_cache *cache,
                                    uint64_t bytes) {
    for (unsigned i = 0; i < CACHES_ASKED; i++) {
        struct tcm_thread_cache *giver = next_in_turn();
        if (giver == NULL || giver == cache ||
            may_keep_budget(giver, cache->budget_bytes, bytes))
            continue;
        uint64_t got = take_budget(giver, bytes, debt_limit());
        if (got != 0)
            return got;
    }
    return 0;
}

bool tcm_registry_claim(struct tcm_thread_cache *cache, uint64_t bytes) {
    uint64_t want =
        bytes > TCM_CACHE_BUDGET_STEP ? bytes : TCM_CACHE_BUDGET_STEP;
    uint64_t got = 0;
    tcm_lock(&registry_lock);
    claims++;
    if (unclaimed_budget >= (int64_t)want) {
        unclaimed_budget -= (int64_t)want;
        got = want;
    } else {
        got = take_budget_in_turn(cache, want);
    }
    tcm_store_relaxed(&cache->budget_bytes, cache->budget_bytes + got);
    TCM_ASSERT_SLOW(sums_are_valid());
    tcm_unlock(&registry_lock);
    return got >= bytes;
}

/* A lower total is taken from the caches that have more than the least. */
void tcm_registry_set_budget(uint64_t bytes) {
    if (bytes > INT64_MAX / 2)
        bytes = INT64_MAX / 2;
    tcm_lock(&registry_lock);
    unclaimed_budget += (int64_t)bytes - total_budget;
    total_budget = (int64_t)bytes;
    struct tcm_dlist *at = registry.next;
    for (; at != &registry && unclaimed_budget < 0; at = at->next) {
        struct tcm_thread_cache *cache =
            TCM_CONTAINER_OF(at, struct tcm_thread_cache, link);
        unclaimed_budget += (int64_t)take_budget(
            cache, (uint64_t)-unclaimed_budget, UINT64_MAX);
    }
    TCM_ASSERT_SLOW(sums_are_valid());
    tcm_unlock(&registry_lock);
}

uint64_t tcm_registry_budget(void) {
    tcm_lock(&registry_lock);
    uint64_t bytes = (uint64_t)total_budget;
    tcm_unlock(&registry_lock);
    return bytes;
}

void tcm_registry_each(void (*visit)(struct tcm_thread_cache *, void *),
                       void *argument) {
    tcm_lock(&registry_lock);
    for (struct tcm_dlist *at = registry.next; at != &registry; at = at->next)
        visit(TCM_CONTAINER_OF(at, struct tcm_thread_cache, link), argument);
    tcm_unlock(&registry_lock);
}

static void shut_malloc(struct tcm_thread_cache *cache, void *unused) {
    (void)unused;
    tcm_store_seq_cst(&cache->alloc_limit, 0);
}

static void shut_free(struct tcm_thread_cache *cache, void *unused) {
    (void)unused;
    tcm_store_seq_cst(&cache->free_pages, 0);
}

void tcm_registry_shut_all(void) {
    tcm_registry_each(shut_malloc, NULL);
    TCM_TESTPOINT("plain_malloc_is_off");
    tcm_registry_each(shut_free, NULL);
}

/*
 * Reads a pointer of a cache that may be in use. The fast path of the cache's
 * thread stores it plainly, on purpose: no compiler splits the store of a
 * pointer, or this load. Hidden from the thread sanitizer.
 */
static __attribute__((no_sanitize("thread"), noinline)) uintptr_t
read_entry_pointer(struct tcm_entry *const *place) {
    return (uintptr_t) * (struct tcm_entry *const volatile *)place;
}

/* The two pointers may be of different moments, hence the bound. */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned size_class) {
    uintptr_t top = read_entry_pointer(&cache->bin[size_class].top);
    uintptr_t base = read_entry_pointer(&cache->cold[size_class].base);
    uint64_t count = (top - base) / sizeof(struct tcm_entry);
    return top > base && count <= tcm_class[size_class].max_cached ? count : 0;
}

/* Entries that are copied at a time. */
#define COPY_ENTRIES 128u

/* The kernel copies, because the bin's memory may be exchanged for shorter
   memory meanwhile, behind whose end nothing may be mapped. */
unsigned tcm_cache_copy(const struct tcm_thread_cache *cache,
                        unsigned size_class, unsigned from, void **out,
                        unsigned cap) {
    struct tcm_entry entry[COPY_ENTRIES];
    uint64_t count = tcm_cache_objects(cache, size_class);
    uintptr_t base = read_entry_pointer(&cache->cold[size_class].base);
    unsigned n = 0;
    if (count <= from)
        return 0;
    cap = (unsigned)tcm_min_u64(cap, count - from);
    while (n < cap) {
        unsigned some = (unsigned)tcm_min_u64(cap - n, COPY_ENTRIES);
        if (!tcm_os_copy(tcm_os_pid(), entry,
                         base + (from + n) * sizeof(entry[0]),
                         some * sizeof(entry[0])))
            break;
        for (unsigned i = 0; i < some; i++)
            out[n + i] = entry[i].ptr;
        n += some;
    }
    return n;
}

static void add_totals(struct tcm_thread_cache *cache, void *argument) {
    struct tcm_registry_totals *out = argument;
    out->caches++;
    out->misses += tcm_load_relaxed(&cache->misses);
    out->overflows += tcm_load_relaxed(&cache->overflows);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        out->cached_bytes +=
            tcm_cache_objects(cache, size_class) * tcm_class[size_class].size;
}

void tcm_registry_totals(struct tcm_registry_totals *out) {
    *out = (struct tcm_registry_totals){0, 0, 0, 0};
    tcm_registry_each(add_totals, out);
    tcm_lock(&registry_lock);
    out->misses += removed_misses;
    out->overflows += removed_overflows;
    tcm_unlock(&registry_lock);
}

bool tcm_registry_is_stuck(uint64_t ns) {
    return tcm_lock_is_stuck(&registry_lock, ns);
}

void tcm_registry_lock_all(void) {
    tcm_lock(&registry_lock);
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_lock(&regions[i].lock);
}

void tcm_registry_unlock_all(void) {
    tcm_lock_assert_held(&registry_lock);
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_unlock(&regions[i].lock);
    tcm_unlock(&registry_lock);
}
