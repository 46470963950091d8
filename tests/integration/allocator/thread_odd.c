/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that do not end as the library would like: their first call comes
 * from a destructor, in any round; they leave by the raw system call; their
 * key cannot be set. Nothing of them gathers, and a recording that starts
 * afterwards, on stacks that had other threads before, does no harm.
 *
 * thread_odd [THREADS [TRACE]]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resident.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static pthread_key_t round_key;
static bool refuse_keys;

/* Stands before the C library's, for the preloaded library too. */
int pthread_setspecific(pthread_key_t key, const void *value) {
    static int (*next)(pthread_key_t, const void *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_setspecific");
    if (refuse_keys && key != round_key)
        return 12; /* ENOMEM */
    return next(key, value);
}

static void live(void) {
    void *p[30];
    for (size_t i = 0; i < 30; i++) {
        p[i] = take(40 * i + 1);
        memset(p[i], 1, 40 * i + 1);
    }
    for (size_t i = 0; i < 30; i++)
        give(p[i]);
}

/* LEFT: rounds until the first call of the thread. */
static void in_round(void *left) {
    uintptr_t n = (uintptr_t)left;
    if (n > 1)
        pthread_setspecific(round_key, (void *)(n - 1));
    else
        live();
}

static void *in_destructor(void *round) {
    pthread_setspecific(round_key, round);
    return NULL;
}

static void *raw_exit(void *unused) {
    (void)unused;
    live();
    syscall(SYS_exit, 0L);
    return NULL;
}

static void *returns(void *unused) {
    live();
    return unused;
}

static void run(unsigned count, void *(*body)(void *), uintptr_t argument) {
    pthread_t id;
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&id, NULL, body, (void *)argument) != 0)
            tap_bail("no thread");
        pthread_join(id, NULL);
    }
}

static size_t property(const char *name) {
    int (*get)(const char *, size_t *);
    size_t value = 0;
    *(void **)&get = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    return get != NULL && get(name, &value) ? value : SIZE_MAX;
}

static void check(const char *what, unsigned count, void *(*body)(void *),
                  uintptr_t argument) {
    run(count / 4, body, argument);
    size_t kib = resident_kib();
    run(count, body, argument);
    /* Buffers of a recording wait for its saver. */
    size_t more = getenv("TCMALLOC_TRACE_OUTPUT") != NULL ? 4096 : 512;
    tap_ok(resident_kib() <= kib + more + count / 8,
           "%s: resident memory does not grow (%zu, then %zu KiB)", what, kib,
           resident_kib());
    size_t caches = property("tcmalloc.impl.thread_cache_count");
    tap_ok(caches <= 4, "%s: %zu caches are left", what, caches);
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
    const char *trace = argc > 2 ? argv[2] : NULL;
    pthread_key_create(&round_key, in_round);
    for (uintptr_t round = 1; round <= 4; round++) {
        char what[40];
        snprintf(what, sizeof(what), "born in round %u", (unsigned)round);
        check(what, count, in_destructor, round);
    }
    check("left by the raw call", count, raw_exit, 0);
    refuse_keys = true;
    check("without a key", count, returns, 0);
    refuse_keys = false;
    if (trace != NULL) {
        bool (*start)(const char *), (*stop)(void);
        *(void **)&start = dlsym(RTLD_DEFAULT, "malloc_trace_start");
        *(void **)&stop = dlsym(RTLD_DEFAULT, "malloc_trace_stop");
        tap_ok(start(trace), "a recording starts");
        run(100, returns, 0);
        run(100, in_destructor, 1);
        run(100, in_destructor, 4);
        run(100, raw_exit, 0);
        tap_ok(stop(), "and stops");
        run(100, returns, 0);
    }
    return tap_done();
}
