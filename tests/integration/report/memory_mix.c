/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose memory does not shrink, one a MIX: planted blocks lie between
 * passing ones, which are freed at the end. The program walks its own live
 * blocks and counts which of its functions hold which bytes, from addresses
 * and usable sizes alone.
 *
 * memory_mix MIX keep|drop
 *
 * With `drop` the planted blocks are freed, too. Prints a line for each
 * function that holds something, FUNCTION LIVE HELD BLOCKS, then "rss BYTES",
 * and exits with its blocks alive. HELD: for each page, the bytes that are in
 * no block, divided equally among the blocks that reach into the page; gaps of
 * less than 16 bytes between blocks, which hold no block, belong to them.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 1 << 20, TABLE = 1 << 21 };

enum owner { PASSING, PLANTED, PLANTED_TOO, PLANTED_LATER, OWNERS };
static const char *const owner_name[OWNERS] = {"passing", "planted",
                                               "planted_too", "planted_later"};

struct block {
    char *at;
    size_t size, usable;
    enum owner owner;
};

struct page {
    uintptr_t number; /* 0: free */
    size_t live, blocks;
};

/* A call that musl lacks, and calls of this project's library, where it is
   preloaded. */
extern int malloc_trim(size_t pad) __attribute__((weak));
extern void MallocExtension_MarkThreadIdle(void) __attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

/* Neither of them is in the heap. */
static struct block *block;
static size_t blocks;
static struct page *table;

static void fail(const char *what) {
    dprintf(2, "memory_mix: %s\n", what);
    _exit(99);
}

static void *map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("no memory");
    return p;
}

static void note(void *at, size_t size, enum owner owner) {
    if (at == NULL || blocks == MOST)
        fail("no memory");
    memset(at, 1, size);
    block[blocks++] = (struct block){.at = at, .size = size, .owner = owner};
}

enum how { PLAIN, GROWN, ALIGNED };

/* Each function is a call site of its own. */
#if defined(__clang__)
#define SITE __attribute__((noinline)) static void
#else
#define SITE __attribute__((noinline, noclone)) static void
#endif

SITE passing(size_t size) {
    note(malloc(size), size, PASSING);
}
SITE planted_too(size_t size) {
    note(malloc(size), size, PLANTED_TOO);
}
SITE planted_later(size_t size) {
    note(malloc(size), size, PLANTED_LATER);
}
SITE planted(size_t size, enum how how) {
    void *p = NULL;
    if (how == GROWN)
        p = realloc(malloc(size / 2), size);
    else if (how == ALIGNED && posix_memalign(&p, 64, size) != 0)
        fail("no memory");
    else if (how == PLAIN)
        p = malloc(size);
    note(p, size, PLANTED);
}

/* Makes COUNT blocks of SIZE bytes. Each EVERY-th is planted. */
static void mix(size_t size, size_t count, size_t every, enum how how) {
    for (size_t i = 0; i < count; i++)
        if (i % every == every / 2)
            planted(size, how);
        else
            passing(size);
}

/* Frees all blocks of OWNER, in the order of their making. */
static void drop(enum owner owner) {
    size_t kept = 0;
    for (size_t i = 0; i < blocks; i++)
        if (block[i].owner == owner)
            free(block[i].at);
        else
            block[kept++] = block[i];
    blocks = kept;
}

/* --- Mixes ---------------------------------------------------------------- */

/* One planted block on each page. */
static void mix_page(void) {
    mix(100, 100000, 30, PLAIN);
}

/* One in 2 MiB. */
static void mix_huge(void) {
    mix(480, 160000, 4200, PLAIN);
}

/* Two sites on each page, one with twice the blocks. */
static void mix_two(void) {
    for (size_t i = 0; i < 80000; i++)
        if (i % 30 == 3)
            planted_too(100);
        else if (i % 30 == 13 || i % 30 == 23)
            planted(100, PLAIN);
        else
            passing(100);
}

/* Several size classes; the largest has most. */
static void mix_classes(void) {
    mix(24, 60000, 100, PLAIN);
    mix(200, 20000, 17, PLAIN);
    mix(700, 10000, 5, PLAIN);
}

static void *thread_main(void *arg) {
    (void)arg;
    /* Blocks of a size that glibc joins with their neighbours at once:
       malloc_trim does not give back the end of a thread's arena. */
    mix(200, 30000, 15, PLAIN);
    return NULL;
}

/* A thread that ends. */
static void mix_thread(void) {
    pthread_t id;
    if (pthread_create(&id, NULL, thread_main, NULL) != 0 ||
        pthread_join(id, NULL) != 0)
        fail("no thread");
}

/* A peak in the middle of the run, at which the planted ones are made. */
static void mix_peak(void) {
    for (size_t i = 0; i < 40000; i++)
        passing(120);
    mix(120, 60000, 30, PLAIN);
    for (size_t i = 0; i < 40000; i++)
        passing(120);
    drop(PASSING);
    for (size_t i = 0; i < 3000; i++)
        passing(2000);
}

/* Made small, and grown. */
static void mix_grown(void) {
    for (size_t i = 0; i < 60000; i++)
        if (i % 30 == 7)
            planted(100, GROWN);
        else
            passing(100);
}

static void mix_aligned(void) {
    mix(192, 50000, 16, ALIGNED);
}

/* Blocks of most of a page, of which every second stays. */
static void mix_large(void) {
    mix(2600, 8000, 2, PLAIN);
}

/* Old ones, and young ones on a third as many pages. */
static void mix_age(void) {
    mix(100, 60000, 30, PLAIN);
    struct timespec while_old = {0, 60000000};
    nanosleep(&while_old, NULL);
    for (size_t i = 0; i < 20000; i++)
        if (i % 30 == 7)
            planted_later(100);
        else
            passing(100);
}

static const struct {
    const char *name;
    void (*make)(void);
} mixes[] = {
    {"page", mix_page},       {"huge", mix_huge},       {"two", mix_two},
    {"classes", mix_classes}, {"thread", mix_thread},   {"peak", mix_peak},
    {"grown", mix_grown},     {"aligned", mix_aligned}, {"large", mix_large},
    {"age", mix_age},
};

/* --- The count ------------------------------------------------------------ */

static struct page *page_of(uintptr_t number) {
    size_t i = (number * UINT64_C(0x9e3779b97f4a7c15)) >> 43;
    while (table[i].number != number && table[i].number != 0)
        i = (i + 1) % TABLE;
    table[i].number = number;
    return &table[i];
}

static int compare_blocks(const void *a, const void *b) {
    const struct block *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Calls LOOK for the part of each block in each page, in the order of
   addresses. */
static void walk(void (*look)(struct page *p, size_t i, size_t bytes)) {
    for (size_t i = 0; i < blocks; i++) {
        uintptr_t at = (uintptr_t)block[i].at;
        uintptr_t end = at + block[i].usable;
        for (; at < end; at = (at / PAGE + 1) * PAGE) {
            uintptr_t edge = (at / PAGE + 1) * PAGE;
            look(page_of(at / PAGE), i, (end < edge ? end : edge) - at);
        }
    }
}

/* Counts a gap of less than 16 bytes behind a block as live. */
static void add_gaps(void) {
    for (size_t i = 0; i + 1 < blocks; i++) {
        uintptr_t at = (uintptr_t)block[i].at + block[i].usable;
        uintptr_t next = (uintptr_t)block[i + 1].at;
        if (next > at && next - at < 16)
            for (; at < next; at++)
                page_of(at / PAGE)->live++;
    }
}

static size_t live[OWNERS], count[OWNERS];
static double held[OWNERS];

static void add(struct page *p, size_t i, size_t bytes) {
    (void)i;
    p->live += bytes;
    p->blocks++;
}

static void share(struct page *p, size_t i, size_t bytes) {
    (void)bytes;
    held[block[i].owner] += (double)(PAGE - p->live) / (double)p->blocks;
}

/* Anonymous memory, from the page tables: /proc/self/statm lags behind by some
   pages, and pages of files come and go. */
static size_t resident_bytes(void) {
    static char text[4096];
    size_t kib = 0;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 ||
        strstr(text, "Anonymous:") == NULL ||
        sscanf(strstr(text, "Anonymous:"), "Anonymous: %zu", &kib) != 1)
        fail("no /proc/self/smaps_rollup");
    close(fd);
    return kib << 10;
}

int main(int argc, char **argv) {
    block = map(MOST * sizeof(*block));
    table = map(TABLE * sizeof(*table));
    size_t m = 0, n = sizeof(mixes) / sizeof(*mixes);
    while (argc == 3 && m < n && strcmp(mixes[m].name, argv[1]) != 0)
        m++;
    if (argc != 3 || m == n)
        fail("usage: memory_mix MIX keep|drop");
    mixes[m].make();
    drop(PASSING);
    if (strcmp(argv[2], "drop") == 0)
        drop(PLANTED), drop(PLANTED_TOO);
    /* Free pages go back, so that what is resident is what blocks hold. */
    if (malloc_trim != NULL)
        malloc_trim(0);
    if (MallocExtension_ReleaseFreeMemory != NULL) {
        MallocExtension_MarkThreadIdle();
        MallocExtension_ReleaseFreeMemory();
    }
    size_t resident = resident_bytes();
    for (size_t i = 0; i < blocks; i++)
        block[i].usable = malloc_usable_size(block[i].at);
    qsort(block, blocks, sizeof(*block), compare_blocks);
    walk(add);
    add_gaps();
    walk(share);
    for (size_t i = 0; i < blocks; i++) {
        live[block[i].owner] += block[i].size;
        count[block[i].owner]++;
    }
    for (int o = 0; o < OWNERS; o++)
        if (count[o] != 0)
            dprintf(1, "%s %zu %.0f %zu\n", owner_name[o], live[o], held[o],
                    count[o]);
    dprintf(1, "rss %zu\n", resident);
    return 0;
}
