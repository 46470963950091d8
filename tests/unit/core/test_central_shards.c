/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Central lists and transfer caches where the page heap has two shards: objects
 * go back to the shard that they came from, a shard takes what another has too
 * much of, and nothing stays behind. One thread stands for two: it says which
 * processor it runs on.
 */
#include "core/central_list.h"
#include "core/heap_census.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#define MOST 16384
#define PARK 4096

static void *object[MOST];

static void be_on(uint32_t cpu) {
    tcm_page_test_cpu = cpu + 1;
}

/* Fetches N objects of CLASS; the number of those in SHARD. */
static unsigned fetch(unsigned size_class, void **out, unsigned n,
                      uint32_t shard) {
    unsigned in = 0;
    for (unsigned got = 0; got < n;) {
        unsigned some = n - got < TCM_MAX_BATCH ? n - got : TCM_MAX_BATCH;
        some = tcm_central_fetch(size_class, out + got, some);
        if (some == 0)
            tap_bail("no memory");
        got += some;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct tcm_span *span = tcm_page_span(out[i]);
        in += span != NULL && tcm_page_shard_of(span)->shard == shard;
    }
    return in;
}

static void give_back(unsigned size_class, void **objects, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        tcm_central_return(size_class, objects + i, 1);
}

/* Gives shard 1 pages of its own. It takes those of shard 0 otherwise, as long
   as that has free ones and shard 1 its share of the memory. */
static void grow_second(void) {
    bool zeroed;
    be_on(0);
    void *much = tcm_large_alloc((size_t)16 << 20, 0, &zeroed);
    be_on(1);
    void *one = tcm_large_alloc(1, 0, &zeroed);
    if (much == NULL || one == NULL)
        tap_bail("no memory");
    tcm_large_free(tcm_page_span(one));
    tcm_large_free(tcm_page_span(much));
    tcm_heap_release(SIZE_MAX);
}

static void test_home(void) {
    unsigned small = tcm_size_class(TCM_SHARDED_MOST);
    unsigned larger = small + 1;
    for (uint32_t cpu = 0; cpu < 4; cpu++) {
        be_on(cpu);
        tap_is_u64(fetch(small, object, 40, cpu % 2), 40,
                   "processor %u is served by shard %u", cpu, cpu % 2);
        tap_ok(tcm_central_of(cpu % 2, small)->span_count != 0 &&
                   tcm_central_of(1 - cpu % 2, small)->span_count == 0,
               "from its list");
        tcm_heap_verify();
        be_on(cpu + 1);
        give_back(small, object, 40);
        tap_is_u64(tcm_central_spans(small), 0, "another gives them back");
    }
    be_on(1);
    fetch(larger, object, 40, 1);
    tap_ok(tcm_central_of(0, larger)->span_count != 0 &&
               tcm_central_of(1, larger)->span_count == 0,
           "a larger class has one list");
    tcm_heap_verify();
    tcm_transfer_insert(larger, object, 20);
    tap_is_u64(tcm_transfer_of(0, larger)->count, 20, "and transfer cache");
    tcm_transfer_flush();
    give_back(larger, object + 20, 20);
    tap_is_u64(tcm_central_spans(larger), 0, "all back");
}

/* Objects of both shards in one batch. */
static void test_mixed(void) {
    unsigned size_class = tcm_size_class(64), batch = TCM_MAX_BATCH;
    void *a[TCM_MAX_BATCH], *b[TCM_MAX_BATCH];
    be_on(0);
    fetch(size_class, a, batch, 0);
    be_on(1);
    fetch(size_class, b, batch, 1);
    for (unsigned i = 0; i < batch; i += 2) {
        void *swap = a[i];
        a[i] = b[i];
        b[i] = swap;
    }
    tcm_transfer_insert(size_class, a, batch);
    tap_ok(tcm_transfer_of(0, size_class)->count == batch / 2 &&
               tcm_transfer_of(1, size_class)->count == batch / 2,
           "a mixed batch is parked in both shards");
    tcm_transfer_insert(size_class, b, batch);
    tcm_heap_verify();
    tap_is_u64(tcm_transfer_count(size_class), 2 * batch, "nothing is lost");
    be_on(1);
    tap_is_u64(tcm_transfer_remove(size_class, a, batch), batch,
               "a shard's threads");
    unsigned own = 0;
    for (unsigned i = 0; i < batch; i++)
        own += tcm_range_shard_at(a[i]) == 1;
    tap_is_u64(own, batch, "get its objects only");
    tcm_transfer_insert(size_class, a, batch);
    be_on(0);
    for (unsigned i = 0; i < 3; i++)
        tcm_transfer_trim(size_class);
    tap_is_u64(tcm_transfer_count(size_class), 0,
               "a thread of one shard trims both");
    tap_is_u64(tcm_central_spans(size_class), 0, "and the spans are empty");
}

/* All shards together park what one does. */
static void test_room(void) {
    unsigned size_class = tcm_size_class(64);
    unsigned batch = tcm_class[size_class].batch;
    for (uint32_t cpu = 0; cpu < 2; cpu++) {
        be_on(cpu);
        fetch(size_class, object, PARK / 2, cpu);
        for (unsigned i = 0; i < PARK / 2; i += batch)
            tcm_transfer_insert(size_class, object + i, batch);
    }
    tap_is_u64(tcm_transfer_count(size_class), 16 * batch,
               "two transfer caches park as much as one");
    tcm_heap_verify();
    tcm_heap_release(0);
    tap_is_u64(tcm_central_spans(size_class), 0,
               "which goes back on request, from both shards");
}

/* Returns every other object of shard 1, N in all, from shard 0, so that spans
   are half free. */
static void leave_half(unsigned size_class, unsigned n) {
    be_on(1);
    fetch(size_class, object, 2 * n, 1);
    be_on(0);
    for (unsigned i = 0; i < n; i++) {
        tcm_central_return(size_class, object + 2 * i, 1);
        object[i] = object[2 * i + 1];
    }
}

static void test_surplus(unsigned size) {
    unsigned size_class = tcm_size_class(size);
    unsigned little = (60u << 10) / size, much = (80u << 10) / size;
    void *out[8];
    leave_half(size_class, little);
    tap_is_u64(fetch(size_class, out, 8, 0), 8,
               "%u bytes: what a shard keeps is not taken", size);
    give_back(size_class, out, 8);
    give_back(size_class, object, little);
    leave_half(size_class, much);
    tap_is_u64(fetch(size_class, out, 8, 1), 8, "but more is");
    tcm_heap_verify();
    give_back(size_class, out, 8);
    give_back(size_class, object, much);
    tap_is_u64(tcm_central_spans(size_class), 0, "all back");
}

/* Without memory for a new span any free object serves. */
static void test_short(void) {
    unsigned size_class = tcm_size_class(256);
    struct tcm_heap_settings settings;
    void *out[64];
    leave_half(size_class, 10);
    tcm_heap_settings(&settings);
    tcm_heap_set(TCM_SET_LIMIT, TCM_PAGE_SIZE);
    tcm_heap_release(SIZE_MAX);
    unsigned n = (unsigned)tcm_central_of(1, size_class)->free_objects;
    tap_ok(n >= 10 && n <= 64 && fetch(size_class, out, n, 1) == n,
           "out of memory, a shard serves all");
    tap_is_u64(tcm_central_fetch(size_class, out, 1), 0,
               "as long as there is an object");
    tcm_heap_set(TCM_SET_LIMIT, settings.limit_bytes);
    give_back(size_class, out, n);
    give_back(size_class, object, 10);
    tcm_heap_verify();
}

static void test_figures(void) {
    unsigned size_class = tcm_size_class(128);
    struct tcm_class_figures c;
    leave_half(size_class, 100);
    be_on(0);
    fetch(size_class, object + 100, 50, 0);
    tcm_census_class(size_class, 0, &c);
    tap_is_u64(c.in_use, 150, "the census counts both shards");
    tap_ok(tcm_census_is_block(object[0]) && tcm_census_is_block(object[100]),
           "objects of both are blocks");
    give_back(size_class, object, 150);
    tap_ok(!tcm_census_is_block(object[0]) && !tcm_census_is_block(object[100]),
           "and none when they are free");
}

static void return_twice(void *unused) {
    unsigned size_class = tcm_size_class(64);
    void *twice[2];
    (void)unused;
    be_on(1);
    fetch(size_class, twice, 1, 1);
    be_on(0);
    twice[1] = twice[0];
    tcm_central_return(size_class, twice, 2);
}

/* The child of a fork has all locks of both shards free. */
static void test_fork(void) {
    tcm_heap_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        tcm_heap_fork_child(NULL);
        for (uint32_t cpu = 0; cpu < 2; cpu++) {
            be_on(cpu);
            for (unsigned c = 1; c < tcm_class_count; c++) {
                tcm_transfer_remove(c, object, 1);
                tcm_transfer_insert(c, object, 1);
            }
        }
        tcm_transfer_flush();
        tcm_heap_verify();
        _exit(0);
    }
    tcm_heap_fork_parent();
    int status = -1;
    tap_ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
           "a child uses the lists of both");
}

int main(void) {
    struct tcm_thread_cache *cache[2];
    tcm_heap_init();
    if (tcm_class_map_base == TCM_NO_BASE)
        tap_bail("no address space");
    cache[0] = tcm_cache_new();
    cache[1] = tcm_cache_new();
    test_open_shard();
    grow_second();
    test_home();
    test_mixed();
    test_room();
    test_surplus(16);
    test_surplus(512);
    test_short();
    test_figures();
    tap_ok(test_dies_with(return_twice, NULL, "double free of"),
           "a double free is seen in the other shard");
    test_fork();
    tcm_cache_destroy(cache[0]);
    tcm_cache_destroy(cache[1]);
    tcm_heap_verify();
    return tap_done();
}
