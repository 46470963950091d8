/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator whose memory depends on time: a thread of its own gives the
 * pages of a large freed block back when it was free for DECAY_MS, or never
 * without that. With TSC=1 it reads the processor's counter in each call, with
 * FAULTS=1 it lets pages of its own fault in each call.
 *
 * With DO_PROGRAM a program that fills 32 MiB, frees them, waits for as many
 * seconds as it is told, and allocates again. With a second argument it holds
 * 48 MiB then that are not malloc's.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void wait_ms(long ms) {
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

#ifdef DO_PROGRAM

enum { BLOCKS = 32, SMALL = 5000 };

static void allocate_small(void) {
    static void *block[SMALL];
    for (int i = 0; i < SMALL; i++)
        block[i] = malloc((size_t)i % 500 + 1);
    for (int i = 0; i < SMALL; i++)
        free(block[i]);
}

int main(int argc, char **argv) {
    static char *block[BLOCKS];
    long ms = argc > 1 ? (long)(atof(argv[1]) * 1000) : 1000;
    size_t own = 48 * MIB;
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(MIB);
        memset(block[i], 1, MIB);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    allocate_small();
    wait_ms(ms);
    if (argc > 2) {
        char *p = mmap(NULL, own, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 1;
        memset(p, 1, own);
        for (int i = 0; i < 10; i++) {
            allocate_small();
            wait_ms(50);
        }
        munmap(p, own);
    }
    allocate_small();
    return 0;
}

#else
#include "../../lib/small_allocator.h"

/* Freed blocks whose pages are there. */
enum { IDLE = 256, LARGE = 1 << 17 };
static struct idle {
    char *block;
    size_t size;
    long since_ms;
} idle[IDLE];
static int idles;

static long now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Forgets the block, which is in use again. */
static void take_idle(const char *block) {
    for (int i = 0; i < idles; i++)
        if (idle[i].block == block) {
            idle[i] = idle[--idles];
            return;
        }
}

/* The first page has the link of the free list. */
static void give_back(const struct idle *i) {
    uintptr_t from = ((uintptr_t)i->block + 2 * 4096) & ~(uintptr_t)4095;
    uintptr_t to = ((uintptr_t)i->block + i->size) & ~(uintptr_t)4095;
    madvise((void *)from, to - from, MADV_DONTNEED);
}

static void *purge(void *decay) {
    for (;;) {
        wait_ms(50);
        small_lock();
        for (int i = idles; i-- > 0;)
            if (now_ms() - idle[i].since_ms >= *(long *)decay) {
                give_back(&idle[i]);
                idle[i] = idle[--idles];
            }
        small_unlock();
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    static long decay;
    pthread_t thread;
    decay = atol(small_setting("DECAY_MS"));
    if (decay > 0)
        pthread_create(&thread, NULL, purge, &decay);
}

static void waste(void) {
    static char *page;
    enum { WASTED = 4 * 4096 };
#ifdef __x86_64__
    if (*small_setting("TSC") != '\0')
        (void)__builtin_ia32_rdtsc();
#endif
    if (*small_setting("FAULTS") == '\0')
        return;
    if (page == NULL)
        page = small_map(WASTED);
    for (int i = 0; i < WASTED; i += 4096)
        *(volatile char *)(page + i) = 1;
    madvise(page, WASTED, MADV_DONTNEED);
}

void *malloc(size_t size) {
    small_lock();
    waste();
    void *p = small_take(size);
    if (size >= LARGE && p != NULL)
        take_idle(p);
    small_unlock();
    return small_result(p);
}

void free(void *p) {
    if (p == NULL)
        return;
    small_lock();
    size_t size = small_size(p);
    if (size >= LARGE && idles < IDLE)
        idle[idles++] = (struct idle){p, size, now_ms()};
    small_give(p);
    small_unlock();
}

SMALL_DEFINE_OTHERS
#endif
