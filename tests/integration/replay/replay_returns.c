/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded under replay: a malloc whose every block is a mapping, which asks
 * the kernel in each way that there is, and counts that itself. The counts go
 * to RETURNS_OUT at the end. With RETURNS_THREAD a thread that takes no signals
 * gives memory back every 100 ms. With DO_DENY a program that executes its
 * arguments where nobody may filter system calls.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(DO_DENY)

int main(int argc, char **argv) {
    struct sock_filter step[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, step};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    execvp(argv[1], argv + 1);
    return 77;
}

#else

#define PAGE ((size_t)4096)

enum { ADVISED, UNMAPPED, MAPPED, WAYS };
static unsigned long calls[WAYS], bytes[WAYS], resident[MAPPED];
static unsigned long mallocs, frees;
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

static void count(int way, size_t size) {
    __atomic_add_fetch(&calls[way], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&bytes[way], (size + PAGE - 1) / PAGE * PAGE,
                       __ATOMIC_RELAXED);
}

/* Counts pages that are given back from AT on, before they are. */
static void give(int way, void *at, size_t size) {
    unsigned char present[64];
    size_t pages = (size + PAGE - 1) / PAGE;
    count(way, size);
    for (size_t done = 0; done < pages; done += sizeof(present)) {
        size_t n =
            pages - done < sizeof(present) ? pages - done : sizeof(present);
        if (mincore((char *)at + done * PAGE, n * PAGE, present) != 0)
            abort();
        for (size_t i = 0; i < n; i++)
            __atomic_add_fetch(&resident[way], present[i] & 1 ? PAGE : 0,
                               __ATOMIC_RELAXED);
    }
}

/* By the instruction, without the C library. */
static long raw(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10),
                           "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
}

static void *map(size_t size) {
    count(MAPPED, size);
    return (void *)raw(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Ways that have no block of their own. */
static void odd_ways(void) {
    char *p = map(PAGE);
    count(MAPPED, 2 * PAGE);
    p = mremap(p, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    p[0] = p[2 * PAGE] = 1;
    give(UNMAPPED, p + 2 * PAGE, PAGE);
    p = mremap(p, 3 * PAGE, 2 * PAGE, 0);
    give(UNMAPPED, p, PAGE);
    if (mmap(p, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != p)
        abort();
    give(UNMAPPED, p, 2 * PAGE);
    munmap(p, 2 * PAGE);
    /* Reserved addresses take nothing until they may be written. */
    p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    count(MAPPED, 3 * PAGE);
    mprotect(p, 3 * PAGE, PROT_READ | PROT_WRITE);
    p[PAGE] = 1;
    mprotect(p, PAGE, PROT_READ);
    give(UNMAPPED, p, 4 * PAGE);
    munmap(p, 4 * PAGE);
    pthread_mutex_lock(&heap_lock);
    count(MAPPED, 2 * PAGE);
    p = sbrk(2 * (long)PAGE);
    if (p == (void *)-1)
        abort();
    p[PAGE] = 1;
    p += -(uintptr_t)p % PAGE;
    give(UNMAPPED, p, 2 * PAGE);
    if (sbrk(-2 * (long)PAGE) == NULL)
        abort();
    pthread_mutex_unlock(&heap_lock);
}

void *malloc(size_t size) {
    size_t *p = map(size + 16);
    p[0] = size;
    /* Advice that gives nothing back. */
    madvise(p, PAGE, MADV_NOHUGEPAGE);
    if (__atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED) % 50 == 0)
        odd_ways();
    return p + 2;
}

void free(void *block) {
    if (block == NULL)
        return;
    size_t *p = (size_t *)block - 2, size = p[0] + 16;
    give(ADVISED, p, size);
    switch (__atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED) % 3) {
    case 0:
        madvise(p, size, MADV_DONTNEED);
        break;
    case 1:
        syscall(SYS_madvise, p, size, MADV_FREE);
        break;
    default:
        raw(SYS_madvise, (long)p, (long)size, MADV_DONTNEED, 0, 0, 0);
        break;
    }
    give(UNMAPPED, p, size);
    munmap(p, size);
}

void *calloc(size_t n, size_t size) {
    return malloc(n * size);
}

void *realloc(void *old, size_t size) {
    size_t had = old == NULL ? 0 : ((size_t *)old)[-2];
    void *p = malloc(size);
    if (old != NULL)
        memcpy(p, old, had < size ? had : size);
    free(old);
    return p;
}

static void *gives_back(void *page) {
    struct timespec ts = {0, 100000000};
    for (;;) {
        nanosleep(&ts, NULL);
        count(ADVISED, PAGE);
        madvise(page, PAGE, MADV_DONTNEED);
    }
    return NULL;
}

static __attribute__((constructor)) void begin(void) {
    pthread_t thread;
    sigset_t all, before;
    if (getenv("RETURNS_THREAD") == NULL)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, gives_back, map(PAGE));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static __attribute__((destructor)) void tell(void) {
    const char *name = getenv("RETURNS_OUT");
    if (name == NULL)
        return;
    unsigned long n[2 * WAYS + 2] = {0};
    for (int i = 0; i < WAYS; i++) {
        n[2 * i] = calls[i];
        n[2 * i + 1] = bytes[i];
    }
    n[2 * WAYS] = resident[ADVISED];
    n[2 * WAYS + 1] = resident[UNMAPPED];
    FILE *out = fopen(name, "w");
    if (out == NULL)
        return;
    for (int i = 0; i < 2 * WAYS + 2; i++)
        fprintf(out, "%lu\n", n[i]);
    fclose(out);
}

#endif
