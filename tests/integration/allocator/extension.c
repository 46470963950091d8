/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * <gperftools/malloc_extension_c.h>, nallocx and mallinfo2 of a preloaded
 * library: the figures add up, follow what the program does, and are exact.
 *
 * extension            all checks
 * extension calls      one call of each kind that a recording shows
 */
#include "extension.h"
#include "prng.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t resident_bytes(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%*u %zu", &pages) != 1)
        tap_bail("statm");
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static bool adds_up(const char *when) {
    size_t parts = get("generic.current_allocated_bytes") +
                   get("tcmalloc.thread_cache_free_bytes") +
                   get("tcmalloc.transfer_cache_free_bytes") +
                   get("tcmalloc.central_cache_free_bytes") +
                   get("tcmalloc.span_overhead_bytes") +
                   get("tcmalloc.pageheap_free_bytes");
    size_t unmapped = get("tcmalloc.pageheap_unmapped_bytes");
    size_t committed = get("tcmalloc.pageheap_committed_bytes");
    bool good = committed == parts;
    good &= get("generic.heap_size") == parts + unmapped;
    good &= get("tcmalloc.pageheap_total_reserve_bytes") == parts + unmapped;
    good &= get("tcmalloc.slack_bytes") ==
            get("tcmalloc.pageheap_free_bytes") + unmapped;
    good &= get("generic.total_physical_bytes") ==
            committed + get("tcmalloc.metadata_bytes");
    good &= get("tcmalloc.pageheap_total_commit_bytes") -
                get("tcmalloc.pageheap_total_decommit_bytes") ==
            committed;
    good &= get("tcmalloc.current_total_thread_cache_bytes") ==
            get("tcmalloc.thread_cache_free_bytes");
    good &=
        get("tcmalloc.large_bytes") <= get("generic.current_allocated_bytes");
    struct mallinfo2 m = CALL(mallinfo2)();
    good &= m.arena == m.uordblks + m.fordblks;
    good &= m.arena + m.hblkhd == committed;
    good &= m.uordblks + m.hblkhd == get("generic.current_allocated_bytes") +
                                         get("tcmalloc.span_overhead_bytes");
    good &= m.fsmblks == get("tcmalloc.thread_cache_free_bytes");
    good &= m.keepcost == get("tcmalloc.pageheap_free_bytes");
    good &= (m.smblks != 0) == (m.fsmblks != 0);
    if (!good)
        tap_diag("%s: parts %zu, committed %zu, heap %zu", when, parts,
                 committed, get("generic.heap_size"));
    return good;
}

static void test_sums(void) {
    enum { SLOTS = 3000 };
    static void *slot[SLOTS];
    struct prng r;
    bool good = adds_up("at the start");
    prng_seed(&r, 3);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 4000; i++) {
            size_t k = prng_below(&r, SLOTS);
            give(slot[k]);
            size_t most = prng_below(&r, 20) ? 3000 : 600000;
            slot[k] = prng_below(&r, 4) ? take(prng_below(&r, most)) : NULL;
        }
        good &= adds_up("in the middle");
        if (round == 10)
            CALL(MallocExtension_ReleaseFreeMemory)();
    }
    for (int i = 0; i < SLOTS; i++)
        give(slot[i]);
    tap_ok(good && adds_up("at the end"), "the figures always add up");
    tap_ok(CALL(MallocExtension_VerifyAllMemory)() == 1, "the heap is whole");
}

static void test_allocated(void) {
    static void *p[1000];
    const char *const name = "generic.current_allocated_bytes";
    size_t start = get(name);
    for (int i = 0; i < 1000; i++)
        p[i] = take(128);
    tap_is_u64(get(name) - start, 128000, "1,000 blocks of 128 bytes");
    for (int i = 0; i < 1000; i++)
        give(p[i]);
    tap_is_u64(get(name), start, "and none");
    size_t blocks = get("tcmalloc.large_blocks");
    size_t bytes = get("tcmalloc.large_bytes");
    void *large = take(5 * MIB);
    tap_ok(get(name) - start == 5 * MIB &&
               get("tcmalloc.large_blocks") == blocks + 1 &&
               get("tcmalloc.large_bytes") == bytes + 5 * MIB,
           "a large block");
    give(large);
}

static void *idle_thread(void *arg) {
    void *keep = take(100);
    *(size_t *)arg = CALL(MallocExtension_GetThreadCacheSize)();
    give(keep);
    return NULL;
}

static void test_thread_cache(void) {
    static void *p[64];
    size_t (*size)(void) = CALL(MallocExtension_GetThreadCacheSize);
    size_t caches = get("tcmalloc.impl.thread_cache_count");
    for (int i = 0; i < 64; i++)
        p[i] = take(1000);
    for (int i = 0; i < 64; i++)
        give(p[i]);
    tap_ok(size() >= 20 * 1024, "freed blocks are in the thread's cache (%zu)",
           size());
    tap_is_u64(size(), get("tcmalloc.thread_cache_free_bytes"),
               "the only one there is");
    CALL(MallocExtension_MarkThreadTemporarilyIdle)();
    tap_ok(size() == 0 && get("tcmalloc.impl.thread_cache_count") == caches,
           "temporarily idle: it is empty");
    give(take(1000));
    tap_ok(size() != 0, "and in use again");
    CALL(MallocExtension_MarkThreadIdle)();
    tap_ok(size() == 0 && get("tcmalloc.impl.thread_cache_count") == caches - 1,
           "idle: it is gone");
    CALL(MallocExtension_MarkThreadIdle)();
    CALL(MallocExtension_MarkThreadTemporarilyIdle)();
    CALL(MallocExtension_MarkThreadBusy)();
    tap_is_u64(get("tcmalloc.impl.thread_cache_count"), caches,
               "busy: there is one again");
    CALL(MallocExtension_MarkThreadBusy)();
    CALL(MallocExtension_MarkThreadIdle)();
    void *one = take(10);
    give(one);
    tap_ok(one && get("tcmalloc.impl.thread_cache_count") == caches,
           "or after an allocation");
    CALL(MallocExtension_MarkThreadIdle)();
    give(NULL);
    free(realloc(take(10), 100));
    pthread_t id;
    size_t other = 0;
    give(take(50000));
    pthread_create(&id, NULL, idle_thread, &other);
    pthread_join(id, NULL);
    tap_ok(other > 0 && other < 20000, "each thread sees its own (%zu)", other);
}

static void test_release(void) {
    enum { N = 64 };
    static char *p[N];
    CALL(MallocExtension_ReleaseFreeMemory)();
    tap_is_u64(get("tcmalloc.pageheap_free_bytes"), 0,
               "ReleaseFreeMemory leaves no free page");
    for (int i = 0; i < N; i++)
        memset(p[i] = take(MIB), 1, MIB);
    size_t full = resident_bytes();
    for (int i = 0; i < N; i++)
        give(p[i]);
    size_t free_bytes = get("tcmalloc.pageheap_free_bytes");
    size_t unmapped = get("tcmalloc.pageheap_unmapped_bytes");
    size_t count = get("tcmalloc.pageheap_decommit_count");
    tap_ok(free_bytes >= 40 * MIB, "64 MiB are free (%zu)", free_bytes);
    CALL(MallocExtension_ReleaseToSystem)(8 * MIB);
    size_t back = get("tcmalloc.pageheap_unmapped_bytes") - unmapped;
    tap_ok(back >= 8 * MIB && back <= 16 * MIB,
           "ReleaseToSystem gives back what is asked for (%zu)", back);
    tap_ok(get("tcmalloc.pageheap_decommit_count") > count, "is counted");
    CALL(MallocExtension_ReleaseFreeMemory)();
    tap_is_u64(get("tcmalloc.pageheap_free_bytes"), 0, "and all of it");
    size_t less = full - resident_bytes();
    tap_ok(less >= 56 * MIB && less <= 80 * MIB, "the system has it (%zu)",
           less);
    for (int i = 0; i < N; i++)
        p[i] = take(MIB);
    for (int i = 0; i < N; i++)
        give(p[i]);
    free_bytes = get("tcmalloc.pageheap_free_bytes");
    int trimmed = malloc_trim(20 * MIB);
    size_t left = get("tcmalloc.pageheap_free_bytes");
    tap_ok(trimmed == 1 && left <= 20 * MIB && left >= 16 * MIB,
           "malloc_trim leaves its pad (%zu of %zu)", left, free_bytes);
    tap_ok(malloc_trim(0) == 1 && malloc_trim(0) == 0,
           "and tells if there was something to give back");
}

static void test_census(void) {
    static void *p[500];
    static int before[kMallocExtensionHistogramSize];
    static int after[kMallocExtensionHistogramSize];
    int blocks, more;
    size_t total, larger;
    __typeof__(&MallocExtension_MallocMemoryStats) stats =
        CALL(MallocExtension_MallocMemoryStats);
    int result = stats(&blocks, &total, before);
    for (int i = 0; i < 500; i++)
        p[i] = take(256);
    void *large = take(3 * MIB);
    stats(&more, &larger, after);
    tap_ok(result == 1 && more - blocks == 501 &&
               larger - total == 500 * 256 + 3 * MIB,
           "500 blocks of 256 bytes and one of 3 MiB");
    tap_ok(after[9] - before[9] == 500 && after[22] - before[22] == 1,
           "in the histogram by the bits of their sizes");
    tap_is_u64(larger, get("generic.current_allocated_bytes"),
               "the total is what is allocated");
    for (int i = 0; i < 500; i++)
        give(p[i]);
    give(large);
}

/* Bytes of the line of TEXT that ends with LABEL. */
static size_t line_bytes(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (at == NULL)
        tap_bail("no line \"%s\"", label);
    while (at != text && at[-1] != '\n')
        at--;
    return strtoull(at + strcspn(at, "0123456789"), NULL, 10);
}

/* Sum of FIELD of smaps, which F is, over the 64 GiB that ADDRESS lies in: the
   heap and its class map. */
static size_t region_bytes(FILE *f, const char *field, uintptr_t address) {
    static char line[4096];
    uintptr_t low = address >> 36 << 36, start, end;
    size_t kib, sum = 0;
    bool inside = false;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%zx-%zx ", &start, &end) == 2)
            inside = start - low < (uintptr_t)1 << 36;
        else if (inside && strncmp(line, field, strlen(field)) == 0 &&
                 sscanf(line + strlen(field), ": %zu kB", &kib) == 1)
            sum += kib * 1024;
    }
    rewind(f);
    return sum;
}

struct memory {
    size_t live, partly, partly_free, empty, reserve, metadata, resident;
    size_t absent, region, huge, region_huge;
};

static struct memory memory_now(const void *block) {
    static char text[20000], buffer[8192];
    FILE *f = fopen("/proc/self/smaps", "r");
    if (f == NULL)
        tap_bail("no smaps");
    setvbuf(f, buffer, _IOFBF, sizeof(buffer));
    if (CALL(MallocExtension_GetMemoryTable)(text, sizeof(text)) != 1)
        tap_bail("no memory table");
    struct memory m = {
        .live = line_bytes(text, "Live pages: wholly in blocks\n"),
        .partly = line_bytes(text, "Partly live pages: in blocks\n"),
        .partly_free = line_bytes(text, "Partly live pages: free\n"),
        .empty = line_bytes(text, "Empty pages\n"),
        .reserve = line_bytes(text, "Never used pages: reserve\n"),
        .metadata = line_bytes(text, "Never used pages: metadata\n"),
        .resident = line_bytes(text, "Resident memory of the allocator\n"),
        .absent = line_bytes(text, "Not resident: of blocks\n"),
        .region = region_bytes(f, "Rss", (uintptr_t)block),
        .region_huge = region_bytes(f, "AnonHugePages", (uintptr_t)block),
    };
    m.huge = strstr(text, "Resident in huge pages\n") == NULL
                 ? m.region_huge /* the kernel does not tell */
                 : line_bytes(text, "Resident in huge pages\n");
    fclose(f);
    return m;
}

static bool memory_adds_up(const struct memory *m, const char *when) {
    size_t heap = m->live + m->partly + m->partly_free + m->empty + m->reserve;
    bool good = heap + m->metadata == m->resident && heap <= m->region &&
                m->region <= heap + m->metadata;
    if (!good)
        tap_diag("%s: heap %zu, metadata %zu, resident %zu, smaps %zu", when,
                 heap, m->metadata, m->resident, m->region);
    return good;
}

static void test_memory(void) {
    CALL(MallocExtension_ReleaseFreeMemory)();
    char *small = take(100), *large = take(16 * MIB);
    struct memory before = memory_now(small);
    memset(large, 1, 9 * MIB);
    struct memory written = memory_now(small);
    give(large);
    struct memory freed = memory_now(small);
    CALL(MallocExtension_ReleaseFreeMemory)();
    struct memory back = memory_now(small);
    tap_ok(memory_adds_up(&before, "before") &&
               memory_adds_up(&written, "written") &&
               memory_adds_up(&freed, "freed") &&
               memory_adds_up(&back, "given back"),
           "the memory table adds up to what smaps tells");
    size_t more = written.live - before.live;
    tap_ok(more >= 9 * MIB && more == before.absent - written.absent,
           "pages of a block that are written to become live (%zu)", more);
    tap_ok(written.live - freed.live == more &&
               freed.empty + written.resident >=
                   written.empty + freed.resident + more,
           "and empty, or not resident, when it is freed");
    tap_ok(freed.resident - back.resident == freed.empty - back.empty &&
               back.live == freed.live && back.empty < MIB,
           "and not resident when they are given back");
    char *huge = memalign(2 * MIB, 8 * MIB);
    if (madvise(huge, 8 * MIB, MADV_HUGEPAGE) == 0)
        memset(huge, 1, 8 * MIB);
    struct memory with_huge = memory_now(small);
    tap_is_u64(with_huge.huge, with_huge.region_huge,
               "huge pages are those of smaps");
    tap_diag("%zu bytes in huge pages", with_huge.huge);
    give(huge);
    give(small);
}

static void test_pointers(void) {
    static char mine[100];
    char *small = take(100), *large = take(MIB), *gone = take(2 * MIB);
    __typeof__(&MallocExtension_GetOwnership) owner =
        CALL(MallocExtension_GetOwnership);
    __typeof__(&MallocExtension_VerifyMallocMemory) is_block =
        CALL(MallocExtension_VerifyMallocMemory);
    give(gone);
    CALL(MallocExtension_ReleaseFreeMemory)();
    tap_ok(owner(small) == MallocExtension_kOwned &&
               owner(large) == MallocExtension_kOwned &&
               owner(large + 70000) == MallocExtension_kOwned,
           "blocks are owned");
    tap_ok(owner(NULL) == MallocExtension_kNotOwned &&
               owner(mine) == MallocExtension_kNotOwned &&
               owner(&small) == MallocExtension_kNotOwned &&
               owner((void *)~(uintptr_t)0) == MallocExtension_kNotOwned &&
               owner(gone) == MallocExtension_kNotOwned,
           "the stack, data, NULL, nonsense and free pages are not");
    tap_ok(is_block(small) && is_block(large) && is_block(NULL) &&
               CALL(MallocExtension_VerifyNewMemory)(small) &&
               CALL(MallocExtension_VerifyArrayNewMemory)(large),
           "blocks, and NULL, pass");
    tap_ok(!is_block(mine) && !is_block(small + 8) && !is_block(gone) &&
               !is_block(large + 8192),
           "what is none does not");
    tap_ok(CALL(MallocExtension_GetAllocatedSize)(small) ==
                   malloc_usable_size(small) &&
               CALL(MallocExtension_GetAllocatedSize)(large) == MIB &&
               CALL(MallocExtension_GetAllocatedSize)(NULL) == 0 &&
               CALL(tc_malloc_size)(small) == malloc_usable_size(small),
           "the size of a block");
    give(small);
    give(large);
}

static void test_estimates(void) {
    __typeof__(&nallocx) estimate = CALL(nallocx);
    bool good = true;
    for (size_t size = 0; size < 3 * MIB; size += size / 16 + 1) {
        void *p = take(size);
        size_t usable = malloc_usable_size(p);
        good &= estimate(size, 0) == usable &&
                CALL(MallocExtension_GetEstimatedAllocatedSize)(size) == usable;
        give(p);
        for (int lg = 0; lg < 21; lg++) {
            p = memalign((size_t)1 << lg, size);
            good &= CALL(tc_nallocx)(size, MALLOCX_LG_ALIGN(lg)) ==
                    malloc_usable_size(p);
            give(p);
        }
    }
    tap_ok(good, "nallocx is what malloc_usable_size will be");
    tap_ok(estimate((size_t)-1, 0) == 0 &&
               estimate((size_t)PTRDIFF_MAX + 1, 0) == 0 &&
               estimate(1, MALLOCX_LG_ALIGN(63)) == 0 &&
               estimate(PTRDIFF_MAX, 0) >= PTRDIFF_MAX,
           "0 for what can never be");
    tap_ok(CALL(MallocExtension_GetEstimatedAllocatedSize)((size_t)-1) ==
               (size_t)-1,
           "an estimate is never less than the size");
}

static void *busy_thread(void *arg) {
    struct prng r;
    static void *const none[256];
    void *p[256];
    memcpy(p, none, sizeof p);
    prng_seed(&r, 5);
    while (!__atomic_load_n((bool *)arg, __ATOMIC_RELAXED)) {
        size_t k = prng_below(&r, 256);
        give(p[k]);
        p[k] = take(prng_below(&r, 100) ? prng_below(&r, 3000) : 400000);
    }
    for (int i = 0; i < 256; i++)
        give(p[i]);
    return NULL;
}

/* Figures and walks while others allocate. */
static void test_while_busy(void) {
    static char text[20000];
    static int histogram[kMallocExtensionHistogramSize];
    pthread_t id[3];
    bool stop = false, good = true;
    int blocks;
    size_t total;
    for (int i = 0; i < 3; i++)
        pthread_create(&id[i], NULL, busy_thread, &stop);
    for (int i = 0; i < 30; i++) {
        CALL(MallocExtension_VerifyAllMemory)();
        CALL(MallocExtension_GetStats)(text, sizeof text);
        CALL(MallocExtension_GetMemoryTable)(text, sizeof text);
        CALL(MallocExtension_MallocMemoryStats)(&blocks, &total, histogram);
        good &=
            get("generic.current_allocated_bytes") <= get("generic.heap_size");
        good &= CALL(mallinfo2)().uordblks < (size_t)1 << 30;
        if (i % 8 == 0)
            CALL(MallocExtension_ReleaseFreeMemory)();
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(id[i], NULL);
    tap_ok(good, "all of it while three threads allocate");
}

static int calls(void) {
    give(take(100));
    malloc_trim(7);
    CALL(MallocExtension_ReleaseFreeMemory)();
    CALL(MallocExtension_ReleaseToSystem)(12345);
    CALL(MallocExtension_MarkThreadTemporarilyIdle)();
    CALL(MallocExtension_MarkThreadIdle)();
    CALL(MallocExtension_MarkThreadBusy)();
    give(take(100));
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "calls") == 0)
        return calls();
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_sums();
    test_allocated();
    test_thread_cache();
    test_release();
    test_census();
    test_memory();
    test_pointers();
    test_estimates();
    test_while_busy();
    return tap_done();
}
