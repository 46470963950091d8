/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include "tap.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000 };

static struct tcm_lock lock = TCM_LOCK_INIT(TCM_RANK_NONE);
static uint64_t counter; /* under lock */
static uint32_t inside;  /* holders at this moment */
static uint32_t crowded; /* times that there was more than one holder */

static void *count(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        tcm_lock(&lock);
        if (tcm_add_relaxed(&inside, 1u) != 0)
            tcm_add_relaxed(&crowded, 1u);
        counter++;
        /* Sometimes long enough for the other threads to go to sleep. */
        if (i % 4096 == 0)
            usleep(300);
        tcm_add_relaxed(&inside, ~0u);
        tcm_unlock(&lock);
    }
    return NULL;
}

static void test_threads(void) {
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, count, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    tap_is_u64(counter, (uint64_t)THREADS * ROUNDS, "no increment is lost");
    tap_is_u64(crowded, 0, "never two holders");
    tap_is_u64(lock.state, 0, "free in the end, and nobody waits");
}

static uint32_t got_it;
static bool is_others; /* the lock as the waiter knows it */

static void *take(void *arg) {
    (void)arg;
    is_others = !tcm_lock_is_held(&lock);
    tcm_lock(&lock);
    tcm_store_release(&got_it, 1u);
    tcm_unlock(&lock);
    return NULL;
}

/* A waiter sleeps in the kernel (state 2) and is woken. */
static void test_wake(void) {
    pthread_t t;
    tcm_lock(&lock);
    tap_ok(tcm_lock_is_held(&lock), "a lock is its holder's");
    pthread_create(&t, NULL, take, NULL);
    while (tcm_load_relaxed(&lock.state) != 2)
        sched_yield();
    tap_is_u64(tcm_load_acquire(&got_it), 0, "the waiter waits");
    tcm_unlock(&lock);
    pthread_join(t, NULL);
    tap_is_u64(got_it, 1, "and is woken");
    tap_ok(is_others && !tcm_lock_is_held(&lock), "and nobody else's");
}

/* Signal that ends a child which takes two locks of these ranks. */
static int signal_of(enum tcm_lock_rank first, enum tcm_lock_rank second) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct tcm_lock a, b;
        tcm_lock_init(&a, first);
        tcm_lock_init(&b, second);
        /* The message of the abort is expected, and not shown. */
        close(2);
        tcm_lock(&a);
        tcm_lock(&b);
        tcm_unlock(&b);
        tcm_unlock(&a);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Signal that ends a child which misuses a lock. */
static int signal_of_misuse(bool recursion) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct tcm_lock a;
        tcm_lock_init(&a, TCM_RANK_NONE);
        close(2);
        alarm(60);
        if (recursion)
            tcm_lock(&a);
        if (recursion)
            tcm_lock(&a);
        else
            tcm_unlock(&a);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_misuse(void) {
    tap_is_i64(signal_of_misuse(true), SIGABRT, "recursion stops the program");
    tap_is_i64(signal_of_misuse(false), SIGABRT,
               "so does unlocking what is not held");
}

static void test_ranks(void) {
    tap_is_i64(signal_of(TCM_RANK_API, TCM_RANK_META), 0, "rising ranks");
    tap_is_i64(signal_of(TCM_RANK_META, TCM_RANK_API), SIGABRT,
               "falling ranks stop the program");
    tap_is_i64(signal_of(TCM_RANK_CENTRAL_LIST, TCM_RANK_CENTRAL_LIST), 0,
               "equal ranks");
    tap_is_i64(signal_of(TCM_RANK_META, TCM_RANK_NONE), 0,
               "a leaf inside everything");
}

/* A busy lock is not stuck; one of a holder that sleeps is, and stays sound. */
static void test_stuck(void) {
    const uint64_t long_ns = (uint64_t)60 * 1000 * 1000 * 1000;
    pthread_t t[THREADS];
    bool stuck = false;
    counter = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, count, NULL);
    for (unsigned i = 0; i < 1000; i++)
        stuck |= tcm_lock_is_stuck(&lock, long_ns);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    tap_ok(!stuck && counter == (uint64_t)THREADS * ROUNDS,
           "a busy lock is not stuck");
    tcm_lock(&lock);
    tap_ok(tcm_lock_is_stuck(&lock, 1000 * 1000), "a lock that is held is");
    tcm_unlock(&lock);
    tap_ok(!tcm_lock_is_stuck(&lock, 0) && lock.state == 0 &&
               tcm_locks_held == 0,
           "and is no longer when it was given back");
    counter = 0;
}

int main(void) {
    test_wake();
    test_stuck();
    test_threads();
    test_ranks();
    test_misuse();
    return tap_done();
}
