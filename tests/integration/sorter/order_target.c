/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that pass blocks to each other and log the address of every block in
 * the order of their own calls: the truth that an order of all calls must fit.
 *
 * order_target LOG THREADS STEPS LIVES [alone [kill]]: each of THREADS threads
 * makes STEPS steps in each of LIVES lives (a life is a thread of its own).
 * alone: the main thread is the first of them, and LIVES is 1; the others begin
 * when it has made its steps. kill: ends by SIGKILL.
 *
 * LOG: 64 bytes a life: u64 number of entries, then zeros; then for each life
 * its entries of 32 bytes: u64 what (1 malloc, 2 free, 3 realloc), address,
 * size, address before. Life l of thread t is number t * LIVES + l; its entries
 * begin at 64 * all + 64 * STEPS * number. In the recording it begins after a
 * block of 5130000 + 33 + number bytes and ends before one of 5140000 + 33 +
 * number bytes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prng.h"

enum { SHELF = 512, MAX_LIVES = 64 };

struct entry {
    uint64_t what, address, size, before;
};

static void *shelf[SHELF];
static char *log_start;
static long steps;
static int threads, lives;
static bool is_alone;
static void *(*volatile take)(size_t) = malloc;
static void *(*volatile retake)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;

static struct entry *log_of(int number) {
    return (struct entry *)(log_start + (size_t)(64 * threads * lives) +
                            (size_t)(64 * steps) * (size_t)number);
}

/* So many blocks that most go to where the next thread gets them. */
static struct entry *batch(struct entry *e, long blocks) {
    struct entry *first = e;
    for (long i = 0; i < blocks; i++, e++) {
        size_t size = 64 + (size_t)i % 8;
        *e = (struct entry){1, (uintptr_t)take(size), size, 0};
    }
    for (long i = 0; i < blocks; i++) {
        *e++ = (struct entry){2, first[i].address, 0, 0};
        give((void *)first[i].address);
    }
    return e;
}

static void *run(void *arg) {
    int number = (int)(intptr_t)arg;
    long blocks = is_alone ? steps / 2 : 0;
    struct entry *e = log_of(number);
    struct prng r;
    prng_seed(&r, (uint64_t)number);
    give(take(5130033 + (size_t)number));
    if (number != 0)
        e = batch(e, blocks);
    for (long i = 0; i < steps - blocks; i++) {
        uint64_t pick = prng_below(&r, 100);
        size_t size = pick < 80   ? prng_below(&r, 300)
                      : pick < 98 ? prng_below(&r, 9000)
                                  : prng_below(&r, 400000);
        unsigned k = (unsigned)prng_below(&r, SHELF);
        void *p = take(size);
        *e++ = (struct entry){1, (uintptr_t)p, size, 0};
        void *q = __atomic_exchange_n(&shelf[k], p, __ATOMIC_ACQ_REL);
        if (!q)
            continue;
        if (pick % 8 == 0) {
            uintptr_t before = (uintptr_t)q;
            q = retake(q, size + 1);
            *e++ = (struct entry){3, (uintptr_t)q, size + 1, before};
            q = __atomic_exchange_n(&shelf[(k * 7 + 1) % SHELF], q,
                                    __ATOMIC_ACQ_REL);
            if (!q)
                continue;
            i++; /* room in the log: two entries a step */
        }
        *e++ = (struct entry){2, (uintptr_t)q, 0, 0};
        give(q);
    }
    if (number == 0)
        e = batch(e, blocks);
    *(uint64_t *)(log_start + 64 * number) = (uint64_t)(e - log_of(number));
    give(take(5140033 + (size_t)number));
    if ((number + 1) % lives == 0)
        return NULL;
    pthread_t next;
    if (pthread_create(&next, NULL, run, (void *)(intptr_t)(number + 1)))
        abort();
    pthread_join(next, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t id[MAX_LIVES];
    if (argc < 5)
        return 2;
    int first = argc > 5;
    threads = atoi(argv[2]);
    steps = atol(argv[3]);
    lives = atoi(argv[4]);
    int all = threads * lives;
    if (threads < 1 || lives < 1 || all > MAX_LIVES || steps < 1)
        return 2;
    size_t bytes = (size_t)(64 * all) + (size_t)(64 * (steps + 2) * all);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return 1;
    log_start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (log_start == MAP_FAILED)
        return 1;
    is_alone = first != 0;
    if (first)
        run(0);
    for (int i = first; i < threads; i++)
        if (pthread_create(&id[i], NULL, run, (void *)(intptr_t)(i * lives)))
            return 1;
    for (int i = first; i < threads; i++)
        pthread_join(id[i], NULL);
    if (argc > 6)
        raise(SIGKILL);
    return 0;
}
