/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_mem.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

size_t tcm_os_page_size(void) {
    return (size_t)getauxval(AT_PAGESZ);
}

/* True if START and LENGTH are multiples of the page size. */
static bool is_whole(const void *start, size_t length) {
    return (((uintptr_t)start | length) & (tcm_os_page_size() - 1)) == 0;
}

static void *map_anonymous(void *at, size_t length, int prot, int flags) {
    TCM_ASSERT(length != 0 && is_whole(at, length));
    if (TCM_REFUSED("mmap"))
        return NULL;
    int saved = errno;
    void *p = (void *)tcm_call(mmap, at, length, prot, flags, -1, 0);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

void tcm_os_unmap(void *start, size_t length) {
    TCM_ASSERT(is_whole(start, length));
    int saved = errno;
    if (length != 0)
        (void)tcm_call(munmap, start, length);
    errno = saved;
}

static bool advise(void *start, size_t length, int advice) {
    TCM_ASSERT(is_whole(start, length));
    if (TCM_REFUSED("madvise"))
        return false;
    int saved = errno;
    /* EAGAIN stands for a lack of mappings, too, which lasts. */
    long rc = tcm_call(madvise, start, length, advice);
    errno = saved;
    return rc == 0;
}

/* Alignments up to this are tried at an address of the kernel's choice, which
   is likely to be aligned. */
#define LIKELY_ALIGN ((size_t)64 << 10)

static void *reserve(size_t length, size_t align, void *hint) {
    /* Without MAP_NORESERVE: memory without access is not charged anyway. It
       must be charged when it is given access, or absurd requests are granted.
     */
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    TCM_ASSERT(tcm_is_pow2(align) && align >= tcm_os_page_size());
    if (hint != NULL && ((uintptr_t)hint & (align - 1)) == 0) {
        void *p =
            map_anonymous(hint, length, PROT_NONE, flags | MAP_FIXED_NOREPLACE);
        if (p == hint)
            return p;
        if (p != NULL)
            tcm_os_unmap(p, length);
    }
    if (align <= LIKELY_ALIGN) {
        void *p = map_anonymous(NULL, length, PROT_NONE, flags);
        if (p == NULL || ((uintptr_t)p & (align - 1)) == 0)
            return p;
        tcm_os_unmap(p, length);
    }
    size_t padded;
    if (tcm_add_overflows(length, align, &padded))
        return NULL;
    char *raw = map_anonymous(NULL, padded, PROT_NONE, flags);
    if (raw == NULL)
        return NULL;
    char *start = (char *)tcm_align_up((uintptr_t)raw, align);
    tcm_os_unmap(raw, (size_t)(start - raw));
    tcm_os_unmap(start + length, (size_t)(raw + padded - (start + length)));
    return start;
}

/* Debuggers write zeros to the core files of running programs for addresses
   without access, unless the kernel says that these are not to be dumped. */
void *tcm_os_reserve(size_t length, size_t align, void *hint) {
    void *p = reserve(length, align, hint);
    if (p != NULL)
        (void)advise(p, length, MADV_DONTDUMP);
    return p;
}

void *tcm_os_find_free(size_t length, size_t align, void *hint) {
    void *p = reserve(length, align, hint);
    if (p != NULL)
        tcm_os_unmap(p, length);
    return p;
}

int tcm_os_map_at(void *at, size_t length) {
    /* Without MAP_FIXED_NOREPLACE: filters of programs that confine themselves
       often know only these flags, and older kernels ignore others. */
    void *p = map_anonymous(at, length, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS);
    if (p == at)
        return 0;
    if (p == NULL)
        return ENOMEM;
    tcm_os_unmap(p, length);
    return EEXIST;
}

static bool set_access(void *start, size_t length, int prot) {
    TCM_ASSERT(is_whole(start, length));
    if (TCM_REFUSED("mprotect"))
        return false;
    int saved = errno;
    long rc = tcm_call(mprotect, start, length, prot);
    errno = saved;
    return rc == 0;
}

bool tcm_os_commit(void *start, size_t length) {
    bool done = set_access(start, length, PROT_READ | PROT_WRITE);
    if (done)
        (void)advise(start, length, MADV_DODUMP);
    return done;
}

bool tcm_os_commit_read_only(void *start, size_t length) {
    return set_access(start, length, PROT_READ);
}

void *tcm_os_map(size_t length) {
    return map_anonymous(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS);
}

void *tcm_os_map_shared(size_t length) {
    return map_anonymous(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS);
}

void *tcm_os_remap(void *start, size_t length, size_t new_length) {
    TCM_ASSERT(is_whole(start, length) && is_whole(NULL, new_length));
    if (TCM_REFUSED("mremap"))
        return NULL;
    int saved = errno;
    void *p =
        (void *)tcm_call(mremap, start, length, new_length, MREMAP_MAYMOVE);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

bool tcm_os_release(void *start, size_t length) {
    return advise(start, length, MADV_DONTNEED);
}

/* Advice that no kernel knows. An emulator (qemu-user) that accepts all advice
   and follows none of it accepts this one too. */
#define ADVICE_OF_NO_KERNEL 0x7ffe

static bool advise_verified(void *start, size_t length, int advice) {
    return advise(start, length, advice) &&
           !advise(start, length, ADVICE_OF_NO_KERNEL);
}

bool tcm_os_wipe_on_fork(void *start, size_t length) {
    return advise_verified(start, length, MADV_WIPEONFORK);
}

bool tcm_os_dont_fork(void *start, size_t length) {
    return advise_verified(start, length, MADV_DONTFORK);
}

bool tcm_os_huge_pages(void *start, size_t length) {
    return advise(start, length, MADV_HUGEPAGE);
}

bool tcm_os_no_huge_pages(void *start, size_t length) {
    return advise(start, length, MADV_NOHUGEPAGE);
}

/* Pages that one call of mincore checks; each takes a byte of the stack. */
#define MINCORE_PAGES ((size_t)512)

/* Adds the number of resident pages among the PAGES pages from AT on to *COUNT.
 */
static bool count_resident(uintptr_t at, size_t pages, size_t page_size,
                           size_t *count) {
    unsigned char page[MINCORE_PAGES];
    while (pages != 0) {
        size_t n = tcm_min_u64(pages, MINCORE_PAGES);
        /* mincore marks no page as used and reads none. */
        if (tcm_call(mincore, (void *)at, n * page_size, page) != 0)
            return false;
        for (size_t i = 0; i < n; i++)
            *count += page[i] & 1;
        at += n * page_size;
        pages -= n;
    }
    return true;
}

static bool sample_resident(uintptr_t at, size_t pages, size_t page_size,
                            size_t *count) {
    const size_t all = (size_t)TCM_RESIDENT_RUNS * TCM_RESIDENT_RUN_PAGES;
    size_t found = 0;
    TCM_ASSERT(pages > all);
    for (size_t i = 0; i < TCM_RESIDENT_RUNS; i++) {
        size_t first = pages / TCM_RESIDENT_RUNS * i +
                       pages % TCM_RESIDENT_RUNS * i / TCM_RESIDENT_RUNS;
        if (!count_resident(at + first * page_size, TCM_RESIDENT_RUN_PAGES,
                            page_size, &found))
            return false;
    }
    *count = pages / all * found + pages % all * found / all;
    return true;
}

bool tcm_os_resident(const void *start, size_t length, size_t *bytes) {
    size_t page_size = tcm_os_page_size(), count = 0;
    uintptr_t at = (uintptr_t)start & ~(uintptr_t)(page_size - 1);
    size_t pages =
        (tcm_align_up((uintptr_t)start + length, page_size) - at) / page_size;
    if (TCM_REFUSED("mincore"))
        return false;
    int saved = errno;
    bool known = pages <= TCM_RESIDENT_EXACT
                     ? count_resident(at, pages, page_size, &count)
                     : sample_resident(at, pages, page_size, &count);
    errno = saved;
    *bytes = tcm_min_u64(count * page_size, length);
    return known;
}

/* The kernel's interface, which older headers lack: struct pm_scan_arg, struct
   page_region and the request of <linux/fs.h>. */
struct scan_region {
    uint64_t start;
    uint64_t end;
    uint64_t categories;
};
struct scan_request {
    uint64_t size;
    uint64_t flags;
    uint64_t start;
    uint64_t end;
    uint64_t walk_end; /* set by the kernel: end of what was scanned */
    uint64_t vec;
    uint64_t vec_len;
    uint64_t max_pages;
    uint64_t inverted;
    uint64_t all_of;
    uint64_t any_of;
    uint64_t returned;
};
#define SCAN_REQUEST _IOWR('f', 16, struct scan_request)
#define SCAN_PRESENT ((uint64_t)1 << 3)
#define SCAN_ZERO    ((uint64_t)1 << 5)
#define SCAN_HUGE    ((uint64_t)1 << 6)
#define SCAN_REGIONS 64u

/* Finds the resident pages of [START, END) and puts up to SCAN_REGIONS runs of
   them into REGION. Returns their number and sets *START to the end of the part
   that was scanned; -1: the kernel cannot tell. */
static long scan(int pagemap, uintptr_t *start, uintptr_t end,
                 struct scan_region *region) {
    struct scan_request r = {.size = sizeof(r),
                             .start = *start,
                             .end = end,
                             .vec = (uintptr_t)region,
                             .vec_len = SCAN_REGIONS,
                             .inverted = SCAN_ZERO,
                             .all_of = SCAN_PRESENT | SCAN_ZERO,
                             .returned = SCAN_HUGE};
    long n = tcm_call(ioctl, pagemap, SCAN_REQUEST, &r);
    if (n < 0 || r.walk_end <= *start)
        return -1;
    *start = r.walk_end;
    return n;
}

static bool scan_states(int pagemap, uintptr_t start, size_t pages,
                        uint8_t *state) {
    size_t page_size = tcm_os_page_size();
    uintptr_t end = start + pages * page_size;
    struct scan_region region[SCAN_REGIONS];
    memset(state, 0, pages);
    for (uintptr_t at = start; at < end;) {
        long n = scan(pagemap, &at, end, region);
        if (n < 0)
            return false;
        for (long i = 0; i < n; i++) {
            const struct scan_region *r = &region[i];
            TCM_ASSERT(r->start >= start && r->end <= end);
            memset(state + (r->start - start) / page_size,
                   r->categories & SCAN_HUGE
                       ? TCM_STATE_RESIDENT | TCM_STATE_HUGE
                       : TCM_STATE_RESIDENT,
                   (r->end - r->start) / page_size);
        }
    }
    return true;
}

bool tcm_os_page_states(int pagemap, uintptr_t start, size_t pages,
                        uint8_t *state) {
    size_t page_size = tcm_os_page_size();
    TCM_ASSERT(start % page_size == 0);
    if (TCM_REFUSED("mincore"))
        return false;
    int saved = errno;
    bool known = pagemap >= 0 ? scan_states(pagemap, start, pages, state)
                              : tcm_call(mincore, (void *)start,
                                         pages * page_size, state) == 0;
    for (size_t i = 0; pagemap < 0 && known && i < pages; i++)
        state[i] &= TCM_STATE_RESIDENT;
    errno = saved;
    return known;
}

int tcm_os_pagemap_open(void) {
    int saved = errno, fd = -1;
    uintptr_t page = (uintptr_t)&saved & ~(uintptr_t)(tcm_os_page_size() - 1);
    uint8_t state = 0;
    if (TCM_REFUSED("pagemap"))
        return -1;
    if (tcm_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0)
        fd = (int)tcm_syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap",
                              O_RDONLY | O_CLOEXEC, 0);
    /* The page of the stack that is in use is resident, whatever it is. */
    if (fd >= 0 && !(scan_states(fd, page, 1, &state) && state != 0)) {
        tcm_os_pagemap_close(fd);
        fd = -1;
    }
    errno = saved;
    return fd;
}

void tcm_os_pagemap_close(int pagemap) {
    int saved = errno;
    if (pagemap >= 0)
        (void)tcm_syscall(SYS_close, pagemap);
    errno = saved;
}

void *tcm_os_map_file(int fd, uint64_t offset, size_t length) {
    TCM_ASSERT(offset % tcm_os_page_size() == 0);
    if (TCM_REFUSED("mmap of a file"))
        return NULL;
    int saved = errno;
    void *p = (void *)tcm_call(mmap, NULL, length, PROT_READ | PROT_WRITE,
                               MAP_SHARED, fd, (off_t)offset);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

uint64_t tcm_os_address_limit(void) {
    struct rlimit limit;
    int saved = errno;
    long rc = tcm_getrlimit(RLIMIT_AS, &limit);
    errno = saved;
    if (rc != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

/* Bytes below the end of the stack that begin with the auxiliary vector's. */
#define STACK_TOP ((uintptr_t)16 << 20)

bool tcm_os_layout_is_fixed(void) {
    int saved = errno;
    long persona = tcm_call(personality, 0xffffffff);
    errno = saved;
    if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) != 0)
        return true;
    /* Without randomisation in the whole system (kernel.randomize_va_space=0)
       the stack, where these bytes are, ends at a power of two. */
    uintptr_t stack = getauxval(AT_RANDOM);
    return stack != 0 && (stack ^ (stack + STACK_TOP)) > stack;
}

/* Passes ADDRESS as a set of signals with an operation that does not exist: the
   kernel copies the set before it refuses the operation. */
bool tcm_os_is_readable(uintptr_t address) {
    int saved = errno;
    TCM_ASSERT(address % sizeof(uint64_t) == 0);
    (void)tcm_syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t));
    bool good = errno != EFAULT;
    errno = saved;
    return good;
}

bool tcm_os_copy(uint32_t pid, void *to, uintptr_t from, size_t bytes) {
    int saved = errno;
    uintptr_t word = ~(uintptr_t)(sizeof(uint64_t) - 1);
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    long n = -1;
    errno = ENOSYS;
    if (tcm_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0)
        n = tcm_syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
    bool tells = n >= 0 || errno == EFAULT;
    errno = saved;
    if (tells)
        return n == (long)bytes;
    if (!tcm_os_is_readable(from & word) ||
        !tcm_os_is_readable((from + bytes - 1) & word))
        return false;
    memcpy(to, (const void *)from, bytes);
    return true;
}
