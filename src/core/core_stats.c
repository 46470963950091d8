/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Most counters are part of the structure whose owner or lock protects them, so
 * that counting needs no locked instruction; here they are summed.
 */
#include "core/core_stats.h"
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/transfer_cache.h"

struct tcm_stats tcm_stats;
struct tcm_page_stats tcm_page_stats;

void tcm_stats_read(struct tcm_stats *out) {
#define X(name) out->name = tcm_load_relaxed(&tcm_stats.name);
    TCM_STATS(X)
#undef X
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        const struct tcm_central *central = &tcm_central[size_class];
        out->central_fetches += tcm_load_relaxed(&central->fetches);
        out->central_returns += tcm_load_relaxed(&central->returns);
        out->transfer_cache_hits +=
            tcm_load_relaxed(&tcm_transfer[size_class].hits);
    }
    struct tcm_registry_totals caches;
    tcm_registry_totals(&caches);
    out->thread_cache_misses += caches.misses;
    out->thread_cache_overflows += caches.overflows;
}
