/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with marks, named threads, and blocks that live across both; it
 * does the same in every run. One thread works at a time, so the order of
 * events is known.
 *
 * window_target SEED ROUNDS [STEPS [END]]: in each round threads "maker",
 * "user" and "rest" take turns of STEPS steps on a shelf of blocks, with all
 * kinds of calls; before each turn the main thread sets the mark "turn N". END
 * "kill" kills it behind its last mark, "stay" lets it wait there.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"

enum { SHELF = 200 };

static void *shelf[SHELF];
static void *volatile stays[64]; /* a block of each turn, never freed */
static int stay, steps = 400;
static struct prng random_state;
static void (*mark)(const char *);
static void *(*volatile take)(size_t) = malloc;
static void *(*volatile retake)(void *, size_t) = realloc;
static void *(*volatile take_aligned)(size_t, size_t) = aligned_alloc;
static void (*volatile give)(void *) = free;

static void step(void) {
    void **place = &shelf[prng_below(&random_state, SHELF)];
    size_t size = 1 + prng_below(&random_state, 3000);
    switch (prng_below(&random_state, 8)) {
    case 0:
        *place = retake(*place, size);
        break;
    case 1:
        give(*place);
        *place = take_aligned(64, size * 64);
        break;
    case 2:
        give(*place);
        *place = NULL;
        break;
    case 3:
        give(take(size));
        break;
    default:
        give(*place);
        *place = take(size);
        break;
    }
}

static void *turn(void *name) {
    pthread_setname_np(pthread_self(), name);
    stays[stay++] = take(8);
    for (int i = 0; i < steps; i++)
        step();
    return NULL;
}

int main(int argc, char **argv) {
    static char names[][6] = {"maker", "user", "rest"};
    if (argc < 3)
        return 2;
    *(void **)&mark = dlsym(RTLD_DEFAULT, "malloc_trace_mark");
    if (mark == NULL)
        return 3;
    prng_seed(&random_state, (uint64_t)atoi(argv[1]));
    int rounds = atoi(argv[2]);
    if (rounds > 64 / 3)
        return 2;
    if (argc > 3)
        steps = atoi(argv[3]);
    for (int i = 0; i < 3 * rounds; i++) {
        char text[32];
        snprintf(text, sizeof(text), "turn %d", i);
        mark(text);
        pthread_t thread;
        if (pthread_create(&thread, NULL, turn, names[i % 3]) != 0)
            return 1;
        pthread_join(thread, NULL);
        usleep(2000); /* so that times of the trace tell turns apart */
        for (int k = 0; k < 50; k++)
            step();
    }
    mark("end");
    if (argc > 4 && strcmp(argv[4], "kill") == 0)
        kill(getpid(), SIGKILL);
    if (argc > 4 && strcmp(argv[4], "stay") == 0)
        pause();
    return 0;
}
