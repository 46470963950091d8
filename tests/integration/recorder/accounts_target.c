/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts its own calls of malloc's family while it records itself to FILE, with
 * marks between them; blocks made before are freed meanwhile.
 *
 * accounts_target FILE DONE: makes DONE when the work is done, then stops.
 * Prints the number of calls.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "prng.h"

enum { THREADS = 4, LATE = 4, STEPS = 500000, SHELF = 64, OLD = 500 };

static bool (*start)(const char *);
static bool (*stop)(void);
static void (*mark)(const char *);
static void *(*volatile take)(size_t) = malloc;
static void *(*volatile take_aligned)(size_t, size_t) = aligned_alloc;
static void *(*volatile retake)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;

struct worker {
    unsigned number;
    long steps;
    unsigned long calls;
    void *old[OLD];
};
static struct worker worker[THREADS + LATE];
static pthread_barrier_t begin, middle, end;

static void work(struct worker *w) {
    struct prng r;
    void *shelf[SHELF] = {NULL};
    unsigned old = 0;
    prng_seed(&r, w->number);
    for (long i = 0; i < w->steps; i++) {
        void **p = &shelf[prng_below(&r, SHELF)];
        size_t size = prng_below(&r, 600) + 1;
        if (*p != NULL && prng_below(&r, 4) == 0) {
            *p = retake(*p, size);
        } else if (*p != NULL) {
            give(*p);
            *p = NULL;
        } else if (prng_below(&r, 8) == 0) {
            *p = take_aligned(64, size);
        } else {
            *p = take(size);
        }
        w->calls++;
        if (i % 100 == 99) {
            mark("between");
            if (old < OLD) {
                give(w->old[old++]);
                w->calls++;
            }
        }
    }
}

/* The late ones make their first call when the others are done. None ends: what
   that frees is not counted. */
static void *live(void *arg) {
    struct worker *w = arg;
    pthread_barrier_wait(&begin);
    if (w->number < THREADS)
        work(w);
    pthread_barrier_wait(&middle);
    if (w->number >= THREADS)
        work(w);
    pthread_barrier_wait(&end);
    pause();
    return NULL;
}

int main(int argc, char **argv) {
    unsigned long calls = 0;
    *(void **)&start = dlsym(RTLD_DEFAULT, "malloc_trace_start");
    *(void **)&stop = dlsym(RTLD_DEFAULT, "malloc_trace_stop");
    *(void **)&mark = dlsym(RTLD_DEFAULT, "malloc_trace_mark");
    if (argc != 3 || !start || !stop || !mark)
        return 2;
    pthread_barrier_init(&begin, NULL, THREADS + LATE + 1);
    pthread_barrier_init(&middle, NULL, THREADS + LATE + 1);
    pthread_barrier_init(&end, NULL, THREADS + LATE + 1);
    for (unsigned i = 0; i < THREADS + LATE; i++) {
        pthread_t id;
        struct worker *w = &worker[i];
        w->number = i;
        w->steps = i < THREADS ? STEPS : STEPS / 100;
        for (int k = 0; k < OLD; k++)
            w->old[k] = take(100);
        if (pthread_create(&id, NULL, live, w))
            return 1;
    }
    if (!start(argv[1]))
        return 3;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&middle);
    pthread_barrier_wait(&end);
    close(open(argv[2], O_CREAT | O_WRONLY, 0600));
    bool stopped = stop();
    for (unsigned i = 0; i < THREADS + LATE; i++)
        calls += worker[i].calls;
    printf("%lu\n", calls);
    return !stopped;
}
