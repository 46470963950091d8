/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page heap against a model that knows the state of every page of the first
 * range and repeats the rules: FREE before RELEASED, shortest run that fits,
 * lowest position, aligned starts, slivers.
 */
#include "core/heap_census.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core_test.h"

#define MODEL_PAGES 65536 /* 512 MiB */
#define MAX_SPANS   600
#define STEPS       12000
#define WHOLE       8 /* pages: a whole number of system pages anywhere */

/* The ends of runs then stay FREE, so the model knows less about released
   pages. */
static bool large_system_pages(void) {
    return tcm_page_heap.system_page > TCM_PAGE_SIZE;
}

enum page_state { UNKNOWN, FREE, RELEASED, USED };

static unsigned char model[MODEL_PAGES];
static struct tcm_span *span[MAX_SPANS];
static unsigned span_count;
static uintptr_t origin;

static size_t frontier(void) {
    size_t pages = tcm_ranges.range[0].committed >> TCM_PAGE_SHIFT;
    if (pages > MODEL_PAGES)
        tap_bail("the heap outgrew the model: %zu pages", pages);
    return pages;
}

static size_t index_of(const struct tcm_span *s) {
    return (s->start - origin) >> TCM_PAGE_SHIFT;
}

struct model_run {
    size_t page, pages;
};

static int by_length(const void *a, const void *b) {
    const struct model_run *x = a, *y = b;
    if (x->pages != y->pages)
        return x->pages < y->pages ? -1 : 1;
    return x->page < y->page ? -1 : x->page > y->page;
}

static size_t rounded_up(size_t page, size_t step) {
    return (page + step - 1) / step * step;
}

/* Place of a block of PAGES among runs of STATE if it begins at a multiple of
   STEP: in one of the four best runs, or in the best one that is surely long
   enough. MODEL_PAGES: nowhere. */
static size_t model_fit(unsigned char state, size_t pages, size_t step) {
    static struct model_run run[MODEL_PAGES / 2];
    size_t n = 0;
    for (size_t i = 0; i < frontier();) {
        size_t end = i;
        while (end < frontier() && model[end] == state)
            end++;
        if (end - i >= pages)
            run[n++] = (struct model_run){i, end - i};
        i = end == i ? i + 1 : end;
    }
    qsort(run, n, sizeof(run[0]), by_length);
    for (size_t i = 0; i < n; i++) {
        size_t at = rounded_up(run[i].page, step);
        if (i < 4 ? at + pages <= run[i].page + run[i].pages
                  : run[i].pages >= pages + step - 1)
            return at;
    }
    return MODEL_PAGES;
}

/* Blocks of 8 pages or more begin at multiples of a power of two, about an
   eighth of their length, 8 pages at most. */
static size_t wanted_step(size_t pages) {
    size_t step = 1;
    while (step < 8 && step * 8 <= pages)
        step *= 2;
    return step;
}

static size_t model_place(unsigned char state, size_t pages) {
    size_t at = model_fit(state, pages, wanted_step(pages));
    return at != MODEL_PAGES ? at : model_fit(state, pages, 1);
}

static bool model_is(size_t from, size_t pages, unsigned char state) {
    for (size_t i = from; i < from + pages; i++) {
        if (model[i] != state)
            return false;
    }
    return true;
}

static void model_set(size_t from, size_t pages, unsigned char state) {
    memset(model + from, state, pages);
}

/* The heap grew or merged: free pages are read from the page map. */
static void model_learn(void) {
    for (size_t i = 0; i < frontier();) {
        struct tcm_span *s =
            tcm_page_span((void *)(origin + (i << TCM_PAGE_SHIFT)));
        if (s == NULL || index_of(s) != i || s->pages == 0)
            tap_bail("page map has no span at page %zu", i);
        if (s->state == TCM_SPAN_FREE)
            model_set(i, s->pages, FREE);
        else if (s->state == TCM_SPAN_RELEASED)
            model_set(i, s->pages, RELEASED);
        i += s->pages;
    }
}

/* Merges the free run at page I with the RELEASED slivers beside it. */
static void model_absorb(size_t i) {
    size_t from = i, to = i;
    for (bool more = true; more;) {
        while (from != 0 && model[from - 1] == FREE)
            from--;
        while (to < frontier() && model[to] == FREE)
            to++;
        size_t low = from, high = to;
        while (low != 0 && model[low - 1] == RELEASED)
            low--;
        while (high < frontier() && model[high] == RELEASED)
            high++;
        more = false;
        if (low != from && from - low < TCM_RUN_SLIVER) {
            model_set(low, from - low, FREE);
            more = true;
        }
        if (high != to && high - to < TCM_RUN_SLIVER) {
            model_set(to, high - to, FREE);
            more = true;
        }
    }
}

static bool is_zero(const struct tcm_span *s) {
    const uint64_t *p = (const uint64_t *)s->start;
    for (size_t i = 0; i < tcm_span_bytes(s) / 8; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

struct verdict {
    bool place, free_pages, aligned, zero, resize, counts;
};

static void step_alloc(struct prng *random, struct verdict *v) {
    static const size_t sizes[] = {1, 2, 8, 40, 200, 900};
    size_t pages = 1 + prng_below(random, sizes[prng_below(random, 6)]);
    size_t align =
        prng_below(random, 4) == 0 ? (size_t)1 << prng_below(random, 6) : 1;
    bool zeroed;
    size_t before = frontier();
    size_t want = model_place(FREE, pages);
    unsigned char state = FREE;
    if (want == MODEL_PAGES) {
        want = model_place(RELEASED, pages);
        state = RELEASED;
    }
    bool merged = want == MODEL_PAGES && tcm_page_heap.free_pages != 0;
    struct tcm_span *s =
        tcm_page_heap_alloc(pages, align, TCM_SPAN_LARGE, 1, &zeroed);
    if (s == NULL)
        tap_bail("out of memory");
    if (origin == 0)
        origin = tcm_ranges.range[0].start;
    size_t at = index_of(s);
    for (size_t i = at; i < at + pages; i++)
        v->free_pages &= model[i] != USED;
    if (frontier() != before || merged || align != 1) {
        model_learn(); /* the model does not repeat these choices */
    } else {
        v->place &= at == want && model_is(at, pages, state);
        v->zero &= zeroed == (state == RELEASED);
    }
    model_set(at, pages, USED);
    v->aligned &= s->start % (align << TCM_PAGE_SHIFT) == 0;
    v->zero &= !zeroed || is_zero(s);
    memset((void *)s->start, 0xa5, tcm_span_bytes(s));
    span[span_count++] = s;
}

static void step_free(struct prng *random) {
    unsigned i = (unsigned)prng_below(random, span_count);
    size_t at = index_of(span[i]);
    model_set(at, span[i]->pages, FREE);
    model_absorb(at);
    tcm_page_heap_free(span[i]);
    span[i] = span[--span_count];
}

static void step_resize(struct prng *random, struct verdict *v) {
    struct tcm_span *s = span[prng_below(random, span_count)];
    size_t at = index_of(s);
    size_t old = s->pages;
    size_t pages = 1 + prng_below(random, old * 2);
    size_t room = 0;
    size_t before = frontier();
    while (at + old + room < before && model[at + old + room] != USED)
        room++;
    bool at_end = at + old + room == before;
    bool done = tcm_page_heap_resize(s, pages);
    v->resize &= done == (pages <= old + room || at_end);
    v->resize &= s->pages == (done ? pages : old) && index_of(s) == at;
    if (frontier() != before)
        model_learn();
    if (!done)
        return;
    model_set(at, pages, USED);
    if (pages < old) {
        model_set(at + pages, old - pages, FREE);
        model_absorb(at + pages);
    }
    memset((void *)s->start, 0xa5, tcm_span_bytes(s));
}

static void step_release(struct prng *random, struct verdict *v) {
    size_t pages = 1 + prng_below(random, 300);
    size_t free_pages = tcm_page_heap.free_pages;
    size_t done = tcm_page_heap_release(pages);
    v->counts &= done >= (pages < free_pages ? pages : free_pages);
    v->counts &= tcm_page_heap.free_pages == free_pages - done;
    model_learn();
}

static void check_counts(struct verdict *v) {
    size_t count[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < frontier(); i++)
        count[model[i]]++;
    v->counts &= tcm_page_heap.free_pages == count[FREE] &&
                 tcm_page_heap.released_pages == count[RELEASED] &&
                 tcm_page_heap.large_pages == count[USED] &&
                 tcm_page_heap.committed_pages == frontier();
}

static void test_model(void) {
    struct prng random;
    struct verdict v = {true, true, true, true, true, true};
    prng_seed(&random, 3);
    tcm_page_heap.release_rate_milli = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned what = (unsigned)prng_below(&random, 100);
        if (span_count == 0 || (what < 45 && span_count < MAX_SPANS &&
                                tcm_page_heap.large_pages < 8000))
            step_alloc(&random, &v);
        else if (what < 85)
            step_free(&random);
        else if (what < 99)
            step_resize(&random, &v);
        else
            step_release(&random, &v);
        if (step % 64 == 0) {
            check_counts(&v);
            tcm_heap_verify();
        }
    }
    tap_ok(v.place, "a run is taken where the rules say");
    tap_ok(v.free_pages, "only free pages are handed out");
    tap_ok(v.aligned, "aligned runs are aligned");
    tap_ok(v.zero, "what is said to be zero is, and fresh memory is said to");
    tap_ok(v.resize, "resizing works exactly where there is room");
    tap_ok(v.counts, "pages are counted");
    while (span_count != 0)
        step_free(&random);
    tcm_heap_verify();
    tap_is_u64(tcm_page_heap.large_blocks, 0, "all blocks are free");
    tcm_page_heap_release(SIZE_MAX);
    tcm_heap_verify();
    if (large_system_pages())
        return;
    struct tcm_span *all = tcm_page_span((void *)origin);
    tap_ok(all != NULL && all->state == TCM_SPAN_RELEASED &&
               all->pages == frontier(),
           "and, given back, are one run");
}

static void test_scavenging(void) {
    struct tcm_stats before, after;
    tcm_page_heap.release_rate_milli = 1000;
    struct tcm_span *big =
        tcm_page_heap_alloc(6000, 1, TCM_SPAN_LARGE, 1, NULL);
    struct tcm_span *small = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
    tcm_page_heap.window_freed = 0;
    tcm_stats_read(&before);
    tcm_page_heap_free(big);
    tcm_stats_read(&after);
    tap_is_u64(after.system_bytes_returned, before.system_bytes_returned,
               "a block that was just freed stays");
    uint64_t returned = 0;
    for (unsigned i = 0; i < 20000 && returned == 0; i++) {
        tcm_page_heap_free(small);
        small = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
        tcm_stats_read(&after);
        returned =
            (after.system_bytes_returned - before.system_bytes_returned) >>
            TCM_PAGE_SHIFT;
    }
    tcm_page_heap_free(small);
    tap_ok(returned > 1000 && returned < 3000,
           "frees of another give a part back: %llu pages",
           (unsigned long long)returned);
    tcm_page_heap.release_at_once = true;
    big = tcm_page_heap_alloc(3000, 1, TCM_SPAN_LARGE, 1, NULL);
    tcm_page_heap_free(big);
    tap_ok(tcm_page_heap.free_pages < 3000 &&
               (large_system_pages() || tcm_page_heap.free_pages == 0),
           "at once, if so configured");
    tcm_page_heap.release_at_once = false;
}

static struct tcm_span *take(size_t pages) {
    return tcm_page_heap_alloc(pages, 1, TCM_SPAN_LARGE, 1, NULL);
}

/* FREE and RELEASED neighbours together serve a request that neither could
   alone. */
static void test_chain(void) {

    tcm_page_heap.release_rate_milli = 0;
    if (large_system_pages())
        return; /* runs do not meet where the test needs it */
    size_t all = tcm_page_heap.free_pages + tcm_page_heap.released_pages;
    size_t part = all / 4 / WHOLE * WHOLE;
    struct tcm_span *s[4] = {take(part), take(part), take(part), NULL};
    s[3] = take(all - 3 * part);
    size_t before = frontier();
    uintptr_t start = s[0]->start;
    size_t span_pages = s[0]->pages + s[1]->pages + s[2]->pages;
    bool tiled =
        tcm_span_end(s[0]) == s[1]->start && tcm_span_end(s[1]) == s[2]->start;
    tcm_page_heap_free(s[0]);
    tcm_page_heap_free(s[2]);
    tcm_page_heap_release(SIZE_MAX);
    tcm_page_heap_free(s[1]);
    tcm_heap_verify();
    struct tcm_span *big = take(span_pages - 10);
    tap_ok(tiled && big != NULL && big->start >= start &&
               big->start + tcm_span_bytes(big) <=
                   start + (span_pages << TCM_PAGE_SHIFT) &&
               frontier() == before,
           "a chain of both kinds is joined before the heap grows");
    tcm_heap_verify();
    tcm_page_heap_free(big);
    tcm_page_heap_free(s[3]);
    /* At the end of a range the heap grows by what is missing. */
    tcm_page_heap_release(SIZE_MAX);
    struct tcm_span *low = take(frontier() - 304);
    struct tcm_span *end = take(304);
    tcm_page_heap_free(end);
    before = frontier();
    end = take(512);
    tap_ok(end != NULL &&
               tcm_span_end(end) <= origin + (frontier() << TCM_PAGE_SHIFT) &&
               end->start == tcm_span_end(low),
           "what is free at the end is used by the growth");
    tcm_page_heap_free(end);
    tcm_page_heap_free(low);
    tcm_page_heap_release(SIZE_MAX);
    tcm_heap_verify();
}

/* System pages of 64 KiB: only whole ones are released, the ends stay FREE. */
static void test_large_system_pages(void) {
    const size_t page = (size_t)64 << 10;
    size_t real = tcm_page_heap.system_page;
    struct prng random;
    struct tcm_stats before, after;
    bool whole = true, zero = true, all = true;
    tcm_page_heap.system_page = page;
    prng_seed(&random, 8);
    tcm_stats_read(&before);
    for (unsigned step = 0; step < 6000; step++) {
        unsigned what = (unsigned)prng_below(&random, 100);
        bool zeroed;
        if (what < 50 && span_count < 200) {
            struct tcm_span *s = tcm_page_heap_alloc(
                1 + prng_below(&random, 30), 1, TCM_SPAN_LARGE, 1, &zeroed);
            zero &= !zeroed || is_zero(s);
            memset((void *)s->start, 0xa5, tcm_span_bytes(s));
            span[span_count++] = s;
        } else if (what < 97 && span_count != 0) {
            unsigned i = (unsigned)prng_below(&random, span_count);
            tcm_page_heap_free(span[i]);
            span[i] = span[--span_count];
        } else if (what >= 97) {
            tcm_page_heap_release(SIZE_MAX);
            /* no run that is still FREE has a whole system page */
            tcm_lock(&tcm_page_heap.lock);
            struct tcm_span *s = tcm_run_set_before(&tcm_page_heap.free, NULL);
            tcm_unlock(&tcm_page_heap.lock);
            all &= s == NULL || tcm_span_bytes(s) < 2 * page;
            tcm_heap_verify();
        }
        tcm_stats_read(&after);
        whole &= (after.system_bytes_returned - before.system_bytes_returned) %
                     page ==
                 0;
    }
    tap_ok(after.system_bytes_returned != before.system_bytes_returned && whole,
           "large system pages go back whole");
    tap_ok(all, "all that are free do");
    tap_ok(zero, "and what is zero is known rightly");
    while (span_count != 0)
        tcm_page_heap_free(span[--span_count]);
    tcm_page_heap.system_page = real;
    tcm_page_heap_release(SIZE_MAX);
    tcm_heap_verify();
    if (real <= TCM_PAGE_SIZE)
        tap_is_u64(tcm_page_heap.free_pages, 0, "small ones all go back");
    else
        tap_skip("the pages of this system are large");
}

static void test_limit(void) {
    tcm_page_heap_release(SIZE_MAX);
    tcm_page_heap.limit_pages =
        tcm_page_heap.committed_pages - tcm_page_heap.released_pages + 500;
    struct tcm_span *a = tcm_page_heap_alloc(400, 1, TCM_SPAN_LARGE, 1, NULL);
    tap_ok(a != NULL, "below the limit");
    tap_ok(tcm_page_heap_alloc(101, 1, TCM_SPAN_LARGE, 1, NULL) == NULL,
           "not above it");
    tap_ok(!tcm_page_heap_resize(a, 501), "nor by resizing");
    tcm_page_heap_free(a);
    struct tcm_span *b = tcm_page_heap_alloc(450, 1, TCM_SPAN_LARGE, 1, NULL);
    tap_ok(b != NULL, "free pages are given back for it");
    tcm_page_heap_free(b);
    tcm_page_heap.limit_pages = 0;
    tcm_heap_verify();
}

static void test_find(void) {
    struct tcm_span *s = tcm_page_heap_alloc(700, 1, TCM_SPAN_LARGE, 1, NULL);
    tap_ok(tcm_page_heap_find((void *)(s->start + 350 * TCM_PAGE_SIZE)) == s,
           "a page in the middle finds its span");
    tap_ok(tcm_page_heap_find((void *)(tcm_span_end(s) - 1)) == s,
           "so does the last byte");
    tap_ok(tcm_page_heap_find((void *)&s) == NULL, "the stack is foreign");
    tcm_page_heap_free(s);
    tap_ok(tcm_page_heap_alloc((size_t)1 << 40, 1, TCM_SPAN_LARGE, 1, NULL) ==
               NULL,
           "8 PiB cannot be had");
    tap_ok(tcm_page_heap_alloc(SIZE_MAX >> TCM_PAGE_SHIFT, 1, TCM_SPAN_LARGE, 1,
                               NULL) == NULL,
           "nor can all of memory");
    tcm_heap_verify();
}

static struct tcm_span *take_empty(size_t pages, unsigned bit_words) {
    return tcm_page_heap_alloc(pages, 1, TCM_SPAN_MOVING, bit_words, NULL);
}

/* Empty spans of a class stay in one piece for the next, until a run is needed
   that they are in the way of. */
static void test_spares(void) {
    enum { SPANS = 300, KEPT = 256 };
    static struct tcm_span *kept[SPANS];
    struct tcm_page_figures before, after;
    tcm_page_heap_figures(&before);
    for (unsigned i = 0; i < SPANS; i++)
        kept[i] = take_empty(1, 1);
    uintptr_t last = kept[KEPT - 1]->start;
    for (unsigned i = 0; i < SPANS; i++)
        tcm_page_heap_free(kept[i]);
    tcm_heap_verify();
    tap_is_u64(tcm_page_heap.spare_pages, KEPT, "as many as may be are kept");
    tcm_page_heap_figures(&after);
    tap_ok(after.free + after.released == before.free + before.released,
           "and count as free");
    struct tcm_run_figures runs, released;
    tcm_census_runs(&runs, &released);
    tap_ok(runs.runs >= KEPT, "as free runs, too");
    struct tcm_span *same = take_empty(1, 1);
    struct tcm_span *other = take_empty(1, 9), *longer = take_empty(2, 1);
    tap_ok(same->start == last, "the last one is the next");
    tap_ok(other->bit_words == 9 && longer->pages == 2,
           "records and lengths of other sizes are not mixed up");
    tap_is_u64(tcm_page_heap.spare_pages, KEPT - 1, "no other was taken");
    tcm_page_heap_free(same);
    tcm_page_heap_free(other);
    tcm_page_heap_free(longer);
    struct tcm_span *large = tcm_page_heap_alloc(tcm_page_heap.free_pages + 1,
                                                 1, TCM_SPAN_LARGE, 1, NULL);
    tap_is_u64(tcm_page_heap.spare_pages, 0, "a long request merges them");
    tcm_page_heap_free(large);
    struct tcm_span *a = take_empty(1, 1), *b = take_empty(1, 1);
    struct tcm_span *block = tcm_page_heap_alloc(1, 1, TCM_SPAN_LARGE, 1, NULL);
    struct tcm_span *behind =
        tcm_run_is_free(tcm_page_span((void *)tcm_span_end(block)))
            ? take_empty(1, 1)
            : NULL;
    if (behind == NULL || behind->start != tcm_span_end(block))
        tap_bail("not behind the block");
    tcm_page_heap_free(behind);
    tap_is_u64(tcm_page_heap.spare_pages, 1, "one spare behind a block");
    tap_ok(tcm_page_heap_resize(block, 2), "which can grow there");
    tcm_page_heap_free(a);
    tap_ok(tcm_page_heap_release(1) != 0 && tcm_page_heap.spare_pages == 0,
           "pages that are asked for go back, spares among them");
    tcm_page_heap_set_at_once(true);
    tcm_page_heap_free(b);
    tap_is_u64(tcm_page_heap.spare_pages, 0,
               "none is kept where pages go back at once");
    tcm_page_heap_set_at_once(false);
    tcm_page_heap_free(block);
    tcm_heap_verify();
}

int main(void) {
    tcm_heap_init();
    test_model();
    test_scavenging();
    test_chain();
    test_large_system_pages();
    test_limit();
    test_find();
    test_spares();
    return tap_done();
}
