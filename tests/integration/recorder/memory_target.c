/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose resident memory is compared with and without recording.
 *
 * memory_target EVENTS BLOCKS THREADS BUSY: keeps BLOCKS blocks alive, makes
 * about EVENTS calls, and has THREADS threads alive of which BUSY make calls
 * all the time. Prints the KiB of memory that is its own, the recorder's spool
 * counted in.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static void **kept;
static long blocks, share;
static pthread_barrier_t ready, leave;

static void *quiet(void *arg) {
    give(take(100));
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&leave);
    return arg;
}

static void *busy(void *arg) {
    struct prng r;
    void *mine[64] = {NULL};
    prng_seed(&r, (uintptr_t)arg);
    for (long i = 0; i < share / 2; i++) {
        unsigned k = (unsigned)prng_below(&r, 64);
        give(mine[k]);
        mine[k] = take(prng_below(&r, 256) + 1);
    }
    for (int i = 0; i < 64; i++)
        give(mine[i]);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&leave);
    return NULL;
}

/* KiB that are this process's own, and those of the recorder's spool. */
static long resident(void) {
    char line[512];
    long sum = 0;
    bool spool = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strchr(line, '-') != NULL && strstr(line, " kB") == NULL)
            spool = strstr(line, ".spool") != NULL;
        else if (!strncmp(line, spool ? "Rss:" : "Anonymous:", spool ? 4 : 10))
            sum += atol(strchr(line, ':') + 1);
    }
    if (f != NULL)
        fclose(f);
    return sum;
}

int main(int argc, char **argv) {
    pthread_t id;
    if (argc != 5)
        return 2;
    long events = atol(argv[1]);
    blocks = atol(argv[2]);
    int threads = atoi(argv[3]), busy_ones = atoi(argv[4]);
    share = busy_ones ? events / busy_ones : 0;
    kept = calloc((size_t)blocks + 1, sizeof(*kept));
    pthread_barrier_init(&ready, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&leave, NULL, (unsigned)threads + 1);
    for (long i = 0; i < blocks; i++) {
        kept[i] = take(48);
        memset(kept[i], 1, 48);
    }
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
        if (pthread_create(&id, NULL, (int)i < busy_ones ? busy : quiet,
                           (void *)i))
            return 1;
    pthread_barrier_wait(&ready);
    /* time for the saver to save all that waits */
    usleep(200000);
    printf("%ld\n", resident());
    pthread_barrier_wait(&leave);
    return 0;
}
