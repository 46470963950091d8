/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of <gperftools/thread_cache_switch.h>: what they promise, millions
 * of switches, and that detached caches neither leak nor lose memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gperftools/thread_cache_switch.h"
#include "prng.h"
#include "rounds.h"
#include "resident.h"
#include "tap.h"

static bool (*release_cache)(struct ThreadCacheState **);
static bool (*set_cache)(struct ThreadCacheState *);
static void *(*volatile take)(size_t) = malloc;
static void *(*volatile take_zeroed)(size_t, size_t) = calloc;
static void (*volatile give)(void *) = free;

static void work(unsigned n) {
    void *p[64];
    for (unsigned i = 0; i < 64; i++)
        p[i] = take((i * 13 + n * 7) % 1000);
    for (unsigned i = 0; i < 64; i++)
        give(p[i]);
}

static void test_promises(void) {
    struct ThreadCacheState *a = (void *)1, *b = (void *)1, *c = (void *)1;
    tap_diag("the first line takes the memory of stdout's buffer");
    work(0);
    tap_ok(release_cache(&a) && a != NULL && a != (void *)1,
           "release gives the cache");
    tap_ok(release_cache(&b) && b == NULL, "release without a cache: NULL");
    work(1);
    tap_ok(release_cache(&b) && b != NULL && b != a,
           "the next malloc made another cache");
    struct ThreadCacheState *d = NULL;
    void *p = take(100);
    tap_ok(release_cache(&c) && c != NULL, "a cache for a malloc");
    give(p);
    tap_ok(release_cache(&d) && d != NULL && d != c,
           "the next free made another cache, too");
    tap_ok(set_cache(c) && set_cache(NULL) && set_cache(d) && set_cache(NULL),
           "both go");
    tap_ok(set_cache(a), "set attaches");
    tap_ok(release_cache(&c) && c == a, "what was attached is released");
    tap_ok(set_cache(b) && set_cache(NULL), "set NULL destroys the other");
    tap_ok(release_cache(&c) && c == NULL, "and leaves none attached");
    tap_ok(set_cache(a), "the first is still good");
    work(2);
    tap_ok(set_cache(NULL), "set NULL without a release in between");
    work(3);
}

/* Zeroed blocks of all kinds, each requested without a cache. */
static void test_calloc(void) {
    bool is_zero = true;
    for (size_t size = 16; size <= (size_t)1 << 20; size += size / 2) {
        struct ThreadCacheState *s = NULL;
        is_zero &= release_cache(&s) && set_cache(s) && set_cache(NULL);
        char *p = take_zeroed(1, size);
        for (size_t i = 0; p != NULL && i < size; i++)
            is_zero &= p[i] == 0;
        is_zero &= p != NULL;
        give(p);
    }
    tap_ok(is_zero, "calloc of any size without a cache");
}

static void test_switches(void) {
    enum { CACHES = 50 };
    static struct ThreadCacheState *state[CACHES];
    static void *slot[4096];
    struct prng r;
    prng_seed(&r, 3);
    struct ThreadCacheState *mine = NULL;
    bool good = release_cache(&mine);
    unsigned at = 0;
    size_t before = 0;
    for (unsigned i = 0; i < 3000000; i++) {
        if (i == 300000)
            before = resident_kib();
        good &= release_cache(&state[at]);
        at = (unsigned)prng_below(&r, CACHES);
        good &= set_cache(state[at]);
        state[at] = NULL;
        unsigned k = (unsigned)prng_below(&r, 4096);
        give(slot[k]);
        slot[k] = take(prng_below(&r, 500));
    }
    size_t after = resident_kib();
    tap_ok(good, "three million switches among %d caches", CACHES);
    tap_ok(after < before + 8192,
           "they keep what they hold in bounds "
           "(%zu, then %zu KiB)",
           before, after);
    for (unsigned k = 0; k < 4096; k++)
        give(slot[k]);
    for (unsigned i = 0; i < CACHES; i++)
        good &= set_cache(state[i]);
    good &= set_cache(mine);
    tap_ok(good, "all of them are destroyed");
}

static void test_no_leak(void) {
    bool good = true;
    size_t before = 0;
    struct ThreadCacheState *mine = NULL;
    good &= release_cache(&mine);
    for (unsigned i = 0; i < 20000; i++) {
        if (i == 1000)
            before = resident_kib();
        struct ThreadCacheState *s = NULL;
        work(i);
        good &= release_cache(&s) && s != NULL;
        good &= set_cache(s) && set_cache(NULL);
    }
    size_t after = resident_kib();
    good &= set_cache(mine);
    tap_ok(good && after < before + 4096,
           "20000 caches made and destroyed (%zu, then %zu KiB)", before,
           after);
}

struct passing {
    struct ThreadCacheState *state;
    bool good;
};

/* A thousand caches that take turns at random, as a replay of a thousand
   threads makes them: they hold what the budget allows, and once it is used
   memory does not grow. 10 million switches with LONG set. */
static void test_budget(void) {
    enum { CACHES = 1000, BLOCKS = 1000 };
    static struct ThreadCacheState *state[CACHES];
    static void *block[BLOCKS];
    bool (*property)(const char *, size_t *);
    *(void **)&property =
        dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    if (!property) {
        tap_skip("no extension interface");
        return;
    }
    unsigned long switches = rounds_of(600000, 10000000);
    size_t cached = 0, most = 0, bound = 0, metadata[2] = {0, 0};
    struct prng random;
    bool done = true;
    prng_seed(&random, 6);
    for (unsigned long i = 0; i < switches; i++) {
        unsigned k = (unsigned)prng_below(&random, CACHES);
        unsigned b = (unsigned)prng_below(&random, BLOCKS);
        done &= set_cache(state[k]);
        give(block[b]);
        block[b] = take(prng_below(&random, 3000));
        done &= release_cache(&state[k]) && state[k] != NULL;
        if (i % (switches / 10) == 0) {
            property("tcmalloc.current_total_thread_cache_bytes", &cached);
            most = cached > most ? cached : most;
        }
        if (i == switches / 2)
            property("tcmalloc.metadata_bytes", &metadata[0]);
    }
    property("tcmalloc.metadata_bytes", &metadata[1]);
    property("tcmalloc.max_total_thread_cache_bytes", &bound);
    tap_ok(done, "%lu switches among %d caches", switches, CACHES);
    tap_ok(most > 0 && most <= bound, "they hold %zu KiB at most, of %zu",
           most / 1024, bound / 1024);
    tap_ok(metadata[1] <= metadata[0] + metadata[0] / 4,
           "metadata: %zu KiB half way, %zu at the end", metadata[0] / 1024,
           metadata[1] / 1024);
    for (unsigned k = 0; k < CACHES; k++)
        if (state[k] != NULL)
            set_cache(state[k]);
    set_cache(NULL);
    property("tcmalloc.current_total_thread_cache_bytes", &cached);
    tap_ok(cached == 0, "and nothing when they are destroyed: %zu", cached);
    for (unsigned b = 0; b < BLOCKS; b++)
        give(block[b]);
}

static void *attach_other(void *arg) {
    struct passing *p = arg;
    work(5);
    p->good = set_cache(p->state);
    work(6);
    struct ThreadCacheState *s = NULL;
    p->good &= release_cache(&s) && s == p->state;
    return NULL;
}

static void *attach_and_end(void *arg) {
    struct passing *p = arg;
    p->good = set_cache(p->state);
    work(7);
    return NULL;
}

static void *release_and_end(void *arg) {
    struct passing *p = arg;
    work(8);
    p->good = release_cache(&p->state) && p->state != NULL;
    return NULL;
}

/* A replayer's thread, which asks for nothing before. */
static void *switch_first(void *arg) {
    struct passing *p = arg;
    struct ThreadCacheState *s = (void *)1;
    p->good = release_cache(&s) && s == NULL && set_cache(NULL);
    work(11);
    p->good &= release_cache(&s) && s != NULL && set_cache(s);
    return NULL;
}

static void test_threads(void) {
    struct passing p = {NULL, false};
    pthread_t id;
    pthread_create(&id, NULL, switch_first, &p);
    pthread_join(id, NULL);
    tap_ok(p.good, "a thread that never allocated has none to release");
    work(4);
    bool good = release_cache(&p.state) && p.state;
    pthread_create(&id, NULL, attach_other, &p);
    pthread_join(id, NULL);
    tap_ok(good && p.good, "a cache moves to another thread and back out");
    tap_ok(set_cache(p.state), "and is attached here again");
    work(9);
    good = release_cache(&p.state);
    pthread_create(&id, NULL, attach_and_end, &p);
    pthread_join(id, NULL);
    tap_ok(good && p.good, "a thread ends with a cache that was not its own");
    pthread_create(&id, NULL, release_and_end, &p);
    pthread_join(id, NULL);
    tap_ok(p.good && set_cache(p.state), "a cache outlives its thread");
    work(10);
    tap_ok(set_cache(NULL), "and is destroyed by another");
}

int main(void) {
    *(void **)&release_cache =
        dlsym(RTLD_DEFAULT, "release_malloc_thread_cache");
    *(void **)&set_cache = dlsym(RTLD_DEFAULT, "set_malloc_thread_cache");
    if (!release_cache || !set_cache)
        return tap_skip_all("this malloc cannot switch thread caches");
    test_promises();
    test_calloc();
    test_switches();
    test_no_leak();
    test_threads();
    test_budget();
    return tap_done();
}
