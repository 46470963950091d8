/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Confines itself as sandboxes do, allocates, and ends with a status that tells
 * how far it came. 77: the kernel cannot do that.
 *
 * sandbox_target allow... CALL,CALL... [tsync]   all other calls kill
 * sandbox_target strict | tsc... | setns | unshare
 * sandbox_target refuse CALL,CALL... CMD ARGS    these calls fail in CMD
 *
 * MODE-little: with a few requests before and inside; MODE-then: with many
 * inside only; MODE-stopped: after a recording.
 */
#include <gperftools/malloc_trace.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak malloc_trace_is_on
#pragma weak malloc_trace_stop

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

enum { FEW = 100, MANY = 100000 };

static void work(unsigned n) {
    static void *slot[1000];
    for (unsigned i = 0; i < n; i++) {
        unsigned k = i * 2654435761u % 1000;
        give(slot[k]);
        slot[k] = take(k);
    }
}

/* More than the heap had room for before: 450 MB. */
static void grow(void) {
    static void *block[30000];
    for (unsigned i = 0; i < 30000; i++)
        block[i] = take(i);
    for (unsigned i = 0; i < 30000; i++)
        give(block[i]);
}

/* Blocks with pages of their own: made before, freed inside, alive at the
   end. */
static void *large[2];

static void make_large(void) {
    for (int i = 0; i < 2; i++)
        large[i] = take((size_t)1 << 20);
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"clock_gettime", SYS_clock_gettime},
    {"close", SYS_close},
    {"close_range", SYS_close_range},
    {"exit", SYS_exit},
    {"exit_group", SYS_exit_group},
    {"fallocate", SYS_fallocate},
    {"flock", SYS_flock},
    {"fstat", SYS_fstat},
    {"ftruncate", SYS_ftruncate},
    {"futex", SYS_futex},
    {"getcpu", SYS_getcpu},
    {"getrandom", SYS_getrandom},
    {"getrusage", SYS_getrusage},
    {"gettid", SYS_gettid},
    {"linkat", SYS_linkat},
    {"madvise", SYS_madvise},
    {"mmap", SYS_mmap},
    {"mprotect", SYS_mprotect},
    {"munmap", SYS_munmap},
    {"newfstatat", SYS_newfstatat},
    {"prctl", SYS_prctl},
    {"pread64", SYS_pread64},
    {"prlimit64", SYS_prlimit64},
    {"pwrite64", SYS_pwrite64},
    {"readlinkat", SYS_readlinkat},
    {"renameat2", SYS_renameat2},
    {"unlinkat", SYS_unlinkat},
    {"unshare", SYS_unshare},
    {"write", SYS_write},
};

enum { CALLS = sizeof calls / sizeof *calls };

/* Filters system calls from now on, with FLAGS of seccomp: NAMED is done to the
   calls with these names, OTHERS to all others. Returns 0, or an exit
   status. */
static int filter(char *names, unsigned named, unsigned others,
                  unsigned flags) {
    struct sock_filter code[2 * CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        unsigned i = 0;
        while (i < CALLS && strcmp(calls[i].name, name) != 0)
            i++;
        if (i == CALLS || n + 3 > 2 * CALLS + 2)
            return 2;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 calls[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, named);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    struct sock_fprog program = {.len = n, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                   syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags,
                           &program) != 0
               ? 77
               : 0;
}

static int allow(char *names, int everywhere, unsigned n_inside) {
    int rc = filter(names, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS,
                    everywhere ? SECCOMP_FILTER_FLAG_TSYNC : 0);
    if (rc != 0)
        return rc;
    if (n_inside == 0)
        grow();
    work(n_inside);
    give(large[0]);
    if (write(1, "inside\n", 7) != 7)
        return 1;
    return 42;
}

static int refuse(char *names, char **command) {
    int rc = filter(names, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, 0);
    if (rc != 0)
        return rc;
    execvp(command[0], command);
    return 127;
}

static void stop(void) {
    if (malloc_trace_stop != NULL)
        malloc_trace_stop();
}

/* Nothing but read, write, exit and the return from a handler; no clock of the
   processor either. What it frees and takes is in its cache. */
static int strict(void) {
    void *p = take(100);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0)
        return 77;
    if (malloc_trace_stop == NULL || !malloc_trace_is_on()) {
        for (int i = 0; i < 1000; i++) {
            give(p);
            p = take(100);
        }
    }
    long n = write(1, "inside\n", 7);
    syscall(SYS_exit, n == 7 ? 43 : 1);
    return 1;
}

static int no_clock(void) {
#if defined(__x86_64__)
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        return 77;
    work(MANY);
    puts("inside");
    return 44;
#else
    return 77;
#endif
}

/* Into the mount namespace of a child. */
static int enter_mounts(void) {
    char path[64];
    int ready[2];
    if (pipe(ready) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        char c = unshare(CLONE_NEWNS) == 0;
        if (write(ready[1], &c, 1) == 1)
            pause();
        _exit(0);
    }
    char c = 0;
    if (read(ready[0], &c, 1) != 1)
        return 1;
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
    int fd = open(path, O_RDONLY);
    work(MANY);
    int rc = c ? setns(fd, CLONE_NEWNS) : 0;
    printf("setns %s\n", rc == 0 ? "worked" : strerror(errno));
    work(MANY);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return c ? 45 : 77;
}

/* A user namespace, which a process with threads cannot leave. */
static int leave_users(void) {
    stop();
    int rc = unshare(CLONE_NEWUSER);
    /* A thread that was joined may be among the kernel's for a moment yet. */
    for (int i = 0; rc != 0 && errno == EINVAL && i < 5000; i++) {
        usleep(1000);
        rc = unshare(CLONE_NEWUSER);
    }
    printf("unshare %s\n", rc == 0 ? "worked" : strerror(errno));
    work(MANY);
    return rc == 0 || errno != EPERM ? 46 : 77;
}

int main(int argc, char **argv) {
    const char *mode = argc < 2 ? "" : argv[1];
    const char *how = strchr(mode, '-') == NULL ? "" : strchr(mode, '-');
    if (!strcmp(mode, "refuse") && argc >= 4)
        return refuse(argv[2], argv + 3);
    bool grows = !strcmp(how, "-heap");
    bool few = grows || !strcmp(how, "-little") || !strcmp(how, "-then");
    work(few ? FEW : MANY);
    if (!strcmp(how, "-large"))
        make_large();
    if (!strcmp(how, "-stopped"))
        stop();
    if (!strncmp(mode, "allow", 5) && argc >= 3)
        return allow(argv[2], argc > 3,
                     grows                     ? 0
                     : !strcmp(how, "-little") ? FEW
                                               : MANY);
    if (!strcmp(mode, "strict"))
        return strict();
    if (!strncmp(mode, "tsc", 3))
        return no_clock();
    if (!strcmp(mode, "setns"))
        return enter_mounts();
    if (!strcmp(mode, "unshare"))
        return leave_users();
    return 2;
}
