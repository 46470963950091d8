/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads for replay_real.sh: "hand" passes blocks between three threads,
 * twice; "busy" has two that need nothing of each other; "pause" sleeps half a
 * second between two operations; "steps" does some for half a second before
 * that; "born N" makes N threads one after another, "pairs N" N times two.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *box[8];
static pthread_barrier_t meet;

static void *hand(void *arg) {
    unsigned x = (unsigned)(long)arg + 7;
    for (int i = 0; i < 2000; i++) {
        x = x * 1103515245 + 12345;
        void *p = x >> 9 & 1 ? malloc(16 + (x >> 16) % 500) : calloc(1, 5);
        p = __atomic_exchange_n(&box[x >> 8 & 7], p, __ATOMIC_ACQ_REL);
        if ((x & 7) == 0 && p != NULL)
            p = realloc(p, 100 + (x >> 16) % 900);
        free(p);
    }
    return NULL;
}

static void *busy(void *arg) {
    unsigned x = (unsigned)(long)arg + 7;
    void *held[256] = {0};
    for (int i = 0; i < 200000; i++) {
        /* So that they overlap, however they are scheduled. */
        if (i % 1000 == 0)
            pthread_barrier_wait(&meet);
        x = x * 1103515245 + 12345;
        void **p = &held[x >> 10 & 255];
        free(*p);
        *p = malloc(16 + (x >> 16) % 500);
    }
    for (int i = 0; i < 256; i++)
        free(held[i]);
    return NULL;
}

static void *one(void *arg) {
    free(malloc(100));
    return arg;
}

static void run(void *(*work)(void *), int threads) {
    pthread_t thread[3];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0)
            exit(1);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "hand") == 0) {
        run(hand, 3);
        run(hand, 3);
    } else if (strcmp(what, "busy") == 0) {
        pthread_barrier_init(&meet, NULL, 2);
        run(busy, 2);
    } else if (strcmp(what, "pause") == 0) {
        free(malloc(100));
        usleep(500000);
        free(malloc(200));
    } else if (strcmp(what, "steps") == 0) {
        for (int i = 0; i < 50; i++) {
            free(malloc(100));
            usleep(10000);
        }
        usleep(500000);
        free(malloc(200));
    } else if (strcmp(what, "born") == 0) {
        for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--)
            run(one, 1);
    } else if (strcmp(what, "pairs") == 0) {
        for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--)
            run(one, 2);
    }
    return 0;
}
