/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for musl: four threads with calls of their own, the aligned members
 * of the family, a library that is loaded, and a child.
 *
 * musl_target [FILE]       FILE: the library; ends with status 21
 * musl_target wait         waits for a line of its input before and after the
 *                          calls of the threads, and ends
 * musl_target stack BYTES  the threads alone, on stacks of BYTES
 * musl_target forks N      N forks beside threads that allocate all the time;
 *                          ends with status 21
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

KEEP void *leaf(size_t size) {
    void *p = malloc(size);
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}

KEEP void *middle(size_t size) {
    void *p = leaf(size);
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}

KEEP void *run_thread(void *arg) {
    for (size_t i = 0; i < 1000; i++)
        free(middle(1 + i));
    return arg;
}

static int run_family(void) {
    void *p;
    char *text = strdup("text");
    if (text == NULL || posix_memalign(&p, 4096, 100) != 0 ||
        (size_t)p % 4096 != 0)
        return 1;
    free(p);
    free(text);
    p = aligned_alloc(64, 640);
    if (p == NULL || (size_t)p % 64 != 0)
        return 1;
    free(p);
    unsigned char *q = calloc(3, 5);
    for (int i = 0; i < 15; i++)
        if (q == NULL || q[i] != 0)
            return 1;
    q = realloc(q, 1 << 20);
    free(q);
    return 0;
}

static void run_plugin(const char *file) {
    void *library = dlopen(file, RTLD_NOW);
    void *(*in_plugin)(size_t) = NULL;
    if (library == NULL)
        return;
    *(void **)&in_plugin = dlsym(library, "in_plugin");
    for (int i = 0; i < 300 && in_plugin != NULL; i++)
        free(in_plugin(48));
    dlclose(library);
}

static void run_threads(const pthread_attr_t *attr) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], attr, run_thread, NULL) != 0)
            abort();
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

static volatile int over;

static void *run_on(void *arg) {
    void *p[50];
    while (!over) {
        for (size_t i = 0; i < 50; i++)
            p[i] = leaf(1 + i * 3000);
        for (size_t i = 0; i < 50; i++)
            free(p[i]);
    }
    return arg;
}

/* A child that waits for a lock, which a thread held when it was forked, is
   stopped. The sizes are those for which threads take locks. */
static int run_forks(int n) {
    pthread_t thread[3];
    int failed = 0;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread[i], NULL, run_on, NULL) != 0)
            abort();
    for (int i = 0; i < n; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            for (size_t k = 0; k < 1000; k++)
                free(leaf(1 + k * 997));
            _exit(0);
        }
        waitpid(child, &status, 0);
        failed += child < 0 || status != 0;
    }
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    return failed == 0 ? 21 : 2;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "forks") == 0)
        return run_forks(atoi(argv[2]));
    int waits = argc > 1 && strcmp(argv[1], "wait") == 0, status = 0;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (argc > 2 &&
        pthread_attr_setstacksize(&attr, (size_t)atol(argv[2])) != 0)
        return 1;
    if (waits)
        (void)getchar();
    run_threads(&attr);
    if (argc > 2)
        return 0;
    if (waits) {
        (void)getchar();
        return 0;
    }
    if (argc > 1)
        run_plugin(argv[1]);
    if (run_family() != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 500; i++)
            free(middle(77));
        exit(3);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 3 ? 21 : 2;
}
