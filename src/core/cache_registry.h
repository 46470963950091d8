/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of thread caches: their memory, their budgets, sums over all.
 *
 * Invariants: the budgets of all caches plus the unclaimed part are the total.
 * Each cache has at least TCM_MIN_CACHE_BUDGET, or an equal share where the
 * total does not allow that, or TCM_LEAST_CACHE_BUDGET where that is more,
 * which may make the unclaimed part negative. Caches are asked for budget in
 * cyclic order of their creation.
 *
 * Threads: one lock, rank CACHE_REGISTRY; metadata lock inside. The regions of
 * each shard have a lock of their own, rank REGIONS.
 */
#ifndef TCM_CORE_CACHE_REGISTRY_H
#define TCM_CORE_CACHE_REGISTRY_H

#include "base/compiler.h"

struct tcm_entry;
struct tcm_thread_cache;

/* Budget of each cache that other caches cannot take: where the total suffices
   for it, and in any case. */
#define TCM_MIN_CACHE_BUDGET   ((uint64_t)512 << 10)
#define TCM_LEAST_CACHE_BUDGET ((uint64_t)32 << 10)
/* Smallest part of the budget that is claimed at once. */
#define TCM_CACHE_BUDGET_STEP ((uint64_t)64 << 10)

/* Largest LOG of a region: bins lie in regions of 2^LOG entries. */
#define TCM_MAX_REGION_LOG 10

void tcm_registry_init(void);

/* A region of 2^LOG entries; NULL: out of memory. */
struct tcm_entry *tcm_registry_get_region(unsigned log);
void tcm_registry_put_region(unsigned log, struct tcm_entry *entries);

/* Memory for a cache, which is not yet in the registry. NULL: out of memory. */
struct tcm_thread_cache *tcm_registry_get_cache(void);
/* Adds a cache to the registry, with the least budget. */
void tcm_registry_add(struct tcm_thread_cache *cache);
/* Removes an empty cache from the registry and frees its memory. */
void tcm_registry_remove(struct tcm_thread_cache *cache);

/* Called in the child of fork with the registry lock held: removes the caches
   that were attached to other threads than the caller, whose cache is OWN.
   Their bins, which may be in the middle of a change, are abandoned. */
void tcm_registry_forget_others(const struct tcm_thread_cache *own);

/* Raises the budget of CACHE by at least BYTES: from the unclaimed part, else
   from another cache. false: raised by less, perhaps by nothing. */
bool tcm_registry_claim(struct tcm_thread_cache *cache, uint64_t bytes);

/* Ends the debt of CACHE (owed_bytes), whose capacity is within its budget
   again, unless another thread has just taken more of that. Called by the
   thread of CACHE. */
void tcm_registry_end_debt(struct tcm_thread_cache *cache);

/* Bound on the budgets of all caches together; each cache keeps a minimum. */
void tcm_registry_set_budget(uint64_t bytes);
uint64_t tcm_registry_budget(void);

/* Sums over all caches, detached ones too. Bytes may change while they are
   summed; counters include those of destroyed caches. */
struct tcm_registry_totals {
    uint64_t caches;
    uint64_t cached_bytes;
    uint64_t misses;
    uint64_t overflows;
};
void tcm_registry_totals(struct tcm_registry_totals *out);

/* Calls VISIT for every cache, under the registry lock. */
void tcm_registry_each(void (*visit)(struct tcm_thread_cache *, void *),
                       void *argument);

/* Number of objects of CLASS in CACHE. The thread of CACHE may be changing it.
 */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned size_class);

/* Copies up to CAP objects of CLASS in CACHE, from number FROM on, to OUT.
   Returns how many. The thread of CACHE may be changing it, or CACHE may have
   been removed meanwhile: then some are no objects, or objects in use. */
unsigned tcm_cache_copy(const struct tcm_thread_cache *cache,
                        unsigned size_class, unsigned from, void **out,
                        unsigned cap);

/* Shuts all caches (thread_cache.h), detached ones too. */
void tcm_registry_shut_all(void);

/* tcm_lock_is_stuck for the registry lock. */
bool tcm_registry_is_stuck(uint64_t ns);
/* That lock and those of the regions: no shard is opened meanwhile. */
void tcm_registry_lock_all(void);
void tcm_registry_unlock_all(void);

#endif
