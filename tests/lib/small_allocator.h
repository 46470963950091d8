/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small correct allocator, the base of preloaded libraries that have one fault.
 * Blocks are powers of two from 32 bytes on, their first 16 bytes hold the
 * size, and there is a free list for each power.
 *
 * Threads: any, between small_lock and small_unlock.
 */
#ifndef TESTS_LIB_SMALL_ALLOCATOR_H
#define TESTS_LIB_SMALL_ALLOCATOR_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL_HEAD = 16, SMALL_CHUNK = 4 << 20 };

static int small_taken;
static void *small_free_list[64];
static char *small_room;
static size_t small_left;

static inline void small_lock(void) {
    while (__atomic_exchange_n(&small_taken, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}
static inline void small_unlock(void) {
    __atomic_store_n(&small_taken, 0, __ATOMIC_RELEASE);
}

/* Returns the value of an environment variable, "" if it is not set. getenv may
   not be ready at the first request. */
static inline const char *small_setting(const char *name) {
    extern char **environ;
    size_t n = strlen(name);
    for (char **e = environ; e != NULL && *e != NULL; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return "";
}

static inline char *small_map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static inline int small_power(size_t size) {
    size_t need = (size < SMALL_HEAD ? SMALL_HEAD : size) + SMALL_HEAD;
    return 64 - __builtin_clzl(need - 1);
}

/* Returns the memory of a freed block; NULL: there is none. */
static inline char *small_again(int power) {
    char *p = small_free_list[power];
    if (p != NULL)
        memcpy(&small_free_list[power], p + SMALL_HEAD, sizeof(void *));
    return p;
}

/* Returns memory that was never used; NULL: out of memory. */
static inline char *small_new(size_t bytes) {
    if (bytes > small_left) {
        small_left = bytes > SMALL_CHUNK ? bytes : SMALL_CHUNK;
        small_room = small_map(small_left);
        if (small_room == NULL) {
            small_left = 0;
            return NULL;
        }
    }
    char *p = small_room;
    small_room += bytes;
    small_left -= bytes;
    return p;
}

/* Makes a block of SIZE in the memory at P; NULL stays NULL. */
static inline void *small_block(char *p, size_t size) {
    if (p == NULL)
        return NULL;
    memcpy(p, &size, sizeof(size));
    return p + SMALL_HEAD;
}

/* Allocates a block, reused or new. */
static inline void *small_take(size_t size) {
    if (size >= (size_t)1 << 40)
        return NULL;
    int power = small_power(size);
    char *p = small_again(power);
    return small_block(p != NULL ? p : small_new((size_t)1 << power), size);
}

static inline size_t small_size(const void *block) {
    size_t size;
    memcpy(&size, (const char *)block - SMALL_HEAD, sizeof(size));
    return size;
}

static inline void small_give(void *block) {
    int power = small_power(small_size(block));
    memcpy(block, &small_free_list[power], sizeof(void *));
    small_free_list[power] = (char *)block - SMALL_HEAD;
}

/* Result of malloc for BLOCK: sets errno if it is NULL. */
static inline void *small_result(void *block) {
    if (block == NULL)
        errno = ENOMEM;
    return block;
}

/* Returns N * SIZE, or on overflow a size that is too large for any block. */
static inline size_t small_product(size_t n, size_t size) {
    size_t all;
    return __builtin_mul_overflow(n, size, &all) ? PTRDIFF_MAX : all;
}

/* Defines the rest of the family by malloc and free. */
#define SMALL_DEFINE_OTHERS                                                    \
    void *calloc(size_t n, size_t size) {                                      \
        size_t all = small_product(n, size);                                   \
        void *p = malloc(all);                                                 \
        if (p != NULL)                                                         \
            memset(p, 0, all);                                                 \
        return p;                                                              \
    }                                                                          \
                                                                               \
    void *realloc(void *p, size_t size) {                                      \
        void *q = malloc(size);                                                \
        if (p == NULL || q == NULL)                                            \
            return q;                                                          \
        size_t old = small_size(p);                                            \
        memcpy(q, p, old < size ? old : size);                                 \
        free(p);                                                               \
        return q;                                                              \
    }                                                                          \
                                                                               \
    size_t malloc_usable_size(void *p) {                                       \
        return small_size(p);                                                  \
    }

#endif
