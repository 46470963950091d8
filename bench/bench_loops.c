/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tight loops, in which nothing but the allocator takes time. What recording
 * costs an event is measured with these.
 */
#include "bench.h"

#include <dlfcn.h>

static uint64_t run_pairs(double scale) {
    uint64_t n = bench_count(scale, 100e6);
    for (uint64_t i = 0; i < n; i++)
        free(bench_hide(malloc(64)));
    return 2 * n;
}

enum { BATCH = 48 };

static uint64_t run_lifo(double scale) {
    uint64_t n = bench_count(scale, 2.5e6);
    void *p[BATCH];
    for (uint64_t i = 0; i < n; i++) {
        for (unsigned j = 0; j < BATCH; j++)
            p[j] = bench_hide(malloc(24 + 16 * (j % 8)));
        for (unsigned j = BATCH; j-- > 0;)
            free(p[j]);
    }
    return 2 * BATCH * n;
}

struct random_loop {
    uint64_t seed;
    uint64_t steps;
    unsigned slots;
    char pad[64];
};

static void *random_loop(void *arg) {
    struct random_loop *a = arg;
    void **slot = calloc(a->slots, sizeof *slot);
    if (!slot)
        abort();
    uint64_t s = a->seed;
    for (uint64_t i = 0; i < a->steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)(((r >> 32) * a->slots) >> 32);
        size_t size = 16 + (r & 1 ? (r >> 1) % 128 : (r >> 1) % 1024);
        free(slot[k]);
        char *p = bench_take(size);
        *p = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < a->slots; k++)
        free(slot[k]);
    free(slot);
    return NULL;
}

static uint64_t run_random_slots(int threads, double steps, unsigned slots) {
    static struct random_loop a[64];
    for (int i = 0; i < threads; i++) {
        a[i].seed = 88172645463325252u + (uint64_t)i * 7919;
        a[i].steps = (uint64_t)steps;
        a[i].slots = slots;
    }
    if (threads == 1)
        random_loop(a);
    else
        bench_threads(threads, random_loop, a, sizeof *a);
    return 2 * (uint64_t)threads * (uint64_t)steps;
}

static uint64_t run_random(double scale) {
    return run_random_slots(1, scale * 30e6, 20000);
}
static uint64_t run_threads(double scale) {
    return run_random_slots(2, scale * 30e6, 20000);
}
static uint64_t run_random_200(double scale) {
    return run_random_slots(1, scale * 40e6, 200);
}
static uint64_t run_random_million(double scale) {
    return run_random_slots(1, scale * 8e6, 1000000);
}

/* --- Batches: N blocks of one size, freed in the order of allocation -------
 */

static const uint16_t batch_sizes[] = {16,  24,  32,  48,  64,  96,  128,
                                       192, 256, 384, 512, 768, 1024};
enum {
    BATCH_SIZES = sizeof batch_sizes / sizeof *batch_sizes,
    BATCH_MAX = 1600
};

static void batch_round(void **p, unsigned n, size_t size) {
    for (unsigned j = 0; j < n; j++) {
        char *block = bench_take(size);
        *block = 1;
        p[j] = block;
    }
    for (unsigned j = 0; j < n; j++)
        free(p[j]);
}

/* STEPS blocks altogether; N is the same all the time, or changes with 0. */
static uint64_t batch_blocks(uint64_t steps, unsigned n) {
    static const unsigned counts[] = {25, 100, 400, 1600};
    void **p = calloc(BATCH_MAX, sizeof *p);
    if (!p)
        abort();
    uint64_t done = 0;
    for (unsigned i = 0; done < steps; i++) {
        unsigned m = n ? n : counts[i / BATCH_SIZES % 4];
        batch_round(p, m, batch_sizes[i % BATCH_SIZES]);
        done += m;
    }
    free(p);
    return done;
}

static uint64_t run_batch(double scale, unsigned n) {
    return 2 * batch_blocks(bench_count(scale, 50e6), n);
}
static uint64_t run_batch_25(double scale) {
    return run_batch(scale, 25);
}
static uint64_t run_batch_100(double scale) {
    return run_batch(scale, 100);
}
static uint64_t run_batch_400(double scale) {
    return run_batch(scale, 400);
}
static uint64_t run_batch_1600(double scale) {
    return run_batch(scale, 1600);
}

struct batch_thread {
    uint64_t steps, done;
    char pad[112];
};
static void *batch_thread(void *arg) {
    struct batch_thread *a = arg;
    a->done = batch_blocks(a->steps, 0);
    return NULL;
}
static uint64_t run_batch_threads(double scale) {
    struct batch_thread a[2] = {{bench_count(scale, 40e6), 0, {0}},
                                {bench_count(scale, 40e6), 0, {0}}};
    bench_threads(2, batch_thread, a, sizeof *a);
    return 2 * (a[0].done + a[1].done);
}

/* --- Sized delete, by its mangled name -------------------------------------
 */

/* ISO C has no way from an object's address to a function's but a copy. */
static void find_function(void *place, const char *name) {
    void *at = dlsym(RTLD_DEFAULT, name);
    if (!at) {
        void *cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
        at = cxx ? dlsym(cxx, name) : NULL;
    }
    if (!at) {
        fprintf(stderr, "no C++ operators here\n");
        exit(77);
    }
    memcpy(place, &at, sizeof at);
}

static uint64_t run_sized(double scale) {
    enum { SLOTS = 2000 };
    static void *slot[SLOTS];
    static uint16_t bytes[SLOTS];
    void *(*take)(size_t);
    void (*give)(void *, size_t);
    find_function(&take, "_Znwm");
    find_function(&give, "_ZdlPvm");
    uint64_t n = bench_count(scale, 30e6), s = 7;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        if (slot[k])
            give(slot[k], bytes[k]);
        bytes[k] = (uint16_t)(16 + (r & 1 ? (r >> 1) % 128 : (r >> 1) % 1024));
        char *p = bench_hide(take(bytes[k]));
        *p = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        if (slot[k])
            give(slot[k], bytes[k]);
    return 2 * n;
}

/* Stacks of 17 frames from here to main, for call sites. */
enum { FRAMES = 12 };

static __attribute__((noinline)) void stack_leaf(uint64_t times) {
    for (uint64_t i = 0; i < times; i++)
        free(bench_hide(malloc(64)));
}

static __attribute__((noinline)) void stack_odd(int depth, uint64_t times);
static __attribute__((noinline)) void stack_even(int depth, uint64_t times) {
    if (depth == 0)
        stack_leaf(times);
    else
        stack_odd(depth - 1, times);
    __asm__ volatile("" ::: "memory"); /* no call in the tail */
}
static __attribute__((noinline)) void stack_odd(int depth, uint64_t times) {
    if (depth == 0)
        stack_leaf(times);
    else
        stack_even(depth - 1, times);
    __asm__ volatile("" ::: "memory");
}

static uint64_t run_stack_same(double scale) {
    uint64_t n = bench_count(scale, 20e6);
    stack_even(FRAMES, n);
    return 2 * n;
}

/* Each allocation by another path than the one before, of all frames. */
static uint64_t run_stack_turns(double scale) {
    uint64_t n = bench_count(scale, 20e6);
    for (uint64_t i = 0; i < n; i++)
        (i % 2 == 0 ? stack_even : stack_odd)(FRAMES, 1);
    return 2 * n;
}

/* One to four frames differ from those of the allocation before. */
static uint64_t run_stack_some(double scale) {
    uint64_t n = bench_count(scale, 20e6);
    for (uint64_t i = 0; i < n; i++)
        stack_even(FRAMES - (int)(i % 4), 1);
    return 2 * n;
}

static const struct workload list[] = {
    {"pairs", "malloc(64), free", run_pairs},
    {"lifo", "48 blocks of 24 + 16 (j mod 8) bytes, freed in reverse",
     run_lifo},
    {"random", "20,000 slots of 16 + 0..127 or 16 + 0..1023 bytes", run_random},
    {"threads", "two of random at once", run_threads},
    {"random200", "random with 200 slots", run_random_200},
    {"random1m", "random with a million slots", run_random_million},
    {"batch25", "25 blocks of one size (16 to 1,024), freed in order",
     run_batch_25},
    {"batch100", "the same with 100", run_batch_100},
    {"batch400", "the same with 400", run_batch_400},
    {"batch1600", "the same with 1,600", run_batch_1600},
    {"batch2", "two threads, batches of 25 to 1,600", run_batch_threads},
    {"sized", "operator new and sized delete, 2,000 slots", run_sized},
    {"stack-same", "pairs, all from one stack of 17 frames", run_stack_same},
    {"stack-turns", "from two in turn, with no frame in common",
     run_stack_turns},
    {"stack-some", "from four in turn, with some frames in common",
     run_stack_some},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
