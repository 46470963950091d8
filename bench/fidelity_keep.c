/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose replays are held against them: fidelity.py.
 *
 *     fidelity_keep keep    8 threads free most of their blocks and keep one in
 *                           300 of them
 *     fidelity_keep pass    4 threads pass blocks to each other
 *     fidelity_keep busy    2 threads that need nothing of each other
 *     fidelity_keep single  one thread
 *     fidelity_keep short   50,000 threads, each of few calls, ten at a time
 *     fidelity_keep pairs   two threads at a time, 50 times
 *     fidelity_keep crowd   64 threads at once
 *     fidelity_keep queue   64 threads, one after another
 *     fidelity_keep buffers 4,000 buffers of 64 KiB, of which little is used
 *     fidelity_keep tables  20 tables by calloc, one page in eight is used
 *     fidelity_keep fibres  1,000 stacks of 32 to 256 KiB, used at their end
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD 4096u

static void *box[256];
static pthread_barrier_t barrier, *all_are_there;
#define WIDEST 64
static sem_t may_end[WIDEST];

static uint64_t next(uint64_t *x) {
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *x >> 33;
}

/* Writes all of a block, as one does who needs it. */
static void *block(size_t size) {
    return memset(malloc(size), 1, size);
}

static void *keep(void *seed) {
    uint64_t x = (uintptr_t)seed * 77 + 1;
    void **held = calloc(HELD, sizeof(*held));
    void **kept = calloc(10000, sizeof(*kept));
    size_t n = 0;
    for (unsigned i = 0; i < 1500000; i++) {
        uint64_t r = next(&x);
        void *p = block(16 + r % 2000);
        if (i % 300 == 0) {
            kept[n++] = p;
            continue;
        }
        void **h = &held[(r >> 12) % HELD];
        free(*h);
        *h = p;
    }
    for (unsigned i = 0; i < HELD; i++)
        free(held[i]);
    free(held);
    return kept;
}

static void *pass(void *seed) {
    uint64_t x = (uintptr_t)seed * 77 + 1;
    for (unsigned i = 0; i < 2000000; i++) {
        uint64_t r = next(&x);
        void *p = block(16 + r % 500);
        free(__atomic_exchange_n(&box[(r >> 12) % 256], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void *busy(void *seed) {
    uint64_t x = (uintptr_t)seed * 77 + 1;
    void *held[512] = {0};
    for (unsigned i = 0; i < 6000000; i++) {
        uint64_t r = next(&x);
        void **h = &held[(r >> 12) % 512];
        free(*h);
        *h = block(16 + r % 500);
    }
    for (unsigned i = 0; i < 512; i++)
        free(held[i]);
    return NULL;
}

static void *brief(void *seed) {
    uint64_t x = (uintptr_t)seed * 77 + 1;
    void *p = block(100 + next(&x) % 3000);
    sem_wait(&may_end[(uintptr_t)seed % WIDEST]);
    free(p);
    return NULL;
}

/* Some milliseconds of work, and some 5 MiB at most. */
static void *worker(void *seed) {
    enum { BLOCKS = 4096 };
    uint64_t x = (uintptr_t)seed * 77 + 1;
    static __thread void *held[BLOCKS];
    for (unsigned i = 0; i < 8 * BLOCKS; i++) {
        uint64_t r = next(&x);
        void **h = &held[(r >> 12) % BLOCKS];
        free(*h);
        *h = block(16 + r % 2000);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(held[i]);
    return NULL;
}

/* A fifth of that. */
static void *helper(void *seed) {
    enum { BLOCKS = 1024 };
    uint64_t x = (uintptr_t)seed * 77 + 1;
    void *held[BLOCKS] = {0};
    for (unsigned i = 0; i < 8 * BLOCKS; i++) {
        uint64_t r = next(&x);
        void **h = &held[(r >> 12) % BLOCKS];
        free(*h);
        *h = block(16 + r % 2000);
    }
    if (all_are_there != NULL)
        pthread_barrier_wait(all_are_there);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(held[i]);
    return NULL;
}

/* N threads in all, WIDTH at a time; the oldest one is waited for. */
static int in_turns(void *(*work)(void *), int n, int width) {
    pthread_t thread[WIDEST];
    for (int i = 0; i < n + width; i++) {
        if (i >= width) {
            sem_post(&may_end[(i - width) % WIDEST]);
            pthread_join(thread[i % width], NULL);
        }
        if (i < n && pthread_create(&thread[i % width], NULL, work,
                                    (void *)(intptr_t)i) != 0)
            return 1;
    }
    return 0;
}

/* Makes N blocks again and again, TIMES altogether. */
static void partly(const char *kind, unsigned n, unsigned times) {
    static char *held[4000];
    uint64_t x = 7;
    for (unsigned i = 0; i < times; i++) {
        uint64_t k = i < n ? i : next(&x) % n, r = next(&x) >> 8;
        free(held[k]);
        if (kind[0] == 'b') {
            held[k] = malloc(65536);
            memset(held[k], 1, r % 8 == 0 ? 20000 : 3000);
        } else if (kind[0] == 't') {
            size_t size = (size_t)65536 << r % 8;
            held[k] = calloc(1, size);
            for (size_t at = 0; at < size; at += 32768)
                held[k][at] = 1;
        } else {
            size_t size = (size_t)32768 << r % 4, used = 3000 + r % 12000;
            held[k] = malloc(size);
            memset(held[k] + size - used, 1, used);
        }
    }
}

/* The peak of resident memory since the program began, for the caller: what
   wait tells includes that of the process which it was made from. */
static int tell(void) {
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            fputs(line, stdout);
    return f == NULL;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void *(*work)(void *);
        int threads;
    } kind[] = {{"keep", keep, 8}, {"pass", pass, 4}, {"busy", busy, 2}};
    pthread_t thread[8];
    if (argc == 2 && strcmp(argv[1], "single") == 0) {
        keep(NULL);
        return tell();
    }
    static const struct {
        const char *name;
        unsigned held, times;
    } part[] = {{"buffers", 4000, 40000},
                {"tables", 20, 1000},
                {"fibres", 1000, 20000}};
    for (size_t k = 0; k < sizeof(part) / sizeof(*part); k++) {
        if (argc != 2 || strcmp(argv[1], part[k].name) != 0)
            continue;
        partly(part[k].name, part[k].held, part[k].times);
        return tell();
    }
    static const struct {
        const char *name;
        void *(*work)(void *);
        int threads, width, times;
    } turn[] = {{"short", brief, 50000, 10, 1},
                {"pairs", worker, 2, 2, 50},
                {"crowd", helper, 64, 64, 1},
                {"queue", helper, 64, 1, 1}};
    for (size_t k = 0; k < sizeof(turn) / sizeof(*turn); k++) {
        if (argc != 2 || strcmp(argv[1], turn[k].name) != 0)
            continue;
        if (turn[k].width == 64 &&
            pthread_barrier_init(all_are_there = &barrier, NULL, 64) != 0)
            return 1;
        for (int i = 0; i < turn[k].times; i++)
            if (in_turns(turn[k].work, turn[k].threads, turn[k].width) != 0)
                return 1;
        return tell();
    }
    for (size_t k = 0; k < sizeof(kind) / sizeof(*kind); k++) {
        if (argc != 2 || strcmp(argv[1], kind[k].name) != 0)
            continue;
        for (int i = 0; i < kind[k].threads; i++)
            if (pthread_create(&thread[i], NULL, kind[k].work,
                               (void *)(intptr_t)i) != 0)
                return 1;
        for (int i = 0; i < kind[k].threads; i++)
            pthread_join(thread[i], NULL);
        return tell();
    }
    return 2;
}
