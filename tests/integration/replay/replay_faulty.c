/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator to preload with one fault, which MALLOC_FAULT names: "overlap"
 * gives now and then a block that reaches into the one before, "zeros" does not
 * clear calloc's memory, "misalign" gives odd addresses, "scribble" writes into
 * a live block, "move" loses the last byte when it moves a block, "small" tells
 * of too small a usable size, "crash" fails in its 5,000th call, "abort" in a
 * calloc of more than 1,000 bytes, "third" refuses each third request. It
 * begins with its 3,000th call or with that in MALLOC_FAULT_FROM. It is right
 * without a name, with "never", which uses no memory again, and with "poison",
 * which fills what it gives and takes.
 */
#define _GNU_SOURCE
#include "../../lib/small_allocator.h"

#include <stdlib.h>

static unsigned long calls;
static char *last;
static const char *fault;

static int is(const char *name) {
    static unsigned long from = 3000;
    if (fault == NULL) {
        fault = small_setting("MALLOC_FAULT");
        const char *first = small_setting("MALLOC_FAULT_FROM");
        if (*first != '\0')
            from = strtoul(first, NULL, 10);
    }
    /* one block that came back shows that others do */
    return (calls > from || strcmp(name, "never") == 0) &&
           strcmp(fault, name) == 0;
}

static void enter(void) {
    small_lock();
    calls++;
}

static void *give(size_t size) {
    enter();
    if (is("crash") && calls >= 5000)
        abort();
    if (is("third") && calls % 3 == 0) {
        small_unlock();
        return small_result(NULL);
    }
    char *p = small_take(size);
    if (p != NULL && (is("poison") || is("zeros")))
        memset(p, 0xaa, size);
    if (is("overlap") && calls % 100 == 0 && last != NULL)
        p = last + 8;
    else if (is("misalign") && calls % 100 == 0 && size > 64)
        p += 4;
    if (is("scribble") && calls % 100 == 0 && last != NULL)
        *last ^= 1;
    last = size >= 64 ? p : NULL;
    small_unlock();
    return small_result(p);
}

void *malloc(size_t size) {
    return give(size);
}

void free(void *p) {
    if (p == NULL)
        return;
    enter();
    if (p == last)
        last = NULL;
    if (is("poison"))
        memset(p, 0xdd, small_size(p));
    /* wrong blocks are not taken back */
    if (!is("overlap") && !is("misalign") && !is("never"))
        small_give(p);
    small_unlock();
}

void *calloc(size_t n, size_t size) {
    size_t all = small_product(n, size);
    if (is("abort") && all > 1000)
        abort();
    /* A compiler makes a call of calloc of malloc and memset. */
    void *p = give(all);
    if (p != NULL && !is("zeros"))
        memset(p, 0, all);
    return p;
}

void *realloc(void *p, size_t size) {
    void *q = give(size);
    if (p == NULL || q == NULL)
        return q;
    size_t old = small_size(p);
    if (old > size)
        old = size;
    memcpy(q, p, is("move") && old > 0 ? old - 1 : old);
    free(p);
    return q;
}

size_t malloc_usable_size(void *p) {
    size_t size = small_size(p);
    return is("small") && size > 100 ? size - 1 : size;
}
