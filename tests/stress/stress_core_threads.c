/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that allocate, check, free, and pass blocks to each other, while
 * caches are switched, memory is released, and figures and memory tables are
 * read. Most go to shards of their own, and half of the classes are parted.
 * Threads end and leave their blocks to others. After each generation and at
 * the end the whole heap is walked, and the memory table compared with it; in
 * the end everything must be free.
 *
 * Argument: rounds a thread makes (default for make check is small).
 */
#include "core/central_list.h"
#include "core/heap_census.h"
#include "core/heap_memory.h"
#include "core/transfer_cache.h"
#include "lib/rounds.h"
#include "unit/core/core_test.h"

#include <pthread.h>

#define THREADS     8
#define SLOTS       400
#define BOXES       64
#define GENERATIONS 6

struct block {
    uint64_t size;
    uint64_t check; /* its complement is in the last 8 bytes */
};

static struct block *box[BOXES];
static struct block *slots[THREADS][SLOTS]; /* left to the next generation */
static unsigned long rounds;
static pthread_barrier_t all_meet;
static unsigned long broken;
static unsigned long refused;
static unsigned long wrong_tables;

static uint64_t *tail_of(struct block *b) {
    return (uint64_t *)((char *)b + (b->size & ~(uint64_t)7) - 8);
}

static struct block *make(struct tcm_thread_cache *c, struct prng *random) {
    size_t size = 32 + prng_below(random, 1u << prng_below(random, 13));
    if (prng_below(random, 500) == 0)
        size = prng_below(random, 1 << 20) + 32;
    struct block *b = test_alloc(c, size);
    if (b == NULL) {
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    b->size = size;
    b->check = size ^ (uintptr_t)b;
    *tail_of(b) = ~b->check;
    return b;
}

static void drop(struct tcm_thread_cache *c, struct block *b) {
    uint64_t check = b->size ^ (uintptr_t)b;
    if (b->check != check || *tail_of(b) != ~check)
        __atomic_fetch_add(&broken, 1, __ATOMIC_RELAXED);
    b->size = 0;
    b->check = 0;
    test_free(c, b);
}

/* Puts B (or NULL) into a box and returns what was there. */
static struct block *exchange(struct prng *random, struct block *b) {
    return __atomic_exchange_n(&box[prng_below(random, BOXES)], b,
                               __ATOMIC_ACQ_REL);
}

/* Makes a memory table. IS_QUIET: no thread changes the heap meanwhile. */
static void look(bool is_quiet) {
    struct tcm_memory *m = tcm_memory_new();
    uint64_t cached[TCM_MAX_CLASSES];
    if (m == NULL)
        return;
    bool good =
        m->usable_bytes + m->free_bytes ==
            (m->live_pages + m->partly_pages) * m->page_bytes &&
        m->usable_bytes + m->free_bytes + m->empty_bytes + m->never_bytes ==
            m->resident_bytes;
    tcm_census_cached(cached);
    for (unsigned i = 1; is_quiet && i < tcm_class_count; i++) {
        const struct tcm_memory_class *got = &m->by_class[i];
        struct tcm_class_figures want;
        tcm_census_class(i, cached[i], &want);
        good &= got->spans == want.spans && got->blocks == want.in_use &&
                got->thread_cache == want.cached &&
                got->transfer_cache == want.transfer &&
                got->central_list == want.central;
    }
    if (!good)
        __atomic_fetch_add(&wrong_tables, 1, __ATOMIC_RELAXED);
    tcm_memory_delete(m);
}

static void rare(struct tcm_thread_cache **c, struct prng *random) {
    struct tcm_heap_figures figures;
    struct tcm_stats stats;
    switch (prng_below(random, 7)) {
    case 0:
        tcm_heap_release(prng_below(random, 4 << 20));
        break;
    case 1:
        tcm_heap_figures(&figures);
        tcm_stats_read(&stats);
        break;
    case 2:
        tcm_cache_want_words(*c, prng_below(random, 2) == 0);
        break;
    case 3:
        tcm_cache_destroy(*c);
        *c = tcm_cache_new();
        break;
    case 4:
        tcm_cache_flush(*c);
        break;
    case 5:
        look(false);
        break;
    default:
        tcm_arena_free(tcm_arena_alloc(prng_below(random, 9000), 32));
    }
}

/* Goes to a shard that no thread is in, as after many waits for its own. */
static void leave_shard(void) {
    for (unsigned i = 0; i < 8; i++)
        (void)tcm_thread_shard_waits();
}

static void *work(void *argument) {
    static unsigned long begun;
    unsigned long number = __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
    struct block **slot = argument;
    struct prng random;
    struct tcm_thread_cache *c = tcm_cache_new();
    prng_seed(&random, number + 100);
    (void)tcm_thread_shard();
    pthread_barrier_wait(&all_meet);
    if (number % 4 != 0)
        leave_shard();
    pthread_barrier_wait(&all_meet);
    for (unsigned long n = 0; n < rounds / GENERATIONS; n++) {
        unsigned i = (unsigned)prng_below(&random, SLOTS);
        if (slot[i] == NULL)
            slot[i] = make(c, &random);
        else if (prng_below(&random, 4) == 0)
            slot[i] = exchange(&random, slot[i]);
        else {
            drop(c, slot[i]);
            slot[i] = NULL;
        }
        if (prng_below(&random, 3000) == 0)
            rare(&c, &random);
    }
    tcm_cache_destroy(c);
    tcm_thread_shard_end();
    return NULL;
}

static void run_generation(void) {
    pthread_t thread[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, slots[i]) != 0)
            tap_bail("no thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    tcm_heap_verify();
    look(true);
}

static void part_classes(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class += 2)
        for (uint32_t heat = 0; !tcm_class_is_parted(size_class);)
            tcm_class_waits(size_class, &heat);
}

static uint64_t all_spans(void) {
    uint64_t spans = 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        struct tcm_central_figures figures;
        tcm_central_figures(size_class, &figures);
        spans += figures.spans;
    }
    return spans;
}

int main(int argc, char **argv) {
    rounds = rounds_of(150000, 4500000);
    if (argc > 1)
        rounds = strtoul(argv[1], NULL, 10);
    tcm_heap_init();
    pthread_barrier_init(&all_meet, NULL, THREADS);
    for (unsigned i = 0; i < GENERATIONS; i++) {
        run_generation();
        if (i == 0)
            part_classes();
    }
    struct tcm_thread_cache *c = tcm_cache_new();
    for (unsigned i = 0; i < BOXES; i++) {
        if (box[i] != NULL)
            drop(c, box[i]);
    }
    for (unsigned i = 0; i < THREADS * SLOTS; i++) {
        if (slots[i / SLOTS][i % SLOTS] != NULL)
            drop(c, slots[i / SLOTS][i % SLOTS]);
    }
    tcm_cache_destroy(c);
    tap_ok(tcm_page_shards >= 4, "threads had %u shards", tcm_page_shards);
    tap_is_u64(broken, 0, "no block was handed out twice");
    tap_is_u64(refused, 0, "memory was never short");
    tap_is_u64(wrong_tables, 0, "each memory table adds up");
    struct tcm_heap_figures figures;
    tcm_heap_figures(&figures);
    tap_is_u64(figures.in_use_bytes, 0, "all blocks are free");
    tcm_transfer_flush();
    tap_is_u64(all_spans(), 0, "all spans went back");
    tcm_heap_verify();
    return tap_done();
}
