/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that end without a call of exit. What they print, most of it when
 * exit handlers run, and their status do not depend on who serves malloc.
 *
 * last_thread MODE
 */
#include <gperftools/malloc_trace.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma weak malloc_trace_start
#pragma weak malloc_trace_stop

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void work(void) {
    for (size_t i = 0; i < 20000; i++)
        give(take(i % 1000));
}

/* Written into a buffer that only exit empties. More than the events that are
   saved one by one after the end. */
static void bye(void) {
    work();
    puts("an exit handler ran");
}

static void *returns(void *arg) {
    work();
    puts("a thread ends");
    return arg;
}

/* One that the allocator never hears of, after the recorder fell asleep. */
static void *never_allocates(void *arg) {
    usleep(100000);
    return arg;
}

static void *leaves_raw(void *arg) {
    work();
    syscall(SYS_exit, 0);
    return arg;
}

static void *goes_on(void *arg) {
    for (;;)
        work();
    return arg;
}

static void *makes_another(void *arg) {
    pthread_t id;
    work();
    if (pthread_create(&id, NULL, returns, arg) != 0)
        _exit(99);
    pthread_detach(id);
    return arg;
}

static void *joins_first(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    return returns(NULL);
}

/* The recording ends just before the program. */
static void *starts_and_stops(void *arg) {
    bool ok = true;
    for (int i = 0; malloc_trace_start != NULL && i < 3; i++) {
        ok = malloc_trace_start(arg) == (arg != NULL) && ok;
        work();
        ok = malloc_trace_stop() == (arg != NULL) && ok;
    }
    puts(ok ? "recorded" : "not recorded");
    return arg;
}

static const struct {
    const char *name;
    void *(*body)(void *);
} modes[] = {
    {"returns", returns},   {"silent", never_allocates},
    {"raw", leaves_raw},    {"another", makes_another},
    {"joins", joins_first}, {"calls", starts_and_stops},
    {"alone", NULL},
};

int main(int argc, char **argv) {
    static pthread_t first, id;
    if (argc < 2)
        return 2;
    atexit(bye);
    work();
    if (!strcmp(argv[1], "first-raw"))
        syscall(SYS_exit, 3);
    first = pthread_self();
    if (!strcmp(argv[1], "busy")) {
        pthread_create(&id, NULL, goes_on, NULL);
        pthread_create(&id, NULL, goes_on, NULL);
        usleep(5000);
        return 0;
    }
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        void *arg = modes[i].body == joins_first ? (void *)&first : argv[2];
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (modes[i].body != NULL &&
            pthread_create(&id, NULL, modes[i].body, arg) != 0)
            return 1;
        pthread_exit(NULL);
    }
    return 2;
}
