/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals at a high rate, from timers and from another thread, while threads
 * allocate and free. Handlers do what handlers may: store, call
 * async-signal-safe functions, touch blocks; they do not allocate. Nothing
 * waits for ever, no block is damaged, and the heap is whole in the end.
 *
 * signal_malloc [ROUNDS]
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "prng.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void *(*volatile resize)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;

enum { THREADS = 3, SLOTS = 200 };

static unsigned long rounds = 60000;
static volatile unsigned signals;
static volatile unsigned damaged;
static unsigned char *volatile shared_block;
static volatile pid_t tids[THREADS];
static volatile bool stop;
static sem_t posted;

static void handler(int signo) {
    int saved = errno;
    (void)signo;
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
    /* a handler may read and write blocks */
    unsigned char *p = shared_block;
    if (p[7] != 7)
        damaged++;
    p[9]++;
    sem_post(&posted);
    if (write(-1, p, 1) != -1)
        damaged++;
    errno = saved;
}

static void *work(void *argument) {
    struct prng r;
    static __thread unsigned char *slot[SLOTS];
    static __thread size_t size[SLOTS];
    uintptr_t number = (uintptr_t)argument;
    tids[number] = (pid_t)syscall(SYS_gettid);
    prng_seed(&r, number + 1);
    for (unsigned long n = 0; n < rounds; n++) {
        unsigned k = (unsigned)prng_below(&r, SLOTS);
        if (slot[k] != NULL &&
            (slot[k][0] != k || slot[k][size[k] - 1] != (unsigned char)~k))
            damaged++;
        size_t old = size[k];
        size[k] = 1 + (prng_below(&r, 60) ? prng_below(&r, 2000)
                                          : prng_below(&r, 400000));
        if (size[k] < 2)
            size[k] = 2;
        if (slot[k] != NULL && n % 5 == 0) {
            slot[k][old - 1] = (unsigned char)k;
            slot[k] = resize(slot[k], size[k]);
        } else {
            give(slot[k]);
            slot[k] = take(size[k]);
        }
        slot[k][0] = (unsigned char)k;
        slot[k][size[k] - 1] = (unsigned char)~k;
    }
    tids[number] = 0;
    for (unsigned k = 0; k < SLOTS; k++)
        give(slot[k]);
    return NULL;
}

/* Signals the working threads in turn. */
static void *pester(void *argument) {
    pid_t process = getpid();
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (unsigned n = 0; !stop; n++) {
        pid_t tid = tids[n % THREADS];
        if (tid != 0)
            syscall(SYS_tgkill, process, tid, SIGUSR1);
        if (n % (4 * THREADS) == 0)
            usleep(20);
    }
    return argument;
}

static void start_timers(timer_t *timer) {
    struct itimerval often = {{0, 200}, {0, 200}};
    struct itimerspec oftener = {{0, 130000}, {0, 130000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGUSR2};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_RESTART | SA_NODEFER; /* may interrupt itself */
    sigaction(SIGUSR2, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, timer) != 0)
        tap_bail("timer_create");
    timer_settime(*timer, 0, &oftener, NULL);
}

int main(int argc, char **argv) {
    pthread_t id[THREADS], other;
    timer_t timer;
    int (*verify)(void) = NULL;
    if (argc > 1)
        rounds = strtoul(argv[1], NULL, 10);
    alarm(150);
    sem_init(&posted, 0, 0);
    shared_block = take(64);
    memset(shared_block, 0, 64);
    shared_block[7] = 7;
    start_timers(&timer);
    pthread_create(&other, NULL, pester, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&id[i], NULL, work, (void *)i);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    stop = true;
    pthread_join(other, NULL);
    timer_delete(timer);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    tap_ok(signals > 10, "%u signals came while threads allocated", signals);
    tap_ok(damaged == 0, "no block is damaged (%u)", damaged);
    *(void **)&verify = dlsym(RTLD_DEFAULT, "MallocExtension_VerifyAllMemory");
    if (verify == NULL)
        tap_skip("no MallocExtension_VerifyAllMemory");
    else
        tap_ok(verify() == 1, "the heap is whole");
    return tap_done();
}
