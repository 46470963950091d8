/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork while other threads allocate, and the ends a process can come to, asked
 * of whatever malloc this process has. A child that hangs is killed by an
 * alarm and counts as a failure.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "tap.h"

/* Not in every C library. */
pid_t _Fork(void) __attribute__((weak));

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static volatile bool stop;
static void *volatile *shelf; /* blocks that threads hand to each other */

enum { SHELF = 256, THREADS = 3 };

static void churn(struct prng *r, int steps) {
    for (int i = 0; i < steps; i++) {
        unsigned k = (unsigned)prng_below(r, SHELF);
        size_t size =
            prng_below(r, 60) ? prng_below(r, 700) : prng_below(r, 200000);
        char *p = take(size);
        if (size)
            p[size - 1] = p[0] = 1;
        give(__atomic_exchange_n(&shelf[k], p, __ATOMIC_ACQ_REL));
    }
}

static void *churn_thread(void *arg) {
    struct prng r;
    prng_seed(&r, (uint64_t)(uintptr_t)arg);
    while (!stop)
        churn(&r, 100);
    return NULL;
}

/* Exit code of a child, 1000 + signal if killed, -1 if there is none. */
static int wait_child(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void *child_thread(void *arg) {
    struct prng r;
    prng_seed(&r, 99);
    churn(&r, 2000);
    return arg;
}

static int child_work(unsigned seed) {
    struct prng r;
    alarm(30);
    prng_seed(&r, seed);
    churn(&r, 3000);
    if (seed % 4 == 0) {
        pthread_t id;
        void *result = NULL;
        if (pthread_create(&id, NULL, child_thread, &r) ||
            pthread_join(id, &result) || result != &r)
            return 1;
    }
    if (seed % 8 == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            churn(&r, 300);
            _exit(5);
        }
        if (wait_child(pid) != 5)
            return 2;
    }
    return 0;
}

static void test_fork_under_load(void) {
    pthread_t id[THREADS];
    int bad = 0, last = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&id[i], NULL, churn_thread, (void *)(i + 1));
    for (unsigned i = 0; i < 60; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child_work(i));
        int code = wait_child(pid);
        if (code) {
            bad++;
            last = code;
        }
    }
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    tap_ok(bad == 0, "60 children of a threaded program (%d bad, last %d)", bad,
           last);
}

static void test_raw_fork(void) {
    int bad = 0;
    for (unsigned i = 0; i < 20; i++) {
        pid_t pid = i % 2 && _Fork != NULL
                        ? _Fork()
                        : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            struct prng r;
            alarm(30);
            prng_seed(&r, i);
            churn(&r, 2000);
            _exit(0);
        }
        bad += wait_child(pid) != 0;
    }
    tap_ok(bad == 0, "_Fork and raw clone: no handler runs (%d bad)", bad);
}

static void test_vfork(void) {
    char *before = take(100);
    strcpy(before, "before");
    int bad = 0;
    for (int i = 0; i < 50; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        bad += wait_child(pid) != 0;
    }
    tap_ok(bad == 0 && !strcmp(before, "before"), "vfork and exec");
    give(before);
}

static void exit_handler(void) {
    give(take(100));
}

static void test_ends(void) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        atexit(exit_handler);
        exit(7);
    }
    tap_ok(wait_child(pid) == 7, "exit with a handler that allocates");
    pid = fork();
    if (pid == 0) {
        alarm(30);
        take(10);
        _exit(8);
    }
    tap_ok(wait_child(pid) == 8, "_exit");
    pid = fork();
    if (pid == 0) {
        alarm(30);
        abort();
    }
    tap_ok(wait_child(pid) == 1000 + SIGABRT, "abort dies of SIGABRT");
    pid = fork();
    if (pid == 0) {
        alarm(30);
        volatile uintptr_t nowhere = 8;
        *(volatile int *)nowhere = 1;
        _exit(0);
    }
    tap_ok(wait_child(pid) == 1000 + SIGSEGV, "a bad store dies of SIGSEGV");
    pid = fork();
    if (pid == 0) {
        pthread_t id;
        alarm(30);
        stop = false;
        for (uintptr_t i = 0; i < 4; i++)
            pthread_create(&id, NULL, churn_thread, (void *)(i + 1));
        usleep(20000);
        exit(9);
    }
    tap_ok(wait_child(pid) == 9, "exit while threads allocate");
}

int main(void) {
    shelf = calloc(SHELF, sizeof *shelf);
    if (!shelf)
        tap_bail("no memory");
    test_fork_under_load();
    test_raw_fork();
    test_vfork();
    test_ends();
    return tap_done();
}
