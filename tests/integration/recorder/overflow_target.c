/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a number of calls that does not depend on the schedule: threads that
 * live side by side, then one after the other, use all of the malloc family
 * and pass blocks on.
 *
 * overflow_target STEPS [FILE]: makes FILE when the work is done, and waits a
 * while before it ends.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "prng.h"

enum { THREADS = 4, SHORT = 300, SHELF = 512 };

static void *(*volatile take)(size_t) = malloc;
static void *(*volatile take_zeroed)(size_t, size_t) = calloc;
static void *(*volatile take_aligned)(size_t, size_t) = aligned_alloc;
static void *(*volatile retake)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;
static void *shelf[SHELF];
static pthread_barrier_t all_here;
static long steps;

/* Each block is freed once, by whoever comes by it; each end of one is one
   call, so their number is that of the blocks made. */
static void work(uint64_t seed, long n) {
    struct prng r;
    prng_seed(&r, seed);
    for (long i = 0; i < n; i++) {
        size_t size = prng_below(&r, 600) + 1;
        void *p = NULL;
        switch (prng_below(&r, 8)) {
        case 0:
            p = take_zeroed(3, size);
            break;
        case 1:
            p = take_aligned(64, size);
            break;
        case 2:
            p = retake(NULL, size);
            break;
        case 3:
            p = retake(take(size), 2 * size);
            break;
        case 4:
            give(take(size * 100));
            break;
        default:
            p = take(size);
        }
        if (p == NULL)
            continue;
        unsigned k = (unsigned)prng_below(&r, SHELF);
        give(__atomic_exchange_n(&shelf[k], p, __ATOMIC_ACQ_REL));
    }
}

static void *long_life(void *arg) {
    pthread_barrier_wait(&all_here);
    work((uintptr_t)arg, steps);
    pthread_barrier_wait(&all_here);
    return NULL;
}

static void *short_life(void *arg) {
    work((uintptr_t)arg, 20);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t id[THREADS];
    if (argc < 2)
        return 2;
    steps = atol(argv[1]);
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&id[i], NULL, long_life, (void *)i))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    for (uintptr_t i = 0; i < SHORT; i++)
        if (pthread_create(&id[0], NULL, short_life, (void *)(i + 100)) ||
            pthread_join(id[0], NULL))
            return 1;
    for (int i = 0; i < SHELF; i++)
        give(shelf[i]);
    if (argc > 2) {
        close(open(argv[2], O_CREAT | O_WRONLY, 0600));
        usleep(300000);
    }
    return 51;
}
