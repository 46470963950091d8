/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of spans: zeroed, of the requested size, on cache lines of their own,
 * and used again after they were freed.
 */
#include "core/run_set.h"
#include "core/meta_alloc.h"
#include "prng.h"
#include "tap.h"

#define RECORDS   300
#define STEPS     20000
#define MAX_WORDS (TCM_MAX_OBJECTS / 64)

struct held {
    struct tcm_span *span;
    unsigned words;
    uint64_t mark;
};

static struct tcm_span_pools pools = TCM_SPAN_POOLS_INIT;
static struct held held[RECORDS];
static unsigned count;

static size_t bytes_of(unsigned words) {
    return offsetof(struct tcm_span, free_bits) + 8 * (size_t)words;
}

/* Fills all bytes of a record except those that tell its size. */
static void fill(const struct held *h) {
    h->span->start = h->mark;
    h->span->pages = (size_t)h->mark;
    h->span->word = ~h->mark;
    h->span->left = h->span;
    h->span->state = TCM_SPAN_SMALL;
    for (unsigned w = 0; w < h->words; w++)
        h->span->free_bits[w] = h->mark + w;
}

static bool is_filled(const struct held *h) {
    const struct tcm_span *s = h->span;
    bool good = s->start == h->mark && s->pages == (size_t)h->mark &&
                s->word == ~h->mark && s->left == s &&
                s->state == TCM_SPAN_SMALL && s->bit_words == h->words;
    for (unsigned w = 0; w < h->words; w++)
        good &= s->free_bits[w] == h->mark + w;
    return good;
}

static bool is_fresh(const struct tcm_span *s, unsigned words) {
    struct tcm_span copy;
    memcpy(&copy, s, sizeof(copy));
    bool good = copy.bit_words == words;
    for (unsigned w = 0; w < words; w++)
        good &= s->free_bits[w] == 0;
    copy.bit_words = 0;
    const uint8_t *p = (const uint8_t *)&copy;
    for (size_t i = 0; i < offsetof(struct tcm_span, free_bits); i++)
        good &= p[i] == 0;
    return good;
}

static bool share_a_line(const struct held *a, const struct held *b) {
    uintptr_t line = TCM_CACHE_LINE;
    uintptr_t a_last = ((uintptr_t)a->span + bytes_of(a->words) - 1) / line;
    uintptr_t b_last = ((uintptr_t)b->span + bytes_of(b->words) - 1) / line;
    return (uintptr_t)a->span / line <= b_last &&
           (uintptr_t)b->span / line <= a_last;
}

static void test_records(void) {
    struct prng random;
    bool fresh = true, kept = true, aligned = true, apart = true;
    prng_seed(&random, 1);
    for (unsigned step = 0; step < STEPS; step++) {
        if (count == 0 || (count < RECORDS && prng_below(&random, 100) < 52)) {
            struct held *h = &held[count];
            h->words = 1 + (unsigned)prng_below(&random, MAX_WORDS);
            h->mark = prng_next(&random);
            h->span = tcm_span_new(&pools, h->words);
            if (h->span == NULL)
                tap_bail("out of memory");
            fresh &= is_fresh(h->span, h->words);
            aligned &= (uintptr_t)h->span % TCM_CACHE_LINE == 0;
            for (unsigned i = 0; i < count; i++)
                apart &= !share_a_line(h, &held[i]);
            fill(h);
            count++;
        } else {
            unsigned i = (unsigned)prng_below(&random, count);
            kept &= is_filled(&held[i]);
            tcm_span_delete(&pools, held[i].span);
            held[i] = held[--count];
        }
    }
    for (unsigned i = 0; i < count; i++)
        kept &= is_filled(&held[i]);
    tap_ok(fresh, "a new record is zeroed, also one that was used before");
    tap_ok(aligned, "it begins with a cache line");
    tap_ok(apart, "no two share a line");
    tap_ok(kept, "and none writes into another");
}

static void test_reuse(void) {
    while (count != 0)
        tcm_span_delete(&pools, held[--count].span);
    char *before = tcm_meta_alloc(1);
    bool again = true, marked = true;
    for (unsigned words = 1; words <= MAX_WORDS; words++) {
        struct tcm_span *span = tcm_span_new(&pools, words);
        span->state = TCM_SPAN_LARGE;
        span->pages = 7;
        tcm_span_delete(&pools, span);
        marked &= span->state == TCM_SPAN_NONE && span->pages == 0;
        again &= tcm_span_new(&pools, words) == span;
        tcm_span_delete(&pools, span);
    }
    tap_ok(marked, "a record not in use says so to late readers");
    tap_ok(again, "the record given back last is taken first");
    tap_ok((char *)tcm_meta_alloc(1) == before + TCM_META_ALIGN,
           "and no new memory is needed");
}

static void test_geometry(void) {
    struct tcm_span span = {.start = (uintptr_t)5 << TCM_PAGE_SHIFT,
                            .pages = 3};
    tap_is_u64(tcm_span_bytes(&span), 3 * TCM_PAGE_SIZE, "bytes");
    tap_is_u64(tcm_span_end(&span), 8 * TCM_PAGE_SIZE, "end");
}

int main(void) {
    test_records();
    test_reuse();
    test_geometry();
    return tap_done();
}
