/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/unpack.h"

#include "base/bits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TCM_HAVE_ZLIB
#define TCM_HAVE_ZLIB 0
#endif
#ifndef TCM_HAVE_ZSTD
#define TCM_HAVE_ZSTD 0
#endif
#if TCM_HAVE_ZLIB
#include <zlib.h>
#endif
#if TCM_HAVE_ZSTD
#include <zstd.h>
#endif

struct tool_unpack {
    enum tool_packing packing;
    bool inside; /* a member or frame has begun and not ended */
    enum mtf_status status;
    /* as tool_unpack_some */
    enum mtf_status (*some)(struct tool_unpack *u, const uint8_t *from,
                            size_t *taken, bool at_end, void *to, size_t *got);
    void (*end)(struct tool_unpack *u);
#if TCM_HAVE_ZLIB
    z_stream zlib;
#endif
#if TCM_HAVE_ZSTD
    ZSTD_DStream *zstd;
#endif
    /* the program */
    pid_t child;  /* -1: none, or waited for */
    int to, from; /* a socket, so that its end is no signal; a pipe. -1: none */
};

enum tool_packing tool_packing_of(const uint8_t *p, size_t n) {
    static const uint8_t zstd[4] = {0x28, 0xb5, 0x2f, 0xfd};
    /* deflate is the only method there is; other flags are reserved */
    if (n >= 4 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8 &&
        (p[3] & 0xe0) == 0)
        return TOOL_PACKING_GZIP;
    return n >= sizeof(zstd) && memcmp(p, zstd, sizeof(zstd)) == 0
               ? TOOL_PACKING_ZSTD
               : TOOL_PACKING_NONE;
}

const char *tool_packing_name(enum tool_packing packing) {
    return packing == TOOL_PACKING_GZIP ? "gzip member" : "zstd frame";
}

/* --- A program ------------------------------------------------------------ */

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Its exit status as by waitpid; 0 when it was waited for. */
static int end_program(struct tool_unpack *u) {
    int status = 0;
    close_fd(&u->to);
    close_fd(&u->from);
    while (u->child > 0 && waitpid(u->child, &status, 0) < 0 && errno == EINTR)
        ;
    u->child = -1;
    return status;
}

/* What it says of damage is told by the reader. 0, or errno. */
static int spawn(pid_t *child, char *name, int in, int out) {
    extern char **environ;
    char *argv[] = {name, (char[]){"-dc"}, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
                                                 "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawnp(child, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* It has closed its output. */
static enum mtf_status program_ended(struct tool_unpack *u) {
    int status = end_program(u);
    u->inside = false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? MTF_OK : MTF_DAMAGED;
}

static enum mtf_status by_program(struct tool_unpack *u, const uint8_t *from,
                                  size_t *taken, bool at_end, void *to,
                                  size_t *got) {
    size_t n = *taken, room = *got;
    *taken = *got = 0;
    if (u->from < 0)
        return MTF_OK; /* it has ended */
    for (;;) {
        struct pollfd p[2] = {{.fd = u->from, .events = POLLIN},
                              {.fd = n != 0 ? u->to : -1, .events = POLLOUT}};
        if (n == 0 && at_end)
            close_fd(&u->to);
        else if (n == 0)
            return MTF_OK;
        (void)poll(p, 2, -1);
        ssize_t r = read(u->from, to, room);
        if (r == 0)
            return program_ended(u);
        if (r > 0) {
            *got = (size_t)r;
            return MTF_OK;
        }
        if (n == 0)
            continue;
        r = send(u->to, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r > 0) {
            *taken = (size_t)r;
            return MTF_OK;
        }
        if (r < 0 && errno == EPIPE) {
            /* what it wrote before is still to be read */
            *taken = n;
            return MTF_OK;
        }
    }
}

static void stop_program(struct tool_unpack *u) {
    (void)end_program(u);
}

static int start_program(struct tool_unpack *u) {
    char name[] = "zstd";
    int in[2], out[2], error;
    if (u->packing == TOOL_PACKING_GZIP)
        memcpy(name, "gzip", sizeof(name));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
        return errno;
    if (pipe2(out, O_CLOEXEC) != 0) {
        error = errno;
        close(in[0]);
        close(in[1]);
        return error;
    }
    error = spawn(&u->child, name, in[1], out[1]);
    close(in[1]);
    close(out[1]);
    u->to = in[0];
    u->from = out[0];
    if (error != 0)
        u->child = -1;
    else
        (void)fcntl(u->from, F_SETFL, O_NONBLOCK);
    u->inside = error == 0;
    u->some = by_program;
    u->end = stop_program;
    return error;
}

/* --- Libraries ------------------------------------------------------------ */

#if TCM_HAVE_ZLIB

static enum mtf_status by_zlib(struct tool_unpack *u, const uint8_t *from,
                               size_t *taken, bool at_end, void *to,
                               size_t *got) {
    size_t n = tcm_min_u64(*taken, UINT32_MAX);
    size_t room = tcm_min_u64(*got, UINT32_MAX);
    *taken = *got = 0;
    if (!u->inside) {
        if (n == 0)
            return MTF_OK;
        (void)inflateReset(&u->zlib);
        u->inside = true;
    }
    u->zlib.next_in = (Bytef *)(uintptr_t)from;
    u->zlib.avail_in = (uInt)n;
    u->zlib.next_out = to;
    u->zlib.avail_out = (uInt)room;
    int r = inflate(&u->zlib, Z_NO_FLUSH);
    *taken = n - u->zlib.avail_in;
    *got = room - u->zlib.avail_out;
    if (r == Z_STREAM_END)
        u->inside = false;
    if (r == Z_OK || r == Z_STREAM_END)
        return MTF_OK;
    if (r == Z_BUF_ERROR)
        return at_end && *taken == n && *got == 0 ? MTF_CUT : MTF_OK;
    return r == Z_MEM_ERROR ? MTF_NO_MEMORY : MTF_DAMAGED;
}

static void end_zlib(struct tool_unpack *u) {
    (void)inflateEnd(&u->zlib);
}

static int start_zlib(struct tool_unpack *u) {
    u->some = by_zlib;
    u->end = end_zlib;
    return inflateInit2(&u->zlib, 15 + 16) == Z_OK ? 0 : ENOMEM;
}

#else

static int start_zlib(struct tool_unpack *u) {
    (void)u;
    return ENOSYS;
}

#endif

#if TCM_HAVE_ZSTD

static enum mtf_status by_zstd(struct tool_unpack *u, const uint8_t *from,
                               size_t *taken, bool at_end, void *to,
                               size_t *got) {
    ZSTD_inBuffer in = {from, *taken, 0};
    ZSTD_outBuffer out = {to, *got, 0};
    *taken = *got = 0;
    if (in.size == 0 && !u->inside)
        return MTF_OK;
    size_t r = ZSTD_decompressStream(u->zstd, &out, &in);
    *taken = in.pos;
    *got = out.pos;
    if (ZSTD_isError(r))
        return MTF_DAMAGED;
    u->inside = r != 0;
    return u->inside && at_end && in.pos == in.size && out.pos == 0 ? MTF_CUT
                                                                    : MTF_OK;
}

static void end_zstd(struct tool_unpack *u) {
    ZSTD_freeDStream(u->zstd);
}

static int start_zstd(struct tool_unpack *u) {
    u->some = by_zstd;
    u->end = end_zstd;
    u->zstd = ZSTD_createDStream();
    return u->zstd != NULL && !ZSTD_isError(ZSTD_initDStream(u->zstd)) ? 0
                                                                       : ENOMEM;
}

#else

static int start_zstd(struct tool_unpack *u) {
    (void)u;
    return ENOSYS;
}

#endif

/* --- Either --------------------------------------------------------------- */

struct tool_unpack *tool_unpack_new(enum tool_packing packing) {
    struct tool_unpack *u = calloc(1, sizeof(*u));
    if (u == NULL)
        return NULL;
    u->packing = packing;
    u->child = u->to = u->from = -1;
    int error = packing == TOOL_PACKING_GZIP ? start_zlib(u) : start_zstd(u);
    if (error == ENOSYS)
        error = start_program(u);
    if (error == 0)
        return u;
    tool_unpack_free(u);
    errno = error;
    return NULL;
}

void tool_unpack_free(struct tool_unpack *u) {
    if (u == NULL)
        return;
    if (u->end != NULL)
        u->end(u);
    free(u);
}

enum mtf_status tool_unpack_some(struct tool_unpack *u, const uint8_t *from,
                                 size_t *taken, bool at_end, void *to,
                                 size_t *got) {
    if (u->status == MTF_OK)
        u->status = u->some(u, from, taken, at_end, to, got);
    else
        *taken = *got = 0;
    return u->status;
}

bool tool_unpack_is_done(const struct tool_unpack *u) {
    return !u->inside;
}
