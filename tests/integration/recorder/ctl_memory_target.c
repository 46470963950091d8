/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process whose memory malloc-trace ctl shows.
 *
 * ctl_memory_target still N: makes blocks of a size that nothing else in the
 *     process has, frees most of them, prints its own count of the rest as
 *     "NAME VALUE" lines and "ready", and stands still until its input ends, as
 *     do N more threads with free blocks in their caches. With a line of input
 *     it gives its free pages back and prints "ready" again.
 * ctl_memory_target busy N: N threads allocate and free, and one forks children
 *     that allocate, until the input ends. Prints "ready", and at the end
 *     "rounds N" and "children N". Status 1 if a child failed.
 * ctl_memory_target filter: installs a filter for all its threads that kills
 *     the process at mincore, prints "ready" and waits. Status 77: it cannot.
 */
#include "prng.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE    5120u /* of a class */
#define BLOCKS  20000u
#define STEP    16u /* of as many, one is kept */
#define LARGE   ((size_t)3 << 20)
#define WRITTEN ((size_t)1 << 20) /* of a large block */
#define LARGES  4u

static char *block[BLOCKS];
static char *large[LARGES];
static volatile bool done;

static void show(const char *name, uint64_t value) {
    printf("%s %llu\n", name, (unsigned long long)value);
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Shows the bytes beside blocks on the pages of the first KEPT blocks. */
static void count_pages(size_t kept) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), last = 0, left = 0;
    uint64_t free_bytes = 0;
    qsort(block, kept, sizeof(block[0]), by_address);
    for (size_t i = 0; i < kept; i++) {
        uintptr_t at = (uintptr_t)block[i], end = at + SIZE;
        while (at < end) {
            uintptr_t next = (at / page + 1) * page;
            if (next != last) {
                free_bytes += left;
                left = page;
                last = next;
            }
            if (next > end)
                next = end;
            left -= next - at;
            at = next;
        }
    }
    show("page_free", free_bytes + left);
}

static void *hold(void *arg) {
    pthread_barrier_t *all = arg;
    void *p[40];
    for (unsigned i = 0; i < 40; i++)
        p[i] = malloc(SIZE);
    for (unsigned i = 0; i < 40; i++)
        free(p[i]);
    pthread_barrier_wait(all);
    for (;;)
        pause();
    return NULL;
}

static void give_back(void) {
    void (*release)(void);
    *(void **)&release =
        dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
    if (release != NULL)
        release();
}

static int still(unsigned threads) {
    static char line[100];
    pthread_barrier_t all;
    pthread_t id;
    size_t kept = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(block[i] = malloc(SIZE), 1, SIZE);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % STEP == 0)
            block[kept++] = block[i];
        else
            free(block[i]);
    }
    for (unsigned i = 0; i < LARGES; i++)
        memset(large[i] = malloc(LARGE), 1, WRITTEN);
    pthread_barrier_init(&all, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&id, NULL, hold, &all) != 0)
            return 70;
    pthread_barrier_wait(&all);
    show("size", SIZE);
    show("usable", malloc_usable_size(block[0]));
    show("kept", kept);
    show("larges", LARGES);
    show("large_bytes", LARGES * LARGE);
    show("large_written", LARGES * WRITTEN);
    show("address", (uint64_t)(uintptr_t)block[0]);
    count_pages(kept);
    do {
        puts("ready");
        fflush(stdout);
        ssize_t n = read(0, line, sizeof(line));
        done = n <= 0;
        give_back();
    } while (!done);
    return 0;
}

static void *shelf[256];
static uint64_t rounds;

static void *work(void *arg) {
    struct prng r;
    prng_seed(&r, (uint64_t)(uintptr_t)arg);
    for (uint64_t i = 1; !done; i++) {
        unsigned k = (unsigned)prng_below(&r, 256);
        size_t most = prng_below(&r, 50) == 0 ? 600000 : 2000;
        free(__atomic_exchange_n(&shelf[k], malloc(prng_below(&r, most)),
                                 __ATOMIC_ACQ_REL));
        if (i % 1024 == 0)
            __atomic_fetch_add(&rounds, 1024, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* A thread that comes and goes, so that caches do. */
static void *short_work(void *arg) {
    void *p[100];
    for (unsigned i = 0; i < 100; i++)
        p[i] = malloc(i * 20);
    for (unsigned i = 0; i < 100; i++)
        free(p[i]);
    return arg;
}

static void *eat_input(void *arg) {
    char c;
    while (read(0, &c, 1) == 1)
        continue;
    done = true;
    return arg;
}

static int busy(int n) {
    pthread_t id[16], other;
    uint64_t children = 0;
    int failed = 0;
    if (n <= 0 || n > 16 || pthread_create(&other, NULL, eat_input, NULL))
        return 70;
    for (int i = 0; i < n; i++)
        if (pthread_create(&id[i], NULL, work, (void *)(intptr_t)i) != 0)
            return 70;
    puts("ready");
    fflush(stdout);
    while (!done) {
        pid_t pid = fork();
        int status = 1;
        if (pid == 0) {
            for (unsigned i = 0; i < 1000; i++)
                free(malloc(i * 100));
            _exit(0);
        }
        failed |= pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
        children++;
        if (pthread_create(&other, NULL, short_work, NULL) == 0)
            pthread_join(other, NULL);
        usleep(1000);
    }
    for (int i = 0; i < n; i++)
        pthread_join(id[i], NULL);
    show("rounds", rounds);
    show("children", children);
    return failed;
}

static int filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    char c;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                &program) != 0)
        return 77;
    puts("ready");
    fflush(stdout);
    return read(0, &c, 1) < 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "filter") == 0)
        return filter();
    if (argc == 3 && strcmp(argv[1], "still") == 0)
        return still((unsigned)atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "busy") == 0)
        return busy(atoi(argv[2]));
    return 2;
}
