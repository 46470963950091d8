/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Return of pages to the system: the choice of the run and its part, the time,
 * and the pages that stay where the system refuses or has larger pages.
 */
#include "core/page_system.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core_test.h"

#include <errno.h>
#include <sys/syscall.h>

#define HEAP      (&tcm_page_heap)
#define HUGE_PAGE (TCM_GROW_STEP >> TCM_PAGE_SHIFT)

static struct tcm_span *take(size_t pages) {
    struct tcm_span *s =
        tcm_page_heap_alloc(pages, HUGE_PAGE, TCM_SPAN_LARGE, 1, NULL);
    if (s == NULL)
        tap_bail("out of memory");
    memset((void *)s->start, 0x5a, tcm_span_bytes(s));
    return s;
}

static bool bytes_are(uintptr_t start, size_t pages, uint8_t value) {
    const uint8_t *p = (const uint8_t *)start;
    for (size_t i = 0; i < pages << TCM_PAGE_SHIFT; i += 64) {
        if (p[i] != value)
            return false;
    }
    return true;
}

static size_t release_run(struct tcm_span *run, size_t pages) {
    tcm_lock(&HEAP->lock);
    size_t done = tcm_page_release_run(run, pages);
    tcm_unlock(&HEAP->lock);
    tcm_heap_verify();
    return done;
}

static size_t release_locked(size_t pages) {
    tcm_lock(&HEAP->lock);
    size_t done = tcm_page_release_locked(HEAP, pages);
    tcm_unlock(&HEAP->lock);
    tcm_heap_verify();
    return done;
}

static uint64_t returned_pages(void) {
    return tcm_stats.system_bytes_returned >> TCM_PAGE_SHIFT;
}

static void test_whole_run(void) {
    struct tcm_span *s = take(40);
    uintptr_t start = s->start;
    tcm_page_heap_free(s);
    uint64_t free_pages = HEAP->free_pages, back = returned_pages();
    uint64_t released = HEAP->released_pages;
    tap_ok(s->state == TCM_SPAN_FREE && s->pages == 40, "a free run");
    tap_is_u64(release_run(s, SIZE_MAX), 40, "all of it goes back");
    struct tcm_span *now = tcm_page_span((void *)start);
    tap_ok(HEAP->free_pages == free_pages - 40 &&
               HEAP->released_pages == released + 40 &&
               returned_pages() == back + 40 && HEAP->busy_pages == 0 &&
               tcm_dlist_empty(&HEAP->busy),
           "it is counted");
    tap_ok(now == NULL || now->state != TCM_SPAN_FREE, "it is released");
    tap_ok(bytes_are(start, 40, 0), "and reads as zero");
}

/* With another run being returned. */
static void test_other_is_busy(void) {
    struct tcm_span other = {.state = TCM_SPAN_BUSY};
    struct tcm_span *s = take(24);
    tcm_page_heap_free(s);
    tcm_dlist_push_front(&HEAP->busy, &other.link);
    HEAP->busy_pages = 5;
    size_t done = release_run(s, SIZE_MAX);
    tap_ok(done == 24 && HEAP->busy.next == &other.link &&
               HEAP->busy.prev == &other.link && HEAP->busy_pages == 5,
           "several runs can be on their way");
    tcm_dlist_remove(&other.link);
    HEAP->busy_pages = 0;
}

/* The child of a fork takes over the run that another thread was returning. */
static void test_fork_child(void) {
    struct tcm_span *s[2] = {take(24), take(16)};
    uint64_t free_pages = HEAP->free_pages;
    for (unsigned i = 0; i < 2; i++) {
        s[i]->state = TCM_SPAN_BUSY;
        HEAP->large_pages -= s[i]->pages;
        HEAP->large_blocks--;
        tcm_dlist_push_front(&HEAP->busy, &s[i]->link);
        HEAP->busy_pages += s[i]->pages;
    }
    tcm_page_heap_lock_all();
    tcm_page_heap_fork_child();
    tcm_page_heap_unlock_all();
    tap_ok(tcm_dlist_empty(&HEAP->busy) && HEAP->busy_pages == 0 &&
               HEAP->free_pages == free_pages + 40,
           "a child takes over what is on its way");
    tcm_heap_verify();
    release_locked(SIZE_MAX);
}

static void test_upper_end(void) {
    size_t all = 4 * HUGE_PAGE;
    struct tcm_span *s = take(all);
    uintptr_t start = s->start;
    tcm_page_heap_free(s);
    size_t done = release_run(s, HUGE_PAGE + 1);
    tap_is_u64(done, 2 * HUGE_PAGE, "a part: whole huge pages, no fewer");
    s = tcm_page_span((void *)start);
    tap_ok(s->state == TCM_SPAN_FREE && s->pages == all - done &&
               s->start == start,
           "of the upper end");
    tap_ok(bytes_are(start, all - done, 0x5a), "what stays keeps its contents");
    tap_is_u64(release_run(s, 3), HUGE_PAGE, "one more");
    s = tcm_page_span((void *)start);
    tap_is_u64(release_run(s, 3), HUGE_PAGE, "the last one");
    tap_is_u64(HEAP->free_pages, 0, "nothing is left");
}

static void test_largest_first(void) {
    enum { RUNS = 5 };
    static const size_t pages[RUNS] = {16, 160, 48, 96, 8};
    struct tcm_span *s[RUNS], *wall[RUNS];
    uintptr_t start[RUNS];
    for (unsigned i = 0; i < RUNS; i++) {
        s[i] = take(pages[i]);
        wall[i] = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
        start[i] = s[i]->start;
    }
    for (unsigned i = 0; i < RUNS; i++)
        tcm_page_heap_free(s[i]);
    tap_is_u64(release_locked(0), 0, "no pages asked, none given");
    tap_is_u64(release_locked(161), 160 + 96,
               "the largest first, until it is enough");
    bool left[RUNS];
    for (unsigned i = 0; i < RUNS; i++) {
        struct tcm_span *run = tcm_page_span((void *)start[i]);
        left[i] = run != NULL && run->state == TCM_SPAN_FREE;
    }
    tap_ok(left[0] && !left[1] && left[2] && !left[3] && left[4],
           "the others stay");
    tap_is_u64(release_locked(SIZE_MAX), 16 + 48 + 8, "then all");
    tap_is_u64(release_locked(SIZE_MAX), 0, "then there is none");
    for (unsigned i = 0; i < RUNS; i++)
        tcm_page_heap_free(wall[i]);
    release_locked(SIZE_MAX);
}

/* Makes the heap believe that pages of the system have 64 KiB. */
static void test_larger_system_pages(void) {
    size_t real = HEAP->system_page;
    struct tcm_span *s = take(48);
    uintptr_t start = s->start;
    /* 3 pages into a system page up to 5 into one. No large block: that would
       begin at a system page. */
    struct tcm_span *end = s;
    tcm_page_heap_resize(s, 3);
    struct tcm_span *middle =
        tcm_page_heap_alloc(34, 1, TCM_SPAN_MOVING, 1, NULL);
    struct tcm_span *wall = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
    if (middle->start != start + 3 * TCM_PAGE_SIZE ||
        wall->start != start + 37 * TCM_PAGE_SIZE)
        tap_bail("the pages are not where they were cut");
    memset((void *)middle->start, 0x5a, tcm_span_bytes(middle));
    HEAP->system_page = 8 * TCM_PAGE_SIZE;
    tcm_page_heap_free(middle);
    tap_is_u64(release_run(middle, SIZE_MAX), 24,
               "only whole pages of the system go back");
    struct tcm_span *head = tcm_page_span((void *)(start + 3 * TCM_PAGE_SIZE));
    struct tcm_span *body = tcm_page_span((void *)(start + 8 * TCM_PAGE_SIZE));
    struct tcm_span *tail = tcm_page_span((void *)(start + 32 * TCM_PAGE_SIZE));
    tap_ok(head != NULL && head->state == TCM_SPAN_FREE && head->pages == 5 &&
               tail != NULL && tail->state == TCM_SPAN_FREE &&
               tail->pages == 5 && body != NULL &&
               body->state == TCM_SPAN_RELEASED && body->pages == 24,
           "the ends stay free");
    tap_ok(bytes_are(head->start, 5, 0x5a) && bytes_are(tail->start, 5, 0x5a) &&
               bytes_are(body->start, 24, 0),
           "with their contents");
    uint64_t free_pages = HEAP->free_pages;
    tap_is_u64(release_run(head, SIZE_MAX), 0,
               "a run without a whole one does not go");
    tap_is_u64(HEAP->free_pages, free_pages, "and stays free");
    HEAP->system_page = real;
    tcm_page_heap_free(wall);
    tcm_page_heap_free(end);
    release_locked(SIZE_MAX);
}

/* Locked pages cannot be returned. The call is made directly: a sanitizer turns
   mlock into nothing. */
static void test_refused(void) {
    struct tcm_span *s = take(16);
    uintptr_t start = s->start;
    tcm_page_heap_free(s);
    if (syscall(SYS_mlock, (void *)start, 4 * TCM_PAGE_SIZE) != 0) {
        tap_skip("memory cannot be locked here: %s", strerror(errno));
    } else {
        uint64_t free_pages = HEAP->free_pages, back = returned_pages();
        tap_ok(release_run(s, SIZE_MAX) == 0 && release_run(s, SIZE_MAX) == 0,
               "what the system refuses does not go");
        s = tcm_page_span((void *)start);
        tap_ok(s->state == TCM_SPAN_FREE && HEAP->free_pages == free_pages &&
                   returned_pages() == back && tcm_dlist_empty(&HEAP->busy),
               "it stays free and is not counted");
        tap_ok(bytes_are(start, 4, 0x5a), "with its contents");
        tap_is_u64(release_locked(SIZE_MAX), 0, "the search ends");
        syscall(SYS_munlock, (void *)start, 4 * TCM_PAGE_SIZE);
    }
    release_locked(SIZE_MAX);
    tap_is_u64(HEAP->free_pages, 0, "later it goes");
}

/* Pages that go back when PAGES are about to be freed. */
static size_t scavenge(size_t pages) {
    uint64_t back = returned_pages();
    tcm_lock(&HEAP->lock);
    (void)tcm_page_scavenge(HEAP, pages);
    tcm_unlock(&HEAP->lock);
    tcm_heap_verify();
    return returned_pages() - back;
}

static size_t used_pages(void) {
    return HEAP->committed_pages - HEAP->released_pages;
}

/* Begins a window with FREE pages in one run and nothing remembered. */
static void begin_window(size_t pages) {
    HEAP->release_rate_milli = 0;
    release_locked(SIZE_MAX);
    tcm_page_heap_free(take(pages));
    HEAP->window_freed = 0;
    HEAP->window_used = used_pages();
    HEAP->idle_pages = HEAP->free_pages;
    HEAP->returned_pages = 0;
    HEAP->retaken_pages = 0;
    HEAP->release_rate_milli = 1000;
}

/* Pages that the rule returns of IDLE ones: a quarter, without 8 MiB and an
   eighth of the pages in use, in huge pages. */
static size_t share(size_t idle) {
    size_t kept = 1024 + used_pages() / 8;
    if (idle <= kept)
        return 0;
    size_t part = (idle - kept + 3) / 4;
    return (part + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static void test_scavenging(void) {
    begin_window(32 * HUGE_PAGE);
    HEAP->release_rate_milli = 0;
    tap_is_u64(scavenge(SIZE_MAX), 0, "rate 0 gives nothing back");
    HEAP->release_rate_milli = 1000;
    size_t used = used_pages(), part = share(HEAP->free_pages);
    tap_is_u64(scavenge(used - 1), 0, "in a window nothing goes back");
    tap_ok(part > 4 * HUGE_PAGE && scavenge(1) == part,
           "at its end a quarter of the idle pages does: %zu", part);
    used = used_pages();
    part = share(HEAP->free_pages);
    HEAP->release_rate_milli = 10000;
    tap_is_u64(scavenge(used / 10 - 1), 0, "ten times the rate");
    tap_is_u64(scavenge(2), part, "makes windows a tenth as long");
    HEAP->release_rate_milli = 1000;
    unsigned turns = 0;
    while (scavenge(used_pages()) != 0)
        turns++;
    size_t left = HEAP->free_pages;
    tap_ok(turns > 1 && turns < 12 && left > 2 * HUGE_PAGE && left <= 1300,
           "in the end all but a share: %u turns, %zu pages", turns, left);
}

/* Pages that were needed in the window are not idle. */
static void test_needed(void) {
    begin_window(32 * HUGE_PAGE);
    struct tcm_span *s = take(20 * HUGE_PAGE);
    tcm_page_heap_free(s);
    size_t part = share(12 * HUGE_PAGE);
    tap_is_u64(HEAP->free_pages, 32 * HUGE_PAGE, "all is free again");
    tap_ok(part != 0 && scavenge(used_pages()) == part,
           "pages that were taken meanwhile do not count");
    begin_window(32 * HUGE_PAGE);
    uint64_t back = returned_pages();
    for (unsigned i = 0; i < 200; i++)
        tcm_page_heap_free(take(29 * HUGE_PAGE));
    tap_is_u64(returned_pages(), back, "a block that comes and goes stays");
}

/* Runs that no request has touched go before longer ones. */
static void test_untouched(void) {
    begin_window(32 * HUGE_PAGE);
    HEAP->release_rate_milli = 0;
    release_locked(SIZE_MAX);
    struct tcm_span *s = take(12 * HUGE_PAGE), *wall = take(1);
    struct tcm_span *longer = take(20 * HUGE_PAGE);
    uintptr_t start = s->start, longer_start = longer->start;
    tcm_page_heap_free(s);
    tcm_page_heap_free(longer);
    HEAP->window++;
    tcm_page_heap_free(take(20 * HUGE_PAGE));
    HEAP->window_freed = 0;
    HEAP->idle_pages = HEAP->free_pages;
    HEAP->release_rate_milli = 1000;
    size_t part = share(HEAP->free_pages);
    tap_ok(part < 12 * HUGE_PAGE && scavenge(used_pages()) == part,
           "a part of the free pages goes back");
    s = tcm_page_span((void *)start);
    longer = tcm_page_span((void *)longer_start);
    tap_ok(s != NULL && s->state == TCM_SPAN_FREE &&
               s->pages == 12 * HUGE_PAGE - part && longer != NULL &&
               longer->state == TCM_SPAN_FREE &&
               longer->pages == 20 * HUGE_PAGE,
           "from the run that no request has touched");
    HEAP->release_rate_milli = 0;
    tcm_page_heap_free(wall);
    release_locked(SIZE_MAX);
}

/* Pages that were returned and are taken again make windows longer. */
static void test_retaken(void) {
    begin_window(32 * HUGE_PAGE);
    size_t gone = scavenge(used_pages());
    struct tcm_span *s = take(32 * HUGE_PAGE);
    tap_ok(gone != 0 && HEAP->returned_pages == gone, "pages are gone");
    tcm_page_heap_free(s);
    HEAP->window_freed = 0;
    HEAP->idle_pages = HEAP->free_pages;
    size_t used = used_pages();
    size_t part = share(HEAP->free_pages);
    tap_is_u64(scavenge(used), 0,
               "a window with pages that are taken again is longer");
    size_t wait = gone * 1000 < (1u << 20) ? gone * 1000 : 1u << 20;
    tap_is_u64(scavenge(wait - 1), 0, "by 1,000 freed pages for each");
    tap_is_u64(scavenge(1), part, "then pages go back");
    tap_is_u64(HEAP->retaken_pages, gone / 2, "half of them is remembered");
    tap_is_u64(scavenge(used_pages()), 0, "for the next window");
    unsigned turns = 0;
    while (HEAP->retaken_pages != 0 && turns++ < 40)
        scavenge(2u << 20);
    tap_ok(turns < 20, "and less in each: %u turns", turns);
}

/* Memory that the heap grows into is not taken again. */
static void test_growth(void) {
    begin_window(32 * HUGE_PAGE);
    struct tcm_span *s = take(HEAP->committed_pages);
    tcm_page_heap_free(s);
    HEAP->idle_pages = HEAP->free_pages;
    tap_ok(scavenge(used_pages()) != 0, "growth makes no window longer");
    HEAP->release_rate_milli = 0;
    release_locked(SIZE_MAX);
}

/* The free that ends a window of a heap with many short runs does not wait for
   all of them. */
static void test_many_runs(void) {
    enum { BLOCKS = 40000, MOST = 2048 };
    static struct tcm_span *block[BLOCKS];
    begin_window(HUGE_PAGE);
    HEAP->release_rate_milli = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        block[i] = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
    for (size_t i = 0; i < BLOCKS; i += 2)
        tcm_page_heap_free(block[i]);
    HEAP->release_rate_milli = 1000;
    HEAP->window_freed = 0;
    HEAP->idle_pages = HEAP->free_pages;
    size_t due = share(HEAP->free_pages);
    tap_ok(due > MOST && scavenge(used_pages()) == MOST,
           "of short runs no more than %d go at once: %zu are due", MOST, due);
    HEAP->release_rate_milli = 0;
    for (size_t i = 1; i < BLOCKS; i += 2)
        tcm_page_heap_free(block[i]);
    release_locked(SIZE_MAX);
}

int main(void) {
    if (!tcm_heap_init())
        tap_bail("no heap");
    HEAP->release_rate_milli = 0;
    /* The runs here are whole pages of the system up to that length. */
    if (HEAP->system_page > 8 * TCM_PAGE_SIZE)
        return tap_skip_all("pages of the system are longer than 64 KiB");
    test_whole_run();
    test_other_is_busy();
    test_fork_child();
    release_locked(SIZE_MAX);
    test_upper_end();
    test_largest_first();
    test_larger_system_pages();
    test_refused();
    test_scavenging();
    test_needed();
    test_untouched();
    test_retaken();
    test_growth();
    test_many_runs();
    return tap_done();
}
