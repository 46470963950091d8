/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numeric properties by name; doc/extension.md says what they mean and how they
 * add up.
 */
#include "api/export.h"
#include "api/library.h"
#include "core/cache_registry.h"

#include <string.h>

#define MIB_SHIFT 20

int TCM_EXPORT(MallocExtension_GetNumericProperty)(const char *property,
                                                   size_t *value);
int TCM_EXPORT(MallocExtension_SetNumericProperty)(const char *property,
                                                   size_t value);

/* Where a property's value comes from; only that is read. */
enum source { FIGURES, COUNTERS, PAGES, SETTINGS, CONSTANT };

union reading {
    struct tcm_heap_figures f;
    struct tcm_stats c;
    struct tcm_heap_settings s;
};

static uint64_t page_count(const uint64_t *counter) {
    return tcm_load_relaxed(counter);
}

/* X("name", source, expression of the reading r) */
#define PROPERTIES(X)                                                          \
    X("generic.current_allocated_bytes", FIGURES, r.f.in_use_bytes)            \
    X("generic.heap_size", FIGURES, r.f.heap_bytes + r.f.released_bytes)       \
    X("generic.total_physical_bytes", FIGURES,                                 \
      r.f.heap_bytes + r.f.metadata_bytes)                                     \
    X("tcmalloc.central_cache_free_bytes", FIGURES, r.f.central_bytes)         \
    X("tcmalloc.transfer_cache_free_bytes", FIGURES, r.f.transfer_bytes)       \
    X("tcmalloc.thread_cache_free_bytes", FIGURES, r.f.cached_bytes)           \
    X("tcmalloc.current_total_thread_cache_bytes", FIGURES, r.f.cached_bytes)  \
    X("tcmalloc.span_overhead_bytes", FIGURES, r.f.slack_bytes)                \
    X("tcmalloc.metadata_bytes", FIGURES, r.f.metadata_bytes)                  \
    X("tcmalloc.large_blocks", FIGURES, r.f.large_blocks)                      \
    X("tcmalloc.large_bytes", FIGURES, r.f.large_bytes)                        \
    X("tcmalloc.slack_bytes", FIGURES,                                         \
      r.f.free_pages_bytes + r.f.released_bytes)                               \
    X("tcmalloc.pageheap_free_bytes", FIGURES, r.f.free_pages_bytes)           \
    X("tcmalloc.pageheap_unmapped_bytes", FIGURES, r.f.released_bytes)         \
    X("tcmalloc.pageheap_committed_bytes", FIGURES, r.f.heap_bytes)            \
    X("tcmalloc.pageheap_total_reserve_bytes", FIGURES,                        \
      r.f.heap_bytes + r.f.released_bytes)                                     \
    X("tcmalloc.pageheap_total_commit_bytes", COUNTERS,                        \
      r.c.system_bytes_taken)                                                  \
    X("tcmalloc.pageheap_total_decommit_bytes", COUNTERS,                      \
      r.c.system_bytes_returned)                                               \
    X("tcmalloc.pageheap_reserve_count", PAGES,                                \
      page_count(&tcm_page_stats.reserve_count))                               \
    X("tcmalloc.pageheap_commit_count", PAGES,                                 \
      page_count(&tcm_page_stats.commit_count))                                \
    X("tcmalloc.pageheap_decommit_count", PAGES,                               \
      page_count(&tcm_page_stats.decommit_count))                              \
    X("tcmalloc.pageheap_scavenge_count", PAGES,                               \
      page_count(&tcm_page_stats.scavenge_count))                              \
    X("tcmalloc.max_total_thread_cache_bytes", SETTINGS,                       \
      r.s.cache_budget_bytes)                                                  \
    X("tcmalloc.aggressive_memory_decommit", SETTINGS, r.s.release_at_once)    \
    X("tcmalloc.heap_limit_mb", SETTINGS, r.s.limit_bytes >> MIB_SHIFT)        \
    X("tcmalloc.min_per_thread_cache_size", CONSTANT, TCM_MIN_CACHE_BUDGET)    \
    X("tcmalloc.impl.thread_cache_count", FIGURES, r.f.caches)

static void read_source(enum source source, union reading *r) {
    if (source == FIGURES)
        tcm_heap_figures(&r->f);
    else if (source == COUNTERS)
        tcm_stats_read(&r->c);
    else if (source == SETTINGS)
        tcm_heap_settings(&r->s);
}

/* Before the heap is set up all figures are 0 anyway. */
TCM_PUBLIC int
TCM_EXPORT(MallocExtension_GetNumericProperty)(const char *property,
                                               size_t *value) {
    union reading r;
    if (!tcm_api_init())
        return 0;
#define X(name, source, expression)                                            \
    if (strcmp(property, name) == 0) {                                         \
        read_source(source, &r);                                               \
        *value = expression;                                                   \
        return 1;                                                              \
    }
    PROPERTIES(X)
#undef X
#define X(name)                                                                \
    if (strcmp(property, "tcmalloc." #name) == 0) {                            \
        read_source(COUNTERS, &r);                                             \
        *value = r.c.name;                                                     \
        return 1;                                                              \
    }
    TCM_STATS(X)
#undef X
    return 0;
}

TCM_PUBLIC int
TCM_EXPORT(MallocExtension_SetNumericProperty)(const char *property,
                                               size_t value) {
    if (!tcm_api_init())
        return 0;
    if (strcmp(property, "tcmalloc.max_total_thread_cache_bytes") == 0) {
        if (value < TCM_MIN_CACHE_BUDGET)
            value = TCM_MIN_CACHE_BUDGET;
        tcm_heap_set(TCM_SET_CACHE_BUDGET, value);
        return 1;
    }
    if (strcmp(property, "tcmalloc.aggressive_memory_decommit") == 0) {
        tcm_heap_set(TCM_SET_RELEASE_AT_ONCE, value);
        return 1;
    }
    if (strcmp(property, "tcmalloc.heap_limit_mb") == 0) {
        if (value > SIZE_MAX >> MIB_SHIFT)
            value = SIZE_MAX >> MIB_SHIFT;
        tcm_heap_set(TCM_SET_LIMIT, (uint64_t)value << MIB_SHIFT);
        return 1;
    }
    return 0;
}
