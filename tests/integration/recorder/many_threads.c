/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many_threads COUNT: that many threads are alive at the same time, each with
 * live blocks; each frees what its neighbour allocated.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 50

static pthread_barrier_t all_alive;
static unsigned count;
static void **block;

static void *run(void *argument) {
    unsigned me = (unsigned)(size_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++)
        block[me * BLOCKS + i] = malloc(16 + (me + i) % 500);
    pthread_barrier_wait(&all_alive);
    unsigned other = (me + 1) % count;
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[other * BLOCKS + i]);
    return NULL;
}

int main(int argc, char **argv) {
    count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    block = calloc((size_t)count * BLOCKS, sizeof(*block));
    pthread_t *thread = calloc(count, sizeof(*thread));
    pthread_attr_t small;
    if (block == NULL || thread == NULL ||
        pthread_barrier_init(&all_alive, NULL, count) != 0 ||
        pthread_attr_init(&small) != 0 ||
        pthread_attr_setstacksize(&small, 128 << 10) != 0)
        return 1;
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&thread[i], &small, run, (void *)(size_t)i) != 0)
            return 2;
    for (unsigned i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    printf("%u threads\n", count);
    return 0;
}
