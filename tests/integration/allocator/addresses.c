/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A deterministic program that prints the address of every block it gets, and
 * what the allocator counted.
 *
 * addresses THREADS STEPS: THREADS threads take turns by semaphores, so that
 * the order of all calls is fixed; 1 runs without any thread.
 *
 * Invariants: nothing allocates but what is printed, and what pthread_create
 * allocates, which is the same in every run.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prng.h"

enum { SLOTS = 3000, MAX_THREADS = 16, TURN = 50 };

static void *slot[SLOTS];
static uintptr_t *seen;
static long seen_count;
static long steps;
static int threads;
static sem_t turn[MAX_THREADS];
/* All end after the last turn: what a thread gives back when it ends would
   meet the others' calls at no fixed moment. */
static pthread_barrier_t all_done;

/* Not metadata_bytes: object words are in it. */
static const char *const counters[] = {
    "generic.current_allocated_bytes",
    "generic.heap_size",
    "tcmalloc.central_cache_free_bytes",
    "tcmalloc.transfer_cache_free_bytes",
    "tcmalloc.thread_cache_free_bytes",
    "tcmalloc.large_blocks",
    "tcmalloc.large_bytes",
    "tcmalloc.slack_bytes",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
    "tcmalloc.pageheap_commit_count",
    "tcmalloc.pageheap_decommit_count",
    "tcmalloc.pageheap_scavenge_count",
    "tcmalloc.impl.thread_cache_count",
    "tcmalloc.thread_cache_misses",
    "tcmalloc.thread_cache_overflows",
    "tcmalloc.central_fetches",
    "tcmalloc.central_returns",
    "tcmalloc.transfer_cache_hits",
    "tcmalloc.spans_made",
    "tcmalloc.spans_freed",
    "tcmalloc.system_bytes_taken",
    "tcmalloc.system_bytes_returned",
};
enum { COUNTERS = sizeof counters / sizeof *counters };

static size_t value[COUNTERS];

static void read_counters(void) {
    int (*get)(const char *, size_t *);
    *(void **)&get = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    for (int i = 0; i < COUNTERS; i++)
        if (get == NULL || !get(counters[i], &value[i]))
            value[i] = (size_t)-1;
}

static size_t pick_size(struct prng *r) {
    switch (prng_below(r, 16)) {
    case 0:
        return prng_below(r, 100000);
    case 1:
        return prng_below(r, 4) ? prng_below(r, 5000) : prng_below(r, 2000000);
    default:
        return prng_below(r, 700);
    }
}

static void step(struct prng *r) {
    unsigned k = (unsigned)prng_below(r, SLOTS);
    size_t size = pick_size(r);
    switch (prng_below(r, 8)) {
    case 0:
        slot[k] = realloc(slot[k], size + 1);
        break;
    case 1:
        free(slot[k]);
        slot[k] = memalign((size_t)16 << prng_below(r, 9), size);
        break;
    case 2:
        free(slot[k]);
        slot[k] = calloc(1, size);
        break;
    default:
        free(slot[k]);
        slot[k] = malloc(size);
    }
    seen[seen_count++] = (uintptr_t)slot[k];
}

static void *run(void *arg) {
    int me = (int)(intptr_t)arg;
    struct prng r;
    prng_seed(&r, (uint64_t)me);
    for (long i = 0; i < steps; i++) {
        if (threads > 1 && i % TURN == 0)
            sem_wait(&turn[me]);
        step(&r);
        if (threads > 1 && i % TURN == TURN - 1)
            sem_post(&turn[(me + 1) % threads]);
    }
    /* Whose turn is the last: all others have had theirs. */
    if (me == threads - 1)
        read_counters();
    if (threads > 1)
        pthread_barrier_wait(&all_done);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    threads = atoi(argv[1]);
    steps = atol(argv[2]) / TURN * TURN;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    seen = mmap(NULL, (size_t)(steps * threads) * sizeof *seen,
                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        return 1;
    if (threads == 1)
        run(NULL);
    else {
        pthread_t id[MAX_THREADS];
        for (int i = 0; i < threads; i++)
            sem_init(&turn[i], 0, i == 0);
        pthread_barrier_init(&all_done, NULL, (unsigned)threads);
        /* Thread 0 has the first turn and is made last. */
        for (int i = threads - 1; i >= 0; i--)
            if (pthread_create(&id[i], NULL, run, (void *)(intptr_t)i))
                return 1;
        for (int i = 0; i < threads; i++)
            pthread_join(id[i], NULL);
    }
    for (long i = 0; i < seen_count; i++)
        printf("%lx %ld\n", (unsigned long)seen[i], (long)(seen[i] - seen[0]));
    for (int i = 0; i < COUNTERS; i++)
        printf("%s %zu\n", counters[i], value[i]);
    return 0;
}
