// SPDX-License-Identifier: BSD-3-Clause
// Frees blocks at known places: N in a function's name is how many.
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <stdlib.h>

#define PLACE extern "C" __attribute__((noinline)) void
#define KEEP  __asm__ volatile("" ::: "memory")

static const int count = 200;
static void *block[count];
static int next;

static void *volatile sink;

static void *one() {
    return block[next++];
}

PLACE by_free_40() {
    for (int i = 0; i < 40; i++)
        free(one());
    KEEP;
}
PLACE by_delete_20() {
    for (int i = 0; i < 20; i++)
        operator delete(one());
    KEEP;
}
PLACE by_sized_delete_10() {
    for (int i = 0; i < 10; i++)
        operator delete(one(), size_t(100));
    KEEP;
}
PLACE by_resizing_15() {
    for (int i = 0; i < 15; i++)
        sink = realloc(one(), 0);
    KEEP;
}
PLACE by_moving_25() {
    for (int i = 0; i < 25; i++)
        sink = realloc(one(), 5000);
    KEEP;
}
PLACE by_large_5() {
    for (int i = 0; i < 5; i++) {
        sink = malloc(1 << 20);
        free(sink);
    }
    KEEP;
}
static void *in_thread(void *) {
    for (int i = 0; i < 30; i++)
        free(one());
    KEEP;
    return nullptr;
}

int main() {
    for (void *&b : block)
        b = operator new(100);
    by_free_40();
    by_delete_20();
    by_sized_delete_10();
    by_resizing_15();
    by_moving_25();
    by_large_5();
    pthread_t thread;
    if (pthread_create(&thread, nullptr, in_thread, nullptr) != 0)
        return 1;
    pthread_join(thread, nullptr);
    return 0;
}
