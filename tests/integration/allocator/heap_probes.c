/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work for a listener of the probes: heap_probes TRUTH. Between the functions
 * `listen_from` and `listen_until` two threads allocate by all ways there are,
 * and free all of it. TRUTH gets "bytes THREAD-1 THREAD-2" and
 * "own LISTENING AFTERWARDS", the small blocks with pages of their own.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"

#define MIB       ((uint64_t)1 << 20)
#define STEADY    4000 /* size of all blocks of the second thread */
#define HELD      1024
#define OWN_PAGES 8192 /* least of a block with pages of its own */

void listen_from(void);
void listen_until(void);
__attribute__((noinline)) void listen_from(void) {
    __asm__ __volatile__("");
}
__attribute__((noinline)) void listen_until(void) {
    __asm__ __volatile__("");
}

static uint64_t own;
static pthread_barrier_t barrier;

/* The block is used, so that no compiler leaves the call out. */
static void *used(void *block, size_t size) {
    if (block == NULL)
        abort();
    own += size < 2048 && malloc_usable_size(block) >= OWN_PAGES;
    *(volatile char *)block = 1;
    return block;
}

static void *take(struct prng *r, void *old, size_t size) {
    void *block = NULL;
    if (old != NULL && prng_below(r, 4) == 0)
        return used(realloc(old, size), size);
    free(old);
    switch (prng_below(r, 4)) {
    case 0:
        block = calloc(1, size);
        for (size_t i = 0; block != NULL && i < size; i++)
            if (((char *)block)[i] != 0)
                abort();
        return used(block, size);
    case 1:
        if (posix_memalign(&block, 64, size) != 0 || (uintptr_t)block % 64)
            abort();
        return used(block, size);
    default:
        return used(malloc(size), size);
    }
}

/* Returns the bytes allocated, about BYTES. */
static uint64_t work(struct prng *r, uint64_t bytes) {
    static void *held[HELD];
    uint64_t sum = 0;
    while (sum < bytes) {
        void **at = &held[prng_below(r, HELD)];
        size_t size = prng_below(r, 400) == 0 ? MIB + prng_below(r, MIB)
                                              : 600 + prng_below(r, 1200);
        *at = take(r, *at, size);
        sum += size;
    }
    for (int i = 0; i < HELD; i++) {
        free(held[i]);
        held[i] = NULL;
    }
    return sum;
}

/* A block at a time, all from the thread's cache. */
static uint64_t steady(uint64_t bytes) {
    uint64_t sum = 0;
    for (; sum < bytes; sum += STEADY)
        free(used(malloc(STEADY), STEADY));
    return sum;
}

static void *second(void *bytes) {
    (void)steady(MIB);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    *(uint64_t *)bytes = steady(64 * MIB);
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv) {
    struct prng r;
    pthread_t thread;
    uint64_t other = 0;
    FILE *truth = argc == 2 ? fopen(argv[1], "w") : NULL;
    prng_seed(&r, 1);
    if (truth == NULL || pthread_barrier_init(&barrier, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, second, &other) != 0)
        return 2;
    (void)work(&r, 8 * MIB);
    pthread_barrier_wait(&barrier);
    listen_from();
    uint64_t bytes = work(&r, 192 * MIB);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    listen_until();
    fprintf(truth, "bytes %llu %llu\nown %llu ", (unsigned long long)bytes,
            (unsigned long long)other, (unsigned long long)own);
    own = 0;
    (void)work(&r, 16 * MIB);
    fprintf(truth, "%llu\n", (unsigned long long)own);
    pthread_join(thread, NULL);
    return fclose(truth) == 0 ? 0 : 2;
}
