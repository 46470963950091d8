/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that does one step for each byte it reads, and answers each with
 * the same byte:
 *
 *   t  four threads come, make and drop 3000 blocks each, and go
 *   f  five blocks of the first thread, which fill no buffer
 *   k  kills itself
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void make(unsigned n, unsigned seed) {
    for (unsigned i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        give(take(16 + (seed >> 16) % 3000));
    }
}

static void *run(void *arg) {
    make(3000, (unsigned)(uintptr_t)arg);
    return NULL;
}

static void threads(void) {
    pthread_t id[4];
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&id[i], NULL, run, (void *)i) != 0)
            _exit(1);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
}

int main(void) {
    char c;
    while (read(0, &c, 1) == 1) {
        if (c == 't')
            threads();
        else if (c == 'f')
            make(5, 1);
        else
            kill(getpid(), SIGKILL);
        if (write(1, &c, 1) != 1)
            return 1;
    }
    return 0;
}
