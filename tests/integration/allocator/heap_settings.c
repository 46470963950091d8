/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of a preloaded library, by call and by environment, and the text
 * about the heap.
 *
 * heap_settings            all checks
 * heap_settings get NAME   prints a property
 * heap_settings churn      64 MiB, then 2 GiB in small parts; prints how often,
 *                          and how much was given back unasked, and what is
 *                          free
 * heap_settings spike      frees 200 MiB at once and goes on with little;
 *                          prints resident MiB before and after
 * heap_settings swing      fills and frees 100 MiB in turn; prints page faults
 * heap_settings fill       allocates until memory is out, twice; prints MiB
 */
#include "extension.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t line_value(const char *text, const char *what) {
    const char *at = strstr(text, what);
    if (at == NULL)
        tap_bail("no line for %s", what);
    while (at > text && at[-1] != '\n')
        at--;
    size_t value = (size_t)-1;
    char sign;
    if (sscanf(at, "MALLOC: %zu", &value) != 1 &&
        sscanf(at, "MALLOC: %c %zu", &sign, &value) != 2)
        tap_bail("%.60s", at);
    return value;
}

static void test_stats_text(void) {
    static char whole[40000], part[40000];
    void (*stats)(char *, int) = CALL(MallocExtension_GetStats);
    tap_diag("the first line takes the memory of stdout's buffer");
    stats(whole, 9999);
    size_t length = strlen(whole);
    tap_ok(length > 1000 && length < 4000, "the text has %zu bytes", length);
    bool good = true;
    for (size_t cap = 1; cap < length + 10; cap++) {
        memset(part, 'x', sizeof part);
        stats(part, (int)cap);
        size_t want = cap - 1 < length ? cap - 1 : length;
        good &= strlen(part) == want && memcmp(part, whole, want) == 0;
        good &= part[cap] == 'x' && part[cap + 100] == 'x';
    }
    tap_ok(good, "it is cut to every size of a buffer");
    part[0] = 'x';
    stats(part, 0);
    stats(part, -5);
    tap_ok(part[0] == 'x', "nothing is written into none");
    size_t physical = line_value(whole, "in use by application") +
                      line_value(whole, "page heap freelist") +
                      line_value(whole, "central cache freelist") +
                      line_value(whole, "transfer cache freelist") +
                      line_value(whole, "thread cache freelists") +
                      line_value(whole, "ends of spans") +
                      line_value(whole, "malloc metadata");
    tap_is_u64(line_value(whole, "Actual memory used"), physical,
               "its parts add up");
    tap_is_u64(line_value(whole, "Virtual address space"),
               physical + line_value(whole, "released to OS"),
               "to the address space");
    tap_is_u64(line_value(whole, "tcmalloc.spans_made"),
               get("tcmalloc.spans_made"), "it has the counters");
    stats(part, sizeof part);
    tap_ok(strncmp(part, whole, length) == 0 && strstr(part, "\nclass ") &&
               strlen(part) > length + 200,
           "a large buffer gets the size classes");
}

static void test_settings(void) {
    const char *const budget = "tcmalloc.max_total_thread_cache_bytes";
    size_t value, usual = get(budget);
    tap_ok(set(budget, 3 << 20) == 1 && get(budget) == 3 << 20,
           "the budget of all caches can be set");
    tap_ok(set(budget, 1) == 1 &&
               get(budget) == get("tcmalloc.min_per_thread_cache_size"),
           "not below the least");
    set(budget, usual);
    const char *const at_once = "tcmalloc.aggressive_memory_decommit";
    tap_ok(get(at_once) == 0 && set(at_once, 1) == 1 && get(at_once) == 1,
           "pages can be given back at once");
    CALL(MallocExtension_ReleaseFreeMemory)();
    give(take(10 * MIB));
    tap_is_u64(get("tcmalloc.pageheap_free_bytes"), 0, "and then are");
    set(at_once, 0);
    give(take(10 * MIB));
    tap_ok(get("tcmalloc.pageheap_free_bytes") >= 10 * MIB, "or are not");
    tap_ok(!CALL(MallocExtension_GetNumericProperty)("tcmalloc.none", &value) &&
               !CALL(MallocExtension_GetNumericProperty)("", &value),
           "there are no other properties");
    tap_ok(!set("tcmalloc.none", 1) && !set("generic.heap_size", 1) &&
               !set("tcmalloc.spans_made", 1),
           "nor can others be set");
    int major = 0, minor = 0;
    const char *patch = NULL;
    const char *version = CALL(tc_version)(&major, &minor, &patch);
    tap_ok(version && version[0] && patch && major == TC_VERSION_MAJOR &&
               minor == TC_VERSION_MINOR && strcmp(patch, "") == 0 &&
               CALL(tc_version)(NULL, NULL, NULL) == version,
           "tc_version: %s", version);
    tap_ok(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 &&
               mallopt(M_ARENA_MAX, 1) == 1 && mallopt(M_PERTURB, 5) == 0 &&
               mallopt(12345, 1) == 0,
           "mallopt takes hints and refuses the rest");
}

struct link {
    struct link *next;
};

static void test_limit(void) {
    enum { N = 200 };
    static void *p[N];
    const char *const limit = "tcmalloc.heap_limit_mb";
    CALL(MallocExtension_ReleaseFreeMemory)();
    size_t mib = get("tcmalloc.pageheap_committed_bytes") / MIB + 33;
    tap_ok(get(limit) == 0 && set(limit, mib) == 1 && get(limit) == mib,
           "the heap can be bounded");
    int n = 0;
    errno = 0;
    while (n < N && (p[n] = take(MIB)) != NULL)
        n++;
    tap_ok(n >= 32 && n <= 33 && errno == ENOMEM,
           "32 MiB more are had, then ENOMEM (%d)", n);
    tap_ok(get("tcmalloc.pageheap_committed_bytes") <= mib * MIB,
           "the bound is kept");
    tap_ok(take(100) != NULL, "a small block may still be there");
    void *again = realloc(p[0], 3 * MIB);
    tap_ok(again == NULL && malloc_usable_size(p[0]) == MIB &&
               calloc(2, MIB) == NULL && memalign(8192, 2 * MIB) == NULL,
           "realloc, calloc and memalign are refused as well");
    void *out = &n;
    errno = 7;
    tap_ok(CALL(tc_posix_memalign)(&out, 64, 2 * MIB) == ENOMEM && out == &n &&
               errno == ENOMEM,
           "and posix_memalign");
    for (int i = 0; i < n; i += 2)
        give(p[i]);
    /* Free pieces of 1 MiB are no room for 4 but in other places. */
    void *larger = take(4 * MIB);
    tap_ok(larger != NULL, "free pages elsewhere are given back for it");
    give(larger);
    for (int i = 1; i < n; i += 2)
        give(p[i]);
    larger = take(30 * MIB);
    tap_ok(larger != NULL, "after frees there is memory again");
    give(larger);
    tap_ok(get("tcmalloc.pageheap_committed_bytes") <= mib * MIB,
           "the bound is kept all the time");
    struct link *list = NULL, *next;
    for (struct link *l; (l = take(64)) != NULL; list = l)
        l->next = list;
    for (; list != NULL; list = next) {
        next = list->next;
        give(list);
    }
    larger = take(20 * MIB);
    tap_ok(larger != NULL, "also of small blocks, which caches hold");
    give(larger);
    set(limit, 0);
    larger = take(100 * MIB);
    tap_ok(larger != NULL, "without it there is more");
    give(larger);
    CALL(MallocExtension_ReleaseFreeMemory)();
    set(limit, 1);
    tap_ok(take(20 * MIB) == NULL, "one below what is in use is one");
    set(limit, 0);
    tap_ok(CALL(MallocExtension_VerifyAllMemory)() == 1, "the heap is whole");
}

/* In a program without C++ there is no handler to call. */
static void test_new_mode(void) {
    typedef int (*mode_fn)(int);
    mode_fn mode;
    *(void **)&mode = find("tc_set_new_mode");
    tap_ok(mode(1) == 0 && mode(1) == 1, "new mode is set");
    errno = 0;
    tap_ok(take(SIZE_MAX / 4) == NULL && errno == ENOMEM &&
               realloc(NULL, SIZE_MAX / 4) == NULL &&
               CALL(tc_malloc_skip_new_handler)(SIZE_MAX / 4) == NULL,
           "without a handler nothing changes");
    errno = 0;
    void *p = take(10);
    tap_ok(p != NULL && errno == 0 && mode(0) == 1, "and back");
    give(p);
}

/* ------------------------------------------------------------------------ */

/* 64 MiB once, then the first 8 of them again and again. */
static int churn(void) {
    for (int i = 0; i < 256; i++) {
        void *p[64];
        int n = i == 0 ? 64 : 8;
        for (int j = 0; j < n; j++)
            p[j] = take(MIB);
        for (int j = 0; j < n; j++)
            give(p[j]);
    }
    printf("%zu %zu %zu\n", get("tcmalloc.pageheap_scavenge_count"),
           get("tcmalloc.pageheap_total_decommit_bytes"),
           get("tcmalloc.pageheap_free_bytes"));
    return 0;
}

/* Takes N blocks of 1 MiB, writes to each of their pages, and frees them. */
static void fill_and_free(size_t n) {
    static char *p[200];
    for (size_t i = 0; i < n; i++) {
        p[i] = take(MIB);
        for (size_t at = 0; at < MIB; at += 4096)
            p[i][at] = 1;
    }
    for (size_t i = 0; i < n; i++)
        give(p[i]);
}

static size_t resident_mib(void) {
    static char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    const char *at = n > 0 ? strstr(text, "\nRss:") : NULL;
    return at == NULL ? 0 : strtoul(at + 5, NULL, 10) / 1024;
}

static size_t faults(void) {
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) == 0 ? (size_t)use.ru_minflt : 0;
}

/* Resident MiB after 200 MiB were filled and freed, and after 2 GiB more in
   four blocks at a time; pages that were returned. */
static int spike(void) {
    fill_and_free(200);
    size_t before = resident_mib();
    for (int i = 0; i < 512; i++)
        fill_and_free(4);
    return printf("%zu %zu %zu\n", before, resident_mib(),
                  get("tcmalloc.pageheap_total_decommit_bytes") / MIB) < 0;
}

/* Page faults of 20 times 100 MiB that are filled and freed, after the first,
   and bytes that were returned. */
static int swing(void) {
    fill_and_free(100);
    size_t before = faults();
    for (int i = 0; i < 20; i++)
        fill_and_free(100);
    return printf("%zu %zu\n", faults() - before,
                  get("tcmalloc.pageheap_total_decommit_bytes")) < 0;
}

static size_t fill_once(void) {
    static void *p[4096];
    size_t n = 0;
    while (n < 4096 && (p[n] = take(MIB)) != NULL)
        n++;
    if (n < 4096 && errno != ENOMEM)
        return 9999;
    for (size_t i = 0; i < n; i++)
        give(p[i]);
    return n;
}

static int fill(void) {
    size_t first = fill_once(), second = fill_once();
    return printf("%zu %zu\n", first, second) < 0;
}

/* Debuggers dump all mappings but those that the kernel says are not to be
   dumped: not the unused parts of tables, but all blocks. */
static void test_core_size(void) {
    static char line[512];
    enum { SMALL = 1000, BLOCKS = 300 };
    static char *p[BLOCKS];
    unsigned long from = 0, to = 0, dumped = 0, blocks = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        p[i] = take(i % 2 == 0 ? SMALL : MIB);
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
            from = first;
            to = last;
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || strstr(line, " dd") != NULL)
            continue;
        dumped += to - from;
        for (size_t i = 0; i < BLOCKS; i++)
            blocks += (unsigned long)p[i] - from < to - from;
    }
    if (f != NULL)
        fclose(f);
    for (size_t i = 0; i < BLOCKS; i++)
        give(p[i]);
    tap_ok(dumped < 400 * MIB, "a core file has %lu MiB", dumped / MIB);
    tap_is_u64(blocks, BLOCKS, "all blocks are in it");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "get") == 0)
        return printf("%zu\n", get(argv[2])) < 0;
    if (strcmp(what, "churn") == 0)
        return churn();
    if (strcmp(what, "fill") == 0)
        return fill();
    if (strcmp(what, "spike") == 0)
        return spike();
    if (strcmp(what, "swing") == 0)
        return swing();
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_stats_text();
    test_settings();
    test_limit();
    test_new_mode();
    test_core_size();
    return tap_done();
}
