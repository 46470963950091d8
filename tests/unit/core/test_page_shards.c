/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shards of the page heap: opened when threads meet, no more than threads, used
 * by all threads that find no pages in their own, and only the first under a
 * limit. Meetings are forced: a thread holds a shard's lock while another
 * allocates.
 */
#include "core/page_heap.h"
#include "core/thread_shard.h"
#include "core_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define BLOCK    ((size_t)1 << 20)
#define MANY     200
#define MEETINGS 30

static struct tcm_page_heap *shard(unsigned i) {
    return tcm_page_shard[i];
}

static void *alloc_block(size_t bytes) {
    bool zeroed;
    return tcm_large_alloc(bytes, TCM_MIN_ALIGN, &zeroed);
}

static struct tcm_span *span_of(void *p) {
    struct tcm_span *span = tcm_page_span(p);
    if (span == NULL)
        tap_bail("no span");
    return span;
}

static void free_block(void *p) {
    tcm_large_free(span_of(p));
}

static struct tcm_page_heap *shard_of(void *p) {
    return tcm_page_shard_of(span_of(p));
}

/* ------------------------------------------------------------------------ */
/* A thread that finds locks taken                                          */

static struct {
    pthread_t thread;
    atomic_uint asked; /* blocks to allocate so far */
    atomic_uint made;
    atomic_bool over;
    struct tcm_page_heap *last; /* shard of its last block */
    unsigned kept;              /* blocks to allocate in the end, at once */
    unsigned in_first;          /* number of these in shard 0 */
} other;

static void *ask(void *unused) {
    void *p[MANY];
    unsigned n = 0;
    (void)unused;
    while (!atomic_load(&other.over)) {
        if (atomic_load(&other.asked) == n) {
            sched_yield();
            continue;
        }
        p[n] = alloc_block(BLOCK);
        other.last = shard_of(p[n]);
        atomic_store(&other.made, ++n);
    }
    while (n != 0)
        free_block(p[--n]);
    other.in_first = 0;
    for (unsigned i = 0; i < other.kept; i++) {
        p[i] = alloc_block(BLOCK);
        other.in_first += shard_of(p[i]) == tcm_page_shard[0];
    }
    for (unsigned i = 0; i < other.kept; i++)
        free_block(p[i]);
    tcm_thread_shard_end();
    return NULL;
}

/* Holds the first shard's lock, for each of TIMES blocks, until the thread
   waits for the lock or has its block from elsewhere. */
static void be_in_the_way(unsigned times) {
    struct tcm_lock *lock = &tcm_page_shard[0]->lock;
    for (unsigned i = 0; i < times; i++) {
        tcm_lock(lock);
        atomic_fetch_add(&other.asked, 1);
        while (tcm_load_relaxed(&lock->state) != 2 &&
               atomic_load(&other.made) != i + 1)
            sched_yield();
        tcm_unlock(lock);
        while (atomic_load(&other.made) != i + 1)
            sched_yield();
    }
}

/* Runs a thread that allocates TIMES blocks and finds the first shard's lock
   taken, then KEPT blocks at once. */
static void meet(unsigned times, unsigned kept) {
    other.kept = kept;
    atomic_store(&other.asked, 0);
    atomic_store(&other.made, 0);
    atomic_store(&other.over, false);
    if (pthread_create(&other.thread, NULL, ask, NULL) != 0)
        tap_bail("no thread");
    be_in_the_way(times);
    atomic_store(&other.over, true);
    pthread_join(other.thread, NULL);
}

/* ------------------------------------------------------------------------ */

static void test_one_thread(void) {
    void *p[MANY];
    for (unsigned i = 0; i < MANY; i++)
        p[i] = alloc_block(BLOCK);
    bool first = true;
    for (unsigned i = 0; i < MANY; i++) {
        first &= shard_of(p[i]) == shard(0);
        free_block(p[i]);
    }
    tap_ok(first && tcm_page_shards == 1, "one thread has one shard");
}

static void test_no_more_than_threads(void) {
    meet(MEETINGS, 0);
    tap_ok(tcm_page_shards == 1 && other.last == shard(0),
           "nor are there more shards than caches");
}

static void test_opened(struct tcm_thread_cache **caches) {
    caches[0] = tcm_cache_new();
    caches[1] = tcm_cache_new();
    meet(MEETINGS, 0);
    tap_is_u64(tcm_page_shards, 2, "a thread that has to wait opens a second");
    tap_ok(shard(1)->spans_made != 0, "and goes there");
    tap_ok(shard(1)->committed_pages != 0 && shard(1)->large_blocks == 0 &&
               shard(1)->shard == 1,
           "which has memory of its own");
    size_t page = tcm_class_map_page(tcm_class_map_base,
                                     (void *)tcm_ranges.range[1].start);
    tap_ok(tcm_ranges.range[1].shard == 1 && page < TCM_CLASS_MAP_PAGES,
           "in the range that has a class map");
    tcm_heap_verify();
}

/* Makes shard 0 have MANY idle blocks, all with memory. */
static void fill_first(void) {
    void *p[MANY];
    for (unsigned i = 0; i < MANY; i++)
        p[i] = alloc_block(BLOCK);
    for (unsigned i = 0; i < MANY; i++)
        free_block(p[i]);
}

/* A new thread, which goes to shard 1, takes and frees MANY blocks. This one is
   awake: it makes a block after each of them. Returns how many were of shard 0.
 */
static unsigned take_in_turn(void) {
    unsigned in_first = 0;
    other.kept = 0;
    atomic_store(&other.asked, 0);
    atomic_store(&other.made, 0);
    atomic_store(&other.over, false);
    if (pthread_create(&other.thread, NULL, ask, NULL) != 0)
        tap_bail("no thread");
    for (unsigned i = 0; i < MANY; i++) {
        atomic_fetch_add(&other.asked, 1);
        while (atomic_load(&other.made) != i + 1)
            sched_yield();
        in_first += other.last == shard(0);
        free_block(alloc_block(BLOCK));
    }
    atomic_store(&other.over, true);
    pthread_join(other.thread, NULL);
    return in_first;
}

static void test_borrowed(void) {
    tcm_heap_set(TCM_SET_RELEASE_RATE, 0);
    fill_first();
    tcm_heap_verify();
    uint64_t first = shard(0)->committed_pages;
    unsigned in_first = take_in_turn();
    tap_ok(in_first >= MANY / 4 && in_first < MANY * 3 / 4,
           "a thread takes part of what another shard has: %u of %u blocks",
           in_first, MANY);
    tap_is_u64(shard(0)->committed_pages, first, "and makes none grow for it");
    tap_ok(shard(1)->committed_pages <= first * 3 / 4,
           "when its own has its share");
    (void)tcm_page_heap_release(SIZE_MAX);
    fill_first();
    uint64_t second = shard(1)->committed_pages;
    meet(0, MANY);
    tap_ok(other.in_first >= MANY * 2 / 3 && other.in_first < MANY,
           "nearly all while its threads sleep: %u of %u blocks",
           other.in_first, MANY);
    tap_is_u64(shard(1)->committed_pages, second,
               "and before it takes memory again that it gave back");
    tcm_heap_verify();
}

static void *take_long(void *unused) {
    (void)unused;
    void *p = alloc_block(MANY / 2 * BLOCK);
    other.last = shard_of(p);
    free_block(p);
    tcm_thread_shard_end();
    return NULL;
}

static void test_long(void) {
    (void)tcm_page_heap_release(SIZE_MAX);
    fill_first();
    void *p[MANY];
    unsigned n = 0;
    for (; n < MANY / 3; n++)
        p[n] = alloc_block(BLOCK);
    shard(1)->borrows.wait = 5;
    if (pthread_create(&other.thread, NULL, take_long, NULL) != 0)
        tap_bail("no thread");
    pthread_join(other.thread, NULL);
    tap_ok(other.last == shard(0), "a long block never has memory of its own "
                                   "while another shard has it");
    while (n != 0)
        free_block(p[--n]);
}

static void test_asleep(void) {
    (void)tcm_page_heap_release(SIZE_MAX);
    meet(MEETINGS, MANY / 2);
    uint64_t idle = shard(1)->free_pages;
    tcm_heap_set(TCM_SET_RELEASE_RATE, 1000);
    for (unsigned i = 0; i < 100 * MANY; i++)
        free_block(alloc_block(BLOCK));
    tap_ok(idle >= MANY / 4 * BLOCK / TCM_PAGE_SIZE &&
               shard(1)->free_pages <= idle / 10,
           "a shard without awake threads returns pages when others do: "
           "%ju of %ju are left",
           (uintmax_t)shard(1)->free_pages, (uintmax_t)idle);
    tcm_heap_set(TCM_SET_RELEASE_RATE, 0);
    tcm_heap_verify();
}

static void test_figures(void) {
    struct tcm_page_figures f;
    tcm_page_heap_figures(&f);
    tap_ok(
        f.committed == shard(0)->committed_pages + shard(1)->committed_pages &&
            f.free == shard(0)->free_pages + shard(1)->free_pages &&
            f.released == shard(0)->released_pages + shard(1)->released_pages &&
            f.large == 0,
        "figures are those of both");
    size_t done = tcm_page_heap_release(SIZE_MAX);
    tap_ok(done == f.free && shard(0)->free_pages + shard(1)->free_pages == 0,
           "both return their pages to the system");
}

static void test_fork(void) {
    pid_t pid = fork();
    if (pid == 0) {
        tcm_page_heap_lock_all();
        tcm_page_heap_fork_child();
        tcm_page_heap_unlock_all();
        void *p = alloc_block(BLOCK);
        tcm_heap_verify();
        _exit(p != NULL ? 0 : 1);
    }
    int status = -1;
    tap_ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
           "a child has both");
}

static void test_limit(void) {
    tcm_heap_set(TCM_SET_LIMIT, 64 * BLOCK);
    meet(MEETINGS, 0);
    tap_ok(other.last == shard(0) && tcm_page_shards == 2,
           "under a limit all threads use the first");
    tap_is_u64(shard(1)->free_pages, 0, "the other has no free pages");
    void *p[MANY];
    unsigned n = 0;
    while (n < MANY && (p[n] = alloc_block(BLOCK)) != NULL)
        n++;
    tap_ok(n > 50 && n <= 64, "the limit is that of both: %u MiB", n);
    while (n != 0)
        free_block(p[--n]);
    tcm_heap_set(TCM_SET_LIMIT, 0);
    uint64_t made = shard(1)->spans_made;
    meet(MEETINGS, 0);
    tap_ok(shard(1)->spans_made != made, "later the second is in use again");
}

int main(void) {
    struct tcm_thread_cache *caches[2];
    tcm_heap_init();
    if (tcm_class_map_base == TCM_NO_BASE)
        tap_bail("no address space");
    test_one_thread();
    test_no_more_than_threads();
    test_opened(caches);
    test_borrowed();
    test_long();
    test_asleep();
    test_figures();
    test_fork();
    test_limit();
    tcm_cache_destroy(caches[0]);
    tcm_cache_destroy(caches[1]);
    tcm_heap_verify();
    return tap_done();
}
