/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that idle, for recorded_time.py: memory in the course of time.
 *
 *     idle_phases fill     fills 500 MB, frees them, idles for 10 s
 *     idle_phases waves    a server: each 2.5 s it fills 120 MB, frees most of
 *                          them, and has little to do until the next wave
 *     idle_phases threads  4 threads work by turns and sleep in between
 *     idle_phases rest     does nothing for 0.3 s
 *
 * All of each block is written.
 *
 * With DO_RUNS a library to be preloaded before jemalloc, in a program or a
 * replay: writes to IDLE_RUNS how often jemalloc's background threads ran while
 * the first large block of calloc was alive, from the first free on: how long
 * it takes to fill memory depends on what else runs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(DO_RUNS)

#define LARGE        100000
#define MALLOCX_ZERO 0x40

extern int mallctl(const char *name, void *old, size_t *old_size, void *value,
                   size_t size);
extern void *mallocx(size_t size, int flags);
extern void dallocx(void *p, int flags);

static void *watched;
static uint64_t before;
static int has_freed;

/* jemalloc leaves out a thread that is at work. */
static uint64_t runs_now(void) {
    uint64_t epoch = 1, runs = 0;
    size_t size = sizeof(epoch);
    for (int i = 0; runs == 0 && i < 10000; i++) {
        mallctl("epoch", &epoch, &size, &epoch, size);
        mallctl("stats.background_thread.num_runs", &runs, &size, NULL, 0);
        sched_yield();
    }
    return runs;
}

void *calloc(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    void *none = NULL, *p = mallocx(bytes == 0 ? 1 : bytes, MALLOCX_ZERO);
    if (bytes >= LARGE)
        (void)__atomic_compare_exchange_n(&watched, &none, p, 0,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return p;
}

static void write_runs(uint64_t runs) {
    const char *name = getenv("IDLE_RUNS");
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)runs);
    int fd = name == NULL
                 ? -1
                 : open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, text, (size_t)n) != n || close(fd) != 0)
        abort();
}

void free(void *p) {
    if (p == NULL)
        return;
    void *first = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
    if (first != NULL && !__atomic_load_n(&has_freed, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&has_freed, 1, __ATOMIC_ACQ_REL))
        before = runs_now();
    if (p == first)
        write_runs(runs_now() - before);
    dallocx(p, 0);
}

#else

static uint64_t next(uint64_t *x) {
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *x >> 33;
}

static void rest(unsigned ms) {
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

struct heap {
    void **block;
    size_t count, room;
    uint64_t random;
};

/* Fills BYTES with blocks of 16 bytes to MOST, evenly spread by size. */
static void fill(struct heap *h, size_t bytes, size_t most) {
    while (bytes != 0 && h->count < h->room) {
        size_t size = 16 + next(&h->random) % (most - 15);
        size = size < bytes ? size : bytes;
        h->block[h->count++] = memset(malloc(size), 1, size);
        bytes -= size;
    }
}

/* Frees all blocks but one in KEPT, in a different order; 0: all. */
static void drop(struct heap *h, unsigned kept) {
    size_t left = 0;
    for (size_t i = h->count; i > 1; i--) {
        size_t at = next(&h->random) % i;
        void *p = h->block[at];
        h->block[at] = h->block[i - 1];
        h->block[i - 1] = p;
    }
    for (size_t i = 0; i < h->count; i++) {
        if (kept != 0 && i % kept == 0)
            h->block[left++] = h->block[i];
        else
            free(h->block[i]);
    }
    h->count = left;
}

static struct heap heap_of(size_t room, uint64_t seed) {
    return (struct heap){calloc(room, sizeof(void *)), 0, room, seed};
}

static void run_fill(void) {
    struct heap h = heap_of(400000, 1);
    fill(&h, (size_t)500 << 20, 16384);
    drop(&h, 0);
    rest(10000);
    fill(&h, 1000, 100);
    drop(&h, 0);
    free(h.block);
}

static void run_waves(void) {
    struct heap h = heap_of(1000000, 2), little = heap_of(1000, 3);
    for (int wave = 0; wave < 4; wave++) {
        fill(&h, (size_t)120 << 20, 4096);
        drop(&h, 40);
        for (int i = 0; i < 25; i++) {
            rest(100);
            fill(&little, 20000, 500);
            drop(&little, 0);
        }
    }
    drop(&h, 0);
    free(h.block);
    free(little.block);
}

static void *worker(void *seed) {
    struct heap h = heap_of(100000, (uintptr_t)seed);
    for (int turn = 0; turn < 6; turn++) {
        fill(&h, (size_t)25 << 20, 8192);
        drop(&h, turn == 5 ? 0 : 30);
        rest((unsigned)(500 + next(&h.random) % 1000));
    }
    free(h.block);
    return NULL;
}

static void run_threads(void) {
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++) {
        pthread_create(&thread[i], NULL, worker, (void *)(i + 4));
        rest(150);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "fill";
    if (strcmp(kind, "fill") == 0)
        run_fill();
    else if (strcmp(kind, "waves") == 0)
        run_waves();
    else if (strcmp(kind, "threads") == 0)
        run_threads();
    else if (strcmp(kind, "rest") == 0)
        rest(300);
    else
        return 2;
    return 0;
}

#endif
