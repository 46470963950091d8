/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts that the benchmark programs share: a list of workloads by name, a
 * clock, a fast random generator, and the line that each run prints.
 *
 * A program is called `PROGRAM WORKLOAD [SCALE [THREADS]]` and prints "OPS NS
 * CPU_NS": the number of malloc and free calls of all threads (realloc counts
 * as one), the wall time of the loop without start-up and end, and the CPU time
 * that its own threads took (a recorder's thread is not among them; of use on a
 * machine that does other things too). What else a workload tells follows as
 * KEY=VALUE. SCALE multiplies the length; 1 is about half a second. Status 77:
 * the workload needs what is not there.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* At least one: each workload does something, however short it is to be. */
static inline uint64_t bench_count(double scale, double whole) {
    uint64_t n = (uint64_t)(scale * whole);
    return n ? n : 1;
}

/* 2^LOW to 2^(LOW + OCTAVES), each octave as likely as the others. */
static inline size_t bench_log_size(uint64_t r, unsigned low,
                                    unsigned octaves) {
    size_t base = (size_t)1 << (low + (unsigned)(r & 0xff) % octaves);
    return base + (size_t)((r >> 8) & (base - 1));
}

/* Writes a byte in each STEP bytes and the last, as whoever fills it would. */
static inline void bench_touch(char *p, size_t size, size_t step) {
    for (size_t at = 0; at < size; at += step)
        p[at] = 1;
    p[size - 1] = 1;
}

static inline uint64_t bench_resident_kib(void) {
    char text[128];
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = 0;
        char *second = strchr(text, ' ');
        pages = second ? strtoull(second, NULL, 10) : 0;
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

struct bench_note {
    const char *key;
    uint64_t value;
};
static struct bench_note bench_notes[8];

/* Says KEY=VALUE besides the times. */
static inline void bench_tell(const char *key, uint64_t value) {
    unsigned i = 0;
    while (i < 7 && bench_notes[i].key && strcmp(bench_notes[i].key, key))
        i++;
    bench_notes[i] = (struct bench_note){key, value};
}

static inline uint64_t bench_thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Threads of workloads that leave their number to the caller. */
static int bench_thread_count = 2;

/* Time of the first thread that does not count. */
static uint64_t bench_paused_ns, bench_paused_cpu_ns;

static inline void bench_pause(void) {
    bench_paused_ns -= bench_now_ns();
    bench_paused_cpu_ns -= bench_thread_cpu_ns();
}

static inline void bench_go_on(void) {
    bench_paused_cpu_ns += bench_thread_cpu_ns();
    bench_paused_ns += bench_now_ns();
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

/*
 * Binds the calling thread to the Ith processor that it may use, if there are N
 * or more; if not, lets it be. Threads that a kernel has put on one processor
 * do not contend, and short runs end before it parts them.
 */
static inline void bench_bind(int i, int n) {
    cpu_set_t all, one;
    if (n < 2 || sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < n)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || i-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

struct bench_bound {
    int i, n;
    void *(*run)(void *);
    void *arg;
};

static inline void *bench_bound_run(void *arg) {
    struct bench_bound *b = (struct bench_bound *)arg;
    bench_bind(b->i, b->n);
    return b->run(b->arg);
}

/* Runs N threads of F; each gets ARGS + i * SIZE. */
static inline void bench_threads(int n, void *(*f)(void *), void *args,
                                 size_t size) {
    static struct bench_thread thread[64];
    struct bench_bound bound[64];
    for (int i = 0; i < n; i++)
        bound[i] =
            (struct bench_bound){i, n, f, (char *)args + (size_t)i * size};
    for (int i = 0; i < n; i++)
        bench_start(&thread[i], bench_bound_run, &bound[i]);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i].id, NULL);
}

/* 5,000 slots, log-uniform from 16 bytes to 16 KiB; first and last byte
   written. */
static inline uint64_t bench_mixed(uint64_t steps, uint64_t seed) {
    enum { SLOTS = 5000 };
    void **slot = calloc(SLOTS, sizeof *slot);
    uint64_t s = seed;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        size_t size = bench_log_size(r, 4, 10);
        free(slot[k]);
        char *p = bench_take(size);
        p[0] = p[size - 1] = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    free(slot);
    return 2 * steps;
}

static inline int bench_main(int argc, char **argv,
                             const struct workload *list) {
    if (argc >= 2) {
        double scale = argc > 2 ? atof(argv[2]) : 1;
        int threads = argc > 3 ? atoi(argv[3]) : 2;
        bench_thread_count = threads < 1 ? 1 : threads > 64 ? 64 : threads;
        for (const struct workload *w = list; w->name; w++)
            if (!strcmp(w->name, argv[1])) {
                uint64_t start = bench_now_ns();
                uint64_t ops = w->run(scale);
                uint64_t ns = bench_now_ns() - start - bench_paused_ns;
                uint64_t cpu = bench_thread_cpu_ns() + bench_ended_cpu_ns -
                               bench_paused_cpu_ns;
                printf("%llu %llu %llu", (unsigned long long)ops,
                       (unsigned long long)ns, (unsigned long long)cpu);
                for (unsigned i = 0; i < 8 && bench_notes[i].key; i++)
                    printf(" %s=%llu", bench_notes[i].key,
                           (unsigned long long)bench_notes[i].value);
                putchar('\n');
                return 0;
            }
        if (!strcmp(argv[1], "--list")) {
            for (const struct workload *w = list; w->name; w++)
                printf("%s\t%s\n", w->name, w->what);
            return 0;
        }
    }
    fprintf(stderr, "usage: %s WORKLOAD [SCALE [THREADS]], or --list\n",
            argv[0]);
    return 2;
}

#endif
