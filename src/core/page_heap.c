/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a run: the shortest FREE run that fits, the lowest of those; if
 * there is none, the same among RELEASED runs, whose use costs page faults;
 * else the heap grows. When both kinds together are a large part of the heap
 * and yet nothing fits, all FREE runs are given back first, which lets them
 * merge with RELEASED neighbours.
 *
 * Fresh memory counts as RELEASED: nothing is behind it either.
 *
 * Release: after every so many freed pages the upper end of the largest FREE
 * run goes back, up to an eighth of all FREE pages; the wait until the next
 * time is in proportion to what went.
 */
#include "core/page_heap.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"
#include "core/core_stats.h"
#include "core/page_map.h"
#include "core/run_set.h"

#define GROW_MAX      ((size_t)32 << 20)
#define FIRST_WAIT    ((uint64_t)1 << 12) /* pages */
#define EMPTY_WAIT    ((uint64_t)1 << 12)
#define MAX_WAIT      ((uint64_t)1 << 18) /* at rate 1 */
#define WAIT_PER_PAGE 1000u               /* at rate 1 */
#define RELEASE_PAGES 512u                /* at once, at least */
#define GROW_PAGES    (TCM_GROW_STEP >> TCM_PAGE_SHIFT)

struct tcm_page_heap tcm_page_heap = {
    .lock = TCM_LOCK_INIT(TCM_RANK_PAGE_HEAP),
    .scavenge_wait = FIRST_WAIT,
    .release_rate_milli = 1000,
};

#define HEAP (&tcm_page_heap)

/* ------------------------------------------------------------------------ */
/* Giving back                                                              */

/* Splits off RUN, in no set, the ends that are no whole system pages; they stay
   FREE. false: nothing is left, or a record is missing; RUN is unchanged. */
static bool run_trim_to_system_pages(struct tcm_span *run) {
    uintptr_t page = tcm_os_page_size();
    if (page <= TCM_PAGE_SIZE)
        return true;
    uintptr_t start = tcm_align_up(run->start, page);
    uintptr_t end = tcm_align_down(tcm_span_end(run), page);
    if (start >= end)
        return false;
    struct tcm_span *head = NULL;
    struct tcm_span *tail = NULL;
    if (start != run->start && (head = tcm_span_new(1)) == NULL)
        return false;
    if (end != tcm_span_end(run) && (tail = tcm_span_new(1)) == NULL) {
        if (head != NULL)
            tcm_span_delete(head);
        return false;
    }
    if (head != NULL) {
        head->range = run->range;
        head->state = TCM_SPAN_FREE;
        head->start = run->start;
        head->pages = (start - run->start) >> TCM_PAGE_SHIFT;
        tcm_run_insert(head);
    }
    if (tail != NULL) {
        tail->range = run->range;
        tail->state = TCM_SPAN_FREE;
        tail->start = end;
        tail->pages = (tcm_span_end(run) - end) >> TCM_PAGE_SHIFT;
        tcm_run_insert(tail);
    }
    run->start = start;
    run->pages = (end - start) >> TCM_PAGE_SHIFT;
    return true;
}

/* Keeps the upper part of RUN, in no set, of at least PAGES; the rest stays
   FREE. Huge pages are not cut. */
static void run_keep_upper(struct tcm_span *run, size_t pages) {
    if (run->pages <= pages)
        return;
    uintptr_t cut = tcm_span_end(run) - (pages << TCM_PAGE_SHIFT);
    cut = tcm_align_down(cut, TCM_GROW_STEP);
    if (cut <= run->start)
        return;
    struct tcm_span *lower = tcm_span_new(1);
    if (lower == NULL)
        return;
    lower->range = run->range;
    lower->state = TCM_SPAN_FREE;
    lower->start = run->start;
    lower->pages = (cut - run->start) >> TCM_PAGE_SHIFT;
    run->start = cut;
    run->pages -= lower->pages;
    tcm_run_insert(lower);
}

/*
 * Gives RUN, FREE and in its set, or its upper end of at least PAGES, back to
 * the system. With UNLOCK the lock is dropped meanwhile; the caller's view of
 * the heap is stale afterwards. Pages given back; 0: the system or a missing
 * record refused.
 */
static size_t run_release(struct tcm_span *run, size_t pages, bool unlock) {
    if (HEAP->busy != NULL)
        unlock = false;
    tcm_run_remove(run);
    run_keep_upper(run, pages);
    if (!run_trim_to_system_pages(run)) {
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
        return 0;
    }
    run->state = TCM_SPAN_BUSY;
    tcm_run_map_ends(run, run);
    size_t count = run->pages;
    if (unlock) {
        HEAP->busy = run;
        HEAP->busy_pages = count;
        tcm_unlock(&HEAP->lock);
    }
    bool done = tcm_os_release((void *)run->start, tcm_span_bytes(run));
    if (unlock) {
        tcm_lock(&HEAP->lock);
        HEAP->busy = NULL;
        HEAP->busy_pages = 0;
    }
    if (!done) {
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
        return 0;
    }
    TCM_STAT_ADD(system_bytes_returned, tcm_span_bytes(run));
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return count;
}

/* Releases FREE runs, largest first, until PAGES are back. */
static size_t release_locked(size_t pages, bool unlock) {
    size_t done = 0;
    struct tcm_span bound = {.pages = SIZE_MAX};
    while (done < pages) {
        struct tcm_span *run = tcm_run_set_before(&HEAP->free, &bound);
        if (run == NULL || (run->pages << TCM_PAGE_SHIFT) < tcm_os_page_size())
            break;
        /* Goes on below this run, whatever becomes of it. */
        bound.pages = run->pages;
        bound.range = run->range;
        bound.start = run->start;
        done += run_release(run, pages - done, unlock);
    }
    return done;
}

/* After pages were freed; the lock is held, and dropped meanwhile. */
static void scavenge(size_t freed) {
    if (HEAP->release_rate_milli == 0)
        return;
    if (HEAP->scavenge_wait > freed) {
        HEAP->scavenge_wait -= freed;
        return;
    }
    size_t most = HEAP->free_pages / 8;
    if (most < RELEASE_PAGES)
        most = RELEASE_PAGES;
    HEAP->scavenge_wait = EMPTY_WAIT;
    struct tcm_span *run = tcm_run_set_before(&HEAP->free, NULL);
    if (run == NULL)
        return;
    uint64_t wait = run_release(run, most, true) * WAIT_PER_PAGE;
    if (wait > MAX_WAIT)
        wait = MAX_WAIT;
    wait = wait * 1000 / HEAP->release_rate_milli;
    HEAP->scavenge_wait = wait > EMPTY_WAIT ? wait : EMPTY_WAIT;
}

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
    if (!tcm_range_extend(range, bytes)) {
        tcm_span_delete(run);
        return false;
    }
    HEAP->committed_pages += run->pages;
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return true;
}

/* Grows so that a run of PAGES exists. */
static bool grow(size_t pages) {
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - GROW_PAGES)
        return false;
    size_t least = tcm_align_up(pages << TCM_PAGE_SHIFT, TCM_GROW_STEP);
    size_t step = tcm_align_down((HEAP->committed_pages << TCM_PAGE_SHIFT) / 8,
                                 TCM_GROW_STEP);
    if (step > GROW_MAX)
        step = GROW_MAX;
    int index = tcm_range_with_room(&HEAP->ranges, least);
    if (index < 0)
        return false;
    return (step > least && extend((uint32_t)index, step)) ||
           extend((uint32_t)index, least);
}

/* ------------------------------------------------------------------------ */
/* Allocation                                                               */

/* Finds a run of SET for PAGES and the offset of the aligned place in it. */
static struct tcm_span *aligned_fit(const struct tcm_run_set *set, size_t pages,
                                    size_t align_pages, size_t *offset) {
    struct tcm_span *run = tcm_run_set_fit(set, pages);
    *offset = 0;
    uintptr_t mask = (align_pages << TCM_PAGE_SHIFT) - 1;
    if (run == NULL || (run->start & mask) == 0)
        return run;
    run = tcm_run_set_fit(set, pages + align_pages - 1);
    if (run != NULL)
        *offset =
            (((run->start + mask) & ~mask) - run->start) >> TCM_PAGE_SHIFT;
    return run;
}

static bool worth_merging(size_t pages) {
    uint64_t idle = HEAP->free_pages + HEAP->released_pages;
    return HEAP->free_pages >= HEAP->committed_pages / 8 &&
           idle >= HEAP->committed_pages / 4 && idle >= pages &&
           HEAP->committed_pages > GROW_PAGES;
}

/* True if PAGES more may have memory behind them. */
static bool within_limit(size_t pages) {
    if (HEAP->limit_pages == 0)
        return true;
    uint64_t used = HEAP->committed_pages - HEAP->released_pages;
    if (used + pages <= HEAP->limit_pages)
        return true;
    used -= release_locked(used + pages - HEAP->limit_pages, false);
    return used + pages <= HEAP->limit_pages;
}

static struct tcm_span *find_released(size_t pages, size_t align_pages,
                                      size_t *offset) {
    struct tcm_span *run =
        aligned_fit(&HEAP->released, pages, align_pages, offset);
    if (run == NULL && worth_merging(pages)) {
        release_locked(SIZE_MAX, false);
        run = aligned_fit(&HEAP->released, pages, align_pages, offset);
    }
    if (run == NULL && grow(pages + align_pages - 1))
        run = aligned_fit(&HEAP->released, pages, align_pages, offset);
    if (run == NULL && HEAP->free_pages != 0) {
        release_locked(SIZE_MAX, false);
        run = aligned_fit(&HEAP->released, pages, align_pages, offset);
    }
    return run;
}

static struct tcm_span *alloc_locked(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    size_t offset;
    bool fresh = false;
    struct tcm_span *run =
        aligned_fit(&HEAP->free, pages, align_pages, &offset);
    if (run == NULL) {
        if (!within_limit(pages))
            return NULL;
        run = find_released(pages, align_pages, &offset);
        fresh = true;
    }
    if (run == NULL)
        return NULL;
    struct tcm_span *span = tcm_run_carve(run, offset, pages, state, bit_words);
    if (span == NULL)
        return NULL;
    if (fresh)
        TCM_STAT_ADD(system_bytes_taken, tcm_span_bytes(span));
    *zeroed = fresh;
    TCM_STAT_ADD(spans_made, 1);
    if (state == TCM_SPAN_LARGE) {
        HEAP->large_pages += pages;
        HEAP->large_blocks++;
    }
    return span;
}

struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed) {
    bool unused;
    tcm_lock(&HEAP->lock);
    struct tcm_span *span = alloc_locked(pages, align_pages, state, bit_words,
                                         zeroed != NULL ? zeroed : &unused);
    tcm_unlock(&HEAP->lock);
    return span;
}

void tcm_page_heap_free(struct tcm_span *span) {
    size_t pages = span->pages;
    tcm_lock(&HEAP->lock);
    TCM_STAT_ADD(spans_freed, 1);
    if (span->state == TCM_SPAN_LARGE) {
        HEAP->large_pages -= pages;
        HEAP->large_blocks--;
    }
    span->class = 0;
    tcm_run_insert_merged(span, TCM_SPAN_FREE);
    if (HEAP->release_at_once)
        (void)run_release(span, SIZE_MAX, true);
    else
        scavenge(pages);
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
        (void)run_release(tail, SIZE_MAX, true);
    else
        scavenge(freed);
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
            TCM_STAT_ADD(system_bytes_taken, take << TCM_PAGE_SHIFT);
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
    size_t done = release_locked(pages, true);
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
}
