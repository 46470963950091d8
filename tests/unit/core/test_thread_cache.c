/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread caches: every allocated block is distinct and intact whatever caches
 * do, budgets hold, idle memory is returned, and slow paths stay rare.
 */
#include "core/central_list.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#define CACHES 5
#define SLOTS  6000
#define STEPS  200000

static struct tcm_thread_cache *cache[CACHES];

static uint64_t in_use(void) {
    struct tcm_heap_figures f;
    tcm_heap_figures(&f);
    return f.in_use_bytes;
}

static uint64_t *mark_of(void *p) {
    return p;
}

static void test_model(void) {
    static void *slot[SLOTS];
    struct prng random;
    bool intact = true, budget = true;
    uint64_t serial = 1;
    static uint64_t want[SLOTS];
    prng_seed(&random, 4);
    for (unsigned i = 0; i < CACHES; i++)
        cache[i] = tcm_cache_new();
    for (unsigned step = 0; step < STEPS; step++) {
        struct tcm_thread_cache *c =
            cache[(step / 5000 + prng_below(&random, 2)) % CACHES];
        unsigned i = (unsigned)prng_below(&random, SLOTS);
        if (slot[i] != NULL) {
            intact &= *mark_of(slot[i]) == want[i];
            test_free(c, slot[i]);
            slot[i] = NULL;
        } else {
            size_t size =
                8 + prng_below(&random, 1u << prng_below(&random, 15));
            slot[i] = test_alloc(c, size);
            if (slot[i] == NULL)
                tap_bail("out of memory");
            *mark_of(slot[i]) = want[i] = serial++;
        }
        budget &= c->capacity_bytes <= c->budget_bytes + TCM_MAX_SMALL;
        if (step % 10000 == 0) {
            tcm_heap_verify();
            tcm_cache_want_words(cache[step / 10000 % CACHES],
                                 step % 20000 == 0);
        }
        if (step % 37777 == 0) {
            tcm_cache_destroy(cache[0]);
            cache[0] = tcm_cache_new();
        }
        if (step % 4001 == 0) {
            tcm_cache_detach(cache[1]);
            tcm_cache_attach(cache[1]);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slot[i] != NULL) {
            intact &= *mark_of(slot[i]) == want[i];
            test_free(cache[i % CACHES], slot[i]);
            slot[i] = NULL;
        }
    }
    tap_ok(intact, "no block is handed out twice");
    tap_ok(budget, "capacities stay within the budgets");
    tcm_heap_verify();
    tap_is_u64(in_use(), 0, "everything is accounted for as free");
    for (unsigned i = 0; i < CACHES; i++)
        tcm_cache_destroy(cache[i]);
    tcm_transfer_flush();
    uint64_t spans = 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        spans += tcm_central[0][size_class].span_count;
    tap_is_u64(spans, 0, "without caches no span is left");
    tcm_heap_verify();
}

static void test_order(void) {
    struct tcm_thread_cache *c = tcm_cache_new();
    char *a = test_alloc(c, 128);
    char *b = test_alloc(c, 128);
    tap_ok(b == a + 128, "fresh blocks rise in address");
    test_free(c, a);
    tap_ok(test_alloc(c, 128) == a, "the last freed is the next used");
    test_free(c, a);
    test_free(c, b);
    tap_ok(test_alloc(c, 128) == b && test_alloc(c, 128) == a, "a stack");
    test_free(c, a);
    test_free(c, b);
    tcm_cache_destroy(c);
}

/* The counts are exact: nothing depends on time or address. */
static void test_slow_path_rate(void) {
    enum { LIVE = 20000, OPERATIONS = 1000000 };
    static void *slot[LIVE];
    struct tcm_thread_cache *c = tcm_cache_new();
    struct prng random;
    prng_seed(&random, 5);
    for (unsigned i = 0; i < LIVE; i++)
        slot[i] = test_alloc(c, 16 + prng_below(&random, 1024));
    for (unsigned warm = 0; warm < 2; warm++) {
        uint64_t slow = c->misses + c->overflows;
        for (unsigned n = 0; n < OPERATIONS; n++) {
            unsigned i = (unsigned)prng_below(&random, LIVE);
            test_free(c, slot[i]);
            slot[i] = test_alloc(c, 16 + prng_below(&random, 1024));
        }
        slow = c->misses + c->overflows - slow;
        if (warm == 1)
            tap_ok(slow < 2 * OPERATIONS / 5000,
                   "random sizes: %llu slow paths in %d operations",
                   (unsigned long long)slow, 2 * OPERATIONS);
    }
    for (unsigned i = 0; i < LIVE; i++)
        test_free(c, slot[i]);
    /* A thread that only frees, or only allocates, must not hoard objects. */
    uint64_t capacity = c->capacity_bytes;
    unsigned size_class = tcm_size_class(256);
    void *batch[TCM_MAX_BATCH];
    for (unsigned n = 0; n < 20000; n += TCM_MAX_BATCH) {
        unsigned got = tcm_central_fetch(size_class, batch, TCM_MAX_BATCH);
        for (unsigned i = 0; i < got; i++)
            test_free(c, batch[i]);
    }
    tap_ok(c->capacity_bytes <= capacity + ((size_t)32 << 10) + 16 * 64 * 256,
           "a bin that only fills does not grow for ever");
    tcm_cache_destroy(c);
    tcm_heap_verify();
}

/* Allocates N blocks of SIZE, then frees them in that order. */
static void swing(struct tcm_thread_cache *c, size_t size, unsigned n) {
    static void *block[20000];
    TCM_CHECK(n <= TCM_ARRAY_SIZE(block));
    for (unsigned i = 0; i < n; i++)
        block[i] = test_alloc(c, size);
    for (unsigned i = 0; i < n; i++)
        test_free(c, block[i]);
}

/* A bin gets capacity for swings that it can hold a good part of, no more. */
static void test_bulk_bins(void) {
    struct tcm_thread_cache *c = tcm_cache_new();
    unsigned size_class = tcm_size_class(64);
    const struct tcm_class_info *info = &tcm_class[size_class];
    const struct tcm_bin_cold *cold = &c->cold[size_class];
    tcm_transfer_flush();
    for (unsigned i = 0; i < 20; i++)
        swing(c, 64, 1000);
    tap_ok(cold->capacity >= 1000 && !cold->bulk, "one of 1,000 is held");
    swing(c, 64, 5 * info->max_cached);
    tap_ok(cold->bulk && cold->capacity <= 5u * info->batch,
           "a bin gives up capacity that is a small part of its swing");
    tcm_transfer_flush();
    uint64_t hits = tcm_transfer[0][size_class].hits;
    for (unsigned i = 0; i < 5; i++)
        swing(c, 64, 5 * info->max_cached);
    tap_ok(cold->bulk && cold->capacity <= 5u * info->batch, "for good");
    tap_ok(tcm_transfer[0][size_class].hits == hits &&
               tcm_transfer[0][size_class].count == 0,
           "its objects bypass the transfer cache");
    tap_ok(tcm_central[0][size_class].span_count <=
               5u * info->batch / info->objects + 2,
           "their spans serve other classes");
    for (unsigned i = 0; i < 20; i++)
        swing(c, 64, 1000);
    tap_ok(cold->capacity >= 1000 && !cold->bulk,
           "shorter swings earn it again");
    tcm_cache_destroy(c);
    tcm_heap_verify();
}

static void test_idle_bins(void) {
    struct tcm_thread_cache *c = tcm_cache_new();
    unsigned idle = tcm_size_class(4096);
    void *block[64];
    for (unsigned i = 0; i < 64; i++)
        block[i] = test_alloc(c, 4096);
    for (unsigned i = 0; i < 64; i++)
        test_free(c, block[i]);
    int64_t held = c->bin[idle].top - c->cold[idle].base;
    /* Slow paths of another class, whose blocks are allocated and freed in
       bulk. */
    static void *other[20000];
    for (unsigned round = 0; round < 400; round++) {
        for (unsigned i = 0; i < 20000; i++)
            other[i] = test_alloc(c, 32);
        for (unsigned i = 0; i < 20000; i++)
            test_free(c, other[i]);
    }
    tap_ok(held > 0, "a bin holds objects");
    tap_ok(c->bin[idle].top == c->cold[idle].base,
           "and loses them when it is not used");
    tcm_cache_destroy(c);
    tcm_heap_verify();
}

static void test_first_touch(void) {
    struct tcm_thread_cache *producer = tcm_cache_new();
    struct tcm_thread_cache *consumer = tcm_cache_new();
    char *mine = test_alloc(producer, 8);
    char *given = test_alloc(producer, 8);
    test_free(consumer, given);
    char *got = test_alloc(consumer, 8);
    tap_ok((uintptr_t)got / TCM_CACHE_LINE != (uintptr_t)mine / TCM_CACHE_LINE,
           "a thread that frees another's block gets no neighbour of it");
    test_free(producer, mine);
    test_free(consumer, got);
    tcm_cache_destroy(producer);
    tcm_cache_destroy(consumer);
    tcm_heap_verify();
}

static void test_budget(void) {
    uint64_t total = tcm_registry_budget();
    struct tcm_thread_cache *a = tcm_cache_new();
    static void *block[3000];
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 3000; i++)
            block[i] = test_alloc(a, 64 + 4 * i);
        for (unsigned i = 0; i < 3000; i++)
            test_free(a, block[i]);
    }
    uint64_t rich = a->budget_bytes;
    tap_ok(rich > (uint64_t)512 << 10, "a busy cache claims budget");
    tap_ok(a->capacity_bytes <= rich, "and keeps within it");
    tcm_registry_set_budget((uint64_t)512 << 10);
    tap_is_u64(a->budget_bytes, (uint64_t)512 << 10,
               "a lower total is taken from it");
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 3000; i++)
            block[i] = test_alloc(a, 24 + i % 3000);
        for (unsigned i = 0; i < 3000; i++)
            test_free(a, block[i]);
    }
    tap_ok(a->capacity_bytes <= a->budget_bytes, "and it shrinks");
    tcm_registry_set_budget(total);
    tcm_cache_destroy(a);
    tcm_heap_verify();
}

static void test_rob(void) {
    uint64_t total = tcm_registry_budget();
    tcm_registry_set_budget((uint64_t)4 << 20);
    struct tcm_thread_cache *both[2] = {tcm_cache_new(), tcm_cache_new()};
    static void *block[3000];
    uint64_t budget[2][2];
    for (unsigned turn = 0; turn < 2; turn++) {
        struct tcm_thread_cache *c = both[turn];
        for (unsigned round = 0; round < 60; round++) {
            for (unsigned i = 0; i < 3000; i++)
                block[i] = test_alloc(c, 64 + 4 * i);
            for (unsigned i = 0; i < 3000; i++)
                test_free(c, block[i]);
        }
        budget[turn][0] = both[0]->budget_bytes;
        budget[turn][1] = both[1]->budget_bytes;
    }
    tap_ok(budget[0][0] > budget[0][1], "the busy cache has more");
    tap_ok(budget[1][1] > budget[0][1] && budget[1][0] < budget[0][0],
           "and loses it to one that is busy later");
    tap_ok(both[0]->budget_bytes + both[1]->budget_bytes <= (uint64_t)4 << 20,
           "the total holds");
    tcm_cache_destroy(both[0]);
    tcm_cache_destroy(both[1]);
    tcm_registry_set_budget(total);
    tcm_heap_verify();
}

static void test_new_cache(void) {
    bool empty = true, full = true;
    char object[16];
    struct tcm_thread_cache *c = tcm_cache_new();
    for (unsigned size_class = 0; size_class < TCM_MAX_CLASSES; size_class++) {
        empty &= tcm_cache_peek(c, size_class)->ptr == NULL;
        full &= !tcm_cache_push(c, size_class, object);
    }
    tap_ok(empty && full, "bins of a new cache are empty and full at once");
    tap_ok(!tcm_cache_is_open(c) && !tcm_cache_is_open(TCM_NO_CACHE),
           "it is shut, as is the stand-in");
    tcm_cache_destroy(c);
}

static void test_words(void) {
    struct tcm_thread_cache *c = tcm_cache_new();
    void *p = test_alloc(c, 100);
    test_free(c, p);
    unsigned size_class = tcm_size_class(100);
    tcm_cache_want_words(c, true);
    bool good = true;
    for (struct tcm_entry *e = c->cold[size_class].base;
         e != c->bin[size_class].top; e++)
        good &= e->word != NULL && e->word == tcm_object_word(e->ptr, false) &&
                *e->word == 0;
    tap_ok(good, "wanting words fills in those of cached objects");
    static void *block[500];
    good = true;
    for (unsigned i = 0; i < 500; i++) {
        if (tcm_cache_peek(c, size_class)->ptr == NULL)
            tcm_cache_refill(c, size_class);
        struct tcm_entry *e = tcm_cache_peek(c, size_class);
        good &= e->word == tcm_object_word(e->ptr, false) && *e->word == 0;
        *e->word = i + 1;
        block[i] = e->ptr;
        tcm_cache_drop_top(c, size_class);
    }
    for (unsigned i = 0; i < 500; i++)
        good &= *tcm_object_word(block[i], false) == i + 1;
    tap_ok(good, "refilled ones have theirs, each object its own");
    for (unsigned i = 0; i < 500; i++) {
        *tcm_object_word(block[i], false) = 0;
        test_free(c, block[i]);
    }
    tcm_heap_verify();
    tcm_cache_destroy(c);
}

int main(void) {
    tcm_heap_init();
    test_new_cache();
    test_order();
    test_first_touch();
    test_words();
    test_model();
    test_slow_path_rate();
    test_bulk_bins();
    test_idle_bins();
    test_budget();
    test_rob();
    return tap_done();
}
