/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlockall of a user with a limit: it is compared with the memory in use, not
 * with the addresses of tables, and what mlockall is to lock has memory then.
 */
#include "tap.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)

/* Sums the VmLck of the process, in KiB. */
static long locked_kib(void) {
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmLck: %ld", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib;
}

/* Returns the bytes of whole pages of BLOCK at P that have memory. */
static size_t resident(const void *p) {
    static unsigned char state[BLOCK / 4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    uintptr_t from = ((uintptr_t)p + page - 1) & ~(page - 1);
    size_t pages = BLOCK / page - 1;
    if (mincore((void *)from, pages * page, state) != 0)
        return 0;
    for (size_t i = 0; i < pages; i++)
        sum += (state[i] & 1) * page;
    return sum;
}

/* Becomes a user whose locked memory is limited. */
static void lose_privileges(void) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        tap_bail("setuid: %s", strerror(errno));
}

/* Locks what is to come before the first call of malloc. */
static int lock_first(void) {
    lose_privileges();
    return mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && malloc(100) != NULL ? 0
                                                                          : 1;
}

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc > 1)
        return lock_first();
    lose_privileges();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], "first", (char *)NULL);
        _exit(9);
    }
    int first = 0;
    if (waitpid(pid, &first, 0) != pid)
        tap_bail("waitpid");
    void *block = malloc(BLOCK);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur < ((rlim_t)8 << 20) || block == NULL) {
        tap_skip("RLIMIT_MEMLOCK is below 8 MiB");
        return tap_done();
    }
    tap_is_i64(first, 0, "with all locked that is to come, malloc serves");
    errno = 0;
    bool locks = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
    tap_ok(locks && errno == 0, "memory that is there is locked: %s",
           strerror(errno));
    tap_ok(locked_kib() > 0, "the kernel says so");
    tap_ok(resident(block) < BLOCK / 2, "a fresh block gets no memory by it");
    munlockall();
    tap_ok(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && errno == 0,
           "all memory is locked: %s", strerror(errno));
    tap_ok(locked_kib() > (long)(BLOCK >> 10), "the kernel says so");
    tap_ok(resident(block) > BLOCK / 2, "a fresh block has memory");
    void *map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_ok(map != MAP_FAILED && resident(map) > BLOCK / 2,
           "and so has a mapping that is made later");
    munlockall();
    tap_ok(locked_kib() == 0, "nothing is locked after munlockall");
    tap_ok(mlockall(1 << 20) == -1 && errno == EINVAL, "flags are checked");
    limit.rlim_cur = (rlim_t)64 << 10;
    tap_ok(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
               mlockall(MCL_CURRENT) == -1 && errno == ENOMEM,
           "a limit below the memory in use is kept");
    tap_ok(locked_kib() == 0, "nothing is locked then");
    return tap_done();
}
