#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads that end in odd ways: by destructors in any round, without any, or in
# libraries that make threads of their own.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
threads=2000
[ "${LONG:-0}" = 1 ] && threads=20000
under untraced thread_odd $threads
if [ -e "$tracing" ]; then
    under quiet thread_odd $threads "$work/started.$suffix"
    [ ! -x "$postprocess" ] || [ -z "$python" ] || {
        check_trace "thread_odd started" "$work/started.$suffix" 12000
        # 400 threads, of which each made and freed 30 blocks.
        is "thread_odd started: every event of every thread" \
            "$(json "$work/.post.json" mallocs frees)" "12000 12000"
    }
    under recording thread_odd $threads
    [ ! -x "$postprocess" ] || [ -z "$python" ] || {
        check_trace "thread_odd recording" "$work/thread_odd.$suffix" 10000
        at_least "thread_odd recording: all threads" \
            "$(json "$work/.post.json" threads)" $((threads * 6))
    }
else
    skip "thread_odd, recording" "no tracing library"
fi

# GLib's threads free what it keeps for them in a destructor: for one that does
# nothing but compute it is the first call.
cat >"$work/glib.c" <<'END'
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int ended;
static gpointer compute(gpointer n) {
    volatile long sum = 0;
    for (long i = 0; i < GPOINTER_TO_INT(n); i++)
        sum += i;
    g_atomic_int_inc(&ended);
    return NULL;
}
static long resident(void) {
    long total = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &total, &pages) != 2)
        return 0;
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
int main(int argc, char **argv) {
    long early = 0, most = argc > 1 ? atol(argv[1]) : 0;
    for (int i = 0; i < 6000; i++) {
        g_thread_unref(g_thread_new("compute", compute, GINT_TO_POINTER(1000)));
        while (g_atomic_int_get(&ended) <= i - 8)
            g_thread_yield();
        if (i == 1000)
            early = resident();
    }
    while (g_atomic_int_get(&ended) < 6000)
        g_usleep(1000);
    printf("%s %ld\n", resident() <= early + most ? "flat" : "grows",
           resident() - early);
    return 0;
}
END
# shellcheck disable=SC2046
if have pkg-config && pkg-config --exists glib-2.0 &&
    ${CC:-cc} -O1 -o "$work/glib" "$work/glib.c" \
        $(pkg-config --cflags --libs glib-2.0) >"$work/cc.log" 2>&1; then
    for library in "$minimal" "$tracing"; do
        [ -e "$library" ] || continue
        name=$(basename "$library" .so)
        got=$(LD_PRELOAD=$library timeout 100 "$work/glib" 2048)
        is "GLib's detached threads under $name leave nothing ($got)" \
            "$? ${got%% *}" "0 flat"
    done
    if [ -e "$tracing" ]; then
        # Buffers wait for the saver.
        got=$(record "$work/glib.$suffix" "$work/glib" 10240)
        is "GLib's detached threads, recorded ($got)" "$? ${got%% *}" "0 flat"
        [ ! -x "$postprocess" ] || [ -z "$python" ] ||
            check_trace "GLib's threads" "$work/glib.$suffix" 6000
    fi
else
    skip "GLib's threads" "no libglib2.0-dev"
fi

# A program's own function in place of one of the C library, as profilers of
# locks have, may allocate, and sees the program's own threads only.
cat >"$work/before.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_t all[64];
static int made, calls;
static void note(void) {
    static __thread int inside;
    if (inside++ == 0)
        free(calloc(1, 100 + __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED)));
    inside--;
}
#define BEFORE(name)                                                           \
    int name(pthread_mutex_t *m) {                                             \
        int (*next)(pthread_mutex_t *) = dlsym(RTLD_NEXT, #name);              \
        note();                                                                \
        return next(m);                                                        \
    }
BEFORE(pthread_mutex_lock)
BEFORE(pthread_mutex_trylock)
BEFORE(pthread_mutex_unlock)
BEFORE(pthread_mutex_destroy)
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *),
                   void *arg) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        dlsym(RTLD_NEXT, "pthread_create");
    int rc = next(t, a, f, arg);
    all[made++] = *t;
    return rc;
}
static void *body(void *arg) {
    for (int i = 0; i < 5000; i++)
        free(malloc(i));
    return arg;
}
int main(void) {
    pthread_t t;
    for (int i = 0; i < 20; i++)
        pthread_create(&t, NULL, body, NULL);
    for (int i = 0; i < made; i++)
        pthread_join(all[i], NULL);
    printf("%d threads\n", made);
    return 0;
}
END
if ${CC:-cc} -O1 -o "$work/before" "$work/before.c" -pthread -ldl \
    >"$work/cc.log" 2>&1; then
    for library in "$minimal" "$tracing"; do
        [ ! -e "$library" ] ||
            is "functions before the C library's, $(basename "$library" .so)" \
                "$(LD_PRELOAD=$library timeout 60 "$work/before")" "20 threads"
    done
    for name in before before.%p; do
        [ ! -e "$tracing" ] ||
            is "functions before the C library's, recorded to $name" \
                "$(record "$work/$name.$suffix" "$work/before")" "20 threads"
    done
else
    skip "functions before the C library's" "no compiler"
fi
tap_end
