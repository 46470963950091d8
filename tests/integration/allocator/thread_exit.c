/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that come and go: what they leave behind is used again, and code
 * that runs while they end may allocate.
 *
 * thread_exit [THREADS]
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "resident.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void *short_life(void *arg) {
    void *p[40];
    give(arg);
    for (unsigned i = 0; i < 40; i++)
        p[i] = take(i * 50);
    for (unsigned i = 0; i < 39; i++)
        give(p[i]);
    return p[39];
}

static void run_short_lives(int n) {
    for (int i = 0; i < n; i++) {
        pthread_t id;
        void *result;
        if (pthread_create(&id, NULL, short_life, take(100)))
            tap_bail("pthread_create");
        pthread_join(id, &result);
        give(result);
    }
}

static void test_short_lives(int n) {
    run_short_lives(500);
    size_t before = resident_kib();
    run_short_lives(n);
    size_t after = resident_kib();
    /* A leak of one cache a thread would be at least 4 KiB each. */
    tap_ok(after < before + 8192 + (size_t)n / 50,
           "%d threads leave nothing behind (%zu, then %zu KiB)", n, before,
           after);
}

static volatile unsigned destructor_runs;
static pthread_key_t key[3];

static void destructor(void *arg) {
    unsigned char *p = arg;
    __atomic_fetch_add(&destructor_runs, 1, __ATOMIC_RELAXED);
    void *q = take(300);
    give(take(5000));
    unsigned rounds = *p;
    unsigned which = p[1];
    give(p);
    give(q);
    if (rounds > 1) {
        unsigned char *next = take(64);
        next[0] = (unsigned char)(rounds - 1);
        next[1] = (unsigned char)which;
        pthread_setspecific(key[which], next);
    }
}

static void *with_destructors(void *arg) {
    for (unsigned i = 0; i < 3; i++) {
        unsigned char *p = take(64);
        p[0] = 4; /* rounds: more than the C library promises to make */
        p[1] = (unsigned char)i;
        pthread_setspecific(key[i], p);
    }
    give(take(10));
    return arg;
}

static void test_destructors(void) {
    for (int i = 0; i < 3; i++)
        pthread_key_create(&key[i], destructor);
    for (int i = 0; i < 300; i++) {
        pthread_t id[2];
        pthread_create(&id[0], NULL, with_destructors, NULL);
        pthread_create(&id[1], NULL, with_destructors, NULL);
        pthread_join(id[0], NULL);
        pthread_join(id[1], NULL);
    }
    tap_is_u64(destructor_runs, 300 * 2 * 3 * 4,
               "destructors that allocate run in every round");
}

static void *sleeper(void *arg) {
    for (;;) {
        give(take(100));
        pthread_testcancel();
    }
    return arg;
}

static void *leaver(void *arg) {
    give(take(100));
    pthread_exit(arg);
}

static void test_other_ends(void) {
    int cancelled = 0, left = 0;
    for (int i = 0; i < 200; i++) {
        pthread_t id;
        void *result = NULL;
        pthread_create(&id, NULL, sleeper, NULL);
        pthread_cancel(id);
        pthread_join(id, &result);
        cancelled += result == PTHREAD_CANCELED;
        pthread_create(&id, NULL, leaver, &left);
        pthread_join(id, &result);
        left += result == &left;
    }
    tap_ok(cancelled == 200, "cancelled threads");
    tap_ok(left == 200, "pthread_exit");
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 65536);
    for (int i = 0; i < 200; i++) {
        pthread_t id;
        pthread_create(&id, &attr, leaver, NULL);
    }
    usleep(50000);
    tap_ok(true, "detached threads with small stacks");
}

/* Memory of ended threads serves others: many threads in turn, each leaving
   its last blocks to the next. */
static void *successor(void *arg) {
    void **p = arg;
    for (int i = 0; i < 1000; i++) {
        give(p[i]);
        p[i] = take(100 + (unsigned)i % 7 * 100);
    }
    return NULL;
}

static void test_successors(void) {
    void **p = calloc(1000, sizeof *p);
    pthread_t id;
    for (int i = 0; i < 20; i++) {
        pthread_create(&id, NULL, successor, p);
        pthread_join(id, NULL);
    }
    size_t before = resident_kib();
    for (int i = 0; i < 300; i++) {
        pthread_create(&id, NULL, successor, p);
        pthread_join(id, NULL);
    }
    size_t after = resident_kib();
    tap_ok(after < before + 4096,
           "blocks of ended threads are used again (%zu, then %zu KiB)", before,
           after);
    for (int i = 0; i < 1000; i++)
        give(p[i]);
    free(p);
}

static volatile sig_atomic_t signals;
static void on_signal(int n) {
    (void)n;
    signals++;
}

static void test_signals(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &sa, NULL);
    struct itimerspec every = {{0, 200000}, {0, 200000}};
    timer_t timer;
    struct sigevent ev;
    memset(&ev, 0, sizeof ev);
    ev.sigev_notify = SIGEV_SIGNAL;
    ev.sigev_signo = SIGALRM;
    if (timer_create(CLOCK_MONOTONIC, &ev, &timer)) {
        tap_skip("no timers");
        return;
    }
    timer_settime(timer, 0, &every, NULL);
    while (signals < 200) {
        void *p[20];
        for (unsigned i = 0; i < 20; i++)
            p[i] = take(i * 100);
        for (unsigned i = 0; i < 20; i++)
            give(p[i]);
    }
    timer_delete(timer);
    tap_ok(signals >= 200, "signals between the instructions of malloc");
}

int main(int argc, char **argv) {
    test_short_lives(argc > 1 ? atoi(argv[1]) : 3000);
    test_destructors();
    test_other_ends();
    test_successors();
    test_signals();
    return tap_done();
}
