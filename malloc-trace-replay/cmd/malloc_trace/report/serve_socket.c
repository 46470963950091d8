/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/serve_socket.h"

#include "common/main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

static int fail(int fd, const char *what) {
    tool_error("cannot listen at %s: %s", what, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static socklen_t fill(const struct serve_address *a, union address *to) {
    memset(to, 0, sizeof(*to));
    if (a->is_socket) {
        if (strlen(a->path) >= sizeof(to->un.sun_path))
            return 0;
        to->un.sun_family = AF_UNIX;
        memcpy(to->un.sun_path, a->path, strlen(a->path) + 1);
        return sizeof(to->un);
    }
    if (inet_pton(AF_INET, a->host, &to->in.sin_addr) == 1) {
        to->in.sin_family = AF_INET;
        to->in.sin_port = htons(a->port);
        return sizeof(to->in);
    }
    if (inet_pton(AF_INET6, a->host, &to->in6.sin6_addr) != 1)
        return 0;
    to->in6.sin6_family = AF_INET6;
    to->in6.sin6_port = htons(a->port);
    return sizeof(to->in6);
}

/* A socket that a program left behind which was killed. */
static void remove_stale(const char *path, const union address *to,
                         socklen_t length) {
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &to->any, length) != 0 && errno == ECONNREFUSED)
        (void)unlink(path);
    close(fd);
}

int serve_listen(struct serve_address *a) {
    union address to;
    const char *what = a->is_socket ? a->path : a->host;
    socklen_t length = fill(a, &to);
    int on = 1;
    if (length == 0) {
        errno = ENAMETOOLONG;
        return fail(-1, what);
    }
    int fd =
        socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(fd, what);
    if (a->is_socket)
        remove_stale(a->path, &to, length);
    else
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    mode_t mask = umask(0177);
    bool bound = bind(fd, &to.any, length) == 0;
    (void)umask(mask);
    if (!bound || listen(fd, BACKLOG) != 0)
        return fail(fd, what);
    if (!a->is_socket && getsockname(fd, &to.any, &length) == 0)
        a->port = ntohs(to.any.sa_family == AF_INET ? to.in.sin_port
                                                    : to.in6.sin6_port);
    return fd;
}

void serve_unlisten(const struct serve_address *a) {
    if (a->is_socket)
        (void)unlink(a->path);
}
