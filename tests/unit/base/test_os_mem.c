/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_mem.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf escape;

static void on_fault(int sig) {
    (void)sig;
    siglongjmp(escape, 1);
}

/* True if the byte at P can be written. */
static bool writable(volatile char *p) {
    struct sigaction catch = {.sa_handler = on_fault};
    struct sigaction segv, bus;
    volatile bool good = false; /* set between sigsetjmp and siglongjmp */
    sigaction(SIGSEGV, &catch, &segv);
    sigaction(SIGBUS, &catch, &bus);
    if (sigsetjmp(escape, 1) == 0) {
        *p = 1;
        good = true;
    }
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return good;
}

static bool is_zero(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static void test_remap(size_t page) {
    char *p = tcm_os_map(page);
    *p = 1;
    p = tcm_os_remap(p, page, 64 * page);
    tap_ok(p != NULL && *p == 1, "a mapping that grows keeps its contents");
    tap_ok(is_zero(p + page, 63 * page), "what is added is zero");
    tcm_os_unmap(p, 64 * page);
}

static size_t resident(const char *p, size_t length) {
    size_t bytes = SIZE_MAX;
    errno = 77;
    bool told = tcm_os_resident(p, length, &bytes);
    return told && errno == 77 ? bytes : SIZE_MAX;
}

static void test_resident(size_t page) {
    const size_t exact = TCM_RESIDENT_EXACT * page, large = 2 * exact;
    char *p = tcm_os_map(large);
    (void)tcm_os_no_huge_pages(p, large);
    if (resident(p, page) == SIZE_MAX) {
        tap_skip("resident bytes: the system does not tell");
        tcm_os_unmap(p, large);
        return;
    }
    tap_is_u64(resident(p, exact), 0, "untouched memory is not resident");
    p[0] = p[3 * page] = p[exact - 1] = 1;
    tap_is_u64(resident(p, exact), 3 * page, "three pages were written");
    tap_is_u64(resident(p + 1, 3 * page), 2 * page, "ends need not be whole");
    tap_is_u64(resident(p + 1, 10), 10, "a part of a page");
    for (size_t i = 0; i < large / 10; i += page)
        p[i] = 1;
    size_t tenth = resident(p, large);
    tap_ok(tenth > large / 10 - large / 500 && tenth < large / 10 + large / 500,
           "of a long range a share is told");
    (void)tcm_os_release(p, large);
    tap_is_u64(resident(p, large), 0, "nothing is left of it");
    tcm_os_unmap(p, large);
    tap_is_u64(resident(p, page), SIZE_MAX, "of no memory nothing is told");
}

/* Marks of the first 16 pages at P: r resident, h in a huge page. */
static const char *states(int pagemap, const char *p) {
    static char text[17];
    uint8_t state[16];
    errno = 77;
    if (!tcm_os_page_states(pagemap, (uintptr_t)p, 16, state) || errno != 77)
        return "not told";
    for (unsigned i = 0; i < 16; i++)
        text[i] = state[i] == 0                    ? '.'
                  : state[i] == TCM_STATE_RESIDENT ? 'r'
                                                   : 'h';
    return text;
}

static void test_states(size_t page) {
    char *p = tcm_os_map(4096 * page);
    (void)tcm_os_no_huge_pages(p, 4096 * page);
    if (strcmp(states(-1, p), "not told") == 0) {
        tap_skip("states of pages: the system does not tell");
        return;
    }
    tap_is_str(states(-1, p), "................", "states of untouched pages");
    p[0] = p[3 * page] = p[15 * page] = 1;
    tap_is_str(states(-1, p), "r..r...........r", "of written ones");
    int pagemap = tcm_os_pagemap_open();
    if (pagemap < 0) {
        tap_skip("scan of pages: the kernel has none");
    } else {
        volatile char seen = p[5 * page];
        (void)seen;
        tap_is_str(states(pagemap, p), "r..r...........r",
                   "a page that was only read has no memory");
        /* More runs than the kernel tells at once. */
        static uint8_t state[4096];
        unsigned found = 0;
        for (size_t i = 1; i < 4096; i += 2)
            p[i * page] = 1;
        bool told = tcm_os_page_states(pagemap, (uintptr_t)p, 4096, state);
        for (size_t i = 0; i < 4096; i++)
            found += state[i] == (i % 2 || i == 0 ? TCM_STATE_RESIDENT : 0);
        tap_ok(told && found == 4096, "of thousands of runs (%u)", found);
    }
    tcm_os_pagemap_close(pagemap);
    tcm_os_pagemap_close(-1);
    tcm_os_unmap(p, 4096 * page);
}

static uint32_t toggling;
static void *toggle(void *arg) {
    size_t page = tcm_os_page_size();
    while (tcm_load_relaxed(&toggling) != 0) {
        mprotect(arg, page, PROT_NONE);
        mprotect(arg, page, PROT_READ);
    }
    return NULL;
}

static void test_copy(size_t page) {
    uint32_t pid = (uint32_t)getpid();
    uint64_t word = 1;
    char *p = tcm_os_map(2 * page);
    memset(p, 7, page);
    tap_ok(tcm_os_copy(pid, &word, (uintptr_t)p + page - 8, 8) &&
               word == 0x0707070707070707,
           "a word is copied");
    mprotect(p + page, page, PROT_NONE);
    tap_ok(!tcm_os_copy(pid, &word, (uintptr_t)p + page, 8),
           "none of memory that cannot be read");
    tap_ok(!tcm_os_copy(pid, &word, (uintptr_t)p + page - 7, 8),
           "nor one that ends there");
    if (tap_emulated()) {
        /* Without it, memory is tried first and read then. */
        tap_skip("the emulator has no process_vm_readv");
        tcm_os_unmap(p, 2 * page);
        return;
    }
    pthread_t id;
    unsigned there = 0;
    toggling = 1;
    pthread_create(&id, NULL, toggle, p);
    for (int i = 0; i < 20000; i++)
        there += tcm_os_copy(pid, &word, (uintptr_t)p, 8);
    tcm_store_relaxed(&toggling, 0u);
    pthread_join(id, NULL);
    tap_ok(there <= 20000, "memory that comes and goes does no harm");
    tcm_os_unmap(p, 2 * page);
}

static void test_reserve(size_t page) {
    const size_t align = (size_t)2 << 20, length = (size_t)8 << 20;
    char *p = tcm_os_reserve(length, align, NULL);
    tap_ok(p != NULL && ((uintptr_t)p & (align - 1)) == 0,
           "a reservation is aligned");
    tap_ok(!writable(p), "and cannot be written");
    tap_ok(tcm_os_commit(p + align, page), "a page of it is committed");
    tap_ok(is_zero(p + align, page), "it is zero");
    tap_ok(writable(p + align), "and can be written");
    tap_ok(!writable(p + align + page), "the next one cannot");
    tcm_os_unmap(p, length);
    char *again = tcm_os_reserve(length, align, p);
    tap_ok(again == p, "a hint on free ground is followed");
    char *other = tcm_os_reserve(length, align, p);
    tap_ok(other != NULL && other != p, "one on taken ground is not");
    tcm_os_unmap(again, length);
    tcm_os_unmap(other, length);
    unsigned crooked = 0;
    char *held[8];
    for (int i = 0; i < 8; i++) {
        held[i] = tcm_os_reserve(page, (size_t)64 << 20, NULL);
        crooked += held[i] == NULL || ((uintptr_t)held[i] % (64u << 20)) != 0;
    }
    tap_is_u64(crooked, 0, "64 MiB alignment of single pages");
    for (int i = 0; i < 8; i++)
        tcm_os_unmap(held[i], page);
    errno = 77;
    tap_ok(tcm_os_reserve((size_t)1 << 60, page, NULL) == NULL,
           "more than the address space is refused");
    tap_ok(tcm_os_reserve(SIZE_MAX & ~(page - 1), page, NULL) == NULL,
           "and so is all of it");
    tap_is_i64(errno, 77, "errno is untouched");
}

static void test_map(size_t page) {
    char *p = tcm_os_map(4 * page);
    tap_ok(p != NULL && is_zero(p, 4 * page), "fresh memory is zero");
    memset(p, 1, 4 * page);
    tap_ok(tcm_os_release(p + page, 2 * page), "two pages given back");
    tap_ok(p[0] == 1 && is_zero(p + page, 2 * page) && p[3 * page] == 1,
           "they read as zero, the others are as before");
    tcm_os_unmap(p, 4 * page);
    tap_ok(!writable(p), "unmapped");
    tcm_os_unmap(p, 0);
    errno = 77;
    bool released = tcm_os_release((void *)(page * 3), page);
    if (tap_emulated())
        tap_skip("the emulator takes any advice");
    else
        tap_ok(!released, "memory that is not there cannot be given back");
    tap_is_i64(errno, 77, "errno is untouched");
}

/* Exit status of a child that reads one byte. */
static int child_sees(volatile char *p) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*p);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_fork(size_t page) {
    char *p = tcm_os_map(3 * page);
    memset(p, 5, 3 * page);
    if (tcm_os_wipe_on_fork(p, page))
        tap_is_i64(child_sees(p), 0, "wiped in the child");
    else
        tap_skip("no MADV_WIPEONFORK here");
    tap_is_i64(child_sees(p + page), 5, "the next page is inherited");
    if (tcm_os_dont_fork(p + 2 * page, page))
        tap_ok(child_sees(p + 2 * page) != 5, "not there in the child");
    else
        tap_skip("no MADV_DONTFORK here");
    tap_ok(p[0] == 5 && p[2 * page] == 5, "the parent's stay");
    tcm_os_unmap(p, 3 * page);
}

static void test_file(size_t page) {
    char name[] = "/tmp/tcmtest.XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    if (fd < 0 || ftruncate(fd, (off_t)(2 * page)) != 0)
        tap_bail("no temporary file");
    char *p = tcm_os_map_file(fd, page, page);
    char byte = 0;
    tap_ok(p != NULL, "the second page of a file");
    p[3] = 9;
    tap_ok(pread(fd, &byte, 1, (off_t)page + 3) == 1 && byte == 9,
           "a store is in the file");
    tcm_os_unmap(p, page);
    close(fd);
    errno = 77;
    tap_ok(tcm_os_map_file(-1, 0, page) == NULL, "no descriptor, no mapping");
    tap_is_i64(errno, 77, "errno is untouched");
}

static void test_limits(void) {
    struct rlimit old, low;
    getrlimit(RLIMIT_AS, &old);
    tap_is_u64(tcm_os_address_limit(),
               old.rlim_cur == RLIM_INFINITY ? UINT64_MAX : old.rlim_cur,
               "the limit of the address space");
    low = old;
    low.rlim_cur = (rlim_t)1 << 45;
    if (!tap_emulated() && setrlimit(RLIMIT_AS, &low) == 0) {
        tap_is_u64(tcm_os_address_limit(), (uint64_t)1 << 45, "a set limit");
        setrlimit(RLIMIT_AS, &old);
    } else {
        tap_skip("RLIMIT_AS cannot be set");
    }
}

int main(void) {
    size_t page = tcm_os_page_size();
    tap_is_u64(page, (uint64_t)sysconf(_SC_PAGESIZE), "page size");
    test_reserve(page);
    test_remap(page);
    test_resident(page);
    test_states(page);
    test_map(page);
    test_copy(page);
    test_fork(page);
    test_file(page);
    test_limits();
    return tap_done();
}
