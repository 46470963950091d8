/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong frees of each kind, in functions whose names begin with what they do;
 * while they are recorded the program lives on.
 *
 * wrong_frees_target          those that are found on any path
 * wrong_frees_target all      and those for which each free is looked at
 * wrong_frees_target clean    none, in many threads, over and over
 * wrong_frees_target again    none, of blocks that were freed while they were
 *                             recorded, allocated again while nothing was, and
 *                             freed in the next recording, to FILE again
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>

/* Hidden from the compiler, which knows these to be wrong. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;
static void *(*volatile make)(size_t) = ::operator new;
static void *(*volatile make_array)(size_t) = ::operator new[];
static void (*volatile drop)(void *) = ::operator delete;
static void (*volatile drop_array)(void *) = ::operator delete[];
static void (*volatile drop_sized)(void *, size_t) = ::operator delete;
static void (*volatile drop_array_sized)(void *, size_t) = ::operator delete[];
static void *(*volatile make_aligned)(size_t,
                                      std::align_val_t) = ::operator new;
static void (*volatile drop_aligned)(void *,
                                     std::align_val_t) = ::operator delete;

static char in_data[64];
static void *volatile kept;

#define CASE extern "C" __attribute__((noinline)) void

/* --- Twice ---------------------------------------------------------------- */

CASE twice_in_a_row() {
    void *p = take(40);
    give(p);
    give(p);
}

CASE twice_with_another_between() {
    void *a = take(100), *b = take(100);
    give(a);
    give(b);
    give(a);
}

static void *give_it(void *p) {
    give(p);
    return nullptr;
}

CASE twice_in_two_threads() {
    void *p = take(300);
    pthread_t id;
    if (pthread_create(&id, nullptr, give_it, p) == 0)
        pthread_join(id, nullptr);
    give(p);
}

CASE twice_after_many() {
    void *p = take(700), *more[500];
    for (void *&m : more)
        m = take(700);
    give(p);
    for (void *&m : more)
        give(m);
    give(p);
    kept = take(9000);
}

CASE twice_large() {
    void *p = take(3000000);
    give(p);
    give(p);
}

CASE twice_after_realloc() {
    void *p = take(24);
    kept = resize(p, 5000);
    give(p);
    give(kept);
}

CASE twice_by_delete() {
    void *p = make(72);
    drop(p);
    drop(p);
}

CASE twice_by_delete_array() {
    void *p = make_array(200);
    drop_array(p);
    drop_array(p);
}

CASE twice_by_resizing() {
    char *p = (char *)take(60);
    memset(p, 'x', 60);
    give(p);
    p = (char *)resize(p, 200);
    if (p != nullptr && strncmp(p, "xxxx", 4) != 0)
        puts("not the contents");
    give(p);
}

CASE twice_to_nothing() {
    void *p = take(900);
    give(p);
    kept = resize(p, 0);
}

/* --- Inside, and no block ------------------------------------------------- */

CASE inside_large() {
    char *p = (char *)take(3000000);
    give(p + 16);
    give(p);
}

CASE inside_large_page() {
    char *p = (char *)take(3000000);
    give(p + 1000001);
    give(p);
}

CASE inside_small() {
    char *p = (char *)take(100);
    give(p + 32);
    give(p);
}

CASE inside_small_odd() {
    char *p = (char *)take(5000);
    give(p + 1);
    give(p);
}

CASE inside_array() {
    char *p = (char *)make_array(80);
    drop_array(p + 8);
    drop_array(p);
}

CASE no_block_stack() {
    char here[64];
    void *volatile p = here;
    give(p);
}

CASE no_block_data() {
    give(in_data);
    kept = nullptr; /* no jump in place of the call */
}

CASE no_block_realloc() {
    if (resize(in_data, 100) != nullptr)
        puts("a block of no block");
}

/* --- Kinds and sizes ------------------------------------------------------ */

CASE kind_new_free() {
    give(make(40));
}

CASE kind_malloc_delete() {
    drop(take(40));
}

CASE kind_malloc_delete_array() {
    drop_array(take(40));
}

CASE kind_array_delete() {
    drop(make_array(40));
}

CASE kind_new_delete_array() {
    drop_array(make(40));
}

CASE kind_new_realloc() {
    give(resize(make(40), 50));
}

CASE kind_aligned_delete() {
    drop(make_aligned(64, std::align_val_t(64)));
}

CASE size_larger() {
    drop_sized(make(40), 400);
}

CASE size_of_array() {
    drop_array_sized(make_array(400), 40);
}

CASE size_of_same_class() {
    drop_sized(make(40), 44);
}

/* --- Right ---------------------------------------------------------------- */

static void *clean(void *) {
    void *block[64] = {};
    unsigned seed = 1;
    for (unsigned i = 0; i < 40000; i++) {
        seed = seed * 1103515245 + 12345;
        void *&b = block[seed >> 16 & 63];
        size_t size = seed >> 22 & 1023;
        if (i % 1000 == 0)
            size = 400000;
        if (b == nullptr)
            b = take(size);
        else if (seed >> 8 & 1)
            b = resize(b, size + 1);
        else {
            give(b);
            b = nullptr;
        }
        if (i % 7 == 0)
            drop_sized(make(size), size);
        if (i % 11 == 0)
            drop_aligned(make_aligned(size, std::align_val_t(128)),
                         std::align_val_t(128));
    }
    for (void *b : block)
        give(b);
    return nullptr;
}

static int run_clean() {
    pthread_t id[4];
    for (unsigned round = 0; round < 5; round++) {
        for (pthread_t &i : id)
            if (pthread_create(&i, nullptr, clean, nullptr) != 0)
                return 1;
        for (pthread_t &i : id)
            pthread_join(i, nullptr);
    }
    return 0;
}

extern "C" bool malloc_trace_start(const char *) __attribute__((weak));
extern "C" bool malloc_trace_stop() __attribute__((weak));

static void *recorded[600];

static void take_all() {
    for (size_t i = 0; i < sizeof(recorded) / sizeof(*recorded); i++)
        recorded[i] = take(i % 50 == 0 ? 300000 : 8 * (i % 40));
}

static void give_all() {
    for (void *p : recorded)
        give(p);
}

static int run_again(const char *file) {
    if (malloc_trace_start == nullptr || malloc_trace_stop == nullptr)
        return 1;
    for (unsigned i = 0; i < 3; i++) {
        take_all();
        give_all();
        malloc_trace_stop();
        take_all();
        if (!malloc_trace_start(file))
            return 1;
        give_all();
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    bool all = strcmp(what, "all") == 0;
    bool sizes = getenv("WITHOUT_SIZES") == nullptr;
    if (strcmp(what, "clean") == 0)
        return run_clean();
    if (strcmp(what, "again") == 0)
        return run_again(argc > 2 ? argv[2] : nullptr);
    twice_in_a_row();
    twice_with_another_between();
    twice_in_two_threads();
    twice_after_many();
    twice_large();
    twice_after_realloc();
    twice_by_delete();
    twice_by_delete_array();
    twice_by_resizing();
    twice_to_nothing();
    inside_large();
    inside_large_page();
    if (all) {
        inside_small();
        inside_small_odd();
        inside_array();
    }
    no_block_stack();
    no_block_data();
    no_block_realloc();
    kind_new_free();
    kind_malloc_delete();
    kind_malloc_delete_array();
    kind_array_delete();
    kind_new_delete_array();
    kind_new_realloc();
    kind_aligned_delete();
    if (sizes) {
        size_larger();
        size_of_array();
    }
    if (all && sizes)
        size_of_same_class();
    /* The heap is whole. */
    clean(nullptr);
    puts("end");
    return 0;
}
