/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmark programs share: a list of workloads by name, a clock, a
 * fast random generator, and the line each run prints.
 *
 * A program is called `PROGRAM WORKLOAD [SCALE]` and prints "OPS NS CPU_NS":
 * the number of malloc and free calls of all threads (realloc counts as one),
 * the wall time of the loop without start-up and end, and the CPU time that its
 * own threads took (a recorder's thread is not among them; of use on a machine
 * that does other things too). SCALE multiplies the length; 1 is about half a
 * second.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct workload {
    const char *name;
    const char *what;
    uint64_t (*run)(double scale); /* operations done */
};

/* xorshift64*: a few cycles, the same in every run. */
static inline uint64_t bench_random(uint64_t *s) {
    uint64_t x = *s;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *s = x;
    return x * 0x2545F4914F6CDD1Du;
}

static inline uint64_t bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Keeps the compiler from seeing through a pointer. */
static inline void *bench_hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline void *bench_take(size_t size) {
    char *p = bench_hide(malloc(size));
    if (p == NULL)
        abort();
    return p;
}

static inline uint64_t bench_count(double scale, double whole) {
    return (uint64_t)(scale * whole);
}

static inline uint64_t bench_thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CPU time of threads that ended. */
static uint64_t bench_ended_cpu_ns;

struct bench_thread {
    pthread_t id;
    void *(*run)(void *);
    void *arg;
};

static inline void *bench_thread_run(void *arg) {
    struct bench_thread *t = (struct bench_thread *)arg;
    void *result = t->run(t->arg);
    __atomic_fetch_add(&bench_ended_cpu_ns, bench_thread_cpu_ns(),
                       __ATOMIC_RELAXED);
    return result;
}

static inline void bench_start(struct bench_thread *t, void *(*run)(void *),
                               void *arg) {
    t->run = run;
    t->arg = arg;
    if (pthread_create(&t->id, NULL, bench_thread_run, t))
        abort();
}

/* Runs N threads of F; each gets ARGS + i * SIZE. */
static inline void bench_threads(int n, void *(*f)(void *), void *args,
                                 size_t size) {
    static struct bench_thread thread[64];
    for (int i = 0; i < n; i++)
        bench_start(&thread[i], f, (char *)args + (size_t)i * size);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i].id, NULL);
}

static inline int bench_main(int argc, char **argv,
                             const struct workload *list) {
    if (argc >= 2) {
        double scale = argc > 2 ? atof(argv[2]) : 1;
        for (const struct workload *w = list; w->name; w++)
            if (!strcmp(w->name, argv[1])) {
                uint64_t start = bench_now_ns();
                uint64_t ops = w->run(scale);
                uint64_t ns = bench_now_ns() - start;
                uint64_t cpu = bench_thread_cpu_ns() + bench_ended_cpu_ns;
                printf("%llu %llu %llu\n", (unsigned long long)ops,
                       (unsigned long long)ns, (unsigned long long)cpu);
                return 0;
            }
        if (!strcmp(argv[1], "--list")) {
            for (const struct workload *w = list; w->name; w++)
                printf("%s\t%s\n", w->name, w->what);
            return 0;
        }
    }
    fprintf(stderr, "usage: %s WORKLOAD [SCALE], or --list\n", argv[0]);
    return 2;
}

#endif
