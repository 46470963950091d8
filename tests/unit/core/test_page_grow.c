/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth and chains. No lock that other threads wait for is held while the
 * system is asked for memory: the test acts as another thread inside these
 * calls.
 */
#include "base/check.h"
#include "core/central_list.h"
#include "core/meta_alloc.h"
#include "core/page_system.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#include <pthread.h>

#define HEAP      (&tcm_page_heap)
#define MIB_PAGES ((size_t)128)

static struct tcm_span *take(size_t pages) {
    return tcm_page_heap_alloc(pages, 1, TCM_SPAN_LARGE, 1, NULL);
}

static int grow(size_t pages) {
    tcm_page_heap_lock_all();
    int index = tcm_page_grow(HEAP, pages);
    tcm_page_heap_unlock_all();
    return index;
}

static void test_steps(void) {
    bool steps = true, counted = true, chain = true;
    for (unsigned i = 0; i < 100; i++) {
        size_t before = HEAP->committed_pages;
        size_t want = before / 8 / (2 * MIB_PAGES) * (2 * MIB_PAGES);
        want = want < 2 * MIB_PAGES    ? 2 * MIB_PAGES
               : want > 32 * MIB_PAGES ? 32 * MIB_PAGES
                                       : want;
        int index = grow(1);
        steps &= index == 0 && HEAP->committed_pages == before + want;
        counted &= tcm_ranges.range[0].committed >> TCM_PAGE_SHIFT ==
                       HEAP->committed_pages &&
                   HEAP->released_pages == HEAP->committed_pages;
    }
    tap_ok(steps, "an eighth of the heap, 2 to 32 MiB");
    tap_ok(counted, "which is RELEASED then");
    size_t before = HEAP->committed_pages;
    struct tcm_span *most = take(before - 10);
    int index = grow(100 * MIB_PAGES);
    size_t more = HEAP->committed_pages - before;
    chain = index == 0 && more >= 100 * MIB_PAGES - 10 &&
            more < 102 * MIB_PAGES && HEAP->released_pages == more + 10;
    tap_ok(chain, "or what is missing at the end of a range");
    tcm_page_heap_free(most);
    tcm_heap_verify();
}

static void test_refused_growth(void) {
    size_t before = HEAP->committed_pages;
    uint64_t records = tcm_meta_mapped_bytes();
    tap_ok(grow(SIZE_MAX >> TCM_PAGE_SHIFT) < 0, "not all of memory");
    tap_ok(grow((size_t)1 << 40) < 0, "nor 8 PiB");
    struct tcm_span *span = take(MIB_PAGES);
    tap_ok(!tcm_page_heap_resize(span, (size_t)1 << 32), "nor 32 TiB in place");
    tcm_page_heap_free(span);
    tap_is_u64(HEAP->committed_pages, before, "nothing has changed");
    tap_is_u64(tcm_meta_mapped_bytes(), records,
               "nor has memory for the records of so much");
    tcm_heap_verify();
}

/* [RELEASED 40][FREE 20][RELEASED 40][used]... */
static void test_chains(void) {
    (void)tcm_page_heap_release(SIZE_MAX);
    struct tcm_span *all = take(HEAP->released_pages);
    tcm_page_heap_resize(all, 100);
    struct tcm_span *wall = take(HEAP->free_pages + HEAP->released_pages);
    uintptr_t start = all->start;
    tcm_page_heap_free(all);
    (void)tcm_page_heap_release(SIZE_MAX);
    struct tcm_span *low = take(40), *middle = take(20), *high = take(40);
    bool tiled = low->start == start && tcm_span_end(low) == middle->start &&
                 tcm_span_end(middle) == high->start;
    tcm_page_heap_free(low);
    tcm_page_heap_free(high);
    (void)tcm_page_heap_release(SIZE_MAX);
    tcm_page_heap_free(middle);
    tap_ok(tiled && HEAP->free_pages == 20, "a chain of three");
    tcm_page_heap_lock_all();
    struct tcm_span *none = tcm_run_join_somewhere(HEAP, 101);
    struct tcm_span *run = tcm_run_join_somewhere(HEAP, 70);
    tcm_page_heap_unlock_all();
    tap_ok(none == NULL && HEAP->free_pages == 70, "joins what is needed");
    tap_ok(run != NULL && run->state == TCM_SPAN_FREE && run->pages == 70 &&
               run->start == start + 30 * TCM_PAGE_SIZE,
           "upwards first");
    tcm_heap_verify();
    tcm_page_heap_free(wall);
    (void)tcm_page_heap_release(SIZE_MAX);
    tcm_heap_verify();
}

/* ------------------------------------------------------------------------ */
/* Other threads meanwhile                                                  */

static unsigned calls, blocked;
static bool acting;

static bool is_held(const struct tcm_lock *lock) {
    return tcm_load_relaxed(&lock->state) != 0;
}

static void *other_thread(void *unused) {
    void *objects[8];
    struct tcm_span *page = take(1);
    unsigned n = tcm_central_fetch(3, objects, 8);
    tcm_central_return(3, objects, n);
    if (page != NULL)
        tcm_page_heap_free(page);
    return unused;
}

/* Allocates as another thread during this call. */
static bool meanwhile(const char *call) {
    (void)call;
    if (acting)
        return false;
    bool held = is_held(&HEAP->lock);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        held = held || is_held(&tcm_central[0][size_class].lock) ||
               is_held(&tcm_transfer[0][size_class].lock);
    calls++;
    blocked += held;
    acting = true;
    pthread_t other;
    if (!held && calls <= 3) {
        if (pthread_create(&other, NULL, other_thread, NULL) != 0)
            tap_bail("no thread");
        pthread_join(other, NULL);
    }
    acting = false;
    return false;
}

static void test_growth_is_unlocked(void) {
    void *kept[8], *got[TCM_MAX_BATCH];
    unsigned n = tcm_central_fetch(3, kept, 8);
    static struct tcm_span *s[64];
    static void *objects[40000];
    unsigned count = 0;
    (void)tcm_page_heap_release(SIZE_MAX);
    struct tcm_span *all = take(HEAP->released_pages);
    tcm_page_heap_free(take(4)); /* a few are left */
    calls = blocked = 0;
    tcm_testpoint_refuse = meanwhile;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(s); i++)
        s[i] = take(10 * MIB_PAGES + i);
    tap_ok(calls != 0 && blocked == 0,
           "no lock is held while the heap grows: %u calls, %u with one", calls,
           blocked);
    calls = blocked = 0;
    while (calls == 0 && count + TCM_MAX_BATCH <= TCM_ARRAY_SIZE(objects)) {
        unsigned more = tcm_central_fetch(tcm_size_class(4096), got, 8);
        memcpy(objects + count, got, more * sizeof(got[0]));
        count += more;
    }
    tap_ok(calls != 0 && blocked == 0,
           "nor while a central list needs it to: %u calls, %u with one", calls,
           blocked);
    calls = blocked = 0;
    HEAP->release_at_once = true;
    for (unsigned i = 0; i < count; i += 8)
        tcm_central_return(tcm_size_class(4096), objects + i, 8);
    tap_ok(calls != 0 && blocked == 0,
           "nor while the pages of its spans go back");
    calls = blocked = 0;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(s); i++)
        tcm_page_heap_free(s[i]);
    tap_ok(calls != 0 && blocked == 0, "nor those of large blocks");
    HEAP->release_at_once = false;
    tcm_testpoint_refuse = NULL;
    tcm_central_return(3, kept, n);
    tcm_page_heap_free(all);
    tcm_heap_verify();
}

static struct tcm_span *thief;

/* Takes all free pages just after the system gave memory, which is not
   published yet. */
static bool steals(const char *call) {
    if (acting || strcmp(call, "mmap") != 0)
        return false;
    acting = true;
    if (thief == NULL && !is_held(&HEAP->lock))
        thief = take(5);
    acting = false;
    return false;
}

/* Takes the end of the range on which growth counted before the growth is done.
 */
static void test_stolen(void) {
    (void)tcm_page_heap_release(SIZE_MAX);
    struct tcm_span *all = take(HEAP->released_pages - 5);
    tcm_testpoint_refuse = steals;
    struct tcm_span *s = take(2 * MIB_PAGES + 3);
    tcm_testpoint_refuse = NULL;
    tap_ok(thief != NULL && s != NULL && s->pages == 2 * MIB_PAGES + 3 &&
               s->start >= tcm_span_end(thief),
           "who finds its pages taken grows again");
    tcm_heap_verify();
    tcm_page_heap_free(s);
    tcm_page_heap_free(thief);
    tcm_page_heap_free(all);
    tcm_heap_verify();
}

int main(void) {
    tcm_heap_init();
    HEAP->release_rate_milli = 0;
    test_steps();
    test_refused_growth();
    if (HEAP->system_page <= TCM_PAGE_SIZE) {
        test_chains();
        test_stolen();
    }
    test_growth_is_unlocked();
    return tap_done();
}
