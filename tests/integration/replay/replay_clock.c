/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded under replay: threads that wait for time in the way that CLOCK_WAIT
 * names, each CLOCK_EVERY_MS, until the end of the process, when their number
 * is written to CLOCK_OUT. With DO_TSC or DO_KERNEL the library's malloc reads
 * a clock of its own. With DO_SPIN its malloc, or a thread, waits for time as
 * CLOCK_SPIN names. With DO_PROGRAM a program that allocates, sleeps for the
 * seconds that it is told, and allocates again. With DO_DECAY a program that
 * fills 200 MB, frees them, idles, and prints its resident memory meanwhile.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if defined(DO_TSC) || defined(DO_KERNEL)

extern void *__libc_malloc(size_t size);
static volatile unsigned long long last;

void *malloc(size_t size) {
#if defined(DO_TSC)
    unsigned low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
    last = (unsigned long long)high << 32 | low;
#else
    struct timespec ts;
    long result = SYS_clock_gettime;
    __asm__ __volatile__("syscall"
                         : "+a"(result)
                         : "D"((long)CLOCK_MONOTONIC), "S"(&ts)
                         : "rcx", "r11", "memory");
    last = (unsigned long long)ts.tv_nsec;
#endif
    return __libc_malloc(size);
}

#elif defined(DO_SPIN)

/* Time that a call waits for, and that of a round of the thread. */
#define SPIN_NS  2000000
#define ROUND_NS 20000000
/* Work of a thread before it waits for a time, longer than a replay takes. */
#define WORK_NS  300000000

extern void *__libc_malloc(size_t size);
static const char *kind = "";
static unsigned long mallocs, waits, rounds, wrong;

static long long now(void) {
    static __thread long long last;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    long long ns = ts.tv_sec * 1000000000LL + ts.tv_nsec;
    if (ns < last)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    last = ns;
    return ns;
}

static void spin(long long ns) {
    for (long long end = now() + ns; now() < end;)
        sched_yield();
}

static void wait_once(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec ts = {0, SPIN_NS};
    long long from = now();
    if (strcmp(kind, "spin") == 0) {
        spin(SPIN_NS);
    } else if (strcmp(kind, "sleep") == 0) {
        while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
            ;
    } else if (strcmp(kind, "cond") == 0) {
        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_nsec += SPIN_NS;
        ts.tv_sec += ts.tv_nsec / 1000000000;
        ts.tv_nsec %= 1000000000;
        pthread_mutex_lock(&mutex);
        while (pthread_cond_timedwait(&cond, &mutex, &ts) == 0)
            ;
        pthread_mutex_unlock(&mutex);
    } else {
        return;
    }
    waits++;
    if (now() - from < SPIN_NS)
        wrong++;
}

static int is_next(void) {
    return strcmp(kind, "next") == 0 || strcmp(kind, "stop") == 0;
}

static pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_cond = PTHREAD_COND_INITIALIZER;
static int has_work;

void *malloc(size_t size) {
    unsigned long n = __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    if (n % 500 == 0)
        wait_once();
    if (n == 500 && is_next()) {
        pthread_mutex_lock(&work_mutex);
        has_work = 1;
        pthread_cond_signal(&work_cond);
        pthread_mutex_unlock(&work_mutex);
    }
    return __libc_malloc(size);
}

/* Works until the calling thread has had CPU_NS of processor time. */
static void work_until(long cpu_ns) {
    struct timespec cpu = {0, 0};
    while (cpu.tv_sec == 0 && cpu.tv_nsec < cpu_ns)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
}

/* Waits for work without a time first, as threads of jemalloc do. CLOCK_SPIN
   stop: stops the process in the middle of its work, if CLOCK_PARENT made
   it. */
static void *works(void *unused) {
    struct timespec ts = {0, ROUND_NS};
    const char *parent = getenv("CLOCK_PARENT");
    pthread_mutex_lock(&work_mutex);
    while (!has_work)
        pthread_cond_wait(&work_cond, &work_mutex);
    pthread_mutex_unlock(&work_mutex);
    work_until(WORK_NS / 2);
    if (strcmp(kind, "stop") == 0 && parent != NULL &&
        getppid() == atoi(parent))
        kill(getpid(), SIGSTOP);
    work_until(WORK_NS);
    for (;; rounds++)
        nanosleep(&ts, NULL);
    return unused;
}

/* Makes a thread by the C library's own function, past those that a program may
   have in front of it. */
static void make_next(pthread_t *thread) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                  void *);
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (create != NULL)
        create(thread, NULL, works, NULL);
}

static void *spins(void *unused) {
    struct timespec ts = {0, ROUND_NS - SPIN_NS};
    for (;; rounds++) {
        spin(SPIN_NS);
        nanosleep(&ts, NULL);
    }
    return unused;
}

static void *polls(void *unused) {
    for (;;) {
        now();
        sched_yield();
    }
    return unused;
}

static __attribute__((constructor)) void begin(void) {
    pthread_t thread;
    kind = getenv("CLOCK_SPIN") == NULL ? "" : getenv("CLOCK_SPIN");
    if (strcmp(kind, "thread") == 0)
        pthread_create(&thread, NULL, spins, NULL);
    if (strcmp(kind, "poll") == 0)
        pthread_create(&thread, NULL, polls, NULL);
    if (is_next())
        make_next(&thread);
}

static __attribute__((destructor)) void tell(void) {
    const char *name = getenv("CLOCK_OUT");
    FILE *out = name == NULL ? NULL : fopen(name, "w");
    if (out == NULL)
        return;
    fprintf(out, "waits %lu\nrounds %lu\nwrong %lu\n", waits, rounds, wrong);
    fclose(out);
}

#elif defined(DO_PROGRAM)

int main(int argc, char **argv) {
    struct timespec ts = {0, 0};
    static void *block[2000];
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    ts.tv_sec = (time_t)seconds;
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2000; i++)
            block[i] = malloc((size_t)i * 16 + 1);
        for (int i = 0; i < 2000; i++)
            free(block[i]);
        if (turn == 0)
            nanosleep(&ts, NULL);
    }
    return 0;
}

#elif defined(DO_DECAY)

/* Without malloc. */
static void print_resident(const char *what, int ms) {
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        abort();
    close(fd);
    long pages = atol(strchr(text, ' '));
    int n = snprintf(text, sizeof(text), "%s %d %ld\n", what, ms,
                     pages * sysconf(_SC_PAGESIZE));
    if (write(1, text, (size_t)n) != n)
        abort();
}

int main(void) {
    static void *block[25000];
    struct timespec ts = {0, 100000000}, from, now;
    print_resident("base", 0);
    for (int i = 0; i < 25000; i++)
        block[i] = memset(malloc(8000), 1, 8000);
    for (int i = 0; i < 25000; i++)
        free(block[i]);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 25; i++) {
        nanosleep(&ts, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        print_resident("idle", (int)((now.tv_sec - from.tv_sec) * 1000 +
                                     (now.tv_nsec - from.tv_nsec) / 1000000));
    }
    return 0;
}

#else

static long every_ns = 20000000;
static unsigned long waits, wrong, backwards, interrupted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond;
static sem_t sem;
static unsigned word;
static struct timespec began[2];
static double began_uptime;

static struct timespec in(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    ts.tv_nsec += every_ns;
    ts.tv_sec += ts.tv_nsec / 1000000000;
    ts.tv_nsec %= 1000000000;
    return ts;
}

static void once(const char *kind) {
    struct timespec ts, span = {every_ns / 1000000000, every_ns % 1000000000};
    struct timeval tv = {0, every_ns / 1000};
    struct epoll_event event;
    fd_set set;
    static int pipes[2] = {-1, -1}, epoll = -1;
    if (pipes[0] < 0 && (pipe(pipes) != 0 || (epoll = epoll_create1(0)) < 0))
        abort();
    struct pollfd fd = {.fd = pipes[0], .events = POLLIN};
    int is_over = 0;
    if (!strcmp(kind, "nanosleep")) {
        is_over = nanosleep(&span, NULL) == 0;
    } else if (!strcmp(kind, "usleep")) {
        is_over = usleep((useconds_t)(every_ns / 1000)) == 0;
    } else if (!strcmp(kind, "absolute")) {
        ts = in(CLOCK_REALTIME);
        is_over =
            clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL) == 0;
    } else if (!strcmp(kind, "boottime")) {
        ts = in(CLOCK_BOOTTIME);
        is_over =
            clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) == 0;
    } else if (!strcmp(kind, "cond") || !strcmp(kind, "cond_monotonic")) {
        ts = in(kind[4] == '\0' ? CLOCK_REALTIME : CLOCK_MONOTONIC);
        pthread_mutex_lock(&mutex);
        is_over = pthread_cond_timedwait(&cond, &mutex, &ts) == ETIMEDOUT;
        pthread_mutex_unlock(&mutex);
    } else if (!strcmp(kind, "cond_clock")) {
        ts = in(CLOCK_MONOTONIC);
        pthread_mutex_lock(&mutex);
        is_over = pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &ts) ==
                  ETIMEDOUT;
        pthread_mutex_unlock(&mutex);
    } else if (!strcmp(kind, "mutex")) {
        ts = in(CLOCK_REALTIME);
        is_over = pthread_mutex_timedlock(&held, &ts) == ETIMEDOUT;
    } else if (!strcmp(kind, "sem")) {
        ts = in(CLOCK_REALTIME);
        is_over = sem_timedwait(&sem, &ts) == -1 && errno == ETIMEDOUT;
    } else if (!strcmp(kind, "poll")) {
        is_over = poll(&fd, 1, (int)(every_ns / 1000000)) == 0;
    } else if (!strcmp(kind, "select")) {
        FD_ZERO(&set);
        FD_SET(pipes[0], &set);
        is_over = select(pipes[0] + 1, &set, NULL, NULL, &tv) == 0;
    } else if (!strcmp(kind, "epoll")) {
        is_over = epoll_wait(epoll, &event, 1, (int)(every_ns / 1000000)) == 0;
    } else if (!strcmp(kind, "futex")) {
        is_over = syscall(SYS_futex, &word, 0, 0, &span, NULL, 0) == -1 &&
                  errno == ETIMEDOUT;
    } else if (!strcmp(kind, "signal")) {
        struct timespec rest = {0, 0};
        is_over = nanosleep(&span, &rest) == 0;
        if (!is_over && errno == EINTR && rest.tv_nsec <= every_ns)
            __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
        is_over = 1;
    } else {
        abort();
    }
    /* A signal of the process, as of a child's end, may come to any thread. */
    if (!is_over && errno == EINTR)
        return;
    __atomic_add_fetch(is_over ? &waits : &wrong, 1, __ATOMIC_RELAXED);
}

static void *run(void *kind) {
    struct timespec before = {0, 0}, now;
    for (;;) {
        once(kind);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec < before.tv_sec ||
            (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec))
            __atomic_add_fetch(&backwards, 1, __ATOMIC_RELAXED);
        before = now;
    }
    return NULL;
}

static void *for_ever(void *unused) {
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    static pthread_mutex_t its = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&its);
    for (;;)
        pthread_cond_wait(&never, &its);
    return unused;
}

static void on_signal(int number) {
    (void)number;
}

static void *interrupts(void *thread) {
    struct timespec ts = {0, 5000000};
    for (;;) {
        syscall(SYS_nanosleep, &ts, NULL);
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    }
    return NULL;
}

static double since(clockid_t id, const struct timespec *from) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (double)(ts.tv_sec - from->tv_sec) +
           (double)(ts.tv_nsec - from->tv_nsec) / 1e9;
}

/* Seconds, by another clock than that of the C library. */
static double uptime(void) {
    char text[64] = "";
    int fd = open("/proc/uptime", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        abort();
    close(fd);
    return strtod(text, NULL);
}

static __attribute__((destructor)) void tell(void) {
    const char *name = getenv("CLOCK_OUT");
    double real_ms = (uptime() - began_uptime) * 1e3;
    FILE *out = name == NULL ? NULL : fopen(name, "w");
    if (out == NULL)
        return;
    fprintf(out, "real_ms %.0f\n", real_ms);
    fprintf(out, "waits %lu\nwrong %lu\nbackwards %lu\ninterrupted %lu\n",
            waits, wrong, backwards, interrupted);
    fprintf(out, "realtime_ms %.0f\nmonotonic_ms %.0f\n",
            since(CLOCK_REALTIME, &began[0]) * 1e3,
            since(CLOCK_MONOTONIC, &began[1]) * 1e3);
    fclose(out);
}

static __attribute__((constructor)) void begin(void) {
    static pthread_t thread[64];
    const char *kind = getenv("CLOCK_WAIT"), *n = getenv("CLOCK_THREADS");
    const char *every = getenv("CLOCK_EVERY_MS");
    pthread_condattr_t attr;
    if (kind == NULL)
        return;
    if (every != NULL)
        every_ns = atol(every) * 1000000;
    pthread_condattr_init(&attr);
    if (strcmp(kind, "cond") != 0)
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&cond, &attr);
    sem_init(&sem, 0, 0);
    pthread_mutex_lock(&held);
    clock_gettime(CLOCK_REALTIME, &began[0]);
    clock_gettime(CLOCK_MONOTONIC, &began[1]);
    began_uptime = uptime();
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    int threads = n == NULL ? 1 : atoi(n);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run, (void *)kind);
    pthread_create(&thread[60], NULL, for_ever, NULL);
    if (!strcmp(kind, "signal"))
        pthread_create(&thread[61], NULL, interrupts, &thread[0]);
}

#endif
