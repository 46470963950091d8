/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of switching thread caches: one thread detaches its cache and attaches
 * another, as a replayer of many threads does. Runs under a library with
 * <gperftools/thread_cache_switch.h>:
 *
 *     LD_PRELOAD=.libs/libtcmalloc_minimal.so bench/bench_switch [SCALE]
 *
 * SCALE multiplies the number of switches; 1 is ten million.
 */
#include "bench.h"

#include <dlfcn.h>

#include "gperftools/thread_cache_switch.h"

enum { CACHES = 1000, BLOCKS = 32 };

static bool (*release_cache)(struct ThreadCacheState **);
static bool (*set_cache)(struct ThreadCacheState *);
static struct ThreadCacheState *cache[CACHES];

/* ISO C has no way from an object's address to a function's but a copy. */
static bool find(void *place, const char *name) {
    void *at = dlsym(RTLD_DEFAULT, name);
    memcpy(place, &at, sizeof at);
    return at != NULL;
}

static void must(bool worked) {
    if (!worked)
        abort();
}

/* Fills what is attached. */
static void warm(unsigned seed) {
    void *p[BLOCKS];
    uint64_t s = seed + 1;
    for (unsigned i = 0; i < BLOCKS; i++)
        p[i] = bench_take(16 + bench_random(&s) % 500);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(p[i]);
}

static uint64_t use_nothing(uint64_t i) {
    return i;
}
static uint64_t use_a_pair(uint64_t i) {
    free(bench_take(16 + i % 64 * 8));
    return i;
}

/* N switches among COUNT caches, in turn; USE runs between them. */
static double switch_ns(uint64_t n, unsigned count, uint64_t (*use)(uint64_t)) {
    must(set_cache(cache[0]));
    uint64_t begin = bench_now_ns();
    unsigned at = 0;
    for (uint64_t i = 0; i < n; i++) {
        must(release_cache(&cache[at]));
        at = at + 1 < count ? at + 1 : 0;
        must(set_cache(cache[at]));
        use(i);
    }
    uint64_t ns = bench_now_ns() - begin;
    must(release_cache(&cache[at]));
    return (double)ns / (double)n;
}

static void row(const char *what, double ns) {
    printf("%-44s %8.1f ns\n", what, ns);
}

int main(int argc, char **argv) {
    double scale = argc > 1 ? atof(argv[1]) : 1;
    if (!find(&release_cache, "release_malloc_thread_cache") ||
        !find(&set_cache, "set_malloc_thread_cache")) {
        fprintf(stderr, "preload a library that switches thread caches\n");
        return 77;
    }
    uint64_t n = bench_count(scale, 10e6);
    setvbuf(stdout, NULL, _IONBF, 0);
    struct ThreadCacheState *first;
    warm(0); /* before its first malloc a library may not be set up */
    must(release_cache(&first));
    for (unsigned i = 0; i < CACHES; i++) {
        warm(i);
        must(release_cache(&cache[i]) && cache[i]);
    }
    row("switch between 2 caches", switch_ns(n, 2, use_nothing));
    row("switch between 2 caches, malloc and free",
        switch_ns(n, 2, use_a_pair));
    uint64_t before = bench_resident_kib();
    row("switch among 1,000 caches", switch_ns(n, CACHES, use_nothing));
    row("switch among 1,000 caches, malloc and free",
        switch_ns(n, CACHES, use_a_pair));
    uint64_t after = bench_resident_kib();
    for (unsigned i = 0; i < CACHES; i++)
        must(set_cache(cache[i]));
    must(set_cache(first));
    printf("%-44s %8llu KiB\n%-44s %8llu KiB\n%-44s %8llu KiB\n",
           "resident before switching among 1,000 caches",
           (unsigned long long)before, "after", (unsigned long long)after,
           "after all caches are destroyed",
           (unsigned long long)bench_resident_kib());
    return 0;
}
