/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaks that are known. The argument says what the program does:
 *
 *     clean    frees all, while libraries keep memory of their own
 *     leak     leaks in two functions: 10 blocks of 100 bytes, 5 of 64
 *     lines    leaks at two lines of a function: 3 blocks of 100 bytes, 2 of 20
 *     callers  leaks in a function that is called by three others: 6 blocks of
 *              60 bytes, 3 and 1
 *     grow     keeps a list that grows, fills a cache, makes blocks that go,
 *              and frees all at its end
 *     larger   keeps an array that doubles, and buffers that do not
 *     marks    as grow, with marks; the list grows between the first two only
 *     status   leaks, and ends with status 3
 *     signal   leaks, and dies of a signal
 */
#include <dlfcn.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE __attribute__((noinline))

PLACE void *xmalloc(size_t size);
PLACE void open_session(void);
PLACE void read_name(void);
PLACE void collect(void);
PLACE void make(int blocks);
PLACE void first(void);
PLACE void second(void);
PLACE void third(void);
PLACE void remember(int i);
PLACE void look_up(int i);
PLACE void compute(void);
PLACE void append(void);
PLACE void fill(int i);

static void *volatile sink;
static long *array;
static size_t used, room;
static char *buffer;
static void *remembered[100000];
static char *cache[64];
static int count;

PLACE void *xmalloc(size_t size) {
    void *p = malloc(size);
    sink = p;
    return p;
}

PLACE void open_session(void) {
    for (int i = 0; i < 10; i++)
        sink = xmalloc(100);
    sink = NULL;
}

PLACE void read_name(void) {
    char name[64] = "";
    memset(name, 'x', sizeof(name) - 1);
    for (int i = 0; i < 5; i++)
        sink = strdup(name);
    sink = NULL;
}

PLACE void collect(void) {
    for (int i = 0; i < 3; i++)
        sink = malloc(100);
    for (int i = 0; i < 2; i++)
        sink = malloc(20);
    sink = NULL;
}

PLACE void make(int blocks) {
    for (int i = 0; i < blocks; i++)
        sink = malloc(60);
    sink = NULL;
}

PLACE void first(void) {
    make(6);
    sink = NULL;
}

PLACE void second(void) {
    make(3);
    sink = NULL;
}

PLACE void third(void) {
    make(1);
    sink = NULL;
}

PLACE void remember(int i) {
    remembered[count++] = malloc((size_t)(16 + i % 2));
}

PLACE void look_up(int i) {
    if (cache[i % 64] == NULL)
        cache[i % 64] = xmalloc(48);
}

PLACE void compute(void) {
    for (int i = 0; i < 3; i++) {
        sink = malloc(200);
        free(sink);
    }
}

/* An array that doubles, of which the program keeps one block. */
PLACE void append(void) {
    if (used == room) {
        room = room == 0 ? 16 : 2 * room;
        array = realloc(array, room * sizeof(*array));
    }
    array[used++] = 1;
}

/* A buffer that reaches its size early, and one that is large for a moment. */
PLACE void fill(int i) {
    if (i < 3000)
        buffer = realloc(buffer, (size_t)i * 64 + 64);
    if (i % 1000 == 999) {
        sink = malloc((size_t)i * 100);
        free(sink);
    }
}

static void mark(const char *text) {
    void *p = dlsym(RTLD_DEFAULT, "malloc_trace_mark");
    if (p != NULL)
        ((void (*)(const char *))p)(text);
}

static void run(int from, int to, int grows) {
    for (int i = from; i < to; i++) {
        if (grows)
            remember(i);
        look_up(i);
        compute();
    }
}

static void free_all(void) {
    for (int i = 0; i < count; i++)
        free(remembered[i]);
    for (int i = 0; i < 64; i++)
        free(cache[i]);
}

static void clean(void) {
    setlocale(LC_ALL, "");
    sink = getpwuid(getuid());
    void *p = xmalloc(100);
    printf("clean %d\n", sink != NULL);
    free(p);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "clean") == 0) {
        clean();
    } else if (strcmp(what, "lines") == 0) {
        collect();
    } else if (strcmp(what, "callers") == 0) {
        first();
        second();
        third();
    } else if (strcmp(what, "grow") == 0) {
        run(0, 20000, 1);
        free_all();
    } else if (strcmp(what, "larger") == 0) {
        for (int i = 0; i < 20000; i++) {
            append();
            fill(i);
            compute();
        }
        free(array);
        free(buffer);
    } else if (strcmp(what, "marks") == 0) {
        run(0, 1000, 1);
        mark("before");
        run(1000, 2000, argc > 2);
        mark("after");
        run(2000, 3000, 1);
        free_all();
    } else {
        open_session();
        read_name();
        printf("leaks\n");
    }
    fflush(stdout);
    if (strcmp(what, "signal") == 0)
        raise(SIGTERM);
    return strcmp(what, "status") == 0 ? 3 : 0;
}
