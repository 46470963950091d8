/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread allocates while it holds a stream, as getline does. Meanwhile
 * another thread, which has the list of streams, waits for that stream, and a
 * third one forks, which needs the list.
 *
 * musl_streams flush   the list is held by fflush of all streams
 * musl_streams exit    by exit
 *
 * Ends with status 0, or never. The sleeps put the three in this order.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20, STEP_US = 100000 };

static FILE *stream;
static sem_t is_held;

static void *hold(void *unused) {
    flockfile(stream);
    sem_post(&is_held);
    usleep(2 * STEP_US);
    /* None of them comes from a thread's cache. */
    for (size_t i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc((size_t)1 << 20 | i << 12);
        free(block);
    }
    funlockfile(stream);
    return unused;
}

static void *fork_later(void *unused) {
    usleep(STEP_US);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t holder, forker;
    stream = fopen("/dev/null", "w");
    if (argc < 2 || stream == NULL || sem_init(&is_held, 0, 0) != 0 ||
        pthread_create(&holder, NULL, hold, NULL) != 0 ||
        pthread_create(&forker, NULL, fork_later, NULL) != 0)
        return 1;
    sem_wait(&is_held);
    if (strcmp(argv[1], "exit") == 0)
        return 0;
    fflush(NULL);
    pthread_join(holder, NULL);
    pthread_join(forker, NULL);
    return 0;
}
