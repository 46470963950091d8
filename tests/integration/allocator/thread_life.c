/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A great many threads that come and go, several at a time, in every way a
 * thread can end, each leaving a block to a later one: neither resident memory
 * nor the number of mappings grows, and the caches keep their budget.
 *
 * thread_life [THREADS]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "resident.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

enum { AT_ONCE = 8, LEGACY = 64 };

static void *volatile legacy[LEGACY];
static volatile unsigned detached_done;

static unsigned mappings(void) {
    unsigned lines = 0;
    char text[4096];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && fgets(text, sizeof(text), f) != NULL)
        lines++;
    if (f != NULL)
        fclose(f);
    return lines;
}

static void live(uintptr_t seed) {
    struct prng r;
    void *p[12];
    prng_seed(&r, seed);
    for (unsigned i = 0; i < 12; i++) {
        size_t size = prng_below(&r, (size_t)1 << prng_below(&r, 15));
        p[i] = take(size);
        memset(p[i], 1, size < 200 ? size : 200);
    }
    for (unsigned i = 1; i < 12; i++)
        give(p[i]);
    give(__atomic_exchange_n(&legacy[seed % LEGACY], p[0], __ATOMIC_ACQ_REL));
}

static void *returns(void *seed) {
    live((uintptr_t)seed);
    return NULL;
}

static void *leaves(void *seed) {
    live((uintptr_t)seed);
    pthread_exit(NULL);
}

static void clean_up(void *p) {
    give(p);
    give(take(700));
}

static void *is_cancelled(void *seed) {
    void *p = take(100);
    pthread_cleanup_push(clean_up, p);
    live((uintptr_t)seed);
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return NULL;
}

static void *is_detached(void *seed) {
    live((uintptr_t)seed);
    __atomic_fetch_add(&detached_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static unsigned detached_so_far(void) {
    return __atomic_load_n(&detached_done, __ATOMIC_ACQUIRE);
}

static void run(unsigned count, pthread_attr_t *attr) {
    static void *(*const ends[])(void *) = {returns, leaves, is_cancelled};
    unsigned detached = 0, before = detached_so_far();
    for (unsigned n = 0; n < count; n += AT_ONCE) {
        pthread_t id[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++) {
            bool alone = i == AT_ONCE - 1;
            if (pthread_create(&id[i], attr, alone ? is_detached : ends[i % 3],
                               (void *)(uintptr_t)(n + i)) != 0)
                tap_bail("pthread_create");
            if (alone)
                pthread_detach(id[i]);
            else if (i % 3 == 2)
                pthread_cancel(id[i]);
        }
        for (unsigned i = 0; i + 1 < AT_ONCE; i++)
            pthread_join(id[i], NULL);
        detached++;
        /* Not more at once than there are meant to be. */
        while (detached_so_far() - before != detached)
            usleep(50);
    }
}

typedef int property_fn(const char *, size_t *);

static size_t property(const char *name) {
    property_fn *get = NULL;
    size_t value = 0;
    *(void **)&get = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    return get != NULL && get(name, &value) ? value : SIZE_MAX;
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4000;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    run(800, &attr);
    usleep(20000);
    size_t kib = resident_kib();
    unsigned maps = mappings();
    run(count, &attr);
    usleep(20000);
    /* While it is recorded, buffers that wait for a late saver are added, 1 MiB
       at most (thread_life.sh), and stay resident. */
    tap_ok(resident_kib() <= kib + 2048 + count / 100,
           "%u threads: resident memory does not grow (%zu, then %zu KiB)",
           count, kib, resident_kib());
    tap_ok(mappings() <= maps + 8, "nor do mappings (%u, then %u)", maps,
           mappings());
    size_t caches = property("tcmalloc.impl.thread_cache_count");
    if (caches == SIZE_MAX)
        tap_skip("no such property: thread caches");
    else
        tap_ok(caches <= 4, "%zu caches are left", caches);
    size_t cached = property("tcmalloc.current_total_thread_cache_bytes");
    size_t most = property("tcmalloc.max_total_thread_cache_bytes");
    if (most == SIZE_MAX)
        tap_skip("no such property: budget");
    else
        tap_ok(cached <= most, "%zu bytes in caches, of %zu at most", cached,
               most);
    return tap_done();
}
