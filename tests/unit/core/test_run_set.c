/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of runs, merging and carving, against a model that has the state of
 * every page and makes a sorted array of runs of it. No page is ever touched,
 * so the ranges are only numbers.
 */
#include "base/check.h"
#include "core/run_set.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "prng.h"
#include "tap.h"

#define PAGES  3000u /* of each range */
#define RANGES 2u
#define STEPS  6000
#define HEAP   (&tcm_page_heap)

static uint8_t model[RANGES][PAGES]; /* enum tcm_span_state */

struct run {
    uint32_t range;
    size_t page, pages;
};

static uintptr_t address_of(uint32_t range, size_t page) {
    return tcm_ranges.range[range].start + (page << TCM_PAGE_SHIFT);
}

static struct tcm_span *span_at(uint32_t range, size_t page) {
    return tcm_page_span((void *)address_of(range, page));
}

static bool is_free_state(unsigned state) {
    return state == TCM_SPAN_FREE || state == TCM_SPAN_RELEASED;
}

static int by_length(const void *a, const void *b) {
    const struct run *x = a, *y = b;
    if (x->pages != y->pages)
        return x->pages < y->pages ? -1 : 1;
    if (x->range != y->range)
        return x->range < y->range ? -1 : 1;
    return x->page < y->page ? -1 : x->page > y->page;
}

/* Collects the runs of STATE, sorted; returns their number. */
static size_t sorted_runs(unsigned state, struct run *out) {
    size_t n = 0;
    for (uint32_t r = 0; r < RANGES; r++) {
        for (size_t i = 0; i < PAGES;) {
            size_t end = i;
            while (end < PAGES && model[r][end] == state)
                end++;
            if (end != i)
                out[n++] = (struct run){r, i, end - i};
            i = end == i ? i + 1 : end;
        }
    }
    qsort(out, n, sizeof(*out), by_length);
    return n;
}

static bool same(const struct tcm_span *span, const struct run *want) {
    if (span == NULL || want == NULL)
        return span == NULL && want == NULL;
    return span->range == want->range && span->pages == want->pages &&
           span->start == address_of(want->range, want->page);
}

struct verdict {
    bool fit, aligned, before, counts, map, neighbours, carve;
};

/* True if an aligned place is found where a run is surely long enough, lies
   inside its run, and is in the best fit if possible. */
static void check_aligned(const struct tcm_run_set *set, const struct run *runs,
                          size_t n, size_t want, size_t align,
                          struct verdict *v) {
    size_t offset;
    const struct tcm_span *run =
        tcm_run_set_fit_aligned(set, want, align, &offset);
    size_t first = 0;
    while (first < n && runs[first].pages < want)
        first++;
    bool sure = n != 0 && runs[n - 1].pages >= want + align - 1;
    v->aligned &= run != NULL || !sure;
    if (run == NULL)
        return;
    uintptr_t place = run->start + (offset << TCM_PAGE_SHIFT);
    v->aligned &= first < n && place % (align << TCM_PAGE_SHIFT) == 0 &&
                  offset < align && offset + want <= run->pages;
    if (runs[first].page % align == 0)
        v->aligned &= same(run, &runs[first]) && offset == 0;
}

static void check_set(struct prng *random, unsigned state, struct verdict *v) {
    static struct run runs[RANGES * PAGES];
    const struct tcm_run_set *set =
        state == TCM_SPAN_FREE ? &HEAP->free : &HEAP->released;
    size_t n = sorted_runs(state, runs);
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++) {
        pages += runs[i].pages;
        struct tcm_span *first = span_at(runs[i].range, runs[i].page);
        v->map &=
            same(first, &runs[i]) && first->state == state &&
            span_at(runs[i].range, runs[i].page + runs[i].pages - 1) == first;
    }
    v->counts &= pages == (state == TCM_SPAN_FREE ? HEAP->free_pages
                                                  : HEAP->released_pages);
    for (unsigned tries = 0; tries < 6; tries++) {
        size_t want = prng_below(random, tries % 2 == 0 ? 20 : PAGES + 2);
        size_t i = 0;
        while (i < n && runs[i].pages < want)
            i++;
        v->fit &= same(tcm_run_set_fit(set, want), i < n ? &runs[i] : NULL);
    }
    for (unsigned tries = 0; tries < 6; tries++) {
        size_t want = 1 + prng_below(random, tries % 2 == 0 ? 20 : 200);
        check_aligned(set, runs, n, want, (size_t)1 << prng_below(random, 6),
                      v);
    }
    v->before &= same(tcm_run_set_before(set, NULL), n ? &runs[n - 1] : NULL);
    /* From the largest down, each bounded by the one before. */
    struct tcm_span bound = {.pages = SIZE_MAX};
    for (size_t i = n + 1; i-- != 0;) {
        struct tcm_span *run = tcm_run_set_before(set, &bound);
        v->before &= same(run, i == 0 ? NULL : &runs[i - 1]);
        if (run == NULL)
            break;
        bound.pages = run->pages;
        bound.range = run->range;
        bound.start = run->start;
    }
}

static void check_neighbours(struct verdict *v) {
    for (uint32_t r = 0; r < RANGES; r++) {
        struct tcm_span *last = NULL;
        for (size_t i = 0; i < PAGES;) {
            struct tcm_span *span = span_at(r, i);
            if (span == NULL || span->pages == 0)
                tap_bail("no span begins at page %zu of range %u", i, r);
            v->neighbours &= tcm_run_preceding(span) == last &&
                             (last == NULL || tcm_run_after(last) == span) &&
                             tcm_span_range(span) == &tcm_ranges.range[r];
            last = span;
            i += span->pages;
        }
        v->neighbours &= tcm_run_after(last) == NULL;
    }
}

/* Finds any span by a page inside it. */
static struct tcm_span *random_span(struct prng *random) {
    uint32_t r = (uint32_t)prng_below(random, RANGES);
    size_t i = prng_below(random, PAGES);
    struct tcm_span *span = span_at(r, i);
    while (i != 0 && (span == NULL || span->start != address_of(r, i)))
        span = span_at(r, --i);
    TCM_CHECK(span != NULL);
    return span;
}

/* The maximal run of one state around page I of RANGE. */
static struct run model_run(uint32_t range, size_t i) {
    size_t from = i, to = i;
    while (from != 0 && model[range][from - 1] == model[range][i])
        from--;
    while (to < PAGES && model[range][to] == model[range][i])
        to++;
    return (struct run){range, from, to - from};
}

/* Merges the FREE run at page I with its RELEASED slivers. */
static void model_absorb(uint32_t range, size_t i) {
    for (;;) {
        struct run all = model_run(range, i);
        size_t end = all.page + all.pages;
        struct run side = {range, 0, PAGES};
        if (all.page != 0 && model[range][all.page - 1] == TCM_SPAN_RELEASED)
            side = model_run(range, all.page - 1);
        if (side.pages >= TCM_RUN_SLIVER && end < PAGES &&
            model[range][end] == TCM_SPAN_RELEASED)
            side = model_run(range, end);
        if (side.pages >= TCM_RUN_SLIVER)
            return;
        memset(&model[range][side.page], TCM_SPAN_FREE, side.pages);
    }
}

static void step(struct prng *random, struct verdict *v) {
    struct tcm_span *span = random_span(random);
    size_t page = (span->start - address_of(span->range, 0)) >> TCM_PAGE_SHIFT;
    uint8_t *state = &model[span->range][page];
    if (!is_free_state(span->state)) {
        unsigned to = prng_below(random, 2) ? TCM_SPAN_FREE : TCM_SPAN_RELEASED;
        memset(state, (int)to, span->pages);
        if (to == TCM_SPAN_FREE)
            model_absorb(span->range, page);
        tcm_run_insert_merged(span, (enum tcm_span_state)to);
        return;
    }
    size_t most = span->pages < 200 ? span->pages : 200;
    size_t pages = 1 + prng_below(random, most);
    size_t rest = span->pages - pages;
    size_t offset =
        prng_below(random, 3) == 0 ? 0 : prng_below(random, rest + 1);
    unsigned words = 1 + (unsigned)prng_below(random, 16);
    struct tcm_span *made =
        tcm_run_carve(span, offset, pages, TCM_SPAN_LARGE, words);
    if (made == NULL)
        tap_bail("out of memory");
    memset(state + offset, TCM_SPAN_LARGE, pages);
    v->carve &=
        made->state == TCM_SPAN_LARGE && made->pages == pages &&
        made->bit_words == words &&
        made == tcm_page_span((void *)made->start) &&
        made == tcm_page_span((void *)(tcm_span_end(made) - 1)) &&
        state + offset ==
            &model[made->range][(made->start - address_of(made->range, 0)) >>
                                TCM_PAGE_SHIFT];
}

static void set_up(void) {
    for (uint32_t r = 0; r < RANGES; r++) {
        struct tcm_range *range = &tcm_ranges.range[r];
        range->start = (uintptr_t)(0x200 + r) << 36;
        range->length = (size_t)1 << 36;
        range->committed = (size_t)PAGES << TCM_PAGE_SHIFT;
        HEAP->committed_pages += PAGES;
        tcm_ranges.count++;
        struct tcm_span *all = tcm_span_new(&tcm_page_heap.records, 1);
        if (all == NULL ||
            !tcm_page_map_cover((void *)range->start, range->committed))
            tap_bail("out of memory");
        all->range = r;
        all->start = range->start;
        all->pages = PAGES;
        tcm_lock(&HEAP->lock);
        tcm_run_insert_merged(all, TCM_SPAN_RELEASED);
        tcm_unlock(&HEAP->lock);
        memset(model[r], TCM_SPAN_RELEASED, PAGES);
    }
}

static void test_model(void) {
    struct prng random;
    struct verdict v = {true, true, true, true, true, true, true};
    prng_seed(&random, 7);
    for (unsigned i = 0; i < STEPS; i++) {
        step(&random, &v);
        if (i % 8 == 0) {
            check_set(&random, TCM_SPAN_FREE, &v);
            check_set(&random, TCM_SPAN_RELEASED, &v);
            check_neighbours(&v);
        }
    }
    tap_ok(v.fit, "best fit: the shortest, then the lowest");
    tap_ok(v.aligned, "aligned places, in the best fit where that has one");
    tap_ok(v.before, "from the largest down, each of them once");
    tap_ok(v.counts, "pages of each state are counted");
    tap_ok(v.map, "the page map has each run at its ends, and all are merged, "
                  "with slivers");
    tap_ok(v.neighbours, "neighbours, up to the ends of the range");
    tap_ok(v.carve, "what is carved is where and what was asked for");
}

/* Lengths around the border between trees of one length and the tree of all
   longer runs. */
static void test_border(void) {
    static const size_t lengths[] = {1, 63, 64, 127, 128, 129};
    static struct tcm_span *made[TCM_ARRAY_SIZE(lengths)];
    for (uint32_t r = 0; r < RANGES; r++) {
        for (size_t i = 0; i < PAGES;) {
            struct tcm_span *span = span_at(r, i);
            TCM_CHECK(span != NULL);
            if (!is_free_state(span->state))
                tcm_run_insert_merged(span, TCM_SPAN_RELEASED);
            else if (span->state == TCM_SPAN_FREE) {
                tcm_run_remove(span);
                tcm_run_insert_merged(span, TCM_SPAN_RELEASED);
            }
            i = ((span->start - address_of(r, 0)) >> TCM_PAGE_SHIFT) +
                span->pages;
        }
    }
    struct tcm_span *whole[] = {span_at(0, 0), span_at(1, 0)};
    TCM_CHECK(whole[0] != NULL && whole[1] != NULL);
    tap_ok(whole[0]->pages == PAGES && whole[1]->pages == PAGES &&
               HEAP->free_pages == 0,
           "all of one state is one run a range");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(lengths); i++) {
        made[i] = tcm_run_carve(span_at(0, PAGES - 1), 0, lengths[i],
                                TCM_SPAN_LARGE, 1);
        tcm_run_carve(span_at(0, PAGES - 1), 0, 1, TCM_SPAN_LARGE, 1);
    }
    bool good = true;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(lengths); i++)
        tcm_run_insert_merged(made[i], TCM_SPAN_FREE);
    for (size_t pages = 1; pages <= 130; pages++) {
        unsigned i = 0;
        while (i < TCM_ARRAY_SIZE(lengths) && lengths[i] < pages)
            i++;
        struct tcm_span *want =
            i < TCM_ARRAY_SIZE(lengths) ? made[i] : (struct tcm_span *)NULL;
        good &= tcm_run_set_fit(&HEAP->free, pages) == want;
    }
    tap_ok(good, "lengths around the border of short ones");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(lengths); i++)
        tcm_run_remove(made[i]);
    bool empty = HEAP->free_pages == 0;
    for (unsigned w = 0; w < TCM_SHORT_PAGES / 64; w++)
        empty &= HEAP->free.nonempty[w] == 0;
    tap_ok(empty && tcm_run_set_fit(&HEAP->free, 1) == NULL &&
               tcm_run_set_before(&HEAP->free, NULL) == NULL,
           "an emptied set is empty");
}

int main(void) {
    set_up();
    tcm_lock(&HEAP->lock);
    test_model();
    test_border();
    tcm_unlock(&HEAP->lock);
    return tap_done();
}
