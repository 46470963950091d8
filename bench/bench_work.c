/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workloads of one thread with the shapes of real programs: queues, trees,
 * strings, sizes to 16 KiB, alignment, zeroed blocks, fragmentation.
 */
#include "bench.h"

#include <malloc.h>

static uint64_t run_fifo(double scale) {
    enum { LENGTH = 10000 };
    uint64_t n = bench_count(scale, 25e6);
    static void *queue[LENGTH];
    uint64_t s = 1;
    for (uint64_t i = 0; i < n; i++) {
        unsigned k = (unsigned)(i % LENGTH);
        free(queue[k]);
        char *p = bench_take(16 + bench_random(&s) % 240);
        *p = 1;
        queue[k] = p;
    }
    for (unsigned k = 0; k < LENGTH; k++)
        free(queue[k]);
    return 2 * n;
}

struct node {
    struct node *left, *right;
    uint64_t key;
};

static struct node *make_tree(unsigned depth, uint64_t *made) {
    struct node *n = bench_take(sizeof *n);
    ++*made;
    n->key = depth;
    n->left = depth ? make_tree(depth - 1, made) : NULL;
    n->right = depth ? make_tree(depth - 1, made) : NULL;
    return n;
}

static uint64_t end_tree(struct node *n) {
    if (!n)
        return 0;
    uint64_t sum = n->key + end_tree(n->left) + end_tree(n->right);
    free(n);
    return sum;
}

static uint64_t run_trees(double scale) {
    uint64_t n = bench_count(scale, 900), made = 0;
    struct node *kept = make_tree(16, &made);
    for (uint64_t i = 0; i < n; i++)
        end_tree(make_tree(4 + (unsigned)(i % 13), &made));
    for (uint64_t i = 0; i < n * 300; i++)
        end_tree(make_tree(4, &made));
    end_tree(kept);
    return 2 * made;
}

/* Small vectors made and dropped at once, as bignum arithmetic does: more
   than half of the time is in the allocator. */
static uint64_t run_bignum(double scale) {
    uint64_t n = bench_count(scale, 20e6), s = 3, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        unsigned words = 2 + (unsigned)(bench_random(&s) & 7);
        uint64_t *a = bench_take(words * 8), *b = bench_take(words * 8 + 8);
        uint64_t carry = i;
        for (unsigned k = 0; k < words; k++) {
            a[k] = s + k;
            carry += a[k] >> 3;
            b[k] = carry;
        }
        sum += b[words - 1];
        free(a);
        free(b);
    }
    bench_hide(&sum);
    return 4 * n;
}

/* A hash table of strings that is filled, changed and emptied. */
static uint64_t run_strings(double scale) {
    enum { BUCKETS = 1 << 16 };
    struct entry {
        struct entry *next;
        char *text;
        uint64_t key;
    };
    static struct entry *table[BUCKETS];
    uint64_t n = bench_count(scale, 6e6), s = 5, ops = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s), key = r % 150000;
        struct entry **at = &table[key * 0x9E3779B1u % BUCKETS];
        while (*at && (*at)->key != key)
            at = &(*at)->next;
        if (*at) {
            struct entry *e = *at;
            *at = e->next;
            free(e->text);
            free(e);
        } else {
            struct entry *e = bench_take(sizeof *e);
            size_t length = 8 + (r >> 40) % 90;
            e->text = bench_take(length);
            memset(e->text, 'x', length);
            e->key = key;
            e->next = NULL;
            *at = e;
        }
        ops += 2;
    }
    for (unsigned b = 0; b < BUCKETS; b++)
        while (table[b]) {
            struct entry *e = table[b];
            table[b] = e->next;
            free(e->text);
            free(e);
            ops += 2;
        }
    return ops;
}

static uint64_t run_mixed(double scale) {
    return bench_mixed(bench_count(scale, 15e6), 9);
}

static uint64_t run_memalign(double scale) {
    enum { SLOTS = 2000 };
    static void *slot[SLOTS];
    uint64_t n = bench_count(scale, 10e6), s = 17;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        free(slot[k]);
        slot[k] =
            bench_hide(memalign((size_t)32 << (r & 3), 1 + (r >> 8) % 700));
        *(char *)slot[k] = 1;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    return 2 * n;
}

static uint64_t run_calloc(double scale) {
    enum { SLOTS = 2000 };
    static void *slot[SLOTS];
    uint64_t n = bench_count(scale, 12e6), s = 19;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        free(slot[k]);
        slot[k] = bench_hide(calloc(1 + (r & 7), 1 + (r >> 8) % 90));
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    return 2 * n;
}

/* Small blocks that stay: memory that was never used before. */
static uint64_t run_calloc_fresh(double scale) {
    struct item {
        struct item *next;
    } *kept = NULL;
    uint64_t n = bench_count(scale, 1.5e6), s = 21;
    for (uint64_t i = 0; i < n; i++) {
        struct item *p = bench_hide(calloc(1, 16 + bench_random(&s) % 400));
        if (!p)
            abort();
        p->next = kept;
        kept = p;
    }
    while (kept) {
        struct item *p = kept;
        kept = p->next;
        free(p);
    }
    return 2 * n;
}

/* --- Fragmentation ---------------------------------------------------------
 */

/* Live bytes beside resident ones; the rates are read from these. */
struct live {
    uint64_t now, peak, samples, sum_kib, sum_resident_kib;
};

static void live_add(struct live *l, size_t size) {
    l->now += size;
    if (l->now > l->peak)
        l->peak = l->now;
}

static void live_sample(struct live *l) {
    l->samples++;
    l->sum_kib += l->now >> 10;
    l->sum_resident_kib += bench_resident_kib();
}

static void live_tell(const struct live *l) {
    bench_tell("live_peak_kib", l->peak >> 10);
    if (l->samples) {
        bench_tell("live_steady_kib", l->sum_kib / l->samples);
        bench_tell("resident_steady_kib", l->sum_resident_kib / l->samples);
    }
}

/* Fills, frees most of it at random, fills with another size, many times: what
   is held at the end of each phase shows in the peak of resident memory. */
static uint64_t run_fragmentation(double scale) {
    enum { SLOTS = 200000 };
    static uint16_t bytes[SLOTS];
    void **slot = calloc(SLOTS, sizeof *slot);
    uint64_t n = bench_count(scale, 24), s = 23, ops = 0;
    struct live live = {0};
    for (uint64_t round = 0; round < n; round++) {
        size_t base = 16u + (unsigned)(round % 6) * 90;
        for (unsigned k = 0; k < SLOTS; k++)
            if (!slot[k]) {
                bytes[k] = (uint16_t)(base + bench_random(&s) % 80);
                char *p = bench_take(bytes[k]);
                *p = 1;
                slot[k] = p;
                live_add(&live, bytes[k]);
                ops++;
            }
        if (round >= n / 2)
            live_sample(&live);
        for (unsigned k = 0; k < SLOTS; k++)
            if (bench_random(&s) % 10) {
                free(slot[k]);
                slot[k] = NULL;
                live.now -= bytes[k];
                ops++;
            }
        if (round >= n / 2)
            live_sample(&live);
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    free(slot);
    live_tell(&live);
    return ops;
}

/*
 * A long mixed run: slots are replaced at random, nine in ten among the first
 * tenth, so that some blocks live a hundred times as long as others; the sizes
 * that are asked for drift. Resident memory is looked at 64 times in the second
 * half.
 */
static uint64_t run_long(double scale) {
    enum { SLOTS = 60000, PHASES = 16 };
    static uint32_t bytes[SLOTS];
    static void *slot[SLOTS];
    uint64_t n = bench_count(scale, 8e6), s = 25;
    uint64_t phase = n / PHASES + 1, look = n / 128 + 1;
    struct live live = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = bench_random(&s);
        unsigned in = (r >> 60) < 15 ? SLOTS / 10 : SLOTS;
        unsigned k = (unsigned)((((r >> 28) & 0xffffffff) * in) >> 32);
        /* 16 to 2^8 ... 2^12, and one in 256 of 16 to 64 KiB */
        size_t size = (r & 0xff00000) == 0
                          ? bench_log_size(r >> 32, 14, 2)
                          : bench_log_size(r, 4, 4 + (unsigned)(i / phase) % 5);
        if (slot[k]) {
            free(slot[k]);
            live.now -= bytes[k];
        }
        char *p = bench_take(size);
        bench_touch(p, size, 4096);
        slot[k] = p;
        bytes[k] = (uint32_t)size;
        live_add(&live, size);
        if (i >= n / 2 && i % look == 0)
            live_sample(&live);
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    live_tell(&live);
    return 2 * n;
}

/*
 * A spike, then a small load: 200 MB are filled and freed, and few blocks are
 * replaced for long. Resident memory is looked at in the second half.
 */
static uint64_t run_spike(double scale) {
    enum { BLOCKS = 400, SLOTS = 12 };
    static char *block[BLOCKS];
    static size_t bytes[BLOCKS];
    uint64_t n = bench_count(scale, 24000), s = 27;
    struct live live = {0};
    for (uint64_t i = 0; i < BLOCKS + n; i++) {
        unsigned k = (unsigned)(i < BLOCKS ? i : bench_random(&s) % SLOTS);
        if (i == BLOCKS)
            for (unsigned j = 0; j < BLOCKS; j++) {
                free(block[j]);
                block[j] = NULL;
                live.now -= bytes[j];
            }
        if (block[k]) {
            free(block[k]);
            live.now -= bytes[k];
        }
        bytes[k] = 65536 + bench_random(&s) % 900000;
        block[k] = bench_take(bytes[k]);
        bench_touch(block[k], bytes[k], 4096);
        live_add(&live, bytes[k]);
        if (i >= BLOCKS + n / 2 && i % 256 == 0)
            live_sample(&live);
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(block[k]);
    live_tell(&live);
    return 2 * (BLOCKS + n);
}

/* --- Cold caches ----------------------------------------------------------
 */

/* One of 256 places in a program, with its own code and sizes: frees its block,
   makes another, and a second one that it frees at once. */
#define COLD_SITE(n)                                                           \
    __attribute__((noinline)) static void cold_site_##n(void **slot) {         \
        free(*slot);                                                           \
        char *p = bench_take(16 + 8 * (0x##n * 37 % 61));                      \
        char *q = bench_take(24 + 16 * (0x##n * 11 % 23));                     \
        p[0] = q[0] = (char)0x##n;                                             \
        *slot = p;                                                             \
        free(q);                                                               \
    }
/* clang-format off */
#define COLD_16(X, h)                                                          \
    X(h##0) X(h##1) X(h##2) X(h##3) X(h##4) X(h##5) X(h##6) X(h##7)            \
    X(h##8) X(h##9) X(h##a) X(h##b) X(h##c) X(h##d) X(h##e) X(h##f)
#define COLD_256(X)                                                            \
    COLD_16(X, 0) COLD_16(X, 1) COLD_16(X, 2) COLD_16(X, 3) COLD_16(X, 4)      \
    COLD_16(X, 5) COLD_16(X, 6) COLD_16(X, 7) COLD_16(X, 8) COLD_16(X, 9)      \
    COLD_16(X, a) COLD_16(X, b) COLD_16(X, c) COLD_16(X, d) COLD_16(X, e)      \
    COLD_16(X, f)
/* clang-format on */
COLD_256(COLD_SITE)
#define COLD_NAME(n) cold_site_##n,
static void (*const cold_sites[])(void **) = {COLD_256(COLD_NAME)};
enum { COLD_SITES = sizeof cold_sites / sizeof *cold_sites };

/* Leaves other data in the caches and other branches in the predictors. */
static uint64_t forget(uint64_t *memory, size_t words, uint64_t s) {
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i += 8) {
        uint64_t r = bench_random(&s);
        memory[i] += r;
        if (r & 1)
            sum += memory[i];
        else if (r & 2)
            sum ^= r;
    }
    return sum;
}

/* One pass over all places at a time, in another order each; between two a
   program does other things, which do not count. */
static uint64_t run_cold(double scale) {
    static uint64_t memory[2 << 20];
    static void *slot[COLD_SITES];
    uint64_t n = bench_count(scale, 300), s = 5, sum = 0;
    bench_pause();
    for (uint64_t i = 0; i < n; i++) {
        sum += forget(memory, sizeof memory / sizeof *memory, s + i);
        unsigned first = (unsigned)(bench_random(&s) % COLD_SITES);
        unsigned step = (unsigned)(bench_random(&s) % COLD_SITES) | 1;
        bench_go_on();
        for (unsigned k = 0; k < COLD_SITES; k++) {
            unsigned at = (first + k * step) % COLD_SITES;
            cold_sites[at](&slot[at]);
        }
        bench_pause();
    }
    for (unsigned k = 0; k < COLD_SITES; k++)
        free(slot[k]);
    bench_go_on();
    bench_hide(&sum);
    return 4 * COLD_SITES * n;
}

static const struct workload list[] = {
    {"fifo", "queue of 10,000 blocks of 16 to 255 bytes", run_fifo},
    {"trees", "binary trees made and dropped", run_trees},
    {"bignum", "small vectors in arithmetic", run_bignum},
    {"strings", "hash table of strings", run_strings},
    {"mixed", "5,000 slots, 16 bytes to 16 KiB, log-uniform", run_mixed},
    {"memalign", "alignments of 32 to 256", run_memalign},
    {"calloc", "zeroed blocks to 700 bytes, memory used before", run_calloc},
    {"calloc-fresh", "zeroed blocks to 415 bytes that stay", run_calloc_fresh},
    {"cold", "256 places in the code, one pass at a time, caches cold",
     run_cold},
    {"frag", "fill, free nine of ten, fill with another size",
     run_fragmentation},
    {"long", "short and long lives, sizes that drift", run_long},
    {"spike", "200 MB freed at once, then 12 slots of 64 KiB to 1 MB",
     run_spike},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
