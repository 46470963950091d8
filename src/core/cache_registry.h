/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of thread caches: their memory, their budgets, sums over all.
 *
 * Invariants: budgets of all caches plus what is unclaimed are the total; each
 * cache has the minimum, or an equal share where the total is not enough for
 * that, but some in any case, which may make the unclaimed part negative.
 * Choices go round the registry in the order of the caches' making.
 *
 * Threads: one lock, rank CACHE_REGISTRY; metadata lock inside.
 */
#ifndef TCM_CORE_CACHE_REGISTRY_H
#define TCM_CORE_CACHE_REGISTRY_H

#include "core/thread_cache.h"

/* What each cache may hold, whatever the others do: when the total is enough
   for that, and when there are a thousand. */
#define TCM_MIN_CACHE_BUDGET   ((uint64_t)512 << 10)
#define TCM_LEAST_CACHE_BUDGET ((uint64_t)32 << 10)

/* Bins live in regions of 2^LOG entries. */
#define TCM_MAX_REGION_LOG 10

/* Makes ready what new caches are copied from. */
void tcm_cache_init_model(void);

struct tcm_entry *tcm_registry_get_region(unsigned log);
void tcm_registry_put_region(unsigned log, struct tcm_entry *entries);

/* Memory for a cache, not yet in the registry. */
struct tcm_thread_cache *tcm_registry_get_cache(void);
/* Enters a cache with the minimum budget. */
void tcm_registry_add(struct tcm_thread_cache *cache);
/* Takes an empty cache out and its memory back. */
void tcm_registry_remove(struct tcm_thread_cache *cache);

/* In the child of fork, with the registry lock held: takes out what was
   attached to other threads than the caller, whose cache is OWN. Their bins,
   which may be half changed, are left alone. */
void tcm_registry_forget_others(const struct tcm_thread_cache *own);

/* Raises the budget of CACHE by at least BYTES: from what is unclaimed, else
   from another cache. false: by less, perhaps nothing. */
bool tcm_registry_claim(struct tcm_thread_cache *cache, uint64_t bytes);

/* CACHE, which owed_bytes were taken from, holds no more than its budget now.
 */
void tcm_registry_settle(struct tcm_thread_cache *cache);

/* Objects of CLASS in CACHE, whose thread may be changing it just now. */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned size_class);

#endif
