/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_serve_request.h"

#include "common/main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* --- Addresses ------------------------------------------------------------ */

/* Parses one to five digits. False: TEXT is something else, or too large. */
static bool parse_port(const char *text, uint16_t *port) {
    unsigned n = 0, digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 5; text++, digits++)
        n = n * 10 + (unsigned)(*text - '0');
    *port = (uint16_t)n;
    return *text == '\0' && digits != 0 && n <= UINT16_MAX;
}

/* Splits TEXT, "HOST:PORT" or "[HOST]:PORT"; *PORT is NULL if there is
   none. False: it is too long, or no such text. */
static bool split(const char *text, char host[64], const char **port) {
    const char *end;
    if (*text == '[') {
        end = strchr(++text, ']');
        if (end == NULL || (end[1] != ':' && end[1] != '\0'))
            return false;
        *port = end[1] == ':' ? end + 2 : NULL;
    } else {
        end = strchr(text, ':');
        *port = end == NULL ? NULL : end + 1;
        end = end == NULL ? text + strlen(text) : end;
    }
    size_t n = (size_t)(end - text);
    if (n >= 64)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    return true;
}

static bool is_ipv4(const char *host, bool *local) {
    struct in_addr a;
    if (inet_pton(AF_INET, host, &a) != 1)
        return false;
    *local = ntohl(a.s_addr) >> 24 == 127;
    return true;
}

static bool is_ipv6(const char *host, bool *local) {
    struct in6_addr a;
    if (inet_pton(AF_INET6, host, &a) != 1)
        return false;
    *local = memcmp(&a, &in6addr_loopback, sizeof(a)) == 0;
    return true;
}

bool report_serve_parse_address(const char *text,
                                struct report_serve_address *a) {
    const char *port;
    *a = (struct report_serve_address){0};
    if (strchr(text, '/') != NULL) {
        a->is_socket = a->is_local = true;
        a->path = text;
        return true;
    }
    if (!split(text, a->host, &port) || port == NULL ||
        !parse_port(port, &a->port))
        return false;
    if (a->host[0] == '\0' && text[0] == ':')
        memcpy(a->host, "127.0.0.1", sizeof("127.0.0.1"));
    return text[0] == '[' ? is_ipv6(a->host, &a->is_local)
                          : is_ipv4(a->host, &a->is_local);
}

/* --- Requests ------------------------------------------------------------- */

/* True for "localhost" or an address in digits, with PORT: no name that another
   site could have pointed to this machine. */
static bool is_accepted_host(const char *text, uint16_t port) {
    char host[64];
    const char *said;
    uint16_t number = 80;
    bool local;
    if (!split(text, host, &said) ||
        (said != NULL && !parse_port(said, &number)))
        return false;
    if (port != 0 && number != port)
        return false;
    return text[0] == '['
               ? is_ipv6(host, &local)
               : strcasecmp(host, "localhost") == 0 || is_ipv4(host, &local);
}

/* True if LIST, a value of If-None-Match, has TAG, also as a weak tag. */
static bool has_tag(const char *list, const char *tag) {
    size_t n = strlen(tag);
    for (const char *p = list; (p = strstr(p, tag)) != NULL; p += n)
        if (p[n] == '\0' || p[n] == ',' || p[n] == ' ')
            return true;
    return false;
}

/* The part of PATH behind FOLDER; NULL: another folder. Takes the same time for
   any FOLDER of one length, so that the token cannot be guessed piecewise. */
static const char *name_in(const char *path, const char *folder) {
    size_t n = strlen(folder);
    unsigned differ = 0;
    if (strlen(path) < n)
        return NULL;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned)(path[i] ^ folder[i]);
    return differ == 0 ? path + n : NULL;
}

enum report_serve_answer
report_serve_decide(const struct report_serve_request *r, const char *folder,
                    const char *tag, uint16_t port) {
    if (r->host == NULL || !is_accepted_host(r->host, port))
        return REPORT_SERVE_OTHER_HOST;
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return REPORT_SERVE_NO_METHOD;
    if (r->transfer_encoding != NULL ||
        (r->content_length != NULL && strcmp(r->content_length, "0") != 0))
        return REPORT_SERVE_NO_BODY;
    const char *name = name_in(r->path, folder);
    if (name == NULL || (*name != '\0' && strcmp(name, "page.js") != 0))
        return REPORT_SERVE_NOT_FOUND;
    if (*name != '\0')
        return REPORT_SERVE_SCRIPT;
    return r->if_none_match != NULL && has_tag(r->if_none_match, tag)
               ? REPORT_SERVE_SAME
               : REPORT_SERVE_PAGE;
}

/* --- The socket ----------------------------------------------------------- */

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

static socklen_t fill(const struct report_serve_address *a, union address *to) {
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

/* Removes the socket of a program that was killed. */
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

int report_serve_listen(struct report_serve_address *a) {
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

void report_serve_unlisten(const struct report_serve_address *a) {
    if (a->is_socket)
        (void)unlink(a->path);
}
