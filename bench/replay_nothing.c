/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A malloc that does next to nothing, to be preloaded under replay: what then
 * remains is the replayer's own share. Blocks come from a small ring of memory
 * again and again, so that touching them costs no cache misses either. Only the
 * first blocks of a process are lasting: replay's decoding process needs a few.
 *
 * Not for any other program: live blocks overlap.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RING_SIZE ((size_t)64 << 10)
#define PART      ((size_t)4 << 10) /* larger blocks share memory of theirs */
#define LASTING   1000              /* blocks */

void *malloc(size_t size);
void free(void *p);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
int posix_memalign(void **p, size_t align, size_t size);

static char ring[RING_SIZE] __attribute__((aligned(4096)));
static size_t at;

static unsigned lasting_left = LASTING;

static void *map(size_t length) {
    void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED)
        return p;
    errno = ENOMEM;
    return NULL;
}

static void *large(size_t size) {
    static char *place;
    static size_t room;
    if (size > room) {
        room = (size + 65535) & ~(size_t)65535;
        place = map(room);
        if (place == NULL)
            room = 0;
    }
    return place;
}

__attribute__((noinline, cold)) static void *lasting(size_t size) {
    static char *place;
    static size_t room;
    size_t asked = size;
    size = ((size + 63) & ~(size_t)63) + 64; /* its size stands before it */
    lasting_left--;
    if (size > room) {
        size_t length = size > RING_SIZE ? size : RING_SIZE;
        char *p = map(length);
        if (p == NULL)
            return NULL;
        place = p;
        room = length;
    }
    char *p = place + 64;
    place += size;
    room -= size;
    memcpy(p - sizeof(asked), &asked, sizeof(asked));
    return p;
}

void *malloc(size_t size) {
    if (__builtin_expect(lasting_left != 0, 0))
        return lasting(size);
    if (__builtin_expect(size > PART, 0))
        return large(size);
    at = (at + 64) & (RING_SIZE - PART - 1);
    return ring + at;
}

void free(void *p) {
    (void)p;
}

/* Lasting blocks are zero when new; nobody looks into the others. */
void *calloc(size_t n, size_t size) {
    return malloc(n * size);
}

/* Contents are kept while all blocks are lasting ones. */
void *realloc(void *p, size_t size) {
    size_t old = 0;
    if (lasting_left != 0 && p != NULL)
        memcpy(&old, (char *)p - sizeof(old), sizeof(old));
    void *q = malloc(size);
    if (q != NULL && old != 0)
        memcpy(q, p, old < size ? old : size);
    return q;
}

int posix_memalign(void **p, size_t align, size_t size) {
    *p = align > PART ? large(size + align) : malloc(PART);
    *p = (void *)(((uintptr_t)*p + align - 1) & ~(uintptr_t)(align - 1));
    return 0;
}
