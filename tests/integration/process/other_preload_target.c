/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates on four threads and in a child, and after main, without a system
 * call of its own. Says how many threads a library that stands before the C
 * library has seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS  50

static void work(int rounds) {
    void *block[BLOCKS];
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < BLOCKS; k++)
            block[k] = malloc((size_t)(1 + 37 * k));
        for (int k = 0; k < BLOCKS; k++)
            free(block[k]);
    }
}

static void at_end(void) {
    work(10);
    puts("end");
}

static void *body(void *arg) {
    work(400);
    return arg;
}

int main(void) {
    pthread_t thread[THREADS];
    int status = 0;
    atexit(at_end);
    work(10);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, body, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    /* Large enough to be mapped anew and to be looked at when freed. */
    char *large = calloc(1, 4 << 20);
    large = realloc(large, 8 << 20);
    free(large);
    int (*seen)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "threads_seen");
    printf("%d\n", seen == NULL ? THREADS : seen());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work(100);
        exit(5);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) + 2;
}
