/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap grows by an eighth of itself, at most 32 MiB, or by what is asked
 * for if that is more. The system is asked with the growth lock alone; the end
 * of the committed part moves under both locks.
 */
#include "core/page_grow.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core/page_release.h"
#include "core/run_set.h"

#define GROW_MAX    ((size_t)32 << 20)
#define GROW_PAGES  (TCM_GROW_STEP >> TCM_PAGE_SHIFT)
#define CHAIN_TRIES 32u

#define HEAP (&tcm_page_heap)

/* ------------------------------------------------------------------------ */
/* Growth                                                                   */

/* Asks the system for BYTES; the page heap lock is dropped meanwhile. */
static bool get_memory(const struct tcm_range *range, size_t bytes,
                       uint64_t heap_bytes) {
    tcm_lock_assert_held(&HEAP->growth_lock);
    tcm_unlock(&HEAP->lock);
    bool done =
        tcm_meta_keep_reserve(heap_bytes) && tcm_range_commit(range, bytes);
    tcm_lock(&HEAP->lock);
    return done;
}

bool tcm_page_extend(uint32_t index, size_t bytes) {
    struct tcm_range *range = &HEAP->ranges.range[index];
    tcm_lock_assert_held(&HEAP->lock);
    TCM_ASSERT(index < HEAP->ranges.count);
    TCM_ASSERT(bytes != 0 && bytes % TCM_GROW_STEP == 0);
    struct tcm_span *run = tcm_span_new(1);
    if (run == NULL)
        return false;
    run->range = index;
    run->start = tcm_range_frontier(range);
    run->pages = bytes >> TCM_PAGE_SHIFT;
    uint64_t total = (HEAP->committed_pages << TCM_PAGE_SHIFT) + bytes;
    if (!get_memory(range, bytes, total)) {
        tcm_span_delete(run);
        return false;
    }
    TCM_ASSERT(run->start == tcm_range_frontier(range));
    range->committed += bytes;
    TCM_ASSERT(range->committed <= range->length);
    HEAP->committed_pages += run->pages;
    tcm_page_count(&tcm_page_stats.reserve_count, 1);
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return true;
}

static bool is_free(const struct tcm_span *span) {
    if (span == NULL)
        return false;
    /* A span that is in use may change its state now, but not to a free one. */
    unsigned state = tcm_load_relaxed(&span->state);
    return state == TCM_SPAN_FREE || state == TCM_SPAN_RELEASED;
}

/* Free pages of either kind at the end of RANGE. */
static size_t free_at_end(const struct tcm_range *range) {
    size_t pages = 0;
    tcm_lock_assert_held(&HEAP->lock);
    if (range->committed == 0)
        return 0;
    const struct tcm_span *span =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    for (; is_free(span); span = tcm_run_preceding(span))
        pages += span->pages;
    return pages;
}

int tcm_page_grow(size_t pages) {
    tcm_lock_assert_held(&HEAP->growth_lock);
    TCM_ASSERT(pages != 0);
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - GROW_PAGES)
        return -1;
    size_t least = tcm_align_up(pages << TCM_PAGE_SHIFT, TCM_GROW_STEP);
    size_t step = tcm_align_down((HEAP->committed_pages << TCM_PAGE_SHIFT) / 8,
                                 TCM_GROW_STEP);
    int index = -1;
    for (uint32_t i = 0; i < HEAP->ranges.count && index < 0; i++) {
        const struct tcm_range *range = &HEAP->ranges.range[i];
        size_t there = free_at_end(range);
        size_t missing = there < pages ? pages - there : 1;
        missing = tcm_align_up(missing << TCM_PAGE_SHIFT, TCM_GROW_STEP);
        if (range->length - range->committed >= missing) {
            least = missing;
            index = (int)i;
        }
    }
    if (index < 0)
        index = tcm_range_with_room(&HEAP->ranges, least);
    if (index < 0)
        return -1;
    if (step > GROW_MAX)
        step = GROW_MAX;
    bool done = (step > least && tcm_page_extend((uint32_t)index, step)) ||
                tcm_page_extend((uint32_t)index, least);
    if (done)
        return index;
    /* A range that was reserved for an absurd request must not stay. */
    tcm_range_drop_unused(&HEAP->ranges);
    return -1;
}

/* ------------------------------------------------------------------------ */
/* Chains of FREE and RELEASED neighbours                                   */

/* Joins up to PAGES of PART, a RELEASED neighbour, to the FREE run RUN. Returns
   the joined run. */
static struct tcm_span *absorb(struct tcm_span *run, struct tcm_span *part,
                               size_t pages) {
    TCM_ASSERT(run->state == TCM_SPAN_FREE);
    TCM_ASSERT(part->state == TCM_SPAN_RELEASED && pages != 0);
    TCM_ASSERT(tcm_span_end(run) == part->start ||
               tcm_span_end(part) == run->start);
    struct tcm_span *rest = NULL;
    bool above = part->start > run->start;
    if (part->pages > pages)
        rest = tcm_span_new(1); /* without it all is taken */
    tcm_run_remove(part);
    if (rest != NULL) {
        rest->range = part->range;
        rest->state = TCM_SPAN_RELEASED;
        rest->pages = part->pages - pages;
        rest->start = part->start;
        if (above)
            rest->start += pages << TCM_PAGE_SHIFT;
        else
            part->start += rest->pages << TCM_PAGE_SHIFT;
        part->pages = pages;
        tcm_run_insert(rest);
    }
    tcm_page_taken(tcm_span_bytes(part));
    tcm_run_insert_merged(part, TCM_SPAN_FREE);
    return part;
}

/* Joins the FREE run RUN with its neighbours to PAGES. NULL: they are too
   few. */
static struct tcm_span *join_around(struct tcm_span *run, size_t pages) {
    TCM_ASSERT(run->state == TCM_SPAN_FREE);
    size_t total = run->pages;
    const struct tcm_span *at = tcm_run_after(run);
    for (; is_free(at) && total < pages; at = tcm_run_after(at))
        total += at->pages;
    at = tcm_run_preceding(run);
    for (; is_free(at) && total < pages; at = tcm_run_preceding(at))
        total += at->pages;
    if (total < pages)
        return NULL;
    while (run->pages < pages) {
        struct tcm_span *part = tcm_run_after(run);
        if (!is_free(part))
            part = tcm_run_preceding(run);
        run = absorb(run, part, pages - run->pages);
    }
    TCM_ASSERT(run->state == TCM_SPAN_FREE && tcm_span_is_valid(run));
    return run;
}

struct tcm_span *tcm_page_join_somewhere(size_t pages) {
    const struct tcm_span *bound = NULL;
    for (unsigned tries = 0; tries < CHAIN_TRIES; tries++) {
        struct tcm_span *run = tcm_run_set_before(&HEAP->free, bound);
        if (run == NULL)
            return NULL;
        struct tcm_span *joined = join_around(run, pages);
        if (joined != NULL)
            return joined;
        bound = run;
    }
    return NULL;
}

struct tcm_span *tcm_page_join_at_end(uint32_t index, size_t pages) {
    const struct tcm_range *range = &HEAP->ranges.range[index];
    struct tcm_span *run =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    if (run != NULL && run->state == TCM_SPAN_RELEASED)
        run = tcm_run_preceding(run);
    if (run == NULL || run->state != TCM_SPAN_FREE)
        return NULL;
    return join_around(run, pages);
}
