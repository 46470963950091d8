/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork, many times, in a program whose threads allocate all the time. The child
 * finds a whole heap, frees blocks of its parent, starts threads, and forks
 * again, as do its children.
 *
 * fork_load [FORKS]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void *(*volatile resize)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;
static int (*verify)(void); /* MallocExtension_VerifyAllMemory, or NULL */

enum { SHELF = 512, THREADS = 3, KEPT = 300, BUSY_ROUNDS = 20000 };

static void *volatile shelf[SHELF]; /* blocks that threads hand to each other */
static unsigned char *kept[KEPT];   /* of the main thread */
static size_t kept_size[KEPT];
static volatile bool stop;

static void churn(struct prng *r, int steps) {
    for (int i = 0; i < steps; i++) {
        unsigned k = (unsigned)prng_below(r, SHELF);
        size_t size = prng_below(r, 80) ? prng_below(r, 900)
                                        : prng_below(r, (size_t)1 << 20);
        char *p = take(size);
        if (size != 0)
            p[size - 1] = p[0] = 1;
        if (i % 9 == 0)
            p = resize(p, size + 200);
        give(__atomic_exchange_n(&shelf[k], p, __ATOMIC_ACQ_REL));
    }
}

static void *churn_thread(void *seed) {
    struct prng r;
    prng_seed(&r, (uint64_t)(uintptr_t)seed);
    for (unsigned n = 0; !stop; n++) {
        churn(&r, 50);
        /* However long the forks take, a recording of this has some millions
           of events. */
        if (n > BUSY_ROUNDS)
            usleep(1000);
    }
    return NULL;
}

static void *short_thread(void *seed) {
    struct prng r;
    prng_seed(&r, (uint64_t)(uintptr_t)seed);
    churn(&r, 300);
    return seed;
}

static void check_heap(void) {
    if (verify != NULL && verify() != 1)
        _exit(20);
}

/* Tells whether the blocks that the main thread kept are unchanged. */
static bool kept_whole(void) {
    for (unsigned i = 0; i < KEPT; i++)
        for (size_t n = 0; n < kept_size[i]; n += 97)
            if (kept[i][n] != (unsigned char)i)
                return false;
    return true;
}

/* Exit code of a child, 1000 + signal if killed. */
static int wait_child(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int child(unsigned n, unsigned depth) {
    struct prng r;
    alarm(60);
    check_heap();
    if (!kept_whole())
        return 2;
    prng_seed(&r, n * 10 + depth);
    churn(&r, 400);
    for (unsigned i = depth; i < KEPT; i += 3) {
        give(kept[i]);
        kept[i] = take(50);
        kept_size[i] = 0;
    }
    if (n % 3 == 0) {
        pthread_t id[2];
        for (uintptr_t i = 0; i < 2; i++)
            if (pthread_create(&id[i], NULL, short_thread, (void *)(i + n)))
                return 3;
        for (unsigned i = 0; i < 2; i++)
            pthread_join(id[i], NULL);
    }
    if (depth < 2 && n % 4 == depth) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(n, depth + 1));
        if (wait_child(pid) != 0)
            return 4;
    }
    for (unsigned i = 0; i < SHELF; i += 2)
        give(__atomic_exchange_n(&shelf[i], NULL, __ATOMIC_ACQ_REL));
    check_heap();
    return 0;
}

static void keep_some(struct prng *r) {
    for (unsigned i = 0; i < KEPT; i++) {
        kept_size[i] =
            prng_below(r, 20) ? prng_below(r, 3000) : prng_below(r, 300000);
        kept[i] = take(kept_size[i]);
        memset(kept[i], (int)i, kept_size[i]);
    }
}

int main(int argc, char **argv) {
    unsigned forks = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 150;
    pthread_t id[THREADS];
    struct prng r;
    int bad = 0, last = 0;
    *(void **)&verify = dlsym(RTLD_DEFAULT, "MallocExtension_VerifyAllMemory");
    prng_seed(&r, 3);
    keep_some(&r);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&id[i], NULL, churn_thread, (void *)(i + 1));
    for (unsigned n = 0; n < forks; n++) {
        churn(&r, 40);
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(n, 0));
        int code = wait_child(pid);
        if (code != 0) {
            bad++;
            last = code;
        }
    }
    stop = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    tap_ok(bad == 0, "%u children of a busy program (%d bad, last %d)", forks,
           bad, last);
    tap_ok(kept_whole(), "the parent's blocks are what they were");
    if (verify != NULL)
        tap_ok(verify() == 1, "its heap is whole");
    else
        tap_skip("no MallocExtension_VerifyAllMemory");
    return tap_done();
}
