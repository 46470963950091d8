/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks like CPython 3.11 to a reader of lines. In the call that asks for its
 * thread, number CALL of those that one malloc makes, it ends the recording and
 * begins another, which another thread enters first, with the record that this
 * one gave up.
 *
 * lang_restart CALL SECOND     SECOND: the other recording
 */
#include <gperftools/malloc_trace.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const unsigned long Py_Version = 0x030B0700;
char _PyRuntime[64];
/* Types: the fifth word is the size of instances. */
uintptr_t PyCode_Type[8] = {[4] = 184}, PyUnicode_Type[8] = {[4] = 80},
          PyBytes_Type[8] = {[4] = 33};
void *PyGILState_GetThisThreadState(void);
void *_PyThreadState_UncheckedGet(void);

static _Alignas(8) char text[64], table[64], code[256];
struct runs {
    _Alignas(8) char state[64], cframe[16], frame[80];
};
static struct runs runs[2];
static __thread struct runs *mine;
static int calls_left;
static const char *second;
static pthread_barrier_t gave_up, entered, done;
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void put(char *at, uintptr_t value) {
    memcpy(at, &value, sizeof(value));
}

static void make(void) {
    put(text + 8, (uintptr_t)PyUnicode_Type);
    put(table + 8, (uintptr_t)PyBytes_Type);
    put(text + 16, 4);
    put(text + 24, 77);
    put(text + 32, 1 << 2 | 1 << 5 | 1 << 6);
    memcpy(text + 48, "name", 4);
    put(code + 8, (uintptr_t)PyCode_Type);
    put(code + 72, 5);
    put(code + 112, (uintptr_t)text);
    put(code + 128, (uintptr_t)text);
    put(code + 136, (uintptr_t)table);
    for (int i = 0; i < 2; i++) {
        put(runs[i].state + 56, (uintptr_t)runs[i].cframe);
        put(runs[i].cframe + 8, (uintptr_t)runs[i].frame);
        put(runs[i].frame + 32, (uintptr_t)code);
        put(runs[i].frame + 56, (uintptr_t)code + 184);
    }
}

static void use(size_t size) {
    for (int i = 0; i < 100; i++)
        give(take(size));
}

void *PyGILState_GetThisThreadState(void) {
    if (mine == runs && calls_left != 0 && --calls_left == 0) {
        malloc_trace_stop();
        /* Gives the record up. */
        use(10);
        if (!malloc_trace_start(second))
            exit(3);
        pthread_barrier_wait(&gave_up);
        pthread_barrier_wait(&entered);
    }
    return mine;
}

void *_PyThreadState_UncheckedGet(void) {
    return mine;
}

static void *other(void *arg) {
    mine = runs + 1;
    pthread_barrier_wait(&gave_up);
    use(20);
    pthread_barrier_wait(&entered);
    pthread_barrier_wait(&done);
    use(20);
    return arg;
}

int main(int argc, char **argv) {
    pthread_t id;
    if (argc != 3)
        return 2;
    second = argv[2];
    make();
    pthread_barrier_init(&gave_up, NULL, 2);
    pthread_barrier_init(&entered, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    if (pthread_create(&id, NULL, other, NULL) != 0)
        return 1;
    mine = runs;
    use(30);
    calls_left = atoi(argv[1]);
    give(take(30));
    if (calls_left != 0)
        return 4;
    use(30);
    pthread_barrier_wait(&done);
    pthread_join(id, NULL);
    printf("restarted\n");
    return 0;
}
