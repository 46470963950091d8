/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops of many threads that pass their own caches by: each reaches one of the
 * levels that threads share as often as it can. The work is the same however
 * many threads share it.
 */
#include "bench.h"

enum { MOST_THREADS = 64, LINKED = 64 };

struct hammer {
    uint64_t steps, seed, done;
    struct hammer *next; /* in a ring of all threads */
    void *mail;          /* blocks linked by their first words */
    pthread_barrier_t *meet;
    char pad[128 - 6 * 8];
};

static uint64_t run_all(void *(*f)(void *), uint64_t steps) {
    static struct hammer h[MOST_THREADS];
    unsigned n = (unsigned)bench_thread_count;
    pthread_barrier_t meet;
    uint64_t done = 0;
    pthread_barrier_init(&meet, NULL, n);
    for (unsigned i = 0; i < n; i++)
        h[i] = (struct hammer){.steps = steps / n + 1,
                               .seed = 91 + i,
                               .next = &h[(i + 1) % n],
                               .meet = &meet};
    bench_threads((int)n, f, h, sizeof *h);
    for (unsigned i = 0; i < n; i++)
        done += h[i].done;
    pthread_barrier_destroy(&meet);
    return done;
}

/* More blocks of one size at once than a cache keeps, then of the next size. */
static void *hammer_central(void *arg) {
    enum { BLOCKS = 4000, SIZES = 24 };
    struct hammer *h = arg;
    void **p = calloc(BLOCKS, sizeof *p);
    if (!p)
        abort();
    pthread_barrier_wait(h->meet);
    for (uint64_t i = h->seed; h->done < 2 * h->steps; i++) {
        size_t size = 16 + 16 * (size_t)(i % SIZES);
        for (unsigned k = 0; k < BLOCKS; k++) {
            char *block = bench_take(size);
            *block = 1;
            p[k] = block;
        }
        for (unsigned k = 0; k < BLOCKS; k++)
            free(p[k]);
        h->done += 2 * BLOCKS;
    }
    free(p);
    return NULL;
}

static void free_linked(void *block) {
    while (block) {
        void *next = *(void **)block;
        free(block);
        block = next;
    }
}

/* Blocks made by one thread and freed by the next in the ring. */
static void *hammer_transfer(void *arg) {
    enum { MEET = 64 };
    struct hammer *h = arg;
    pthread_barrier_wait(h->meet);
    for (uint64_t i = 0; i < h->steps / LINKED; i++) {
        void *first = NULL, *last = NULL;
        size_t size = 32 + 32 * (size_t)(i % 8);
        for (unsigned k = 0; k < LINKED; k++) {
            void *block = bench_take(size);
            *(void **)block = first;
            first = block;
            last = last ? last : block;
        }
        void **to = &h->next->mail;
        void *head = __atomic_load_n(to, __ATOMIC_RELAXED);
        do
            *(void **)last = head;
        while (!__atomic_compare_exchange_n(
            to, &head, first, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
        free_linked(__atomic_exchange_n(&h->mail, NULL, __ATOMIC_ACQUIRE));
        h->done += 2 * LINKED;
        if (i % MEET == MEET - 1) /* none gets far ahead */
            pthread_barrier_wait(h->meet);
    }
    pthread_barrier_wait(h->meet);
    free_linked(__atomic_exchange_n(&h->mail, NULL, __ATOMIC_ACQUIRE));
    return NULL;
}

/* Runs of pages, from eight to 256 of them; their first bytes are written. */
static void *hammer_pages(void *arg) {
    enum { SLOTS = 32 };
    struct hammer *h = arg;
    void *slot[SLOTS] = {0};
    uint64_t s = h->seed;
    pthread_barrier_wait(h->meet);
    for (uint64_t i = 0; i < h->steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        free(slot[k]);
        char *p = bench_take(bench_log_size(r, 15, 5));
        *p = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    h->done = 2 * h->steps;
    return NULL;
}

/* For comparison: what the threads' own caches serve. */
static void *hammer_own(void *arg) {
    enum { SLOTS = 200 };
    struct hammer *h = arg;
    void *slot[SLOTS] = {0};
    uint64_t s = h->seed;
    pthread_barrier_wait(h->meet);
    for (uint64_t i = 0; i < h->steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        free(slot[k]);
        char *p = bench_take(16 + r % 500);
        *p = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    h->done = 2 * h->steps;
    return NULL;
}

static uint64_t run_own(double scale) {
    return run_all(hammer_own, bench_count(scale, 40e6));
}
static uint64_t run_central(double scale) {
    return run_all(hammer_central, bench_count(scale, 30e6));
}
static uint64_t run_transfer(double scale) {
    return run_all(hammer_transfer, bench_count(scale, 20e6));
}
static uint64_t run_pages(double scale) {
    return run_all(hammer_pages, bench_count(scale, 2e6));
}

static const struct workload list[] = {
    {"own", "200 slots a thread, served by the threads' own caches", run_own},
    {"central", "4,000 blocks of one size, freed, then of the next",
     run_central},
    {"transfer", "blocks freed by the next thread of a ring", run_transfer},
    {"pages", "32 slots a thread of 32 KiB to 1 MiB", run_pages},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
