/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways out of a process, and into one, that pass by the usual handlers.
 *
 *     ways_out exit COUNTS    exit while threads allocate; COUNTS gets how many
 *                             of their calls returned
 *     ways_out sum COUNTS     says how many
 *     ways_out children       children of _Fork and of a raw clone
 *     ways_out dlopen PLUGIN  a library that allocates while it is relocated
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

pid_t _Fork(void) __attribute__((weak));

/* --- exit ----------------------------------------------------------------- */

/* Each thread's, in a file that outlives the process. */
struct counts {
    volatile uint64_t mallocs, frees;
    char room[48];
};
static struct counts *counts;

static struct counts *map_counts(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return NULL;
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static void *count_calls(void *arg) {
    struct counts *c = arg;
    for (;;) {
        void *volatile p = malloc(64);
        c->mallocs++;
        free(p);
        c->frees++;
    }
    return NULL;
}

static int exit_early(const char *name) {
    pthread_t id;
    counts = map_counts(name);
    if (counts == NULL)
        return 1;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&id, NULL, count_calls, &counts[i]) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        while (counts[i].frees < 1000)
            usleep(100);
    usleep((unsigned)getpid() % 16 * 500);
    exit(0);
}

static int sum(const char *name) {
    unsigned long long mallocs = 0, frees = 0;
    counts = map_counts(name);
    if (counts == NULL)
        return 1;
    for (int i = 0; i < THREADS; i++) {
        mallocs += counts[i].mallocs;
        frees += counts[i].frees;
    }
    printf("%llu %llu\n", mallocs, frees);
    return 0;
}

/* --- children ------------------------------------------------------------- */

/* Before the constructors of all libraries, so before set-up. */
static void *early;
static void allocate_early(void) {
    early = malloc(100);
}
__attribute__((section(".preinit_array"),
               used)) static void (*first)(void) = allocate_early;

static int in_child(void) {
    for (int i = 0; i < 1000; i++) {
        void *volatile p = malloc((size_t)i);
        free(p);
    }
    free(early);
    exit(0);
}

static int await_child(pid_t pid) {
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The parent allocates nothing before. */
static int make_children(void) {
    int good = 0;
    pid_t pid = _Fork == NULL ? fork() : _Fork();
    if (pid == 0)
        in_child();
    good += await_child(pid);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        in_child();
    good += await_child(pid);
    printf("%d good\n", good);
    return good != 2;
}

/* --- dlopen --------------------------------------------------------------- */

static sem_t begin;
static volatile int over;

static void churn(int times) {
    static __thread void *block[512];
    for (int i = 0; i < times; i++) {
        free(block[i % 512]);
        block[i % 512] = malloc(40);
    }
}

static void *other(void *arg) {
    sem_wait(&begin);
    churn(100000);
    over = 1;
    return arg;
}

/* Called by the plugin while the loader holds its locks: the other thread comes
   to need a thread of the recorder's first. */
void allocate_in_loader(void);
void allocate_in_loader(void) {
    sem_post(&begin);
    for (int i = 0; i < 200 && !over; i++)
        usleep(1000);
    /* Far more than the buffers that are there. */
    churn(2000000);
}

static int load(const char *name) {
    pthread_t id;
    sem_init(&begin, 0, 0);
    alarm(30);
    pthread_create(&id, NULL, other, NULL);
    void *plugin = dlopen(name, RTLD_NOW);
    if (plugin == NULL)
        fprintf(stderr, "%s\n", dlerror());
    pthread_join(id, NULL);
    return plugin == NULL;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "exit") == 0)
        return exit_early(argv[2]);
    if (strcmp(what, "sum") == 0)
        return sum(argv[2]);
    if (strcmp(what, "children") == 0)
        return make_children();
    if (strcmp(what, "dlopen") == 0)
        return load(argv[2]);
    return 2;
}
