/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a run: the shortest FREE run that fits, of several the lowest; then
 * the same among RELEASED runs, whose use costs page faults; then a chain of
 * neighbours of both kinds, of which the RELEASED ones become FREE; then the
 * heap grows, by what is missing at the end of a range.
 *
 * Fresh memory counts as RELEASED: no memory is behind it either.
 */
#include "core/page_heap.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_map.h"
#include "core/page_system.h"
#include "core/run_set.h"

#define LARGE_STEPS    8u
#define LARGE_STEP_MAX 8u /* pages */
#define GROW_PAGES     (TCM_GROW_STEP >> TCM_PAGE_SHIFT)

#define HEAP (&tcm_page_heap)

/* ------------------------------------------------------------------------ */
/* Allocation                                                               */

/* True if PAGES more may have memory behind them; others are returned to the
   system for them if need be, for which the lock is dropped. */
static bool within_limit(size_t pages) {
    tcm_lock_assert_held(&HEAP->lock);
    TCM_ASSERT(HEAP->released_pages <= HEAP->committed_pages);
    if (HEAP->limit_pages == 0)
        return true;
    uint64_t used = HEAP->committed_pages - HEAP->released_pages;
    if (used + pages <= HEAP->limit_pages)
        return true;
    (void)tcm_page_release_locked(used + pages - HEAP->limit_pages);
    used = HEAP->committed_pages - HEAP->released_pages;
    return used + pages <= HEAP->limit_pages;
}

struct request {
    size_t pages;
    size_t align;  /* of the start, in pages */
    size_t wish;   /* preferred alignment, in pages; a multiple of align */
    bool may_grow; /* the growth lock is held */
};

/*
 * Large blocks preferably begin at multiples of about an eighth of their
 * length: programs write to the first pages of a block more often than to all
 * of it, and later blocks in the same memory then find these pages resident.
 */
static size_t large_step(size_t pages) {
    size_t step = 1;
    while (step < LARGE_STEP_MAX && step * LARGE_STEPS <= pages)
        step *= 2;
    return step;
}

static struct tcm_span *fit(const struct tcm_run_set *set,
                            const struct request *want, size_t *offset) {
    TCM_ASSERT(want->wish % want->align == 0);
    struct tcm_span *run =
        tcm_run_set_fit_aligned(set, want->pages, want->wish, offset);
    if (run == NULL && want->wish != want->align)
        run = tcm_run_set_fit_aligned(set, want->pages, want->align, offset);
    return run;
}

/* Offset of the block in RUN, which is long enough for it. */
static size_t offset_in(const struct tcm_span *run,
                        const struct request *want) {
    TCM_ASSERT(run->pages >= want->pages + want->align - 1);
    size_t offset = tcm_run_offset(run, want->wish);
    if (offset + want->pages <= run->pages)
        return offset;
    return tcm_run_offset(run, want->align);
}

/* A run that is not, or not wholly, FREE now; *FRESH if it is RELEASED. */
static struct tcm_span *find_more(const struct request *want, size_t *offset,
                                  bool *fresh) {
    struct tcm_span *run = fit(&HEAP->released, want, offset);
    *fresh = run != NULL;
    if (run != NULL)
        return run;
    run = tcm_run_join_somewhere(want->pages + want->align - 1);
    if (run != NULL)
        *offset = offset_in(run, want);
    return run;
}

/* The same after growth. *MORE: the heap has grown, but another thread may have
   taken the pages; the caller tries again. */
static struct tcm_span *find_new(const struct request *want, size_t *offset,
                                 bool *fresh, bool *more) {
    tcm_lock_assert_held(&HEAP->growth_lock);
    size_t least = want->pages + want->align - 1;
    size_t most = want->pages + want->wish - 1;
    int index = tcm_page_grow(most);
    if (index < 0 && most != least) {
        most = least;
        index = tcm_page_grow(most);
    }
    *more = index >= 0;
    if (index < 0)
        return NULL;
    struct tcm_span *run = tcm_run_join_at_end((uint32_t)index, most);
    *fresh = run == NULL;
    if (run == NULL)
        return fit(&HEAP->released, want, offset);
    *offset = offset_in(run, want);
    return run;
}

/* A run for WANT. NULL: there is none, perhaps because the heap may not
   grow. */
static struct tcm_span *find(const struct request *want, size_t *offset,
                             bool *fresh) {
    for (bool more = true; more;) {
        struct tcm_span *run = fit(&HEAP->free, want, offset);
        *fresh = false;
        more = false;
        if (run == NULL && within_limit(want->pages)) {
            run = find_more(want, offset, fresh);
            if (run == NULL && want->may_grow)
                run = find_new(want, offset, fresh, &more);
        }
        if (run != NULL)
            return run;
    }
    return NULL;
}

static struct tcm_span *alloc_locked(const struct request *want,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    size_t offset;
    struct tcm_span *run = find(want, &offset, zeroed);
    tcm_lock_assert_held(&HEAP->lock);
    if (run == NULL)
        return NULL;
    TCM_ASSERT(run->state == (*zeroed ? TCM_SPAN_RELEASED : TCM_SPAN_FREE));
    struct tcm_span *span =
        tcm_run_carve(run, offset, want->pages, state, bit_words);
    if (span == NULL)
        return NULL;
    TCM_ASSERT(span->pages == want->pages);
    TCM_ASSERT(span->start % (want->align << TCM_PAGE_SHIFT) == 0);
    TCM_ASSERT(tcm_page_entry((void *)span->start) == 0);
    if (*zeroed)
        tcm_page_taken(tcm_span_bytes(span));
    tcm_page_count(&tcm_stats.spans_made, 1);
    if (state == TCM_SPAN_LARGE) {
        HEAP->large_pages += want->pages;
        HEAP->large_blocks++;
    }
    return span;
}

/* Takes the page heap lock, before it the growth lock if GROW. */
static void lock_heap(bool grow) {
    if (grow)
        tcm_lock(&HEAP->growth_lock);
    tcm_lock(&HEAP->lock);
}

static void unlock_heap(bool grow) {
    tcm_unlock(&HEAP->lock);
    if (grow)
        tcm_unlock(&HEAP->growth_lock);
}

/* The first attempt does not wait for a thread that makes the heap grow. */
struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    bool unused;
    struct tcm_span *span = NULL;
    TCM_ASSERT(pages != 0 && tcm_is_pow2(align_pages));
    TCM_ASSERT(state == TCM_SPAN_MOVING || state == TCM_SPAN_LARGE);
    struct request want = {pages, align_pages, align_pages, false};
    if (state == TCM_SPAN_LARGE && large_step(pages) > align_pages)
        want.wish = large_step(pages);
    tcm_meta_stock();
    for (unsigned grow = 0; grow < 2 && span == NULL; grow++) {
        want.may_grow = grow != 0;
        lock_heap(want.may_grow);
        span = alloc_locked(&want, state, bit_words,
                            zeroed != NULL ? zeroed : &unused);
        unlock_heap(want.may_grow);
    }
    return span;
}

void tcm_page_heap_free(struct tcm_span *span) {
    size_t pages = span->pages;
    tcm_lock(&HEAP->lock);
    TCM_ASSERT(tcm_span_is_valid(span));
    TCM_ASSERT(span->state == TCM_SPAN_MOVING || span->state == TCM_SPAN_LARGE);
    TCM_ASSERT(tcm_page_map_holds(span->start, tcm_span_end(span), span));
    TCM_ASSERT(tcm_page_entry((void *)span->start) == 0);
    tcm_page_count(&tcm_stats.spans_freed, 1);
    if (span->state == TCM_SPAN_LARGE) {
        TCM_ASSERT(HEAP->large_pages >= pages && HEAP->large_blocks != 0);
        HEAP->large_pages -= pages;
        HEAP->large_blocks--;
    }
    span->size_class = 0;
    tcm_run_insert_merged(span, TCM_SPAN_FREE);
    if (HEAP->release_at_once)
        (void)tcm_page_release_run(span, SIZE_MAX);
    else
        tcm_page_scavenge(pages);
    tcm_unlock(&HEAP->lock);
}

/* ------------------------------------------------------------------------ */
/* Resizing in place                                                        */

static bool shrink_locked(struct tcm_span *span, size_t pages) {
    tcm_lock_assert_held(&HEAP->lock);
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
        (void)tcm_page_release_run(tail, SIZE_MAX);
    else
        tcm_page_scavenge(freed);
    return true;
}

/* Free pages directly behind SPAN, counted up to NEED or more. If they reach
   the end of the committed part, the heap grows there if it may. */
static size_t room_behind(const struct tcm_span *span, size_t need,
                          bool may_grow) {
    struct tcm_range *range = tcm_span_range(span);
    size_t room = 0;
    tcm_lock_assert_held(&HEAP->lock);
    for (const struct tcm_span *at = span; room < need;) {
        if (tcm_span_end(at) == tcm_range_frontier(range)) {
            size_t more =
                tcm_align_up((need - room) << TCM_PAGE_SHIFT, TCM_GROW_STEP);
            if (!may_grow || !tcm_page_extend(span->range, more))
                return room;
            /* The new run may have merged with the one before it. */
            at = span;
            room = 0;
        }
        at = tcm_run_after(at);
        if (!tcm_run_is_free(at))
            return room;
        room += at->pages;
    }
    return room;
}

static bool extend_locked(struct tcm_span *span, size_t pages, bool may_grow) {
    size_t need = pages - span->pages;
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - GROW_PAGES ||
        !within_limit(need) || room_behind(span, need, may_grow) < need)
        return false;
    HEAP->large_pages += need;
    while (need != 0) {
        struct tcm_span *run = tcm_run_after(span);
        TCM_ASSERT(run != NULL && run->range == span->range);
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
    bool done = pages == span->pages;
    TCM_ASSERT(pages != 0 && span->state == TCM_SPAN_LARGE);
    TCM_ASSERT(tcm_span_is_valid(span));
    for (unsigned grow = 0; grow < 2 && !done; grow++) {
        lock_heap(grow != 0);
        done = pages < span->pages ? shrink_locked(span, pages)
                                   : extend_locked(span, pages, grow != 0);
        unlock_heap(grow != 0);
    }
    TCM_ASSERT(!done || span->pages == pages);
    return done;
}

/* ------------------------------------------------------------------------ */

size_t tcm_page_heap_release(size_t pages) {
    tcm_lock(&HEAP->lock);
    size_t done = tcm_page_release_locked(pages);
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

void tcm_page_heap_lock_all(void) {
    lock_heap(true);
}

void tcm_page_heap_unlock_all(void) {
    unlock_heap(true);
}

void tcm_page_heap_fork_child(void) {
    tcm_lock_assert_held(&HEAP->growth_lock);
    tcm_lock_assert_held(&HEAP->lock);
    while (!tcm_dlist_empty(&HEAP->busy)) {
        struct tcm_span *run =
            TCM_CONTAINER_OF(HEAP->busy.next, struct tcm_span, link);
        TCM_ASSERT(run->state == TCM_SPAN_BUSY);
        TCM_ASSERT(HEAP->busy_pages >= run->pages);
        HEAP->busy_pages -= run->pages;
        tcm_dlist_remove(&run->link);
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
    }
    TCM_ASSERT(HEAP->busy_pages == 0);
}

void tcm_page_heap_init(void) {
    tcm_lock_init(&HEAP->lock, TCM_RANK_PAGE_HEAP);
    tcm_lock_init(&HEAP->growth_lock, TCM_RANK_GROWTH);
    HEAP->system_page = tcm_os_page_size();
    TCM_ASSERT(tcm_is_pow2(HEAP->system_page) &&
               HEAP->system_page <= TCM_GROW_STEP);
    tcm_range_init(&HEAP->ranges);
}
