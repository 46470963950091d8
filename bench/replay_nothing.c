/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A malloc that does next to nothing, to be preloaded under replay: what then
 * remains is the replayer's own share. Blocks come from a small ring of memory
 * again and again, so that touching them costs no cache misses either; only
 * blocks too large for it, and what is asked for before main, are lasting.
 *
 * Not for any other program: live blocks overlap.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RING_SIZE ((size_t)64 << 10)
#define PART      ((size_t)4 << 10) /* larger blocks get memory of their own */

void *malloc(size_t size);
void free(void *p);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
int posix_memalign(void **p, size_t align, size_t size);

static char ring[RING_SIZE] __attribute__((aligned(4096)));
static size_t at;

static void *large(size_t size) {
    static char *place;
    static size_t room;
    if (size > room) {
        size_t length = (size + 65535) & ~(size_t)65535;
        void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            errno = ENOMEM;
            return NULL;
        }
        place = p;
        room = length;
    }
    return place;
}

void *malloc(size_t size) {
    if (size > PART)
        return large(size);
    at = (at + 64) & (RING_SIZE - PART - 1);
    return ring + at;
}

void free(void *p) {
    (void)p;
}

void *calloc(size_t n, size_t size) {
    return malloc(n * size);
}

void *realloc(void *p, size_t size) {
    (void)p;
    return malloc(size);
}

int posix_memalign(void **p, size_t align, size_t size) {
    *p = align > PART ? large(size + align) : malloc(PART);
    *p = (void *)(((uintptr_t)*p + align - 1) & ~(uintptr_t)(align - 1));
    return 0;
}
