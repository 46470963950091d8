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
 * Threads: one lock, rank CACHE_REGISTRY; metadata lock inside.
 */
#ifndef TCM_CORE_CACHE_REGISTRY_H
#define TCM_CORE_CACHE_REGISTRY_H

#include "core/thread_cache.h"

/* Budget of each cache that no other can take: if the total is enough for it,
   and in any case. */
#define TCM_MIN_CACHE_BUDGET   ((uint64_t)512 << 10)
#define TCM_LEAST_CACHE_BUDGET ((uint64_t)32 << 10)

/* Bins live in regions of 2^LOG entries. */
#define TCM_MAX_REGION_LOG 10

/* Initialises the model that new caches are copies of. */
void tcm_cache_init_model(void);

struct tcm_entry *tcm_registry_get_region(unsigned log);
void tcm_registry_put_region(unsigned log, struct tcm_entry *entries);

/* Memory for a cache, not yet in the registry. */
struct tcm_thread_cache *tcm_registry_get_cache(void);
/* Enters a cache, with the least budget. */
void tcm_registry_add(struct tcm_thread_cache *cache);
/* Takes an empty cache out and its memory back. */
void tcm_registry_remove(struct tcm_thread_cache *cache);

/* In the child of fork, with the registry lock held: removes the caches that
   were attached to other threads than the caller, whose cache is OWN. Their
   bins, which may be in the middle of a change, are abandoned. */
void tcm_registry_forget_others(const struct tcm_thread_cache *own);

/* Raises the budget of CACHE by at least BYTES: from the unclaimed part, else
   from another cache. false: by less, perhaps by nothing. */
bool tcm_registry_claim(struct tcm_thread_cache *cache, uint64_t bytes);

/* CACHE, from which owed_bytes were taken, is within its budget again. */
void tcm_registry_settle(struct tcm_thread_cache *cache);

/* Objects of CLASS in CACHE, which its thread may be changing. */
uint64_t tcm_cache_objects(const struct tcm_thread_cache *cache,
                           unsigned size_class);

#endif
