/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator to preload that is worse by as much as it is told to be:
 * MALLOC_WASTE steps of a chain of multiplications in each call, MALLOC_FAT per
 * cent of memory that is written and never used.
 */
#define _GNU_SOURCE
#include "../tests/lib/small_allocator.h"

#include <stdlib.h>

static int ready;
static char *fat_room;
static size_t fat_left, fat_due;
static unsigned long waste, fat;
static volatile uint64_t sink;

static void enter(void) {
    small_lock();
    if (!ready) {
        ready = 1;
        waste = strtoul(small_setting("MALLOC_WASTE"), NULL, 10);
        fat = strtoul(small_setting("MALLOC_FAT"), NULL, 10);
    }
    uint64_t x = 3;
    for (unsigned long i = 0; i < waste; i++)
        x *= x;
    if (waste != 0)
        sink = x;
}

/* Wastes the given share of BYTES new ones. */
static void be_fat(size_t bytes) {
    fat_due += bytes * fat / 100;
    while (fat_due >= 4096) {
        if (fat_left == 0) {
            fat_room = small_map(SMALL_CHUNK);
            fat_left = fat_room == NULL ? 0 : SMALL_CHUNK;
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
    if (size >= (size_t)1 << 40)
        return NULL;
    int power = small_power(size);
    char *p = small_again(power);
    if (p == NULL) {
        p = small_new((size_t)1 << power);
        be_fat(size);
    }
    return small_block(p, size);
}

void *malloc(size_t size) {
    enter();
    void *p = take(size);
    small_unlock();
    return small_result(p);
}

void free(void *p) {
    if (p == NULL)
        return;
    enter();
    small_give(p);
    small_unlock();
}

void *calloc(size_t n, size_t size) {
    size_t all = small_product(n, size);
    void *p = malloc(all);
    if (p != NULL)
        memset(p, 0, all);
    return p;
}

void *realloc(void *old, size_t size) {
    void *p = malloc(size);
    if (old == NULL || p == NULL)
        return p;
    size_t before = small_size(old);
    memcpy(p, old, before < size ? before : size);
    free(old);
    return p;
}
