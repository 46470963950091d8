/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/raw_io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Raw system calls: the C library's wrappers are cancellation points, and a
   program's thread must not be cancelled inside ours. */
bool tcm_io_write_all(int fd, const void *data, size_t length) {
    const char *p = data;
    int saved = errno;
    while (length != 0) {
        long n = syscall(SYS_write, fd, p, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
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

bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got) {
    char *p = data;
    int saved = errno;
    *got = 0;
    while (*got < length) {
        long n = syscall(SYS_read, fd, p + *got, length - *got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
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
    int saved = errno;
    size_t got = 0;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    bool ok = fd >= 0 && tcm_io_read_full((int)fd, buf, cap - 1, &got);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
    if (!ok)
        return -1;
    buf[got] = '\0';
    return (long)got;
}
