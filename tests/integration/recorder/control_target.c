/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uses the calls that control recording; status 3 where there are none. Sizes
 * tell where a block was made: 60001 while recording should be off, 60002 while
 * it should be on.
 *
 * control_target toggle: off, start, stop, start again
 * control_target path FILE...: starts to each FILE in turn
 * control_target flush: flushes, then waits to be killed
 * control_target threads N: N threads work while recording is switched
 * control_target serve: works until its input ends
 * control_target watch: allocates 70000 bytes before recording is on, 70001
 *     while it is, 70002 when it was; status 1 if that takes too long
 * control_target daemon: a daemon whose parent has ended prints its id, that of
 *     a child that sleeps, that of one that works; until its input ends
 * control_target brood N: forks N children that end at once
 * control_target busy N: N threads work while it records, for half a second and
 *     until it has several MiB
 * control_target all N: N threads work, three switch as they like, one forks
 * control_target child FILE: a forked child starts to FILE
 * control_target forks FILE: records to FILE while a child is forked
 * control_target limit MB: allocates for about MB MiB of trace
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"

static bool (*start)(const char *);
static bool (*stop)(void);
static bool (*flush)(void);
static bool (*is_on)(void);
static bool (*file)(char *, size_t);
static void (*mark)(const char *);
static void *(*volatile take)(size_t) = malloc;
static void *(*volatile retake)(void *, size_t) = realloc;
static void (*volatile give)(void *) = free;
static volatile bool done;

static void expect(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "control_target: %s\n", what);
    exit(70);
}

static void some(size_t size, int n) {
    for (int i = 0; i < n; i++)
        give(take(size));
}

static int toggle(void) {
    expect(!is_on(), "on before start");
    void *off = take(60001), *off2 = take(60001);
    some(60001, 100);
    mark("unheard");
    expect(start(NULL), "start");
    expect(is_on(), "not on after start");
    some(60002, 100);
    mark("first");
    void *on = take(60002);
    give(off);                  /* an untraced free */
    off2 = retake(off2, 60003); /* old block unknown */
    expect(!start(NULL), "a second start");
    expect(stop(), "stop");
    expect(!is_on(), "on after stop");
    some(60001, 100);
    mark("unheard");
    expect(!stop(), "a second stop");
    void *between = take(60001);
    expect(start(NULL), "start again");
    expect(is_on(), "not on after start again");
    some(60002, 50);
    mark("second");
    give(on); /* of the first recording: untraced here */
    give(between);
    give(off2);
    expect(stop(), "stop again");
    some(60001, 10);
    return 0;
}

static int paths(int n, char **path) {
    static char name[4096], later[4096];
    expect(!file(name, sizeof(name)), "a file before there is any");
    for (int i = 0; i < n; i++) {
        expect(start(path[i]), "start to a path");
        some(60002, 100 + i);
        struct stat st;
        bool is_file = stat(path[i], &st) != 0 || S_ISREG(st.st_mode);
        expect(flush(), "flush");
        expect(file(name, sizeof(name)) == is_file, "file");
        some(60002, 100);
        if (is_file) {
            expect(name[0] == '/' && access(name, R_OK) == 0, "is there");
            expect(!file(later, strlen(name)), "file without room");
        }
        expect(stop(), "stop");
        expect(file(later, sizeof(later)) == is_file, "file after stop");
        if (is_file) {
            expect(!strcmp(name, later), "the same file after stop");
            puts(name);
        }
    }
    expect(!start("/nonexistent/folder/t"), "start where nothing can be");
    expect(!is_on(), "on after a start that failed");
    return 0;
}

static int flush_and_wait(void) {
    some(60002, 1000);
    mark("before flush");
    expect(flush(), "flush");
    puts("flushed");
    fflush(stdout);
    some(60003, 500);
    pause();
    return 0;
}

static void *shelf[256];
static unsigned worked; /* blocks taken and given, by all threads */
#define COUNT_EACH 4096u

static void *work(void *arg) {
    struct prng r;
    prng_seed(&r, (uint64_t)(intptr_t)arg);
    for (unsigned i = 1; !done; i++) {
        if (i % COUNT_EACH == 0)
            __atomic_fetch_add(&worked, COUNT_EACH, __ATOMIC_RELAXED);
        unsigned k = (unsigned)prng_below(&r, 256);
        void *p = take(prng_below(&r, 2000));
        give(__atomic_exchange_n(&shelf[k], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static int switch_under_load(int n) {
    pthread_t id[64];
    expect(n > 0 && n <= 64, "threads");
    for (int i = 0; i < n; i++)
        expect(!pthread_create(&id[i], NULL, work, (void *)(intptr_t)i),
               "pthread_create");
    for (int i = 0; i < 20; i++) {
        expect(start(NULL), "start");
        usleep(4000);
        if (i % 3 == 0)
            expect(flush(), "flush");
        expect(stop(), "stop");
        usleep(1000);
    }
    done = true;
    for (int i = 0; i < n; i++)
        pthread_join(id[i], NULL);
    return 0;
}

static int busy(int n) {
    pthread_t id[64];
    expect(n > 0 && n <= 64 && start(NULL), "start");
    for (int i = 0; i < n; i++)
        expect(!pthread_create(&id[i], NULL, work, (void *)(intptr_t)i),
               "pthread_create");
    usleep(500000);
    while (__atomic_load_n(&worked, __ATOMIC_RELAXED) < 2000000)
        usleep(10000);
    done = true;
    for (int i = 0; i < n; i++)
        pthread_join(id[i], NULL);
    expect(stop(), "stop");
    return 0;
}

/* Everything at once; what it leaves must be whole traces. */
static void *switch_at_will(void *arg) {
    struct prng r;
    prng_seed(&r, 100 + (uint64_t)(intptr_t)arg);
    while (!done) {
        char name[4096];
        switch (prng_below(&r, 6)) {
        case 0:
            start(NULL);
            break;
        case 1:
            stop();
            break;
        case 2:
            flush();
            break;
        case 3:
            mark("at will");
            break;
        case 4:
            if (file(name, sizeof(name)))
                expect(name[0] == '/' && strlen(name) < sizeof(name), "file");
            break;
        default:
            is_on();
        }
        usleep((useconds_t)prng_below(&r, 3000));
    }
    return NULL;
}

static void *fork_at_will(void *arg) {
    (void)arg;
    while (!done) {
        pid_t pid = fork();
        if (pid == 0) {
            give(take(60004));
            char name[4096];
            _exit(is_on() || flush() || stop() || file(name, sizeof(name)) ||
                  start(NULL));
        }
        int status = 1;
        expect(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
               "a forked child is recorded");
        usleep(2000);
    }
    return NULL;
}

static int everything(int n) {
    pthread_t id[64];
    expect(n > 0 && n <= 60, "threads");
    for (int i = 0; i < n + 4; i++)
        expect(!pthread_create(&id[i], NULL,
                               i < n       ? work
                               : i < n + 3 ? switch_at_will
                                           : fork_at_will,
                               (void *)(intptr_t)i),
               "pthread_create");
    usleep(400000);
    done = true;
    for (int i = 0; i < n + 4; i++)
        pthread_join(id[i], NULL);
    stop();
    return 0;
}

static int watch(void) {
    int left = 20000, after = 200;
    size_t size = 70000;
    for (; left != 0 && after != 0; left--) {
        bool on = is_on();
        if (on)
            size = 70001;
        else if (size != 70000)
            size = 70002;
        some(size, 1);
        after -= size == 70002;
        usleep(1000);
    }
    return left == 0;
}

static void *eat_input(void *arg) {
    char c;
    (void)arg;
    while (read(0, &c, 1) == 1)
        continue;
    done = true;
    return NULL;
}

static int serve(void) {
    pthread_t id;
    expect(!pthread_create(&id, NULL, eat_input, NULL), "pthread_create");
    puts("ready");
    fflush(stdout);
    while (!done) {
        some(60002, 10);
        usleep(1000);
    }
    pthread_join(id, NULL);
    return 0;
}

static void sleep_for_ever(void) {
    for (;;)
        pause();
}

static void work_for_ever(void) {
    for (;;) {
        some(60002, 10);
        usleep(1000);
    }
}

static pid_t fork_to(void (*life)(void)) {
    pid_t pid = fork();
    if (pid == 0)
        life();
    expect(pid > 0, "fork");
    return pid;
}

static int be_daemon(void) {
    some(60001, 10);
    if (fork() != 0)
        _exit(0);
    setsid();
    pid_t idle = fork_to(sleep_for_ever), busy = fork_to(work_for_ever);
    printf("%d %d %d\n", (int)getpid(), (int)idle, (int)busy);
    fflush(stdout);
    char c;
    while (read(0, &c, 1) == 1)
        continue;
    kill(idle, SIGKILL);
    kill(busy, SIGKILL);
    return 0;
}

/* Half of them with malloc; several at a time. */
static int brood(int n) {
    for (int i = 0; i < n; i++) {
        if (i >= 10) {
            int status;
            expect(wait(&status) > 0 && status == 0, "a child");
        }
        pid_t pid = fork();
        if (pid == 0) {
            if (i % 2 != 0)
                some(1000, 10);
            _exit(0);
        }
        expect(pid > 0, "fork");
    }
    return 0;
}

static int child(const char *path) {
    int status;
    some(60002, 10);
    /* counts of the parent must not count in the child */
    expect(flush(), "flush");
    pid_t pid = fork();
    if (pid == 0) {
        expect(!is_on() && !start(NULL), "the parent's output in the child");
        expect(start(path), "start in the child");
        some(60005, 100);
        expect(stop(), "stop in the child");
        _exit(0);
    }
    expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
    some(60002, 10);
    return 0;
}

static int forks(const char *path) {
    int status;
    expect(start(path), "start");
    some(60002, 10);
    pid_t pid = fork();
    if (pid == 0) {
        expect(!is_on(), "the child is recorded");
        some(60005, 100);
        exit(0);
    }
    expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
    some(60002, 10);
    expect(stop(), "stop");
    return 0;
}

static int limit(int mb) {
    /* Random sizes: a call is two bytes at least. */
    static void *slot[5000];
    struct prng r;
    prng_seed(&r, 1);
    for (long i = 0; i < (long)mb * 500000; i++) {
        unsigned k = (unsigned)prng_below(&r, 5000);
        give(slot[k]);
        slot[k] = take(prng_below(&r, 1000));
    }
    return 51;
}

int main(int argc, char **argv) {
    *(void **)&start = dlsym(RTLD_DEFAULT, "malloc_trace_start");
    *(void **)&stop = dlsym(RTLD_DEFAULT, "malloc_trace_stop");
    *(void **)&flush = dlsym(RTLD_DEFAULT, "malloc_trace_flush");
    *(void **)&is_on = dlsym(RTLD_DEFAULT, "malloc_trace_is_on");
    *(void **)&file = dlsym(RTLD_DEFAULT, "malloc_trace_file");
    *(void **)&mark = dlsym(RTLD_DEFAULT, "malloc_trace_mark");
    if (argc == 3 && !strcmp(argv[1], "limit"))
        return limit(atoi(argv[2]));
    if (!start || !stop || !flush || !is_on || !file || !mark || argc < 2)
        return 3;
    if (!strcmp(argv[1], "untraced")) {
        mark("nowhere");
        char name[4096];
        expect(!start(NULL) && !stop() && !flush() && !is_on() &&
                   !file(name, sizeof(name)),
               "the untraced library records");
        return 0;
    }
    if (!strcmp(argv[1], "toggle"))
        return toggle();
    if (!strcmp(argv[1], "path"))
        return paths(argc - 2, argv + 2);
    if (!strcmp(argv[1], "flush"))
        return flush_and_wait();
    if (!strcmp(argv[1], "watch"))
        return watch();
    if (!strcmp(argv[1], "serve"))
        return serve();
    if (!strcmp(argv[1], "daemon"))
        return be_daemon();
    if (!strcmp(argv[1], "brood") && argc == 3)
        return brood(atoi(argv[2]));
    if (!strcmp(argv[1], "busy") && argc == 3)
        return busy(atoi(argv[2]));
    if (!strcmp(argv[1], "all") && argc == 3)
        return everything(atoi(argv[2]));
    if (!strcmp(argv[1], "child") && argc == 3)
        return child(argv[2]);
    if (!strcmp(argv[1], "forks") && argc == 3)
        return forks(argv[2]);
    if (!strcmp(argv[1], "threads") && argc == 3)
        return switch_under_load(atoi(argv[2]));
    return 2;
}
