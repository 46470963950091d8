/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program to be killed at any moment. Each thread does the same sequence of
 * calls every time, and counts each call in a shared file before and after it:
 * what was counted after it must be in the trace, what was not even begun must
 * not.
 *
 * kill_target COUNTERS THREADS PACE
 * PACE: calls between pauses of 1 ms, 0 never pauses.
 * COUNTERS: a line of 64 bytes a thread: u64 calls done, u64 1 once it began.
 *
 * Thread t first makes and drops a block of 90000 + t bytes, which tells its
 * stream from the others.
 *
 * Call n of thread t: n even: malloc(16 + (n * 37 + t * 11) % 2000);
 * n odd: free of the block from 20 allocations ago, or a malloc of t + 1 bytes
 * while there is none.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_THREADS = 16, RING = 20 };

static char *counters;
static long pace;
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void *run(void *arg) {
    unsigned t = (unsigned)(intptr_t)arg;
    uint64_t *done = (uint64_t *)(counters + 64 * t);
    void *ring[RING] = {0};
    give(take(90000 + t));
    __atomic_store_n(&done[1], 1, __ATOMIC_RELEASE);
    for (uint64_t n = 0, k = 0;; n++) {
        if (n % 2 == 0)
            ring[k] = take(16 + (n * 37 + t * 11) % 2000);
        else {
            k = (k + 1) % RING;
            if (ring[k])
                give(ring[k]);
            else
                ring[k] = take(t + 1);
        }
        __atomic_store_n(&done[0], n + 1, __ATOMIC_RELEASE);
        if (pace && n % (uint64_t)pace == 0)
            usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
    int threads = atoi(argv[2]);
    pace = atol(argv[3]);
    if (fd < 0 || threads < 1 || threads > MAX_THREADS ||
        ftruncate(fd, 64 * MAX_THREADS))
        return 1;
    counters =
        mmap(NULL, 64 * MAX_THREADS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counters == MAP_FAILED)
        return 1;
    for (int i = 1; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, run, (void *)(intptr_t)i))
            return 1;
    }
    run(NULL);
    return 0;
}
