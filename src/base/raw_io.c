/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/raw_io.h"
#include "base/check.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000u

/* Raw system calls: the C library's wrappers are cancellation points, and a
   program's thread must not be cancelled inside ours. */
bool tcm_io_write_all(int fd, const void *data, size_t length) {
    const char *p = data;
    int saved = errno;
    while (length != 0) {
        long n = tcm_syscall(SYS_write, fd, p, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            tcm_syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
            continue;
        }
        if (n < 0)
            return false;
        p += n;
        length -= (size_t)n;
    }
    errno = saved;
    return true;
}

long tcm_io_write_some(int fd, const void *data, size_t length,
                       uint64_t timeout_ns) {
    TCM_ASSERT(length != 0);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S),
                               (long)(timeout_ns % NS_PER_S)};
    int saved = errno;
    long n = tcm_syscall(SYS_ppoll, &wait, 1, &timeout, NULL, 0);
    /* A pipe that polls as writable has room for PIPE_BUF bytes. */
    if (n > 0)
        n = tcm_syscall(SYS_write, fd, data,
                        length < PIPE_BUF ? length : PIPE_BUF);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return -1;
    errno = saved;
    return n < 0 ? 0 : n;
}

bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got) {
    char *p = data;
    int saved = errno;
    *got = 0;
    while (*got < length) {
        long n = tcm_syscall(SYS_read, fd, p + *got, length - *got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            tcm_syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
            continue;
        }
        if (n < 0)
            return false;
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    errno = saved;
    return true;
}

long tcm_io_read_file(const char *path, char *buf, size_t cap) {
    TCM_ASSERT(cap != 0);
    int saved = errno;
    size_t got = 0;
    long fd = tcm_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    bool ok = fd >= 0 && tcm_io_read_full((int)fd, buf, cap - 1, &got);
    if (fd >= 0)
        tcm_syscall(SYS_close, fd);
    errno = saved;
    if (!ok)
        return -1;
    buf[got] = '\0';
    return (long)got;
}
