/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/os_program.h"
#include "base/check.h"
#include "base/os_syscall.h"

#include <sys/auxv.h>

struct reader {
    long fd;
    size_t next, count;
    char bytes[512];
};

/* -1: the end. */
static int get(struct reader *r) {
    if (r->next == r->count) {
        long n = tcm_syscall(SYS_read, r->fd, r->bytes, sizeof(r->bytes));
        if (n <= 0)
            return -1;
        r->next = 0;
        r->count = (size_t)n;
    }
    return (unsigned char)r->bytes[r->next++];
}

/* A hexadecimal number and the character behind it. */
static uint64_t get_number(struct reader *r) {
    uint64_t n = 0;
    for (int c; (c = get(r)) >= 0;)
        if (c >= '0' && c <= '9')
            n = n << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint64_t)(c - 'a' + 10);
        else
            break;
    return n;
}

/* The rest of the line, from its first slash on. */
static size_t get_path(struct reader *r, char *path, size_t room) {
    size_t n = 0;
    int c;
    while ((c = get(r)) >= 0 && c != '\n')
        if ((n != 0 || c == '/') && n + 1 < room)
            path[n++] = (char)c;
    path[n] = '\0';
    return n;
}

/* Of the file that is mapped at ADDRESS. */
static size_t path_of_mapping(uintptr_t address, char *path, size_t room) {
    struct reader r = {.fd =
                           tcm_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps",
                                       O_RDONLY | O_CLOEXEC, 0)};
    uint64_t start, end;
    size_t n;
    path[0] = '\0';
    if (r.fd < 0)
        return 0;
    do {
        start = get_number(&r);
        end = get_number(&r);
        n = get_path(&r, path, room);
    } while (end != 0 && (address < start || address >= end));
    tcm_syscall(SYS_close, r.fd);
    return end == 0 ? 0 : n;
}

size_t tcm_os_program_path(char *path, size_t room) {
    int saved = errno;
    long n = 0;
    TCM_ASSERT(room != 0);
    /* The kernel gives no base of a loader where it started the loader itself,
       which then tells where the program's headers lie. */
    if (getauxval(AT_BASE) == 0)
        n = (long)path_of_mapping(getauxval(AT_PHDR), path, room);
    if (n == 0)
        n = tcm_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path,
                        room - 1);
    errno = saved;
    path[n < 0 ? 0 : n] = '\0';
    return n < 0 ? 0 : (size_t)n;
}
