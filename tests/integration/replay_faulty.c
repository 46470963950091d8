/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator to preload with one fault, which MALLOC_FAULT names: "overlap"
 * gives now and then a block that reaches into the one before, "zeros" does not
 * clear calloc's memory, "misalign" gives odd addresses, "scribble" writes into
 * a live block, "move" loses the last byte when it moves a block, "never" uses
 * no memory again, "small" tells of too small a usable size, "crash" fails in
 * its 5,000th call. It begins with its 3,000th call, but for "never", so
 * that the process gets that far. Without a name it is right.
 *
 * Blocks of one power of two from 32 bytes on, of which the first 16 are for
 * the size. Under one lock.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int taken;
static void *list[64];
static char *room;
static size_t left;
static unsigned long calls;
static char *last;
static const char *fault;

static int is(const char *name) {
    if (fault == NULL) {
        extern char **environ;
        fault = "";
        for (char **e = environ; e != NULL && *e != NULL; e++)
            if (strncmp(*e, "MALLOC_FAULT=", 13) == 0)
                fault = *e + 13;
    }
    /* one block that came back shows that others do */
    return (calls > 3000 || strcmp(name, "never") == 0) &&
           strcmp(fault, name) == 0;
}

static void enter(void) {
    while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE) != 0)
        ;
    calls++;
}
static void leave(void) {
    __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
}

static int class_of(size_t need) {
    return 64 - __builtin_clzl(need - 1);
}

static char *block_new(size_t bytes) {
    if (bytes > left) {
        left = bytes > (4u << 20) ? bytes : 4u << 20;
        room = mmap(NULL, left, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            left = 0;
            return NULL;
        }
    }
    char *p = room;
    room += bytes;
    left -= bytes;
    return p;
}

static char *take(size_t size) {
    int k = class_of(size + 16 < 32 ? 32 : size + 16);
    char *p = list[k];
    if (p != NULL)
        memcpy(&list[k], p + 16, sizeof(void *));
    else
        p = block_new((size_t)1 << k);
    if (p == NULL)
        return NULL;
    memcpy(p, &size, sizeof(size));
    return p + 16;
}

void *malloc(size_t size) {
    enter();
    if (is("crash") && calls >= 5000)
        abort();
    char *p = take(size);
    if (is("overlap") && calls % 100 == 0 && last != NULL)
        p = last + 8;
    else if (is("misalign") && calls % 100 == 0 && size > 64)
        p += 4;
    if (is("scribble") && calls % 100 == 0 && last != NULL)
        *last ^= 1;
    last = size >= 64 ? p : NULL;
    leave();
    return p;
}

void free(void *p) {
    size_t size;
    if (p == NULL)
        return;
    enter();
    if (p == last)
        last = NULL;
    /* What was given wrongly is not taken back. */
    if (!is("overlap") && !is("misalign") && !is("never")) {
        memcpy(&size, (char *)p - 16, sizeof(size));
        int k = class_of(size + 16 < 32 ? 32 : size + 16);
        memcpy(p, &list[k], sizeof(void *));
        list[k] = (char *)p - 16;
    }
    leave();
}

void *calloc(size_t n, size_t size) {
    char *p = malloc(n * size);
    if (p != NULL && !is("zeros"))
        memset(p, 0, n * size);
    return p;
}

void *realloc(void *p, size_t size) {
    size_t old = 0;
    char *q = malloc(size);
    if (p == NULL || q == NULL)
        return q;
    memcpy(&old, (char *)p - 16, sizeof(old));
    if (old > size)
        old = size;
    memcpy(q, p, is("move") && old > 0 ? old - 1 : old);
    free(p);
    return q;
}

size_t malloc_usable_size(void *p) {
    size_t size;
    memcpy(&size, (char *)p - 16, sizeof(size));
    return is("small") && size > 100 ? size - 1 : size;
}
