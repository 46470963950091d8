/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of the levels that threads share, alone: calls of the allocator's own
 * functions, without thread caches in front of them. OPS counts these calls.
 *
 * Each thread holds some batches, or spans, and in turn gives one back and
 * takes another, so the level is as full as it is in a program that runs.
 */
#include "bench.h"

#include "core/central_list.h"
#include "core/heap.h"
#include "core/page_heap.h"
#include "core/size_class.h"
#include "core/transfer_cache.h"

/* A bulk bin moves so many batches at a time between cache and central list. */
enum { BULK_MOVES = 4 };
enum { HELD = 32, SIZE = 64, SPAN_PAGES = 4, MOST_THREADS = 64 };

struct visitor {
    uint64_t steps, seed;
    unsigned size_class, batch;
    struct tcm_span *span[HELD];
    void *object[HELD][BULK_MOVES * TCM_MAX_BATCH];
};

static void *visit_transfer(void *arg) {
    struct visitor *v = arg;
    for (uint64_t i = 0; i < v->steps; i++) {
        void **held = v->object[bench_random(&v->seed) % HELD];
        tcm_transfer_insert(v->size_class, held, v->batch);
        if (tcm_transfer_remove(v->size_class, held, v->batch) != v->batch)
            abort();
    }
    return NULL;
}

static void *visit_central(void *arg) {
    struct visitor *v = arg;
    for (uint64_t i = 0; i < v->steps; i++) {
        void **held = v->object[bench_random(&v->seed) % HELD];
        unsigned n = BULK_MOVES * v->batch;
        tcm_central_return(v->size_class, held, n);
        if (tcm_central_fetch(v->size_class, held, n) != n)
            abort();
    }
    return NULL;
}

static void *visit_pages(void *arg) {
    struct visitor *v = arg;
    for (uint64_t i = 0; i < v->steps; i++) {
        struct tcm_span **held = &v->span[bench_random(&v->seed) % HELD];
        size_t pages = 1 + bench_random(&v->seed) % (2 * SPAN_PAGES);
        tcm_page_heap_free(*held);
        *held = tcm_page_heap_alloc(pages, 1, TCM_SPAN_MOVING, 1, NULL);
        if (*held == NULL)
            abort();
    }
    return NULL;
}

static uint64_t run(void *(*visit)(void *), double scale) {
    static struct visitor v[MOST_THREADS];
    unsigned n = (unsigned)bench_thread_count;
    uint64_t steps = bench_count(scale, 4e6) / n + 1;
    tcm_heap_init();
    for (unsigned i = 0; i < n; i++) {
        v[i].steps = steps;
        v[i].seed = 77 + i;
        v[i].size_class = tcm_size_class(SIZE);
        v[i].batch = tcm_class[v[i].size_class].batch;
        for (unsigned k = 0; k < HELD; k++) {
            v[i].span[k] =
                tcm_page_heap_alloc(SPAN_PAGES, 1, TCM_SPAN_MOVING, 1, NULL);
            if (v[i].span[k] == NULL ||
                tcm_central_fetch(v[i].size_class, v[i].object[k],
                                  BULK_MOVES * v[i].batch) !=
                    BULK_MOVES * v[i].batch)
                abort();
        }
    }
    bench_threads((int)n, visit, v, sizeof *v);
    return 2 * n * steps;
}

static uint64_t run_transfer(double scale) {
    return run(visit_transfer, scale);
}
static uint64_t run_central(double scale) {
    return run(visit_central, scale);
}
static uint64_t run_pages(double scale) {
    return run(visit_pages, scale);
}

static const struct workload list[] = {
    {"transfer", "batches of 64-byte objects, parked and taken", run_transfer},
    {"central", "four batches at once, to and from their spans", run_central},
    {"pages", "spans of 1 to 8 pages", run_pages},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
