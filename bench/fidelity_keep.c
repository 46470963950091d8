/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose replays are held against them: fidelity.py.
 *
 *     fidelity_keep keep    8 threads free most of their blocks and keep one in
 *                           300 of them
 *     fidelity_keep pass    4 threads pass blocks to each other
 *     fidelity_keep busy    2 threads that need nothing of each other
 *     fidelity_keep single  one thread
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD 4096u

static void *box[256];

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
