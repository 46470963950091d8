/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a command to which the kernel refuses some system calls, as the filters
 * of containers do.
 *
 * confine CALL[,CALL...] CMD ARGS...: status 77 if filters cannot be had.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"close_range", SYS_close_range},
    {"fallocate", SYS_fallocate},
    {"getrandom", SYS_getrandom},
    {"madvise", SYS_madvise},
    {"ftruncate", SYS_ftruncate},
    {"readlinkat", SYS_readlinkat},
    {"renameat2", SYS_renameat2},
    {"linkat", SYS_linkat},
    {"prctl", SYS_prctl},
    {"getcpu", SYS_getcpu},
    {"unshare", SYS_unshare},
};

enum { MAX = sizeof calls / sizeof *calls };

int main(int argc, char **argv) {
    struct sock_filter code[2 * MAX + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    if (argc < 3)
        return 2;
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        unsigned i = 0;
        while (i < MAX && strcmp(calls[i].name, name) != 0)
            i++;
        if (i == MAX || n + 3 > 2 * MAX + 2)
            return 2;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 calls[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                                 SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    execvp(argv[2], argv + 2);
    return 127;
}
