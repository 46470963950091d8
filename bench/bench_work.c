/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workloads with the shapes of real programs: queues, trees, strings, large
 * blocks, memory that passes between threads, threads that come and go.
 */
#include "bench.h"

#include <malloc.h>
#include <sched.h>

/* --- One thread ----------------------------------------------------------- */

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

static uint64_t run_mixed_slots(uint64_t steps, uint64_t seed) {
    enum { SLOTS = 5000 };
    void **slot = calloc(SLOTS, sizeof *slot);
    uint64_t s = seed;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        /* Log-uniform from 16 bytes to 16 KiB. */
        unsigned log = 4 + (unsigned)(r & 0xff) % 10;
        size_t size = ((size_t)1 << log) + ((r >> 8) & ((1u << log) - 1));
        free(slot[k]);
        char *p = bench_take(size);
        p[0] = p[size - 1] = 1;
        slot[k] = p;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    free(slot);
    return 2 * steps;
}

static uint64_t run_mixed(double scale) {
    return run_mixed_slots(bench_count(scale, 15e6), 9);
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

/* Fills, frees most of it at random, fills with another size, many times: what
   is held at the end of each phase shows in the peak of resident memory. */
static uint64_t run_fragmentation(double scale) {
    enum { SLOTS = 200000 };
    void **slot = calloc(SLOTS, sizeof *slot);
    uint64_t n = bench_count(scale, 24), s = 23, ops = 0;
    for (uint64_t round = 0; round < n; round++) {
        size_t base = 16u + (unsigned)(round % 6) * 90;
        for (unsigned k = 0; k < SLOTS; k++)
            if (!slot[k]) {
                char *p = bench_take(base + bench_random(&s) % 80);
                *p = 1;
                slot[k] = p;
                ops++;
            }
        for (unsigned k = 0; k < SLOTS; k++)
            if (bench_random(&s) % 10) {
                free(slot[k]);
                slot[k] = NULL;
                ops++;
            }
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    free(slot);
    return ops;
}

/* --- Threads -------------------------------------------------------------- */

struct mixed_thread {
    uint64_t steps, seed;
    char pad[112];
};
static void *mixed_thread(void *arg) {
    struct mixed_thread *a = arg;
    run_mixed_slots(a->steps, a->seed);
    return NULL;
}
static uint64_t run_mixed_threads(double scale) {
    struct mixed_thread a[2] = {{bench_count(scale, 12e6), 9, {0}},
                                {bench_count(scale, 12e6), 10, {0}}};
    bench_threads(2, mixed_thread, a, sizeof *a);
    return 4 * a[0].steps;
}

/* Producer and consumer: every block is freed by the other thread. */
enum { RING = 4096 };
struct ring {
    void *slot[RING];
    char pad1[64];
    uint64_t head;
    char pad2[64];
    uint64_t tail;
    char pad3[64];
    uint64_t total;
};

static void *producer(void *arg) {
    struct ring *r = arg;
    uint64_t s = 29;
    for (uint64_t i = 0; i < r->total; i++) {
        while (i - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) >= RING)
            sched_yield();
        char *p = bench_take(16 + bench_random(&s) % 400);
        *p = 1;
        r->slot[i % RING] = p;
        __atomic_store_n(&r->head, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static uint64_t run_producer(double scale) {
    static struct ring r;
    struct bench_thread other;
    r.head = r.tail = 0;
    r.total = bench_count(scale, 30e6);
    bench_start(&other, producer, &r);
    for (uint64_t i = 0; i < r.total; i++) {
        while (__atomic_load_n(&r.head, __ATOMIC_ACQUIRE) <= i)
            sched_yield();
        free(r.slot[i % RING]);
        __atomic_store_n(&r.tail, i + 1, __ATOMIC_RELEASE);
    }
    pthread_join(other.id, NULL);
    return 2 * r.total;
}

/* A server whose worker threads end and hand their blocks to successors. */
enum { WORKERS = 2, SESSION = 1000 };
struct worker {
    void *block[SESSION];
    uint64_t seed, lives, steps;
    char pad[64];
};

static void *serve(void *arg) {
    struct worker *w = arg;
    for (uint64_t i = 0; i < w->steps; i++) {
        uint64_t r = bench_random(&w->seed);
        unsigned k = (unsigned)((r >> 32) % SESSION);
        free(w->block[k]);
        size_t size = 8 + (r & 0xffff) % 500;
        char *p = bench_take(size);
        p[0] = p[size - 1] = 1;
        w->block[k] = p;
    }
    if (--w->lives == 0)
        return NULL;
    struct bench_thread successor;
    bench_start(&successor, serve, w);
    pthread_join(successor.id, NULL);
    return NULL;
}

static uint64_t run_server(double scale) {
    static struct worker w[WORKERS];
    uint64_t lives = bench_count(scale, 200), steps = 100000;
    if (lives == 0)
        lives = 1;
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i].seed = 31 + i;
        w[i].lives = lives;
        w[i].steps = steps;
    }
    bench_threads(WORKERS, serve, w, sizeof *w);
    for (unsigned i = 0; i < WORKERS; i++)
        for (unsigned k = 0; k < SESSION; k++) {
            free(w[i].block[k]);
            w[i].block[k] = NULL;
        }
    return 2 * WORKERS * lives * steps;
}

static void *short_life(void *arg) {
    void *p[100];
    uint64_t s = (uint64_t)(uintptr_t)arg + 37;
    for (unsigned i = 0; i < 100; i++)
        p[i] = bench_take(16 + bench_random(&s) % 500);
    for (unsigned i = 0; i < 100; i++)
        free(p[i]);
    return NULL;
}

static uint64_t run_thread_churn(double scale) {
    uint64_t n = bench_count(scale, 15e3);
    for (uint64_t i = 0; i < n; i++) {
        struct bench_thread two[2];
        for (unsigned k = 0; k < 2; k++)
            bench_start(&two[k], short_life, (void *)(i * 2 + k));
        for (unsigned k = 0; k < 2; k++)
            pthread_join(two[k].id, NULL);
    }
    return 400 * n;
}

/* Blocks of a few bytes of two threads: do they share cache lines? */
struct sharing {
    uint64_t rounds;
    char *first;
    char pad[112];
};
static void *sharing(void *arg) {
    struct sharing *a = arg;
    free(a->first); /* made by the main thread, next to the other's */
    for (uint64_t i = 0; i < a->rounds; i++) {
        volatile char *p = bench_take(8);
        for (unsigned k = 0; k < 1000; k++)
            p[k % 8]++;
        free((void *)p);
    }
    return NULL;
}
static uint64_t run_false_sharing(double scale) {
    struct sharing a[2] = {{bench_count(scale, 400e3), NULL, {0}},
                           {bench_count(scale, 400e3), NULL, {0}}};
    a[0].first = bench_take(8);
    a[1].first = bench_take(8);
    bench_threads(2, sharing, a, sizeof *a);
    return 4 * a[0].rounds;
}

static const struct workload list[] = {
    {"fifo", "queue of 10,000 blocks of 16 to 255 bytes", run_fifo},
    {"trees", "binary trees made and dropped", run_trees},
    {"bignum", "small vectors in arithmetic", run_bignum},
    {"strings", "hash table of strings", run_strings},
    {"mixed", "5,000 slots, 16 bytes to 16 KiB, log-uniform", run_mixed},
    {"mixed2", "two threads of mixed", run_mixed_threads},
    {"large", "40 slots of 256 KiB to 4 MiB", run_large},
    {"realloc", "buffers growing by an eighth to 40 kB", run_realloc},
    {"memalign", "alignments of 32 to 256", run_memalign},
    {"calloc", "zeroed blocks to 700 bytes", run_calloc},
    {"frag", "fill, free nine of ten, fill with another size",
     run_fragmentation},
    {"producer", "one thread allocates, the other frees", run_producer},
    {"server", "threads end and hand their blocks to successors", run_server},
    {"churn", "threads that live for 100 blocks", run_thread_churn},
    {"sharing", "blocks of 8 bytes written by two threads", run_false_sharing},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
