/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that pass blocks to each other and are replaced as they go: every
 * block is freed by whoever takes it off the shelf.
 *
 * exchange THREADS STEPS: each thread makes STEPS steps in four lives. Prints a
 * checksum that does not depend on the schedule.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"

enum { SHELF = 1024, LIVES = 4, MAX_THREADS = 64 };

struct block {
    size_t size;
    unsigned char fill[];
};

static struct block *shelf[SHELF];
static long steps;
static uint64_t made[MAX_THREADS];
static uint64_t gone;
static int bad;

static void check_and_free(struct block *b) {
    if (!b)
        return;
    size_t n = b->size;
    for (size_t i = 0; i < n; i += 61)
        if (b->fill[i] != (unsigned char)n)
            __atomic_store_n(&bad, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&gone, n, __ATOMIC_RELAXED);
    free(b);
}

struct life {
    int thread;
    int left;
};

static void *run(void *arg) {
    struct life life = *(struct life *)arg;
    free(arg);
    struct prng r;
    prng_seed(&r, (uint64_t)(life.thread * LIVES + life.left));
    for (long i = 0; i < steps / LIVES; i++) {
        size_t n =
            prng_below(&r, 40) ? prng_below(&r, 400) : prng_below(&r, 40000);
        struct block *b = malloc(sizeof *b + n / 2);
        if (b && prng_below(&r, 4) == 0)
            b = realloc(b, sizeof *b + n);
        else {
            free(b);
            b = malloc(sizeof *b + n);
        }
        if (!b)
            abort();
        b->size = n;
        memset(b->fill, (unsigned char)n, n);
        made[life.thread] += n;
        unsigned k = (unsigned)prng_below(&r, SHELF);
        check_and_free(__atomic_exchange_n(&shelf[k], b, __ATOMIC_ACQ_REL));
    }
    if (life.left == 1)
        return NULL;
    struct life *next = malloc(sizeof *next);
    pthread_t id;
    void *result;
    next->thread = life.thread;
    next->left = life.left - 1;
    if (pthread_create(&id, NULL, run, next))
        abort();
    pthread_join(id, &result);
    return result;
}

int main(int argc, char **argv) {
    pthread_t id[MAX_THREADS];
    if (argc != 3)
        return 2;
    int n = atoi(argv[1]);
    steps = atol(argv[2]);
    if (n < 1 || n > MAX_THREADS)
        return 2;
    for (int i = 0; i < n; i++) {
        struct life *life = malloc(sizeof *life);
        life->thread = i;
        life->left = LIVES;
        if (pthread_create(&id[i], NULL, run, life))
            return 1;
    }
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
        sum += made[i];
    }
    for (int i = 0; i < SHELF; i++)
        check_and_free(shelf[i]);
    printf("%llu %s\n", (unsigned long long)sum,
           bad || gone != sum ? "damaged" : "whole");
    return bad || gone != sum;
}
