/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a run: the shortest FREE run that fits, the lowest of those; if
 * there is none, the same among RELEASED runs, whose use costs page faults;
 * then a chain of neighbours of both kinds, of which the RELEASED ones become
 * FREE; else the heap grows, by what is missing at the end of its range.
 *
 * Fresh memory counts as RELEASED: nothing is behind it either.
 */
#include "core/page_heap.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_map.h"
#include "core/page_release.h"
#include "core/run_set.h"

#define GROW_MAX       ((size_t)32 << 20)
#define CHAIN_TRIES    32u
#define LARGE_STEPS    8u
#define LARGE_STEP_MAX 8u /* pages */
#define GROW_PAGES     (TCM_GROW_STEP >> TCM_PAGE_SHIFT)

struct tcm_page_heap tcm_page_heap = {
    .lock = TCM_LOCK_INIT(TCM_RANK_PAGE_HEAP),
    .scavenge_wait = TCM_FIRST_RELEASE_WAIT,
    .release_rate_milli = 1000,
};

#define HEAP (&tcm_page_heap)

/* ------------------------------------------------------------------------ */
/* Growth                                                                   */

/* Commits BYTES of RANGE more; they join the RELEASED runs. */
static bool extend(uint32_t index, size_t bytes) {
    struct tcm_range *range = &HEAP->ranges.range[index];
    struct tcm_span *run = tcm_span_new(1);
    if (run == NULL)
        return false;
    run->range = index;
    run->start = tcm_range_frontier(range);
    run->pages = bytes >> TCM_PAGE_SHIFT;
    uint64_t total = (HEAP->committed_pages << TCM_PAGE_SHIFT) + bytes;
    if (!tcm_meta_keep_reserve(total) || !tcm_range_extend(range, bytes)) {
        tcm_span_delete(run);
        return false;
    }
    HEAP->committed_pages += run->pages;
    tcm_page_count(&tcm_page_stats.reserve_count, 1);
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return true;
}

static bool is_free(const struct tcm_span *span) {
    return span != NULL &&
           (span->state == TCM_SPAN_FREE || span->state == TCM_SPAN_RELEASED);
}

/* Free pages of either kind at the end of RANGE. */
static size_t free_at_end(const struct tcm_range *range) {
    size_t pages = 0;
    if (range->committed == 0)
        return 0;
    const struct tcm_span *span =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    for (; is_free(span); span = tcm_run_preceding(span))
        pages += span->pages;
    return pages;
}

/* Grows so that a chain of PAGES exists at the end of a range. Its index, or
   -1. */
static int grow(size_t pages) {
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
    bool done = (step > least && extend((uint32_t)index, step)) ||
                extend((uint32_t)index, least);
    if (done)
        return index;
    /* A range as long as an absurd request must not stay. */
    tcm_range_drop_unused(&HEAP->ranges);
    return -1;
}

/* ------------------------------------------------------------------------ */
/* Chains of FREE and RELEASED neighbours                                   */

/* Makes up to PAGES of PART, a RELEASED neighbour of the FREE run RUN, part of
   that; the joined run. */
static struct tcm_span *absorb(struct tcm_span *run, struct tcm_span *part,
                               size_t pages) {
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

/* Joins RUN, FREE, with its neighbours to PAGES. NULL: they are too few. */
static struct tcm_span *join_around(struct tcm_span *run, size_t pages) {
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
    return run;
}

/* Looks for a chain around the largest FREE runs. */
static struct tcm_span *join_somewhere(size_t pages) {
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

/* Joins what is free at the end of a range. */
static struct tcm_span *join_at_end(const struct tcm_range *range,
                                    size_t pages) {
    struct tcm_span *run =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    if (run != NULL && run->state == TCM_SPAN_RELEASED)
        run = tcm_run_preceding(run);
    if (run == NULL || run->state != TCM_SPAN_FREE)
        return NULL;
    return join_around(run, pages);
}

/* ------------------------------------------------------------------------ */
/* Allocation                                                               */

/* True if PAGES more may have memory behind them. */
static bool within_limit(size_t pages) {
    if (HEAP->limit_pages == 0)
        return true;
    uint64_t used = HEAP->committed_pages - HEAP->released_pages;
    if (used + pages <= HEAP->limit_pages)
        return true;
    used -= tcm_page_release_locked(used + pages - HEAP->limit_pages, false);
    return used + pages <= HEAP->limit_pages;
}

/* A request for pages, and how its start is aligned: as it must be, and as it
   better were. All in pages. */
struct request {
    size_t pages;
    size_t align;
    size_t wish;
};

/*
 * Large blocks begin at coarser steps, of about an eighth of their length:
 * programs write to the first pages of a block more often than to all of it,
 * and those who use the memory later so find the same pages resident.
 */
static size_t large_step(size_t pages) {
    size_t step = 1;
    while (step < LARGE_STEP_MAX && step * LARGE_STEPS <= pages)
        step *= 2;
    return step;
}

static struct tcm_span *fit(const struct tcm_run_set *set,
                            const struct request *want, size_t *offset) {
    struct tcm_span *run =
        tcm_run_set_fit_aligned(set, want->pages, want->wish, offset);
    if (run == NULL && want->wish != want->align)
        run = tcm_run_set_fit_aligned(set, want->pages, want->align, offset);
    return run;
}

/* A run that is not, or not wholly, FREE now; *FRESH if it is RELEASED. */
static struct tcm_span *find_more(const struct request *want, size_t *offset,
                                  bool *fresh) {
    struct tcm_span *run = fit(&HEAP->released, want, offset);
    *fresh = run != NULL;
    if (run != NULL)
        return run;
    size_t most = want->pages + want->align - 1;
    run = join_somewhere(most);
    if (run == NULL) {
        size_t least = most;
        most = want->pages + want->wish - 1;
        int index = grow(most);
        if (index < 0 && most != least) {
            most = least;
            index = grow(most);
        }
        if (index < 0)
            return NULL;
        run = join_at_end(&HEAP->ranges.range[index], most);
    }
    *fresh = run == NULL;
    if (run == NULL)
        return fit(&HEAP->released, want, offset);
    *offset = tcm_run_offset(run, want->wish);
    if (*offset + want->pages > run->pages)
        *offset = tcm_run_offset(run, want->align);
    return run;
}

static struct tcm_span *alloc_locked(const struct request *want,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    size_t offset;
    bool fresh = false;
    struct tcm_span *run = fit(&HEAP->free, want, &offset);
    if (run == NULL) {
        if (!within_limit(want->pages))
            return NULL;
        run = find_more(want, &offset, &fresh);
    }
    if (run == NULL)
        return NULL;
    struct tcm_span *span =
        tcm_run_carve(run, offset, want->pages, state, bit_words);
    if (span == NULL)
        return NULL;
    if (fresh)
        tcm_page_taken(tcm_span_bytes(span));
    *zeroed = fresh;
    tcm_page_count(&tcm_stats.spans_made, 1);
    if (state == TCM_SPAN_LARGE) {
        HEAP->large_pages += want->pages;
        HEAP->large_blocks++;
    }
    return span;
}

struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    bool unused;
    struct request want = {pages, align_pages, align_pages};
    if (state == TCM_SPAN_LARGE && large_step(pages) > align_pages)
        want.wish = large_step(pages);
    tcm_lock(&HEAP->lock);
    struct tcm_span *span = alloc_locked(&want, state, bit_words,
                                         zeroed != NULL ? zeroed : &unused);
    tcm_unlock(&HEAP->lock);
    return span;
}

void tcm_page_heap_free(struct tcm_span *span) {
    size_t pages = span->pages;
    tcm_lock(&HEAP->lock);
    tcm_page_count(&tcm_stats.spans_freed, 1);
    if (span->state == TCM_SPAN_LARGE) {
        HEAP->large_pages -= pages;
        HEAP->large_blocks--;
    }
    span->class = 0;
    tcm_run_insert_merged(span, TCM_SPAN_FREE);
    if (HEAP->release_at_once)
        (void)tcm_page_release_run(span, SIZE_MAX, true);
    else
        tcm_page_scavenge(pages);
    tcm_unlock(&HEAP->lock);
}

/* ------------------------------------------------------------------------ */
/* Resizing in place                                                        */

static bool shrink_locked(struct tcm_span *span, size_t pages) {
    struct tcm_span *tail = tcm_span_new(1);
    if (tail == NULL)
        return false;
    tail->range = span->range;
    tail->start = span->start + (pages << TCM_PAGE_SHIFT);
    tail->pages = span->pages - pages;
    tcm_run_map_ends(span, NULL);
    HEAP->large_pages -= tail->pages;
    span->pages = pages;
    tcm_run_map_ends(span, span);
    size_t freed = tail->pages;
    tcm_run_insert_merged(tail, TCM_SPAN_FREE);
    if (HEAP->release_at_once)
        (void)tcm_page_release_run(tail, SIZE_MAX, true);
    else
        tcm_page_scavenge(freed);
    return true;
}

/* Pages that are free right behind SPAN, NEED or more if there are so many;
   the heap grows there if they reach its end. */
static size_t room_behind(const struct tcm_span *span, size_t need) {
    struct tcm_range *range = tcm_span_range(span);
    size_t room = 0;
    for (const struct tcm_span *at = span; room < need;) {
        if (tcm_span_end(at) == tcm_range_frontier(range)) {
            size_t more =
                tcm_align_up((need - room) << TCM_PAGE_SHIFT, TCM_GROW_STEP);
            if (!extend(span->range, more))
                return room;
            /* The new run may have merged with the one before it. */
            at = span;
            room = 0;
        }
        at = tcm_run_after(at);
        if (at == NULL ||
            (at->state != TCM_SPAN_FREE && at->state != TCM_SPAN_RELEASED))
            return room;
        room += at->pages;
    }
    return room;
}

static bool extend_locked(struct tcm_span *span, size_t pages) {
    size_t need = pages - span->pages;
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - GROW_PAGES ||
        !within_limit(need) || room_behind(span, need) < need)
        return false;
    HEAP->large_pages += need;
    while (need != 0) {
        struct tcm_span *run = tcm_run_after(span);
        size_t take = run->pages < need ? run->pages : need;
        if (run->state == TCM_SPAN_RELEASED)
            tcm_page_taken(take << TCM_PAGE_SHIFT);
        tcm_run_remove(run);
        tcm_page_map_set_span(tcm_span_end(span) - TCM_PAGE_SIZE, NULL);
        span->pages += take;
        run->start += take << TCM_PAGE_SHIFT;
        run->pages -= take;
        if (run->pages != 0)
            tcm_run_insert(run);
        else
            tcm_span_delete(run);
        tcm_run_map_ends(span, span);
        need -= take;
    }
    return true;
}

bool tcm_page_heap_resize(struct tcm_span *span, size_t pages) {
    bool done = true;
    tcm_lock(&HEAP->lock);
    if (pages < span->pages)
        done = shrink_locked(span, pages);
    else if (pages > span->pages)
        done = extend_locked(span, pages);
    tcm_unlock(&HEAP->lock);
    return done;
}

/* ------------------------------------------------------------------------ */

size_t tcm_page_heap_release(size_t pages) {
    tcm_lock(&HEAP->lock);
    size_t done = tcm_page_release_locked(pages, true);
    tcm_unlock(&HEAP->lock);
    return done;
}

struct tcm_span *tcm_page_heap_find(const void *address) {
    uintptr_t a = tcm_align_down((uintptr_t)address, TCM_PAGE_SIZE);
    struct tcm_span *span = NULL;
    tcm_lock(&HEAP->lock);
    for (uint32_t i = 0; i < HEAP->ranges.count; i++) {
        const struct tcm_range *range = &HEAP->ranges.range[i];
        if (a < range->start || a >= tcm_range_frontier(range))
            continue;
        while (span == NULL && a >= range->start) {
            span = tcm_page_span((void *)a);
            a -= TCM_PAGE_SIZE;
        }
        if (span != NULL && (uintptr_t)address >= tcm_span_end(span))
            span = NULL;
    }
    tcm_unlock(&HEAP->lock);
    return span;
}

void tcm_page_heap_fork_child(void) {
    struct tcm_span *run = HEAP->busy;
    HEAP->busy = NULL;
    HEAP->busy_pages = 0;
    if (run != NULL)
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
}

void tcm_page_heap_init(void) {
    tcm_lock_init(&HEAP->lock, TCM_RANK_PAGE_HEAP);
    HEAP->system_page = tcm_os_page_size();
    tcm_range_init(&HEAP->ranges);
}
