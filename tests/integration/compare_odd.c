/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocators to preload that do what no allocator should, but serve their
 * program. ODD names which: "slow" wastes time in each call, "fat" takes three
 * times the memory and writes all of it, "hangs" waits for ever in its 3,000th
 * call, "hangs_early" in its tenth, "refuses" says no from its 3,000th call on,
 * "refuses_all" at once, "dies" ends the process in its 3,000th call as if all
 * were well, "leaks" never frees. Without a name it is right.
 *
 * Built with ODD_FORWARDS it hands all on to the C library's malloc, with
 * ODD_ONLY_MALLOC it has malloc alone, with ODD_NO_FREE all but free.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef ODD_FORWARDS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

void *malloc(size_t size) {
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) {
    return __libc_realloc(p, size);
}
void free(void *p) {
    __libc_free(p);
}

#else

/* Blocks of one power of two from 32 bytes on, of which the first 16 are for
   the size. Under one lock. */
static int taken;
static void *list[64];
static char *room;
static size_t left;
static unsigned long calls;
static const char *odd;

static int is(const char *name) {
    if (odd == NULL) {
        extern char **environ;
        odd = "";
        for (char **e = environ; e != NULL && *e != NULL; e++)
            if (strncmp(*e, "ODD=", 4) == 0)
                odd = *e + 4;
    }
    return strcmp(odd, name) == 0;
}

static void waste(void) {
    for (volatile int i = 0; i < 200; i++)
        ;
}

/* Under the lock. Whether the call is refused. */
static int enter(void) {
    while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE) != 0)
        usleep(10);
    calls++;
    if ((is("hangs") && calls == 3000) || (is("hangs_early") && calls == 10))
        for (;;)
            pause();
    if (is("dies") && calls == 3000)
        _exit(0);
    if (is("slow"))
        waste();
    return (is("refuses") && calls >= 3000) || is("refuses_all");
}
static void leave(void) {
    __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
}

static int class_of(size_t size) {
    size_t need = size + 16 < 32 ? 32 : size + 16;
    return 64 - __builtin_clzl(need - 1);
}

static char *block_new(size_t bytes) {
    size_t times = is("fat") ? 3 : 1;
    if (bytes * times > left) {
        left = bytes * times > (4u << 20) ? bytes * times : 4u << 20;
        room = mmap(NULL, left, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            left = 0;
            return NULL;
        }
    }
    char *p = room;
    if (times != 1)
        memset(p, 1, bytes * times);
    room += bytes * times;
    left -= bytes * times;
    return p;
}

void *malloc(size_t size) {
    char *p = NULL;
    if (!enter() && size < (size_t)1 << 40) {
        int k = class_of(size);
        p = list[k];
        if (p != NULL)
            memcpy(&list[k], p + 16, sizeof(void *));
        else
            p = block_new((size_t)1 << k);
    }
    leave();
    if (p == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(p, &size, sizeof(size));
    return p + 16;
}

#ifndef ODD_ONLY_MALLOC
#ifndef ODD_NO_FREE
void free(void *p) {
    size_t size;
    if (p == NULL)
        return;
    (void)enter();
    if (!is("leaks")) {
        memcpy(&size, (char *)p - 16, sizeof(size));
        int k = class_of(size);
        memcpy(p, &list[k], sizeof(void *));
        list[k] = (char *)p - 16;
    }
    leave();
}
#else
#define free(p) (void)(p)
#endif

void *calloc(size_t n, size_t size) {
    char *p = malloc(n * size);
    if (p != NULL)
        memset(p, 0, n * size);
    return p;
}

void *realloc(void *p, size_t size) {
    size_t old = 0;
    char *q = malloc(size);
    if (p == NULL || q == NULL)
        return q;
    memcpy(&old, (char *)p - 16, sizeof(old));
    memcpy(q, p, old < size ? old : size);
    free(p);
    return q;
}

size_t malloc_usable_size(void *p) {
    size_t size;
    memcpy(&size, (char *)p - 16, sizeof(size));
    return size;
}
#endif
#endif
