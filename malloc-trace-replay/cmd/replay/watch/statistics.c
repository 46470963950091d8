/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/statistics.h"

#include "base/raw_io.h"
#include "common/shared_library.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Static, so that nothing is asked of the allocator. */
static char text[64 << 10];

static void put(int fd, const char *s) {
    (void)tcm_io_write_all(fd, s, strlen(s));
}

/* jemalloc and mimalloc call it with each piece. */
static void put_piece(void *fd, const char *s) {
    put(*(const int *)fd, s);
}
static void put_piece_last(const char *s, void *fd) {
    put_piece(fd, s);
}

/* The function NAME of malloc's library, or NULL. */
static void *find(const struct replay_calls *calls, const char *name) {
    return tool_symbol_of(calls->library, name);
}
#define FIND(calls, function, name)                                            \
    do {                                                                       \
        void *p_ = find(calls, name);                                          \
        memcpy(&(function), &p_, sizeof(p_));                                  \
    } while (0)

/* Thread caches keep their own counts until they are emptied. */
static bool by_jemalloc(const struct replay_calls *calls, int fd,
                        bool is_json) {
    int (*control)(const char *, void *, size_t *, void *, size_t);
    void (*print)(void (*)(void *, const char *), void *, const char *);
    FIND(calls, print, "malloc_stats_print");
    if (print == NULL)
        return false;
    FIND(calls, control, "mallctl");
    if (control != NULL)
        (void)control("thread.tcache.flush", NULL, NULL, NULL, 0);
    print(put_piece, &fd, is_json ? "J" : "");
    return true;
}

static bool by_mimalloc(const struct replay_calls *calls, int fd) {
    void (*merge)(void);
    void (*print)(void (*)(const char *, void *), void *);
    FIND(calls, print, "mi_stats_print_out");
    if (print == NULL)
        return false;
    FIND(calls, merge, "mi_stats_merge");
    if (merge != NULL)
        merge();
    print(put_piece_last, &fd);
    return true;
}

static bool by_extension(const struct replay_calls *calls, int fd) {
    void (*print)(char *, int);
    FIND(calls, print, "MallocExtension_GetStats");
    if (print == NULL)
        return false;
    print(text, (int)sizeof(text));
    text[sizeof(text) - 1] = '\0';
    put(fd, text);
    return true;
}

/* Through stderr, which needs no buffer. */
static bool by_c_library(const struct replay_calls *calls, int fd) {
    int (*print)(int, FILE *);
    FIND(calls, print, "malloc_info");
    if (print == NULL)
        return false;
    int before = fd == STDERR_FILENO ? -1 : fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (before >= 0)
        (void)dup2(fd, STDERR_FILENO);
    bool good = print(0, stderr) == 0;
    if (before >= 0) {
        (void)dup2(before, STDERR_FILENO);
        close(before);
    }
    return good;
}

bool replay_statistics(const struct replay_calls *calls, int fd, bool is_json) {
    return calls->library != NULL &&
           (by_jemalloc(calls, fd, is_json) || by_mimalloc(calls, fd) ||
            by_extension(calls, fd) || by_c_library(calls, fd));
}
