/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/run_set.h"
#include "core/page_heap.h"
#include "core/page_map.h"

#define HEAP (&tcm_page_heap)

struct tcm_range *tcm_span_range(const struct tcm_span *span) {
    return &HEAP->ranges.range[span->range];
}

void tcm_run_map_ends(const struct tcm_span *span, struct tcm_span *value) {
    tcm_page_map_set_span(span->start, value);
    tcm_page_map_set_span(tcm_span_end(span) - TCM_PAGE_SIZE, value);
}

static struct tcm_run_set *set_of(unsigned state) {
    return state == TCM_SPAN_FREE ? &HEAP->free : &HEAP->released;
}

static uint64_t *pages_of(unsigned state) {
    return state == TCM_SPAN_FREE ? &HEAP->free_pages : &HEAP->released_pages;
}

void tcm_run_insert(struct tcm_span *run) {
    size_t i = tcm_run_tree_index(run->pages);
    struct tcm_run_set *set = set_of(run->state);
    tcm_run_tree_insert(&set->tree[i], run);
    set->nonempty[i / 64] |= (uint64_t)1 << (i % 64);
    *pages_of(run->state) += run->pages;
    tcm_run_map_ends(run, run);
}

void tcm_run_remove(struct tcm_span *run) {
    size_t i = tcm_run_tree_index(run->pages);
    struct tcm_run_set *set = set_of(run->state);
    tcm_run_tree_remove(&set->tree[i], run);
    if (set->tree[i].root == NULL)
        set->nonempty[i / 64] &= ~((uint64_t)1 << (i % 64));
    *pages_of(run->state) -= run->pages;
    tcm_run_map_ends(run, NULL);
}

struct tcm_span *tcm_run_after(const struct tcm_span *span) {
    uintptr_t end = tcm_span_end(span);
    if (end == tcm_range_frontier(tcm_span_range(span)))
        return NULL;
    return tcm_page_span((void *)end);
}

struct tcm_span *tcm_run_preceding(const struct tcm_span *span) {
    if (span->start == tcm_span_range(span)->start)
        return NULL;
    return tcm_page_span((void *)(span->start - 1));
}

void tcm_run_insert_merged(struct tcm_span *run, enum tcm_span_state state) {
    tcm_run_map_ends(run, NULL);
    run->state = (uint8_t)state;
    struct tcm_span *before = tcm_run_preceding(run);
    if (before != NULL && before->state == run->state) {
        tcm_run_remove(before);
        run->start = before->start;
        run->pages += before->pages;
        tcm_span_delete(before);
    }
    struct tcm_span *after = tcm_run_after(run);
    if (after != NULL && after->state == run->state) {
        tcm_run_remove(after);
        run->pages += after->pages;
        tcm_span_delete(after);
    }
    tcm_run_insert(run);
}

struct tcm_span *tcm_run_set_fit(const struct tcm_run_set *set, size_t pages) {
    if (pages < TCM_SHORT_PAGES) {
        for (size_t w = pages / 64; w < TCM_SHORT_PAGES / 64; w++) {
            uint64_t bits = set->nonempty[w];
            if (w == pages / 64)
                bits &= ~(uint64_t)0 << (pages % 64);
            if (w == 0)
                bits &= ~(uint64_t)1;
            if (bits == 0)
                continue;
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            return tcm_run_tree_fit(&set->tree[i], pages);
        }
    }
    return tcm_run_tree_fit(&set->tree[0], pages);
}

struct tcm_span *tcm_run_set_before(const struct tcm_run_set *set,
                                    const struct tcm_span *bound) {
    struct tcm_span *run = tcm_run_tree_before(&set->tree[0], bound);
    size_t i = TCM_SHORT_PAGES - 1;
    if (bound != NULL && bound->pages < i)
        i = bound->pages;
    for (; run == NULL && i != 0; i--)
        run = tcm_run_tree_before(&set->tree[i], bound);
    return run;
}

struct tcm_span *tcm_run_carve(struct tcm_span *run, size_t offset,
                               size_t pages, enum tcm_span_state state,
                               unsigned bit_words) {
    size_t rest = run->pages - offset - pages;
    struct tcm_span *span = tcm_span_new(bit_words);
    struct tcm_span *tail = NULL;
    if (span == NULL)
        return NULL;
    if (offset != 0 && rest != 0) {
        tail = tcm_span_new(1);
        if (tail == NULL) {
            tcm_span_delete(span);
            return NULL;
        }
    }
    tcm_run_remove(run);
    span->range = run->range;
    span->start = run->start + (offset << TCM_PAGE_SHIFT);
    span->pages = pages;
    span->state = (uint8_t)state;
    if (offset != 0 && rest != 0) {
        tail->range = run->range;
        tail->state = run->state;
        tail->start = tcm_span_end(span);
        tail->pages = rest;
        tcm_run_insert(tail);
    }
    if (offset != 0) {
        run->pages = offset;
        tcm_run_insert(run);
    } else if (rest != 0) {
        run->start = tcm_span_end(span);
        run->pages = rest;
        tcm_run_insert(run);
    } else {
        tcm_span_delete(run);
    }
    tcm_run_map_ends(span, span);
    return span;
}
