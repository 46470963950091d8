/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the malloc family, by two threads one after the other, that the
 * recorders of other programs record: tools.sh has the list. Each size is used
 * once, so that calls of the C library are told from these.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

static void *volatile block[10];

static void *run_thread(void *nothing) {
    block[7] = malloc(100007);
    free(block[3]);
    return nothing;
}

int main(void) {
    pthread_t thread;
    void *p = NULL;
    block[1] = malloc(100001);
    block[2] = calloc(2, 50001);
    block[3] = realloc(block[1], 100003);
    if (posix_memalign(&p, 64, 100004) != 0)
        return 1;
    block[4] = p;
    block[5] = aligned_alloc(128, 100005);
    block[6] = memalign(256, 100006);
    if (pthread_create(&thread, NULL, run_thread, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    block[8] = realloc(block[0], 100008);
    free(block[8]);
    block[9] = malloc(100009);
    for (size_t i = 4; i <= 7; i++)
        free(block[i]);
    return 0;
}
