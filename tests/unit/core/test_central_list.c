/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Central lists against a set of the objects that were fetched.
 */
#include "core/central_list.h"
#include "core/page_map.h"
#include "core_test.h"

#define MAX_OUT 5000
#define STEPS   4000

static void *out[MAX_OUT];
static unsigned out_count;

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a;
    uintptr_t y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* True if all fetched objects lie at slots of spans of CLASS and none was
   fetched twice. */
static bool all_distinct(unsigned size_class) {
    static void *sorted[MAX_OUT];
    memcpy(sorted, out, out_count * sizeof(out[0]));
    qsort(sorted, out_count, sizeof(out[0]), by_address);
    for (unsigned i = 0; i < out_count; i++) {
        struct tcm_block_info info = tcm_block_info(sorted[i]);
        if (info.kind != TCM_BLOCK_SMALL || info.size_class != size_class)
            return false;
        if (i != 0 && (uintptr_t)sorted[i] - (uintptr_t)sorted[i - 1] <
                          tcm_class[size_class].size)
            return false;
    }
    return true;
}

static void test_model(unsigned size_class) {
    struct prng random;
    bool distinct = true, counted = true;
    struct tcm_central *central = &tcm_central[0][size_class];
    prng_seed(&random, size_class);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned n = 1 + (unsigned)prng_below(&random, TCM_MAX_BATCH);
        if (prng_below(&random, 2) == 0 && out_count + n <= MAX_OUT) {
            out_count += tcm_central_fetch(size_class, out + out_count, n);
        } else if (n <= out_count) {
            for (unsigned i = 0; i < n; i++) {
                unsigned j = (unsigned)prng_below(&random, out_count - i) + i;
                void *swap = out[i];
                out[i] = out[j];
                out[j] = swap;
            }
            if (prng_below(&random, 2) == 0)
                qsort(out, n, sizeof(out[0]), by_address);
            tcm_central_return(size_class, out, n);
            out_count -= n;
            memmove(out, out + n, out_count * sizeof(out[0]));
        }
        counted &= central->free_objects + out_count ==
                   central->span_count * tcm_class[size_class].objects;
        if (step % 200 == 0) {
            distinct &= all_distinct(size_class);
            tcm_heap_verify();
        }
    }
    tap_ok(distinct, "class %u: objects are distinct slots", size_class);
    tap_ok(counted, "class %u: free objects are counted", size_class);
    while (out_count != 0) {
        unsigned n = out_count < TCM_MAX_BATCH ? out_count : TCM_MAX_BATCH;
        tcm_central_return(size_class, out, n);
        out_count -= n;
        memmove(out, out + n, out_count * sizeof(out[0]));
    }
    tcm_heap_verify();
    tap_is_u64(central->span_count, 0, "class %u: empty spans go back",
               size_class);
    tap_is_u64(central->free_objects, 0, "class %u: nothing left", size_class);
}

static void reverse(void **object, unsigned n) {
    for (unsigned i = 0; i < n / 2; i++) {
        void *swap = object[i];
        object[i] = object[n - 1 - i];
        object[n - 1 - i] = swap;
    }
}

/* A fresh span gives its lowest objects first; then comes the fullest span. */
static void test_order(void) {
    unsigned size_class = tcm_size_class(64);
    unsigned objects = tcm_class[size_class].objects;
    void *first[TCM_MAX_OBJECTS], *second[TCM_MAX_OBJECTS];
    tap_is_u64(tcm_central_fetch(size_class, first, objects), objects,
               "a whole span");
    bool falling = true;
    for (unsigned i = 1; i < objects; i++)
        falling &= (char *)first[i] == (char *)first[0] - i * 64;
    tap_ok(falling, "in order of addresses, the lowest last");
    tap_is_u64(tcm_central_fetch(size_class, second, objects), objects,
               "another");
    reverse(first, objects);
    reverse(second, objects);
    /* nearly all objects of the first span are free, of the second a few */
    tcm_central_return(size_class, first + 1, objects - 1);
    tcm_central_return(size_class, second, 3);
    void *next[4];
    tcm_central_fetch(size_class, next, 4);
    reverse(next, 4);
    tap_ok(next[0] == second[0] && next[1] == second[1] && next[2] == second[2],
           "the fullest span is used first, its lowest object first");
    tap_ok(next[3] == first[1], "then the other");
    tcm_central_return(size_class, next, 4);
    tcm_central_return(size_class, first, 1);
    tcm_central_return(size_class, second + 3, objects - 3);
    tap_is_u64(tcm_central[0][size_class].span_count, 0, "all back");
}

struct run {
    void **object;
    unsigned size_class, n;
};

static void return_run(void *argument) {
    struct run *run = argument;
    tcm_central_return(run->size_class, run->object, run->n);
}

/* Returns neighbours in one piece: across words of bits, ascending and
   descending, up to the ends of the span and on into the next one. */
static void test_runs(void) {
    static void *all[2 * TCM_MAX_OBJECTS], *again[2 * TCM_MAX_OBJECTS];
    unsigned size_class = tcm_size_class(64);
    unsigned objects = tcm_class[size_class].objects, n = 2 * objects;
    char text[64];
    TCM_CHECK(objects == 128);
    tcm_central_fetch(size_class, all, n);
    memcpy(again, all, sizeof(all));
    bool same = true;
    for (unsigned falls = 0; falls < 2; falls++) {
        static const unsigned at[] = {0, 1, 61, 70, 127, 130, 256};
        for (unsigned i = 0; i + 1 < TCM_ARRAY_SIZE(at); i++) {
            struct run run = {all + at[i], size_class, at[i + 1] - at[i]};
            if (falls != 0)
                reverse(run.object, run.n);
            return_run(&run);
        }
        tap_is_u64(tcm_central[0][size_class].span_count, 0,
                   "all came back, %s", falls != 0 ? "falling" : "rising");
        tcm_central_fetch(size_class, all, n);
        same &= memcmp(all, again, n * sizeof(all[0])) == 0;
    }
    tap_ok(same, "and are handed out as before");
    tcm_central_return(size_class, all + 100, 1);
    for (unsigned falls = 0; falls < 2; falls++) {
        struct run run = {again + 60, size_class, 60};
        snprintf(text, sizeof(text), "double free of %p", all[100]);
        if (falls != 0)
            reverse(run.object, run.n);
        tap_ok(test_dies_with(return_run, &run, text),
               "one of them that is free already is named");
    }
    tcm_central_return(size_class, all, 100);
    tcm_central_return(size_class, all + 101, n - 101);
    tcm_heap_verify();
}

struct bad_free {
    unsigned size_class;
    void *ptr;
};

static void return_one(void *argument) {
    struct bad_free *bad = argument;
    tcm_central_return(bad->size_class, &bad->ptr, 1);
}

static void return_twice(void *argument) {
    struct bad_free *bad = argument;
    void *twice[2] = {bad->ptr, bad->ptr};
    tcm_central_return(bad->size_class, twice, 2);
}

static void test_bad_pointers(void) {
    unsigned size_class = tcm_size_class(48);
    void *object[2];
    char text[64];
    tcm_central_fetch(size_class, object, 2);
    struct bad_free bad = {size_class, object[0]};
    snprintf(text, sizeof(text), "double free of %p", object[0]);
    tap_ok(test_dies_with(return_twice, &bad, text),
           "a double free dies and names the pointer");
    bad.ptr = (char *)object[1] + 8;
    snprintf(text, sizeof(text), "invalid pointer %p", bad.ptr);
    tap_ok(test_dies_with(return_one, &bad, text), "so does an inner one");
    bad.ptr = object;
    tap_ok(test_dies_with(return_one, &bad, "invalid pointer"),
           "and a foreign one");
    bad.ptr = object[0];
    bad.size_class = size_class + 1;
    tap_ok(test_dies_with(return_one, &bad, "invalid pointer"),
           "and one of another class");
    size_t last =
        tcm_class[size_class].objects * (size_t)tcm_class[size_class].size;
    bad.size_class = size_class;
    bad.ptr = (char *)tcm_page_span(object[0])->start + last;
    tap_ok(last == tcm_span_bytes(tcm_page_span(object[0])) ||
               test_dies_with(return_one, &bad, "invalid pointer"),
           "and one behind the last object");
    tcm_central_return(size_class, object, 2);
    tcm_heap_verify();
}

int main(void) {
    tcm_heap_init();
    test_order();
    test_runs();
    test_model(tcm_size_class(8));
    test_model(tcm_size_class(200));
    test_model(tcm_size_class(5000));
    test_model(tcm_size_class(TCM_MAX_SMALL));
    test_bad_pointers();
    return tap_done();
}
