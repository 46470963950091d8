/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workloads of one thread with blocks of pages: medium and large ones with
 * random lifetimes, buffers that grow, large zeroed blocks.
 */
#include "bench.h"

enum { PAGE = 4096 };
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* --- Random lifetimes ------------------------------------------------------
 */

/* N steps over SLOTS slots of 2^LOW to 2^(LOW + OCTAVES) bytes, log-uniform;
   a byte in each TOUCH bytes is written, or in none but the last with 0. */
static uint64_t random_lives(uint64_t n, unsigned slots, unsigned low,
                             unsigned octaves, size_t touch) {
    void **slot = calloc(slots, sizeof *slot);
    if (!slot)
        abort();
    uint64_t s = 41;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % slots);
        size_t size = bench_log_size(r, low, octaves);
        free(slot[k]);
        char *p = bench_take(size);
        bench_touch(p, size, touch ? touch : size);
        slot[k] = p;
    }
    for (unsigned k = 0; k < slots; k++)
        free(slot[k]);
    free(slot);
    return 2 * n;
}

static uint64_t run_medium(double scale) {
    return random_lives(bench_count(scale, 2e6), 500, 12, 6, PAGE);
}
static uint64_t run_huge(double scale) {
    return random_lives(bench_count(scale, 400), 12, 16, 10, PAGE);
}
static uint64_t run_huge_bare(double scale) {
    return random_lives(bench_count(scale, 100e3), 12, 16, 10, 0);
}

static uint64_t run_large(double scale) {
    enum { SLOTS = 40 };
    static void *slot[SLOTS];
    uint64_t n = bench_count(scale, 100e3), s = 11;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)(r % SLOTS);
        size_t size = (size_t)256 << 10;
        size += (r >> 8) % (4u << 20);
        free(slot[k]);
        char *p = bench_take(size);
        for (size_t at = 0; at < size; at += 65536)
            p[at] = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    return 2 * n;
}

/* --- Growth ----------------------------------------------------------------
 */

static char *grow(char *p, size_t from, size_t to) {
    p = bench_hide(realloc(p, to));
    if (!p)
        abort();
    for (size_t at = from; at < to; at += PAGE)
        p[at] = 1;
    p[to - 1] = 1;
    return p;
}

static uint64_t run_realloc(double scale) {
    uint64_t n = bench_count(scale, 200e3), ops = 0, s = 13;
    for (uint64_t i = 0; i < n; i++) {
        size_t size = 16, end = 64 + bench_random(&s) % 40000;
        char *p = bench_take(size), *keep = bench_take(100);
        while (size < end) {
            size += size / 8 + 8;
            p = bench_hide(realloc(p, size));
            if (!p)
                abort();
            p[size - 1] = 1;
            ops++;
        }
        free(p);
        free(keep);
        ops += 4;
    }
    return ops;
}

/* Grows blocks like the buffer of a line reader: by 32 bytes each time. */
static uint64_t run_realloc_steps(double scale) {
    uint64_t n = bench_count(scale, 1e6), ops = 0, s = 43;
    char *keep = NULL;
    for (uint64_t i = 0; i < n; i++) {
        size_t size = 32, end = 64 + bench_random(&s) % 4000;
        char *p = bench_take(size);
        for (; size < end; size += 32, ops++)
            p = grow(p, size, size + 32);
        free(keep); /* one block of before stays behind the growing one */
        keep = p;
        ops += 2;
    }
    free(keep);
    return ops;
}

static uint64_t run_realloc_double(double scale) {
    uint64_t n = bench_count(scale, 30e3), ops = 0;
    for (uint64_t i = 0; i < n; i++) {
        char *p = bench_take(16);
        for (size_t size = 16; size < MIB; size *= 2, ops++)
            p = grow(p, size, size * 2);
        free(p);
        ops += 2;
    }
    return ops;
}

static uint64_t run_realloc_large(double scale) {
    uint64_t n = bench_count(scale, 15), ops = 0;
    for (uint64_t i = 0; i < n; i++) {
        size_t size = 64 * KIB, next;
        char *p = bench_take(size), *other = NULL;
        for (; size < 64 * MIB; size = next, ops += 3) {
            next = size + size / 4;
            p = grow(p, size, next);
            /* other blocks come between */
            free(other);
            other = bench_take(16 * KIB);
            *other = 1;
        }
        free(p);
        free(other);
        ops += 3;
    }
    return ops;
}

static uint64_t run_realloc_many(double scale) {
    enum { BUFFERS = 500 };
    static char *buffer[BUFFERS];
    static size_t size[BUFFERS];
    uint64_t n = bench_count(scale, 1e6), s = 47;
    for (uint64_t i = 0; i < n; i++) {
        unsigned k = (unsigned)((bench_random(&s) >> 40) % BUFFERS);
        if (size[k] > 128 * KIB) {
            free(buffer[k]);
            buffer[k] = NULL;
            size[k] = 0;
        } else {
            size_t next = size[k] + size[k] / 2 + 64;
            buffer[k] = grow(buffer[k], size[k], next);
            size[k] = next;
        }
    }
    for (unsigned k = 0; k < BUFFERS; k++)
        free(buffer[k]);
    return n;
}

/* --- Zeroed ----------------------------------------------------------------
 */

static uint64_t run_calloc_large(double scale) {
    enum { SLOTS = 10 };
    static void *slot[SLOTS];
    uint64_t n = bench_count(scale, 10e3), s = 53;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        size_t size = 256 * KIB + (r >> 8) % (2 * MIB);
        free(slot[k]);
        char *p = bench_hide(calloc(1, size));
        if (!p)
            abort();
        bench_touch(p, size, PAGE);
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    return 2 * n;
}

/* N tables of LEAST to LEAST + MORE bytes that stay, of which one page in eight
   is used. */
static uint64_t fresh_tables(uint64_t n, size_t least, size_t more) {
    enum { MOST = 4000 };
    static void *kept[MOST];
    uint64_t s = 59;
    if (n > MOST)
        n = MOST;
    for (uint64_t i = 0; i < n; i++) {
        size_t size = least + bench_random(&s) % more;
        char *p = bench_hide(calloc(size / 8, 8));
        if (!p)
            abort();
        bench_touch(p, size / 8 * 8, 8 * PAGE);
        kept[i] = p;
    }
    for (uint64_t i = 0; i < n; i++)
        free(kept[i]);
    return 2 * n;
}

static uint64_t run_calloc_medium_fresh(double scale) {
    return fresh_tables(bench_count(scale, 4000), 32 * KIB, 224 * KIB);
}
static uint64_t run_calloc_large_fresh(double scale) {
    return fresh_tables(bench_count(scale, 1000), 256 * KIB, 2 * MIB);
}

/* --- Partly written ------------------------------------------------------- */

/* Connections with a buffer each, of which one page is used; stacks of fibres,
   used at their end; windows of compressors, written by half. */
static uint64_t run_buffers(double scale) {
    enum { SLOTS = 400 };
    static char *slot[SLOTS];
    uint64_t n = bench_count(scale, 1e6), s = 61;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        size_t size = k < 300   ? 64 * KIB
                      : k < 350 ? 256 * KIB
                                : 16 * KIB + (r >> 8) % (112 * KIB);
        free(slot[k]);
        char *p = bench_hide(malloc(size));
        if (!p)
            abort();
        if (k < 300)
            memset(p, 1, 3000);
        else if (k < 350)
            memset(p + size - 6000, 1, 6000);
        else
            memset(p, 1, size / 2);
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    return 2 * n;
}

static const struct workload list[] = {
    {"medium", "500 slots, 4 to 256 KiB, each page written", run_medium},
    {"large", "40 slots of 256 KiB to 4 MiB", run_large},
    {"huge", "12 slots, 64 KiB to 64 MiB, each page written", run_huge},
    {"huge-bare", "the same, hardly written to", run_huge_bare},
    {"realloc", "buffers growing by an eighth to 40 kB", run_realloc},
    {"realloc-steps", "buffers growing by 32 bytes to 4 kB", run_realloc_steps},
    {"realloc-double", "buffers growing from 16 bytes to 1 MiB by doubling",
     run_realloc_double},
    {"realloc-large", "a buffer growing by a quarter to 64 MiB",
     run_realloc_large},
    {"realloc-many", "500 buffers growing at once to 128 KiB",
     run_realloc_many},
    {"calloc-medium-fresh",
     "zeroed blocks of 32 to 256 KiB that stay, one "
     "page in eight written",
     run_calloc_medium_fresh},
    {"calloc-large", "zeroed blocks of 256 KiB to 2.2 MiB, memory used before",
     run_calloc_large},
    {"calloc-large-fresh", "such blocks, staying, one page in eight written",
     run_calloc_large_fresh},
    {"buffers", "400 buffers, stacks and windows of 16 to 256 KiB, partly used",
     run_buffers},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
