/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room that realloc gives a growing block is there for the next steps: a
 * request that the block can hold leaves it where it is, as long as it was.
 */
#include "api/export.h"
#include "core/heap.h"
#include "prng.h"
#include "tap.h"

#include <string.h>

void *TCM_EXPORT(malloc)(size_t size);
void *TCM_EXPORT(realloc)(void *ptr, size_t size);
void TCM_EXPORT(free)(void *ptr);

#define ROUNDS  200
#define SLOTS   64
#define STEPS   200000
#define LONGEST ((size_t)400 << 10)

/* A buffer grows by an eighth to 64 KiB with nothing behind it: from 16 KiB on
   it has pages of its own, which are free, and is copied no more. */
static void test_small_steps(void) {
    uint64_t moved = 0, shrunk = 0, wrong = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = 1000;
        unsigned char *p = TCM_EXPORT(malloc)(size);
        memset(p, (int)round, size);
        while (size < 64 << 10) {
            size_t room = tcm_block_info(p).size;
            size_t next = size + size / 8;
            unsigned char *q = TCM_EXPORT(realloc)(p, next);
            wrong += q[0] != (unsigned char)round ||
                     q[size - 1] != (unsigned char)round;
            memset(q + size, (int)round, next - size);
            moved += q != p && size > 16 << 10;
            shrunk += tcm_block_info(q).size < room;
            p = q;
            size = next;
        }
        TCM_EXPORT(free)(p);
    }
    tap_is_u64(moved, 0, "a buffer with pages of its own grows in place");
    tap_is_u64(shrunk, 0, "and never loses room");
    tap_is_u64(wrong, 0, "and keeps its bytes");
}

struct buffer {
    unsigned char *p;
    size_t size;
};

/* Buffers that grow and shrink beside each other. */
static void test_random_steps(void) {
    static struct buffer list[SLOTS];
    struct prng random;
    uint64_t fits = 0, left = 0, wrong = 0, half = 0;
    prng_seed(&random, 31);
    for (unsigned step = 0; step < STEPS; step++) {
        struct buffer *b = &list[prng_below(&random, SLOTS)];
        if (b->size > LONGEST || b->p == NULL) {
            TCM_EXPORT(free)(b->p);
            b->size = 16 + prng_below(&random, 3000);
            b->p = TCM_EXPORT(malloc)(b->size);
            b->p[0] = (unsigned char)b->size;
            continue;
        }
        size_t room = tcm_block_info(b->p).size;
        size_t next = b->size + prng_below(&random, b->size / 2 + 8);
        if (prng_below(&random, 16) == 0)
            next = 16 + prng_below(&random, b->size - 15);
        unsigned char *q = TCM_EXPORT(realloc)(b->p, next);
        wrong += q[0] != (unsigned char)b->size;
        if (next >= b->size && next <= room) {
            fits++;
            left += q != b->p || tcm_block_info(q).size != room;
        }
        /* Twice the size, and what rounding up to a page adds. */
        half += tcm_block_info(q).size > 2 * next + TCM_PAGE_SIZE;
        b->p = q;
        b->size = next;
        q[0] = (unsigned char)next;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        TCM_EXPORT(free)(list[k].p);
    tap_ok(fits > STEPS / 4, "many steps fit: %u", (unsigned)fits);
    tap_is_u64(left, 0, "none of them changes the block");
    tap_is_u64(half, 0, "no block is longer than twice its size and a page");
    tap_is_u64(wrong, 0, "bytes are kept");
}

/* A program that counts what malloc_usable_size says, as Redis does against its
   maxmemory, holds as much as with other allocators. */
static void test_room_of_steps(void) {
    size_t most = 0; /* in percent of the size */
    char *p = NULL;
    for (size_t size = 256; size < 60000; size += 50) {
        p = TCM_EXPORT(realloc)(p, size);
        size_t room = TCM_EXPORT(malloc_usable_size)(p) * 100 / size;
        most = room > most ? room : most;
    }
    TCM_EXPORT(free)(p);
    tap_ok(most <= 200, "a block that grows has at most twice its size: %zu %%",
           most);
}

int main(void) {
    test_small_steps();
    test_room_of_steps();
    test_random_steps();
    tcm_heap_verify();
    return tap_done();
}
