/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tight loops, in which nothing but the allocator takes time. What recording
 * costs an event is measured with these.
 */
#include "bench.h"

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

static const struct workload list[] = {
    {"pairs", "malloc(64), free", run_pairs},
    {"lifo", "48 blocks of 24 + 16 (j mod 8) bytes, freed in reverse",
     run_lifo},
    {"random", "20,000 slots of 16 + 0..127 or 16 + 0..1023 bytes", run_random},
    {"threads", "two of random at once", run_threads},
    {"random200", "random with 200 slots", run_random_200},
    {"random1m", "random with a million slots", run_random_million},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
