/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard grows by an eighth of itself, at most 32 MiB, or by the request if
 * that is more. The system is called with only the growth lock held; the end of
 * the committed part moves under both locks.
 *
 * Pages that stay FREE during a whole window are idle: that is, while as many
 * pages are freed as the shard has in use. At its end a quarter of the idle
 * pages is returned, without a share that is always kept. If pages that were
 * returned are taken again, the next windows are longer, in proportion to their
 * number. So a heap that has shrunk returns its pages within a few windows, and
 * one whose size swings keeps them.
 *
 * A shard whose threads sleep, or are gone, frees nothing. Its windows end with
 * those of other shards.
 */
#include "core/page_system.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "core/core_stats.h"

#define GROW_MAX      ((size_t)32 << 20)
#define KEPT_PAGES    1024u /* by all shards, and a part of the pages in use */
#define KEPT_LEAST    128u  /* by each */
#define KEPT_PART     8u
#define IDLE_PART     4u
#define WAIT_PER_PAGE 1000u
#define MAX_WAIT      ((uint64_t)1 << 20)
#define MOST_RUNS     2048u /* for each of the two loops of one free */

/* ------------------------------------------------------------------------ */
/* Growth                                                                   */

/* Committed pages of all shards; the growth lock is held. */
static uint64_t all_committed_pages(void) {
    uint64_t pages = 0;
    tcm_lock_assert_held(&tcm_growth.lock);
    for (uint32_t i = 0; i < tcm_page_shards; i++)
        pages += tcm_load_relaxed(&tcm_page_shard[i]->committed_pages);
    return pages;
}

/* Gets BYTES from the system for the end of RANGE. Drops the lock of the
   range's shard meanwhile. */
static bool get_memory(struct tcm_range *range, size_t bytes) {
    struct tcm_page_heap *heap = tcm_page_shard[range->shard];
    uint64_t total = (all_committed_pages() << TCM_PAGE_SHIFT) + bytes;
    tcm_unlock(&heap->lock);
    bool done = tcm_range_commit(range, bytes, total);
    tcm_lock(&heap->lock);
    return done;
}

bool tcm_page_extend(uint32_t index, size_t bytes) {
    TCM_ASSERT(index < tcm_ranges.count);
    struct tcm_range *range = &tcm_ranges.range[index];
    struct tcm_page_heap *heap = tcm_page_shard[range->shard];
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(bytes != 0 && bytes % TCM_GROW_STEP == 0);
    struct tcm_span *run = tcm_span_new(&heap->records, 1);
    if (run == NULL)
        return false;
    run->range = index;
    run->start = tcm_range_frontier(range);
    run->pages = bytes >> TCM_PAGE_SHIFT;
    if (!get_memory(range, bytes)) {
        tcm_span_delete(&heap->records, run);
        return false;
    }
    TCM_ASSERT(run->start == tcm_range_frontier(range));
    range->committed += bytes;
    TCM_ASSERT(range->committed <= range->length);
    tcm_add_owned(&heap->committed_pages, run->pages);
    tcm_page_event(&tcm_page_stats.reserve_count, 1);
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return true;
}

/* Index of the range in which HEAP can grow so that a run of PAGES ends it, or
   -1; *LEAST: bytes that this takes. */
static int range_for(struct tcm_page_heap *heap, size_t pages, size_t *least) {
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        if (range->shard != heap->shard)
            continue;
        size_t there = tcm_run_pages_at_end(range);
        size_t missing = there < pages ? pages - there : 1;
        missing = tcm_align_up(missing << TCM_PAGE_SHIFT, TCM_GROW_STEP);
        if (range->length - range->committed >= missing) {
            *least = missing;
            return (int)i;
        }
    }
    *least = tcm_align_up(pages << TCM_PAGE_SHIFT, TCM_GROW_STEP);
    return tcm_range_add(&tcm_ranges, heap->shard, *least);
}

int tcm_page_grow(struct tcm_page_heap *heap, size_t pages) {
    tcm_lock_assert_held(&tcm_growth.lock);
    TCM_ASSERT(pages != 0);
    if (pages > (SIZE_MAX >> TCM_PAGE_SHIFT) - TCM_GROW_PAGES)
        return -1;
    size_t step = tcm_align_down((heap->committed_pages << TCM_PAGE_SHIFT) / 8,
                                 TCM_GROW_STEP);
    if (step > GROW_MAX)
        step = GROW_MAX;
    size_t least;
    for (int i; (i = range_for(heap, pages, &least)) >= 0;) {
        struct tcm_range *range = &tcm_ranges.range[i];
        size_t length = range->length;
        if ((step > least && tcm_page_extend((uint32_t)i, step)) ||
            tcm_page_extend((uint32_t)i, least))
            return i;
        bool is_shorter = range->length < length;
        /* A range that was made for an absurd request must not stay. */
        tcm_range_drop_unused(&tcm_ranges);
        if (!is_shorter)
            break;
    }
    return -1;
}

/* ------------------------------------------------------------------------ */
/* Returning memory                                                         */

/* Bounds of the whole pages of the system in RUN; false: there are none. */
static bool system_pages(const struct tcm_span *run, uintptr_t *start,
                         uintptr_t *end) {
    uintptr_t page = tcm_page_shard_of(run)->system_page;
    *start = tcm_align_up(run->start, page);
    *end = tcm_align_down(tcm_span_end(run), page);
    return *start < *end;
}

static bool has_system_page(const struct tcm_span *run) {
    uintptr_t start, end;
    return system_pages(run, &start, &end);
}

/* Splits off the ends of RUN, which is in no set, that are not whole pages of
   the system; the ends stay FREE. false, with RUN unchanged: nothing would be
   left, or there is no memory for a record. */
static bool run_trim_to_system_pages(struct tcm_span *run) {
    struct tcm_page_heap *heap = tcm_page_shard_of(run);
    struct tcm_span *head = NULL, *tail = NULL;
    uintptr_t start, end;
    tcm_lock_assert_held(&heap->lock);
    if (!system_pages(run, &start, &end))
        return false;
    if (start != run->start &&
        (head = tcm_run_piece(run, run->start, start)) == NULL)
        return false;
    if (end != tcm_span_end(run) &&
        (tail = tcm_run_piece(run, end, tcm_span_end(run))) == NULL) {
        if (head != NULL)
            tcm_span_delete(&heap->records, head);
        return false;
    }
    if (head != NULL)
        tcm_run_insert(head);
    if (tail != NULL)
        tcm_run_insert(tail);
    run->start = start;
    run->pages = (end - start) >> TCM_PAGE_SHIFT;
    return true;
}

/* Shortens RUN, which is in no set, to its upper part of at least PAGES; the
   rest stays FREE. Huge pages are not cut. */
static void run_keep_upper(struct tcm_span *run, size_t pages) {
    if (run->pages <= pages)
        return;
    uintptr_t cut = tcm_span_end(run) - (pages << TCM_PAGE_SHIFT);
    cut = tcm_align_down(cut, TCM_GROW_STEP);
    if (cut <= run->start)
        return;
    struct tcm_span *lower = tcm_run_piece(run, run->start, cut);
    if (lower == NULL)
        return;
    run->start = cut;
    run->pages -= lower->pages;
    tcm_run_insert(lower);
}

size_t tcm_page_release_run(struct tcm_span *run, size_t pages) {
    struct tcm_page_heap *heap = tcm_page_shard_of(run);
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(run->state == TCM_SPAN_FREE && pages != 0);
    tcm_run_remove(run);
    run_keep_upper(run, pages);
    if (!run_trim_to_system_pages(run)) {
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
        return 0;
    }
    TCM_ASSERT(run->start % heap->system_page == 0);
    TCM_ASSERT(tcm_span_bytes(run) % heap->system_page == 0);
    tcm_store_relaxed(&run->state, (uint8_t)TCM_SPAN_BUSY);
    tcm_run_map_ends(run, run);
    size_t pages_back = run->pages;
    tcm_dlist_push_front(&heap->busy, &run->link);
    heap->busy_pages += pages_back;
    tcm_unlock(&heap->lock);
    bool done = tcm_os_release((void *)run->start, tcm_span_bytes(run));
    tcm_lock(&heap->lock);
    TCM_ASSERT(run->state == TCM_SPAN_BUSY && run->pages == pages_back);
    TCM_ASSERT(heap->busy_pages >= pages_back);
    tcm_dlist_remove(&run->link);
    heap->busy_pages -= pages_back;
    if (!done) {
        tcm_run_insert_merged(run, TCM_SPAN_FREE);
        return 0;
    }
    tcm_page_returned(tcm_span_bytes(run));
    tcm_run_insert_merged(run, TCM_SPAN_RELEASED);
    return pages_back;
}

/* Returns the longest FREE run before *BOUND in the order, and moves *BOUND to
   its place there: the run may not exist after its release. NULL: none. */
static struct tcm_span *next_free_run(struct tcm_page_heap *heap,
                                      struct tcm_span *bound) {
    struct tcm_span *run = tcm_run_set_before(&heap->free, bound);
    if (run != NULL) {
        bound->pages = run->pages;
        bound->range = run->range;
        bound->start = run->start;
    }
    return run;
}

size_t tcm_page_release_locked(struct tcm_page_heap *heap, size_t pages) {
    size_t done = 0;
    tcm_lock_assert_held(&heap->lock);
    tcm_spare_merge(heap);
    struct tcm_span bound = {.pages = SIZE_MAX};
    while (done < pages) {
        struct tcm_span *run = next_free_run(heap, &bound);
        if (run == NULL || (run->pages << TCM_PAGE_SHIFT) < heap->system_page)
            break;
        done += tcm_page_release_run(run, pages - done);
    }
    return done;
}

/* Returns up to PAGES of HEAP: of the runs that nobody has touched since window
   OLDEST began, then of the longest ones. Fewer if the system refuses, or where
   the runs are so short that the caller would wait for long. Returns the number
   of pages. */
static size_t release_idle(struct tcm_page_heap *heap, uint64_t oldest,
                           size_t pages) {
    size_t done = 0, more = 1;
    struct tcm_span bound = {.pages = SIZE_MAX};
    tcm_spare_merge(heap);
    for (unsigned n = MOST_RUNS; n != 0 && more != 0 && done < pages; n--) {
        struct tcm_span *run = next_free_run(heap, &bound);
        if (run == NULL)
            break;
        if (run->window >= oldest || !has_system_page(run))
            continue;
        more = tcm_page_release_run(run, pages - done);
        done += more;
    }
    more = 1;
    bound.pages = SIZE_MAX;
    for (unsigned n = MOST_RUNS; n != 0 && more != 0 && done < pages; n--) {
        struct tcm_span *run = next_free_run(heap, &bound);
        if (run == NULL)
            break;
        if (!has_system_page(run))
            continue;
        more = tcm_page_release_run(run, pages - done);
        done += more;
    }
    return done;
}

/* Pages of HEAP taken again in this window, of those that were returned. */
static uint64_t retaken_in_window(const struct tcm_page_heap *heap,
                                  uint64_t used) {
    uint64_t more = used > heap->window_used ? used - heap->window_used : 0;
    return tcm_min_u64(more, heap->returned_pages);
}

/* Begins a window of HEAP, which has USED pages. Returns the number of pages
   that were FREE in all of the last one. */
static uint64_t next_window(struct tcm_page_heap *heap, uint64_t used) {
    uint64_t idle = tcm_min_u64(heap->idle_pages, heap->free_pages);
    uint64_t retaken = retaken_in_window(heap, used);
    TCM_ASSERT(heap->returned_pages >= retaken);
    heap->returned_pages -= retaken;
    heap->retaken_pages = (heap->retaken_pages + retaken) / 2;
    heap->window++;
    heap->window_freed = 0;
    heap->window_used = used;
    heap->idle_pages = heap->free_pages;
    return idle;
}

/* Ends a window of HEAP, and returns pages. */
static void end_window(struct tcm_page_heap *heap) {
    uint32_t shards = tcm_load_relaxed(&tcm_page_shards);
    uint64_t used = tcm_page_used(heap);
    uint64_t idle = next_window(heap, used);
    uint64_t kept = KEPT_PAGES / shards;
    kept = (kept > KEPT_LEAST ? kept : KEPT_LEAST) + used / KEPT_PART;
    if (idle <= kept)
        return;
    tcm_page_event(&tcm_page_stats.scavenge_count, 1);
    uint64_t part = (idle - kept + IDLE_PART - 1) / IDLE_PART;
    /* Drops the lock meanwhile: only then is the sum read. */
    size_t returned = release_idle(heap, heap->window - 1, part);
    heap->returned_pages += returned;
    heap->window_used = tcm_page_used(heap);
}

bool tcm_page_scavenge(struct tcm_page_heap *heap, size_t pages) {
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(heap->committed_pages >= heap->released_pages);
    if (heap->release_rate_milli == 0)
        return false;
    uint64_t used = tcm_page_used(heap);
    uint64_t retaken = heap->retaken_pages + retaken_in_window(heap, used);
    uint64_t wait = tcm_min_u64(retaken * WAIT_PER_PAGE, MAX_WAIT);
    heap->idle_pages = tcm_min_u64(heap->idle_pages, heap->free_pages);
    heap->window_freed += pages;
    if (heap->window_freed * heap->release_rate_milli < (used + wait) * 1000)
        return false;
    end_window(heap);
    return true;
}

void tcm_page_scavenge_asleep(const struct tcm_page_heap *heap) {
    static uint32_t turn;
    uint32_t shards = tcm_load_acquire(&tcm_page_shards);
    if (shards == 1)
        return;
    struct tcm_page_heap *other =
        tcm_page_shard[tcm_add_relaxed(&turn, 1u) % shards];
    if (other == heap || !tcm_lock_try(&other->lock))
        return;
    uint64_t uses = other->spans_made + other->spans_freed;
    if (uses != other->seen_uses)
        other->seen_uses = uses;
    else if (other->release_rate_milli != 0)
        end_window(other);
    tcm_unlock(&other->lock);
}
