/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the C library that are wrapped by the linker (--wrap), and the
 * call that the compiler puts into each basic block.
 */
#include "tests/fuzz/fuzz_work.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t steps;
static int64_t held, most;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    steps++;
}

void fuzz_work_begin(void) {
    steps = 0;
    most = held;
    held = 0;
    most = 0;
}

struct fuzz_work fuzz_work_end(void) {
    return (struct fuzz_work){steps, (uint64_t)most};
}

#define WRAP(result, name, ...)                                                \
    result __real_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)

/* --- Memory --------------------------------------------------------------- */

static void *came(void *p) {
    if (p != NULL)
        held += (int64_t)malloc_usable_size(p);
    if (held > most)
        most = held;
    return p;
}

static void goes(void *p) {
    if (p != NULL)
        held -= (int64_t)malloc_usable_size(p);
}

WRAP(void *, malloc, size_t n) {
    return came(__real_malloc(n));
}

WRAP(void *, calloc, size_t n, size_t size) {
    steps += n * size / 16;
    return came(__real_calloc(n, size));
}

WRAP(void *, aligned_alloc, size_t align, size_t n) {
    return came(__real_aligned_alloc(align, n));
}

WRAP(void *, realloc, void *p, size_t n) {
    goes(p);
    return came(__real_realloc(p, n));
}

WRAP(void, free, void *p) {
    goes(p);
    __real_free(p);
}

/* --- Bytes that are moved ------------------------------------------------- */

WRAP(void *, memcpy, void *to, const void *from, size_t n) {
    steps += n / 16;
    return __real_memcpy(to, from, n);
}

WRAP(void *, memmove, void *to, const void *from, size_t n) {
    steps += n / 16;
    return __real_memmove(to, from, n);
}

WRAP(void *, memset, void *to, int c, size_t n) {
    steps += n / 16;
    return __real_memset(to, c, n);
}

/* --- Chance --------------------------------------------------------------- */

/* Makes each run count the same. */
WRAP(ssize_t, getrandom, void *buf, size_t n, unsigned flags) {
    (void)flags;
    __real_memset(buf, 0x5A, n);
    return (ssize_t)n;
}
