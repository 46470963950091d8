/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/heap_census.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/heap.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"

static void add_cached(struct tcm_thread_cache *cache, void *argument) {
    uint64_t *cached = argument;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        cached[size_class] += tcm_cache_objects(cache, size_class);
}

void tcm_census_cached(uint64_t cached[TCM_MAX_CLASSES]) {
    __builtin_memset(cached, 0, TCM_MAX_CLASSES * sizeof(cached[0]));
    tcm_registry_each(add_cached, cached);
}

void tcm_census_class(unsigned size_class, uint64_t cached,
                      struct tcm_class_figures *out) {
    TCM_ASSERT(size_class != 0 && size_class < tcm_class_count);
    const struct tcm_class_info *info = &tcm_class[size_class];
    struct tcm_central_figures central;
    tcm_central_figures(size_class, &central);
    out->size = info->size;
    out->spans = central.spans;
    out->slots = out->spans * info->objects;
    out->central = central.free_objects;
    out->transfer = tcm_transfer_objects(size_class);
    out->cached = cached;
    uint64_t idle = out->central + out->transfer + cached;
    /* The parts may be of different moments. */
    out->in_use = out->slots > idle ? out->slots - idle : 0;
}

static void add_blocks(struct tcm_census *out, uint64_t count, uint64_t size) {
    out->blocks += count;
    out->bytes += count * size;
    out->histogram[tcm_log2_floor(size) + 1] += count;
}

/* Calls VISIT for each span of the heap, by range and address, under the page
   heap's locks. */
static void each_span(void (*visit)(const struct tcm_span *, void *),
                      void *argument) {
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        uintptr_t at = range->start;
        const struct tcm_span *span;
        /* Spans cover the range without a gap. */
        while (at < tcm_range_frontier(range) &&
               (span = tcm_page_span((void *)at)) != NULL) {
            TCM_ASSERT(span->start == at && span->range == i);
            visit(span, argument);
            at = tcm_span_end(span);
        }
    }
    tcm_page_heap_unlock_all();
}

static void visit_large(const struct tcm_span *span, void *argument) {
    if (span->state == TCM_SPAN_LARGE)
        add_blocks(argument, 1, tcm_span_bytes(span));
}

void tcm_census_blocks(struct tcm_census *out) {
    uint64_t cached[TCM_MAX_CLASSES];
    __builtin_memset(out, 0, sizeof(*out));
    tcm_census_cached(cached);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        struct tcm_class_figures c;
        tcm_census_class(size_class, cached[size_class], &c);
        add_blocks(out, c.in_use, c.size);
    }
    each_span(visit_large, out);
}

struct word_visit {
    size_t above;
    tcm_word_visit *visit;
    void *ctx;
};

/* Visits the slots of SPAN, whose first page has its class and table. */
static void visit_slots(const struct tcm_span *span,
                        const struct word_visit *v) {
    uint64_t entry = tcm_page_entry((const void *)span->start);
    const struct tcm_class_info *c = &tcm_class[tcm_entry_class(entry)];
    if (tcm_entry_class(entry) == 0 || c->size <= v->above)
        return;
    for (unsigned i = 0; i < c->objects; i++) {
        uintptr_t at = span->start + (uintptr_t)i * c->size;
        uint64_t here = tcm_page_entry((const void *)at);
        const uint64_t *word =
            here == 0 ? NULL : tcm_entry_word(here, (void *)at);
        if (word != NULL)
            v->visit(v->ctx, at, c->size, tcm_load_relaxed(word));
    }
}

/* Relaxed: the block's owner may be writing its word. */
static void visit_words(const struct tcm_span *span, void *argument) {
    const struct word_visit *v = argument;
    if (span->state == TCM_SPAN_SMALL)
        visit_slots(span, v);
    else if (span->state == TCM_SPAN_LARGE && tcm_span_bytes(span) > v->above)
        v->visit(v->ctx, span->start, tcm_span_bytes(span),
                 tcm_load_relaxed(&span->word));
}

void tcm_census_words(size_t above, tcm_word_visit *visit, void *ctx) {
    struct word_visit v = {above, visit, ctx};
    each_span(visit_words, &v);
}

static void add_run(struct tcm_run_figures *out, const struct tcm_span *run) {
    out->runs++;
    if (run->pages > out->longest_pages)
        out->longest_pages = run->pages;
}

static void visit_run(const struct tcm_span *span, void *argument) {
    struct tcm_run_figures **both = argument;
    if (span->state == TCM_SPAN_FREE || span->state == TCM_SPAN_SPARE)
        add_run(both[0], span);
    else if (span->state == TCM_SPAN_RELEASED)
        add_run(both[1], span);
}

void tcm_census_runs(struct tcm_run_figures *free,
                     struct tcm_run_figures *released) {
    struct tcm_run_figures *both[2] = {free, released};
    __builtin_memset(free, 0, sizeof(*free));
    __builtin_memset(released, 0, sizeof(*released));
    each_span(visit_run, both);
}

uint64_t tcm_census_cache_bytes(const struct tcm_thread_cache *cache) {
    uint64_t bytes = 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        bytes +=
            tcm_cache_objects(cache, size_class) * tcm_class[size_class].size;
    return bytes;
}

bool tcm_census_is_block(const void *ptr) {
    struct tcm_block_info info = tcm_block_info(ptr);
    if (info.kind == TCM_BLOCK_LARGE || info.kind == TCM_BLOCK_PRIVATE)
        return true;
    if (info.kind != TCM_BLOCK_SMALL)
        return false;
    uint64_t slot = tcm_class_slot(&tcm_class[info.size_class],
                                   (uintptr_t)ptr - info.span->start);
    /* The span may have gone meanwhile, if the block is not the caller's. */
    struct tcm_lock *lock = tcm_central_lock_span(info.span, info.size_class);
    if (lock == NULL)
        return false;
    bool used = (info.span->free_bits[slot / 64] >> (slot % 64) & 1) == 0;
    tcm_unlock(lock);
    return used;
}
