/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator to preload that is worse by as much as it is told to be:
 * MALLOC_WASTE steps of a chain of multiplications in each call, MALLOC_FAT per
 * cent of memory that is written and never used.
 *
 * Blocks of powers of two with 16 bytes before them for the size, under one
 * lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HEAD = 16, CHUNK = 4 << 20 };

static int taken, ready;
static void *list[64];
static char *room, *fat_room;
static size_t left, fat_left, fat_due;
static unsigned long waste, fat;
static volatile uint64_t sink;

static unsigned long setting(const char *name) {
    extern char **environ;
    size_t n = strlen(name);
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        unsigned long v = 0;
        if (strncmp(*e, name, n) != 0 || (*e)[n] != '=')
            continue;
        for (const char *p = *e + n + 1; *p >= '0' && *p <= '9'; p++)
            v = 10 * v + (unsigned long)(*p - '0');
        return v;
    }
    return 0;
}

static void enter(void) {
    while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE) != 0)
        ;
    if (!ready) {
        ready = 1;
        waste = setting("MALLOC_WASTE");
        fat = setting("MALLOC_FAT");
    }
    uint64_t x = 3;
    for (unsigned long i = 0; i < waste; i++)
        x *= x;
    if (waste != 0)
        sink = x;
}

static void leave(void) {
    __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
}

static void *map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Of BYTES new ones, the share that is wasted. */
static void be_fat(size_t bytes) {
    fat_due += bytes * fat / 100;
    while (fat_due >= 4096) {
        if (fat_left == 0) {
            fat_room = map(CHUNK);
            fat_left = fat_room == NULL ? 0 : CHUNK;
        }
        if (fat_left == 0)
            return;
        *fat_room = 1;
        fat_room += 4096;
        fat_left -= 4096;
        fat_due -= 4096;
    }
}

static void *take(size_t size) {
    if (size > PTRDIFF_MAX - HEAD)
        return NULL;
    int k = 64 - __builtin_clzl((size < HEAD ? HEAD : size) + HEAD - 1);
    size_t bytes = (size_t)1 << k;
    char *p = list[k];
    if (p != NULL) {
        memcpy(&list[k], p + HEAD, sizeof(void *));
    } else {
        if (left < bytes) {
            left = bytes > CHUNK ? bytes : CHUNK;
            room = map(left);
        }
        if (room == NULL) {
            left = 0;
            return NULL;
        }
        p = room;
        room += bytes;
        left -= bytes;
        be_fat(size);
    }
    memcpy(p, &size, sizeof(size));
    return p + HEAD;
}

static size_t size_of(const void *p) {
    size_t size;
    memcpy(&size, (const char *)p - HEAD, sizeof(size));
    return size;
}

void *malloc(size_t size) {
    enter();
    void *p = take(size);
    leave();
    if (p == NULL)
        errno = ENOMEM;
    return p;
}

void free(void *p) {
    if (p == NULL)
        return;
    size_t size = size_of(p);
    int k = 64 - __builtin_clzl((size < HEAD ? HEAD : size) + HEAD - 1);
    enter();
    memcpy(p, &list[k], sizeof(void *));
    list[k] = (char *)p - HEAD;
    leave();
}

void *calloc(size_t n, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = malloc(all);
    if (p != NULL)
        memset(p, 0, all);
    return p;
}

void *realloc(void *old, size_t size) {
    void *p = malloc(size);
    if (old == NULL || p == NULL)
        return p;
    size_t before = size_of(old);
    memcpy(p, old, before < size ? before : size);
    free(old);
    return p;
}
