/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a run: the shortest FREE run that fits, of several the lowest; then
 * the same among RELEASED runs, whose use costs page faults; then a chain of
 * neighbours of both kinds, of which the RELEASED ones become FREE; then the
 * heap grows, by what is missing at the end of a range.
 *
 * Fresh memory counts as RELEASED: no memory is behind it either.
 *
 * Choice of a shard: that of the thread (thread_shard.h). A shard that has its
 * share of the memory in use takes FREE runs of other shards before RELEASED
 * ones of its own, so that memory which one thread freed is used by another.
 * Under a limit there is one shard only.
 */
#include "core/page_heap.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_map.h"
#include "core/page_system.h"
#include "core/thread_shard.h"

/* A shard lends pages while at least 1/LENT_PART of its pages are idle.
   Otherwise borrowers would take its last free pages, and each free of their
   blocks would wait for its lock. It lends all idle pages if its threads seem
   to be gone or asleep, because REFUSED_MOST requests of others came since its
   own last one; and for a block that needs a step of growth, whose memory would
   cost more than the wait. */
#define LENT_PART    2u
#define REFUSED_MOST 8u
/* Pages of a shard that are much. */
#define MUCH_PAGES 1024u
/* Most shorter requests in a row that do not look for such pages after others
   found none. */
#define BORROW_WAIT 32u

#define LARGE_STEPS    8u
#define LARGE_STEP_MAX 8u /* pages */

/* ------------------------------------------------------------------------ */
/* Shards                                                                   */

static uint64_t all_used_pages(void) {
    uint64_t pages = 0;
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = 0; i < n; i++)
        pages += tcm_page_used(tcm_page_shard[i]);
    return pages;
}

/* Pages of HEAP that are free and have memory: a hint, as tcm_page_used. */
static uint64_t idle_pages(const struct tcm_page_heap *heap) {
    return tcm_load_relaxed(&heap->free_pages) +
           tcm_load_relaxed(&heap->spare_pages);
}

/* Locks the calling thread's shard and returns it. */
static struct tcm_page_heap *lock_thread_shard(void) {
    struct tcm_page_heap *heap = tcm_page_shard[tcm_thread_shard()];
    if (TCM_LIKELY(tcm_lock_try(&heap->lock))) {
        tcm_thread_shard_passes();
    } else {
        heap = tcm_page_shard[tcm_thread_shard_waits()];
        tcm_lock(&heap->lock);
    }
    if (tcm_load_relaxed(&heap->refused) != 0)
        tcm_store_relaxed(&heap->refused, 0u);
    return heap;
}

/* ------------------------------------------------------------------------ */
/* Allocation                                                               */

/* True if PAGES more pages may have memory behind them. Returns other pages to
   the system if that is needed; the lock is dropped meanwhile. */
static bool within_limit(struct tcm_page_heap *heap, size_t pages) {
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(heap->released_pages <= heap->committed_pages);
    if (heap->limit_pages == 0)
        return true;
    uint64_t used = all_used_pages();
    if (used + pages <= heap->limit_pages)
        return true;
    (void)tcm_page_release_locked(heap, used + pages - heap->limit_pages);
    return all_used_pages() + pages <= heap->limit_pages;
}

struct request {
    size_t pages;
    size_t align;  /* alignment of the start, in pages */
    size_t wish;   /* preferred alignment, in pages; a multiple of align */
    bool may_grow; /* the growth lock is held */
    bool is_idle;  /* FREE runs only */
    enum tcm_span_state state;
    unsigned bit_words;
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

static struct tcm_span *fit_request(const struct tcm_run_set *set,
                                    const struct request *want,
                                    size_t *offset) {
    TCM_ASSERT(want->wish % want->align == 0);
    struct tcm_span *run =
        tcm_run_set_fit_aligned(set, want->pages, want->wish, offset);
    if (run == NULL && want->wish != want->align)
        run = tcm_run_set_fit_aligned(set, want->pages, want->align, offset);
    return run;
}

/* A FREE run for WANT. If there is none, SPARE spans are merged: perhaps they
   and what lies between them are long enough. */
static struct tcm_span *fit_free(struct tcm_page_heap *heap,
                                 const struct request *want, size_t *offset) {
    struct tcm_span *run = fit_request(&heap->free, want, offset);
    if (run != NULL || heap->spare_pages == 0)
        return run;
    tcm_spare_merge(heap);
    return fit_request(&heap->free, want, offset);
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

/* Finds a run that is not, or not wholly, FREE now. *FRESH: it is RELEASED. */
static struct tcm_span *find_released_run(struct tcm_page_heap *heap,
                                          const struct request *want,
                                          size_t *offset, bool *fresh) {
    struct tcm_span *run = fit_request(&heap->released, want, offset);
    *fresh = run != NULL;
    if (run != NULL)
        return run;
    run = tcm_run_join_somewhere(heap, want->pages + want->align - 1);
    if (run != NULL)
        *offset = offset_in(run, want);
    return run;
}

/* Makes the heap grow and finds a run there. *MORE: the heap has grown, but
   another thread may have taken the pages; the caller tries again. */
static struct tcm_span *find_run_after_growth(struct tcm_page_heap *heap,
                                              const struct request *want,
                                              size_t *offset, bool *fresh,
                                              bool *more) {
    tcm_lock_assert_held(&tcm_growth.lock);
    size_t least = want->pages + want->align - 1;
    size_t most = want->pages + want->wish - 1;
    int index = tcm_page_grow(heap, most);
    if (index < 0 && most != least) {
        most = least;
        index = tcm_page_grow(heap, most);
    }
    *more = index >= 0;
    if (index < 0)
        return NULL;
    struct tcm_span *run = tcm_run_join_at_end((uint32_t)index, most);
    *fresh = run == NULL;
    if (run == NULL)
        return fit_request(&heap->released, want, offset);
    *offset = offset_in(run, want);
    return run;
}

/* Finds a run for WANT. NULL: there is none, perhaps because the heap may not
   grow. */
static struct tcm_span *find_run(struct tcm_page_heap *heap,
                                 const struct request *want, size_t *offset,
                                 bool *fresh) {
    for (bool more = true; more;) {
        struct tcm_span *run = fit_free(heap, want, offset);
        *fresh = false;
        more = false;
        if (run == NULL && !want->is_idle && within_limit(heap, want->pages)) {
            run = find_released_run(heap, want, offset, fresh);
            if (run == NULL && want->may_grow)
                run = find_run_after_growth(heap, want, offset, fresh, &more);
        }
        if (run != NULL)
            return run;
    }
    return NULL;
}

/* Makes the pages that WANT asks for, OFFSET pages into the free run RUN, a
   span. NULL: no memory for a record. */
static struct tcm_span *carve_for(struct tcm_span *run, size_t offset,
                                  const struct request *want) {
    struct tcm_page_heap *heap = tcm_page_shard_of(run);
    bool released = run->state == TCM_SPAN_RELEASED;
    struct tcm_span *span =
        tcm_run_carve(run, offset, want->pages, want->state, want->bit_words);
    if (span == NULL)
        return NULL;
    TCM_ASSERT(span->pages == want->pages);
    TCM_ASSERT(span->start % (want->align << TCM_PAGE_SHIFT) == 0);
    TCM_ASSERT(tcm_entry_class(tcm_page_entry((void *)span->start)) == 0);
    if (released)
        tcm_page_taken(heap, tcm_span_bytes(span));
    tcm_add_owned(&heap->spans_made, 1);
    if (want->state == TCM_SPAN_LARGE) {
        heap->large_pages += want->pages;
        heap->large_blocks++;
    }
    return span;
}

static struct tcm_span *alloc_locked(struct tcm_page_heap *heap,
                                     const struct request *want, bool *zeroed) {
    size_t offset;
    struct tcm_span *run = find_run(heap, want, &offset, zeroed);
    tcm_lock_assert_held(&heap->lock);
    if (run == NULL)
        return NULL;
    TCM_ASSERT(run->state == (*zeroed ? TCM_SPAN_RELEASED : TCM_SPAN_FREE));
    return carve_for(run, offset, want);
}

/* Allocates from HEAP, the calling thread's shard: a SPARE span if there is one
   for WANT. */
static struct tcm_span *alloc_own(struct tcm_page_heap *heap,
                                  const struct request *want, bool *zeroed) {
    if (want->state == TCM_SPAN_MOVING && want->align == 1) {
        struct tcm_span *span =
            tcm_spare_take(heap, want->pages, want->bit_words);
        if (span != NULL) {
            tcm_add_owned(&heap->spans_made, 1);
            return span;
        }
    }
    return alloc_locked(heap, want, zeroed);
}

/* Takes HEAP's lock, and before it the growth lock if GROW. */
static void lock_heap(struct tcm_page_heap *heap, bool grow) {
    if (grow)
        tcm_lock(&tcm_growth.lock);
    tcm_lock(&heap->lock);
}

static void unlock_heap(struct tcm_page_heap *heap, bool grow) {
    tcm_unlock(&heap->lock);
    if (grow)
        tcm_unlock(&tcm_growth.lock);
}

static struct tcm_span *alloc_from(struct tcm_page_heap *heap,
                                   const struct request *want, bool *zeroed) {
    lock_heap(heap, want->may_grow);
    struct tcm_span *span = alloc_locked(heap, want, zeroed);
    unlock_heap(heap, want->may_grow);
    return span;
}

/* True if HEAP may lend PAGES. REQUESTS are made since the borrower was here
   last. Without the lock, and so a hint. */
static bool lends(struct tcm_page_heap *heap, size_t pages, uint32_t requests) {
    uint64_t idle = idle_pages(heap);
    if (idle < pages)
        return false;
    if (idle >= tcm_page_used(heap) / LENT_PART || pages >= TCM_GROW_PAGES ||
        tcm_load_relaxed(&heap->refused) >= REFUSED_MOST)
        return true;
    (void)tcm_add_relaxed(&heap->refused, requests);
    return false;
}

/* alloc_from with FREE runs of HEAP, for shard BORROWER, unless HEAP's lock is
   taken or it needs its pages. */
static struct tcm_span *borrow_from(struct tcm_page_heap *heap,
                                    const struct tcm_page_heap *borrower,
                                    const struct request *want, bool *zeroed) {
    uint32_t requests = 1 + tcm_load_relaxed(&borrower->borrows.last);
    TCM_ASSERT(want->is_idle && !want->may_grow);
    if (!lends(heap, want->pages, requests) || !tcm_lock_try(&heap->lock))
        return NULL;
    struct tcm_span *span = alloc_locked(heap, want, zeroed);
    tcm_unlock(&heap->lock);
    return span;
}

/* Allocates from shards other than HEAP. */
static struct tcm_span *alloc_elsewhere(const struct tcm_page_heap *heap,
                                        const struct request *want,
                                        bool *zeroed) {
    struct tcm_span *span = NULL;
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = 0; i < n && span == NULL; i++) {
        if (tcm_page_shard[i] == heap)
            continue;
        span = want->is_idle
                   ? borrow_from(tcm_page_shard[i], heap, want, zeroed)
                   : alloc_from(tcm_page_shard[i], want, zeroed);
    }
    return span;
}

static bool has_much(const struct tcm_page_heap *heap) {
    return tcm_page_used(heap) >= MUCH_PAGES;
}

/* True if HEAP has its share of the memory that all blocks take, or much of its
   own. Threads of new shards borrow only from such shards, so that they do not
   meet again at the pages of one of them.
   Relaxed: a hint about shards whose locks are not held. */
static bool has_share(const struct tcm_page_heap *heap) {
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    uint64_t taken = 0;
    if (n == 1)
        return false;
    if (has_much(heap))
        return true;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t used = tcm_page_used(tcm_page_shard[i]);
        uint64_t idle = idle_pages(tcm_page_shard[i]);
        taken += used > idle ? used - idle : 0;
    }
    return tcm_page_used(heap) * n >= taken;
}

/* Allocates from HEAP, the calling thread's shard, whose lock is dropped, and
   then FREE runs of others if it has its share. ITS_IDLE: of HEAP, FREE runs
   alone. */
static struct tcm_span *alloc_or_borrow(struct tcm_page_heap *heap,
                                        struct request *want, bool its_idle,
                                        bool *zeroed) {
    bool is_long = want->pages >= TCM_GROW_PAGES;
    want->is_idle = its_idle;
    struct tcm_span *span = alloc_own(heap, want, zeroed);
    bool looks =
        span == NULL && (is_long || !tcm_backoff_waits(&heap->borrows));
    tcm_unlock(&heap->lock);
    if (looks && (is_long || has_share(heap))) {
        want->is_idle = true;
        span = alloc_elsewhere(heap, want, zeroed);
        if (!is_long)
            tcm_backoff_note(&heap->borrows, span != NULL, 1, BORROW_WAIT);
    }
    want->is_idle = false;
    return span;
}

/* Takes memory again that was given back, or grows, only after looking at other
   shards' idle pages; but a shard without much memory takes it again first, and
   so locks but once. The first attempt does not wait for a thread that makes
   the heap grow; the last one tries all shards. */
struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    bool unused;
    TCM_ASSERT(pages != 0 && tcm_is_pow2(align_pages));
    TCM_ASSERT(state == TCM_SPAN_MOVING || state == TCM_SPAN_LARGE);
    struct request want = {.pages = pages,
                           .align = align_pages,
                           .wish = align_pages,
                           .state = state,
                           .bit_words = bit_words};
    if (state == TCM_SPAN_LARGE && large_step(pages) > align_pages)
        want.wish = large_step(pages);
    if (zeroed == NULL)
        zeroed = &unused;
    tcm_meta_stock();
    struct tcm_page_heap *heap = lock_thread_shard();
    bool is_alone = tcm_load_acquire(&tcm_page_shards) == 1;
    bool looks_first = !is_alone && (pages >= TCM_GROW_PAGES || has_much(heap));
    struct tcm_span *span = alloc_or_borrow(heap, &want, looks_first, zeroed);
    if (span == NULL && looks_first)
        span = alloc_from(heap, &want, zeroed);
    want.may_grow = true;
    if (span == NULL)
        span = alloc_from(heap, &want, zeroed);
    if (span == NULL)
        span = alloc_elsewhere(heap, &want, zeroed);
    return span;
}

struct tcm_span *tcm_page_heap_alloc_idle(size_t pages, unsigned bit_words) {
    struct request want = {.pages = pages,
                           .align = 1,
                           .wish = 1,
                           .is_idle = true,
                           .state = TCM_SPAN_MOVING,
                           .bit_words = bit_words};
    bool zeroed;
    tcm_meta_stock();
    struct tcm_page_heap *heap = lock_thread_shard();
    struct tcm_span *span = alloc_own(heap, &want, &zeroed);
    tcm_unlock(&heap->lock);
    return span;
}

struct tcm_span *tcm_page_heap_alloc_zeroed(size_t pages) {
    struct request want = {.pages = pages,
                           .align = 1,
                           .wish = large_step(pages),
                           .state = TCM_SPAN_LARGE,
                           .bit_words = 1};
    struct tcm_span *span = NULL;
    size_t offset;
    TCM_ASSERT(pages != 0);
    tcm_meta_stock();
    struct tcm_page_heap *heap = lock_thread_shard();
    if (fit_free(heap, &want, &offset) == NULL && within_limit(heap, pages)) {
        struct tcm_span *run = fit_request(&heap->released, &want, &offset);
        if (run != NULL)
            span = carve_for(run, offset, &want);
    }
    tcm_unlock(&heap->lock);
    return span;
}

/* Frees RUN: as a spare, if it is MOVING and there are few, else as FREE. Under
   a limit only shard 0 allocates, so the others return the memory. */
static void make_free(struct tcm_page_heap *heap, struct tcm_span *run) {
    bool at_once =
        heap->release_at_once || (heap->limit_pages != 0 && heap->shard != 0);
    if (run->state != TCM_SPAN_MOVING || !tcm_spare_keep(heap, run))
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
    if (at_once)
        (void)tcm_page_release_run(run, SIZE_MAX);
}

void tcm_page_heap_free(struct tcm_span *span) {
    struct tcm_page_heap *heap = tcm_page_shard_of(span);
    size_t pages = span->pages;
    tcm_lock(&heap->lock);
    bool window_ends = tcm_page_scavenge(heap, pages);
    TCM_ASSERT(tcm_span_is_valid(span));
    TCM_ASSERT(span->state == TCM_SPAN_MOVING || span->state == TCM_SPAN_LARGE);
    TCM_ASSERT(tcm_page_map_holds(span->start, tcm_span_end(span), span));
    TCM_ASSERT(tcm_entry_class(tcm_page_entry((void *)span->start)) == 0);
    tcm_add_owned(&heap->spans_freed, 1);
    if (span->state == TCM_SPAN_LARGE) {
        TCM_ASSERT(heap->large_pages >= pages && heap->large_blocks != 0);
        heap->large_pages -= pages;
        heap->large_blocks--;
    }
    tcm_store_relaxed(&span->size_class, (uint8_t)0);
    make_free(heap, span);
    tcm_unlock(&heap->lock);
    if (TCM_UNLIKELY(window_ends))
        tcm_page_scavenge_asleep(heap);
}

/* ------------------------------------------------------------------------ */
/* Resizing in place                                                        */

static bool shrink_locked(struct tcm_span *span, size_t pages) {
    struct tcm_page_heap *heap = tcm_page_shard_of(span);
    tcm_lock_assert_held(&heap->lock);
    (void)tcm_page_scavenge(heap, span->pages - pages);
    struct tcm_span *tail = tcm_run_piece(
        span, span->start + (pages << TCM_PAGE_SHIFT), tcm_span_end(span));
    if (tail == NULL)
        return false;
    tcm_run_map_ends(span, NULL);
    heap->large_pages -= tail->pages;
    span->pages = pages;
    tcm_run_map_ends(span, span);
    make_free(heap, tail);
    return true;
}

/* Counts free pages directly behind SPAN, up to NEED or more. If they reach the
   end of the committed part and MAY_GROW, the heap grows there. */
static size_t room_behind(const struct tcm_span *span, size_t need,
                          bool may_grow) {
    struct tcm_range *range = tcm_span_range(span);
    size_t room = 0;
    tcm_lock_assert_held(&tcm_page_shard_of(span)->lock);
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

/* Merges SPARE spans if one of them ends the free pages behind SPAN. */
static void merge_behind(struct tcm_page_heap *heap, struct tcm_span *span) {
    const struct tcm_span *at = span;
    do
        at = tcm_run_after(at);
    while (tcm_run_is_free(at));
    if (at != NULL && tcm_load_relaxed(&at->state) == TCM_SPAN_SPARE)
        tcm_spare_merge(heap);
}

static bool extend_locked(struct tcm_span *span, size_t pages, bool may_grow) {
    struct tcm_page_heap *heap = tcm_page_shard_of(span);
    size_t need = pages - span->pages;
    if (heap->spare_pages != 0)
        merge_behind(heap, span);
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - TCM_GROW_PAGES ||
        !within_limit(heap, need) || room_behind(span, need, may_grow) < need)
        return false;
    heap->large_pages += need;
    while (need != 0) {
        struct tcm_span *run = tcm_run_after(span);
        TCM_ASSERT(run != NULL && run->range == span->range);
        size_t take = run->pages < need ? run->pages : need;
        if (run->state == TCM_SPAN_RELEASED)
            tcm_page_taken(heap, take << TCM_PAGE_SHIFT);
        tcm_run_remove(run);
        tcm_page_map_set_span(tcm_span_end(span) - TCM_PAGE_SIZE, NULL);
        span->pages += take;
        run->start += take << TCM_PAGE_SHIFT;
        run->pages -= take;
        if (run->pages != 0)
            tcm_run_insert(run);
        else
            tcm_span_delete(&heap->records, run);
        tcm_run_map_ends(span, span);
        need -= take;
    }
    return true;
}

bool tcm_page_heap_resize(struct tcm_span *span, size_t pages) {
    struct tcm_page_heap *heap = tcm_page_shard_of(span);
    bool done = pages == span->pages;
    TCM_ASSERT(pages != 0 && span->state == TCM_SPAN_LARGE);
    TCM_ASSERT(tcm_span_is_valid(span));
    for (unsigned grow = 0; grow < 2 && !done; grow++) {
        lock_heap(heap, grow != 0);
        done = pages < span->pages ? shrink_locked(span, pages)
                                   : extend_locked(span, pages, grow != 0);
        unlock_heap(heap, grow != 0);
    }
    TCM_ASSERT(!done || span->pages == pages);
    return done;
}

/* ------------------------------------------------------------------------ */
/* Settings, figures, locks, fork                                           */

/* tcm_page_heap_release for the shards from FIRST on. */
static size_t release_from(uint32_t first, size_t pages) {
    size_t done = 0;
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = first; i < n && done < pages; i++) {
        struct tcm_page_heap *heap = tcm_page_shard[i];
        tcm_lock(&heap->lock);
        done += tcm_page_release_locked(heap, pages - done);
        tcm_unlock(&heap->lock);
    }
    return done;
}

size_t tcm_page_heap_release(size_t pages) {
    return release_from(0, pages);
}

void tcm_page_heap_set_limit(uint64_t pages) {
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_page_shards; i++) {
        tcm_page_shard[i]->limit_pages = pages;
        if (pages != 0)
            tcm_spare_merge(tcm_page_shard[i]);
    }
    tcm_thread_shards_restrict(pages != 0);
    tcm_page_heap_unlock_all();
    if (pages != 0)
        (void)release_from(1, SIZE_MAX);
}

void tcm_page_heap_set_rate(uint32_t milli) {
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_page_shard[i]->release_rate_milli = milli;
    tcm_page_heap_unlock_all();
}

void tcm_page_heap_set_at_once(bool at_once) {
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_page_shard[i]->release_at_once = at_once;
    tcm_page_heap_unlock_all();
}

void tcm_page_heap_figures(struct tcm_page_figures *out) {
    *out = (struct tcm_page_figures){0};
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_page_shards; i++) {
        const struct tcm_page_heap *heap = tcm_page_shard[i];
        out->committed += heap->committed_pages;
        out->free += heap->free_pages + heap->spare_pages;
        out->released += heap->released_pages;
        out->busy += heap->busy_pages;
        out->large += heap->large_pages;
        out->large_blocks += heap->large_blocks;
    }
    tcm_page_heap_unlock_all();
}

struct tcm_span *tcm_page_heap_find(const void *address) {
    uintptr_t a = tcm_align_down((uintptr_t)address, TCM_PAGE_SIZE);
    struct tcm_span *span = NULL;
    tcm_page_heap_lock_all();
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        if (a < range->start || a >= tcm_range_frontier(range))
            continue;
        while (span == NULL && a >= range->start) {
            span = tcm_page_span((void *)a);
            a -= TCM_PAGE_SIZE;
        }
        if (span != NULL && (uintptr_t)address >= tcm_span_end(span))
            span = NULL;
    }
    tcm_page_heap_unlock_all();
    return span;
}

void tcm_page_heap_lock_all(void) {
    tcm_lock(&tcm_growth.lock);
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_lock(&tcm_page_shard[i]->lock);
}

bool tcm_page_heap_is_stuck(uint64_t ns) {
    uint32_t n = tcm_load_acquire(&tcm_page_shards);
    bool stuck = tcm_lock_is_stuck(&tcm_growth.lock, ns);
    for (uint32_t i = 0; i < n && !stuck; i++)
        stuck = tcm_lock_is_stuck(&tcm_page_shard[i]->lock, ns);
    return stuck;
}

void tcm_page_heap_unlock_all(void) {
    tcm_lock_assert_held(&tcm_growth.lock);
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        tcm_unlock(&tcm_page_shard[i]->lock);
    tcm_unlock(&tcm_growth.lock);
}

static void forget_busy(struct tcm_page_heap *heap) {
    tcm_lock_assert_held(&heap->lock);
    while (!tcm_dlist_empty(&heap->busy)) {
        struct tcm_span *run =
            TCM_CONTAINER_OF(heap->busy.next, struct tcm_span, link);
        TCM_ASSERT(run->state == TCM_SPAN_BUSY);
        TCM_ASSERT(heap->busy_pages >= run->pages);
        heap->busy_pages -= run->pages;
        tcm_dlist_remove(&run->link);
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
    }
    TCM_ASSERT(heap->busy_pages == 0);
}

void tcm_page_heap_fork_child(void) {
    tcm_lock_assert_held(&tcm_growth.lock);
    tcm_thread_shard_fork_child();
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        forget_busy(tcm_page_shard[i]);
}

void tcm_page_heap_init(void) {
    tcm_lock_init(&tcm_page_heap.lock, TCM_RANK_PAGE_HEAP);
    tcm_lock_init(&tcm_growth.lock, TCM_RANK_GROWTH);
    tcm_page_heap.system_page = tcm_os_page_size();
    TCM_ASSERT(tcm_is_pow2(tcm_page_heap.system_page) &&
               tcm_page_heap.system_page <= TCM_GROW_STEP);
    tcm_range_init(&tcm_ranges);
}
