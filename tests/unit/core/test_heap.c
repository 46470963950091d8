/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap as a whole: kinds of addresses, object words, figures, lack of
 * memory, fork, and faults that the verifier finds.
 */
#include "core/central_list.h"
#include "core/meta_alloc.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void test_block_info(void) {
    void *p = tcm_heap_alloc_one(tcm_size_class(3000));
    struct tcm_block_info info = tcm_block_info(p);
    tap_ok(info.kind == TCM_BLOCK_SMALL && info.size >= 3000 &&
               info.size_class == tcm_size_class(3000),
           "the start of an object");
    tap_ok(tcm_block_info((char *)p + 16).kind == TCM_BLOCK_INTERIOR,
           "inside an object");
    int local = 0;
    tap_ok(tcm_block_info(&local).kind == TCM_BLOCK_FOREIGN, "the stack");
    tap_ok(tcm_block_info(NULL).kind == TCM_BLOCK_FOREIGN, "NULL");
    tap_ok(tcm_block_info((void *)UINTPTR_MAX).kind == TCM_BLOCK_FOREIGN,
           "the last address");
    tcm_heap_free_one(info.size_class, p);
    tcm_transfer_flush();
    tap_ok(tcm_block_info(p).kind == TCM_BLOCK_FOREIGN,
           "an object of a span that went back");
}

/* Every object of a few spans of every class has a word of its own. */
static void test_words(void) {
    static void *object[2 * TCM_MAX_OBJECTS];
    bool lazy = true, own = true, again = true;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        unsigned n = 2 * tcm_class[size_class].objects;
        n = tcm_central_fetch(size_class, object, n);
        lazy &= tcm_object_word(object[0], false) == NULL;
        for (unsigned i = 0; i < n; i++) {
            uint64_t *word = tcm_object_word(object[i], true);
            own &= word != NULL && *word == 0;
            *word = (uint64_t)(uintptr_t)object[i];
        }
        for (unsigned i = 0; i < n; i++) {
            uint64_t entry = tcm_page_entry(object[i]);
            uint64_t *table = (uint64_t *)(uintptr_t)(entry & TCM_ENTRY_TABLE);
            uint64_t *word = table + (uintptr_t)object[i] % TCM_PAGE_SIZE /
                                         tcm_class[size_class].size;
            own &= *word == (uint64_t)(uintptr_t)object[i] &&
                   word == tcm_object_word(object[i], false);
            *word = 0;
        }
        tcm_central_return(size_class, object, n);
        n = tcm_central_fetch(size_class, object,
                              2 * tcm_class[size_class].objects);
        for (unsigned i = 0; i < n; i++)
            again &= *tcm_object_word(object[i], true) == 0;
        tcm_central_return(size_class, object, n);
    }
    tap_ok(lazy, "tables are made only when asked for");
    tap_ok(own, "each object has its own word, found from its page's entry");
    tap_ok(again, "words of new objects are 0 again");
    char *before = tcm_meta_alloc(1);
    for (unsigned round = 0; round < 50; round++) {
        unsigned size_class = tcm_size_class(64);
        unsigned n = tcm_central_fetch(size_class, object, 128);
        for (unsigned i = 0; i < n; i++)
            tcm_object_word(object[i], true);
        tcm_central_return(size_class, object, n);
    }
    tap_ok((char *)tcm_meta_alloc(1) == before + TCM_META_ALIGN,
           "tables go back with their spans");
}

static void test_figures(void) {
    struct tcm_heap_figures f;
    struct tcm_thread_cache *c = tcm_cache_new();
    void *small = test_alloc(c, 1000);
    void *large = test_alloc(c, 1 << 20);
    tcm_heap_figures(&f);
    tap_is_u64(f.in_use_bytes, (1 << 20) + tcm_block_info(small).size,
               "bytes in use");
    tap_ok(f.large_bytes == 1 << 20 && f.large_blocks == 1, "large ones");
    tap_is_u64(f.caches, 1, "caches");
    tap_ok(f.cached_bytes != 0 &&
               f.cached_bytes % tcm_block_info(small).size == 0,
           "cached bytes");
    tap_is_u64(f.heap_bytes,
               f.in_use_bytes + f.free_pages_bytes + f.central_bytes +
                   f.transfer_bytes + f.cached_bytes + f.slack_bytes,
               "the parts sum up");
    test_free(c, small);
    test_free(c, large);
    tcm_cache_destroy(c);
    struct tcm_stats s;
    tcm_stats_read(&s);
    tap_ok(s.thread_cache_misses != 0 && s.central_fetches != 0 &&
               s.spans_made != 0 && s.spans_freed != 0 &&
               s.system_bytes_taken != 0,
           "counters outlive the cache");
    tap_ok(tcm_heap_release(SIZE_MAX) != 0, "release gives back");
    tcm_stats_read(&s);
    tap_ok(s.central_returns != 0, "through the central lists");
    tcm_heap_figures(&f);
    tap_is_u64(f.heap_bytes, 0, "all of an empty heap");
    tcm_stats_read(&s);
    tap_is_u64(s.system_bytes_taken, s.system_bytes_returned,
               "what was taken was returned");
}

static void test_settings(void) {
    struct tcm_heap_settings s;
    tcm_heap_settings(&s);
    tap_ok(s.cache_budget_bytes == 48 << 20 && s.limit_bytes == 0 &&
               s.release_rate_milli == 1000 && !s.release_at_once,
           "defaults");
    s.limit_bytes = 8 << 20;
    tcm_heap_configure(&s);
    bool zeroed;
    void *p = tcm_large_alloc(4 << 20, 16, &zeroed);
    tap_ok(p != NULL && tcm_large_alloc(5 << 20, 16, &zeroed) == NULL,
           "the limit is a limit");
    struct tcm_thread_cache *c = tcm_cache_new();
    unsigned blocks = 0;
    static void *block[100000];
    while ((block[blocks] = test_alloc(c, 100)) != NULL)
        blocks++;
    tap_ok(blocks > 20000 && blocks < 45000, "for small blocks too: %u",
           blocks);
    tcm_large_free(tcm_page_span(p));
    tap_ok((block[blocks] = test_alloc(c, 100)) != NULL,
           "after a free there is memory again");
    for (unsigned i = 0; i <= blocks; i++)
        test_free(c, block[i]);
    tcm_cache_destroy(c);
    s.limit_bytes = 0;
    tcm_heap_configure(&s);
    tcm_heap_verify();
}

/* In a process of its own: the system refuses memory after it gave address
   space; no address space stays in use. */
static int memory_refused(void) {
    struct rlimit limit = {(rlim_t)600 << 20, (rlim_t)600 << 20};
    tcm_heap_init();
    struct tcm_thread_cache *c = tcm_cache_new();
    if (setrlimit(RLIMIT_DATA, &limit) != 0)
        return 2;
    if (test_alloc(c, (size_t)1 << 41) != NULL || tcm_ranges.count != 1)
        return 6;
    tcm_heap_verify();
    return test_alloc(c, 3 << 20) == NULL ? 7 : 0;
}

/* In a process of its own: a lack of address space is reported cleanly, leaves
   the program some, and ends when blocks are freed. */
static int out_of_memory(void) {
    struct rlimit limit = {(rlim_t)600 << 20, (rlim_t)600 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    tcm_heap_init();
    struct tcm_thread_cache *c = tcm_cache_new();
    static void *block[400];
    unsigned n = 0;
    while (n < 60 && (block[n] = test_alloc(c, 3 << 20)) != NULL)
        memset(block[n++], 1, 3 << 20);
    void *own =
        mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (n != 60 || own == MAP_FAILED)
        return 3;
    munmap(own, 64 << 20);
    while (n < 400 && (block[n] = test_alloc(c, 3 << 20)) != NULL)
        memset(block[n++], 1, 3 << 20);
    if (n == 400)
        return 4;
    tcm_heap_verify();
    for (unsigned i = 0; i < n; i++)
        test_free(c, block[i]);
    unsigned again = 0;
    while (again < n && test_alloc(c, 3 << 20) != NULL)
        again++;
    if (again < n - n / 20)
        return 5;
    tcm_heap_verify();
    return 0;
}

static int status_of(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void test_alone(const char *mode, const char *what) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)mode;
    tap_skip("memory cannot be limited under a sanitizer: %s", what);
#else
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_heap", mode, (char *)NULL);
        _exit(99);
    }
    int status = status_of(pid);
    if (status == 99)
        tap_skip("this program cannot start itself here: %s", what);
    else
        tap_is_i64(status, 0, "%s", what);
#endif
}

static void test_out_of_memory(void) {
    test_alone("out-of-memory", "running out of address space is survived");
    test_alone("memory-refused", "what is refused leaves no range behind");
}

/* ------------------------------------------------------------------------ */
/* Fork                                                                     */

static bool stop;

static void *churn(void *argument) {
    struct prng random;
    struct tcm_thread_cache *c = tcm_cache_new();
    void *slot[200] = {NULL};
    prng_seed(&random, (uint64_t)(uintptr_t)argument);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unsigned i = (unsigned)prng_below(&random, 200);
        if (slot[i] != NULL)
            test_free(c, slot[i]);
        slot[i] = test_alloc(c, prng_below(&random, 400000));
        if (prng_below(&random, 1000) == 0)
            tcm_heap_release(1 << 20);
    }
    for (unsigned i = 0; i < 200; i++) {
        if (slot[i] != NULL)
            test_free(c, slot[i]);
    }
    tcm_cache_destroy(c);
    return NULL;
}

static void use_heap(void) {
    struct tcm_thread_cache *c = tcm_cache_new();
    void *block[500];
    for (unsigned i = 0; i < 500; i++)
        block[i] = test_alloc(c, 1 + i * 700);
    for (unsigned i = 0; i < 500; i++)
        test_free(c, block[i]);
    tcm_cache_destroy(c);
    tcm_heap_release(SIZE_MAX);
}

static void test_fork(void) {
    pthread_t thread[3];
    bool good = true;
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
    for (unsigned i = 0; i < 12; i++) {
        tcm_heap_fork_prepare();
        pid_t pid = fork();
        if (pid == 0) {
            tcm_heap_fork_child(TCM_NO_CACHE);
            alarm(60);
            tcm_heap_verify();
            use_heap();
            tcm_heap_verify();
            _exit(0);
        }
        tcm_heap_fork_parent();
        good &= status_of(pid) == 0;
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    tap_ok(good, "children of a busy process have a working heap");
    tcm_heap_verify();
}

/* ------------------------------------------------------------------------ */
/* The walk finds what is broken                                            */

static void break_count(void *unused) {
    (void)unused;
    tcm_page_heap.free_pages++;
    tcm_heap_verify();
}

static void break_bitmap(void *object) {
    struct tcm_span *span = tcm_page_span(object);
    if (span != NULL)
        span->free_bits[0] ^= 1;
    tcm_heap_verify();
}

static void park_twice(void *object) {
    struct tcm_thread_cache *c = tcm_cache_new();
    test_free(c, object);
    test_free(c, object);
    test_free(c, object);
    tcm_heap_verify();
}

static void break_map(void *object) {
    tcm_page_map_set_entry((uintptr_t)object, 0);
    tcm_heap_verify();
}

static void test_verify(void) {
    void *object = tcm_heap_alloc_one(tcm_size_class(64));
    tcm_heap_verify();
    tap_ok(test_dies_with(break_count, NULL, "check failed"),
           "the walk finds a wrong count");
    tap_ok(test_dies_with(break_bitmap, object, "check failed"), "a wrong bit");
    tap_ok(test_dies_with(park_twice, object, "check failed"),
           "an object that is cached twice");
    tap_ok(test_dies_with(break_map, object, "check failed"),
           "a wrong entry of the page map");
    tcm_heap_free_one(tcm_size_class(64), object);
    tcm_heap_verify();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "memory-refused") == 0)
        return memory_refused();
    if (argc == 2 && strcmp(argv[1], "out-of-memory") == 0)
        return out_of_memory();
    tap_ok(tcm_heap_init() && tcm_heap_init(), "init, twice");
    test_figures();
    test_block_info();
    test_words();
    test_settings();
    test_out_of_memory();
    test_fork();
    test_verify();
    return tap_done();
}
