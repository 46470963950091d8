/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was read stays read: a page is made by a copy of the process, which
 * counts what is alive as if the trace ended there, and then is gone.
 */
#include "base/raw_io.h"
#include "cmd/malloc_trace/report/serve.h"
#include "common/main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct reader {
    const struct serve *what;
    int server;
    bool told;
    struct tallies tallies;
};

static void be_silent(void) {
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (quiet >= 0)
        (void)dup2(quiet, STDERR_FILENO);
}

/* Waits until a page is asked for, or FD, if it is none of -1, has bytes; with
   NOW for neither. Whether it is asked for. Without a server there is nothing
   to do. */
static bool is_asked(const struct reader *r, int fd, bool now) {
    struct pollfd on[2] = {{.fd = r->server, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    char byte;
    while (poll(on, 2, now ? 0 : -1) < 0)
        if (errno != EINTR)
            _exit(TOOL_FAILED);
    if (on[0].revents == 0)
        return false;
    if (recv(r->server, &byte, 1, 0) != 1)
        _exit(TOOL_OK);
    return true;
}

static bool is_page(int status) {
    return status == TOOL_OK || status == TOOL_DAMAGED;
}

/* Makes the page and gives it. An enum tool_status. */
static int give_page(struct reader *r) {
    char *bytes = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&bytes, &n);
    if (f == NULL) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    int status = r->what->make(r->what->ctx, &r->tallies, f);
    bool good = fclose(f) == 0 && is_page(status);
    uint64_t length = n;
    good = good && tcm_io_write_all(r->server, &length, sizeof(length)) &&
           tcm_io_write_all(r->server, bytes, n);
    free(bytes);
    return good ? status : TOOL_FAILED;
}

/* The page of what was read so far. False: there is none. */
static bool give_copy(struct reader *r, struct tally_reader *trace) {
    int status;
    pid_t copy = fork();
    if (copy == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (r->told)
            be_silent();
        _exit(tally_stop_here(trace) ? give_page(r) : TOOL_FAILED);
    }
    if (copy < 0) {
        tool_error("cannot make a page: %s", strerror(errno));
        return false;
    }
    while (waitpid(copy, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    r->told = true;
    return WIFEXITED(status) && is_page(WEXITSTATUS(status));
}

static int read_trace(struct reader *r) {
    struct tally_reader *trace = tally_open(&r->tallies, r->what->trace, true);
    enum tally_step step;
    bool began = false; /* all that there was in the beginning was read */
    if (trace == NULL)
        return TOOL_FAILED;
    while ((step = tally_step(trace)) != TALLY_END) {
        int fd = step == TALLY_ALL ? tally_waits_on(trace) : -1;
        began = began || step == TALLY_ALL;
        while (began && is_asked(r, fd, fd < 0))
            if (!give_copy(r, trace))
                return TOOL_FAILED;
    }
    if (!tally_close(trace))
        return TOOL_FAILED;
    (void)is_asked(r, -1, false);
    if (r->told)
        be_silent();
    return give_page(r);
}

void serve_be_reader(const struct serve *s, int server, bool told) {
    static struct reader r;
    /* A terminal's ^C is for the server, which ends this one. */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (told)
        be_silent();
    r = (struct reader){.what = s,
                        .server = server,
                        .told = told,
                        .tallies = {.options = s->options}};
    _exit(read_trace(&r));
}
