/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was read stays read: a page is made by a copy of the process, which
 * counts what is alive as if the trace ended there, and then is gone.
 */
#include "base/raw_io.h"
#include "cmd/malloc_trace/report/serve.h"
#include "common/child.h"
#include "common/main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time between two looks for more of the trace. */
#define LOOK_MS 50

struct reader {
    const struct serve *what;
    int server;
    bool told;
    struct tallies tallies;
    struct tally_reader *trace;
};

static void be_silent(void) {
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (quiet >= 0)
        (void)dup2(quiet, STDERR_FILENO);
}

/* Whether a page is asked for, now or within MS (-1: for ever). Without a
   server there is nothing to do. */
static bool is_asked(const struct reader *r, int ms) {
    struct pollfd on = {.fd = r->server, .events = POLLIN};
    char byte;
    int ready;
    while ((ready = poll(&on, 1, ms)) < 0)
        if (errno != EINTR)
            _exit(TOOL_FAILED);
    if (ready == 0)
        return false;
    if (recv(r->server, &byte, 1, 0) != 1)
        _exit(TOOL_OK);
    return true;
}

/* The same, waited for while nothing more of TRACE is there. */
static bool is_asked_between(const struct reader *r,
                             const struct tally_reader *trace) {
    while (tally_may_sleep(trace))
        if (is_asked(r, LOOK_MS))
            return true;
    return is_asked(r, 0);
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

/* In the copy. */
static int end_and_give_page(void *ctx) {
    struct reader *r = ctx;
    if (r->told)
        be_silent();
    return tally_stop_here(r->trace) ? give_page(r) : TOOL_FAILED;
}

/* The page of what was read so far. False: there is none. */
static bool give_copy(struct reader *r) {
    struct tool_child_end end;
    struct tool_child_spec what = {
        .body = end_and_give_page, .ctx = r, .dies_with_parent = true};
    if (!tool_child_run(&what, 0, &end))
        return false;
    r->told = true;
    return WIFEXITED(end.status) && is_page(WEXITSTATUS(end.status));
}

static int read_trace(struct reader *r) {
    struct tally_reader *trace = tally_open(&r->tallies, r->what->trace, true);
    r->trace = trace;
    enum tally_step step;
    bool began = false; /* all that there was in the beginning was read */
    if (trace == NULL)
        return TOOL_FAILED;
    while ((step = tally_step(trace)) != TALLY_END) {
        began = began || step == TALLY_ALL;
        while (began && (step == TALLY_ALL ? is_asked_between(r, trace)
                                           : is_asked(r, 0)))
            if (!give_copy(r))
                return TOOL_FAILED;
    }
    if (!tally_close(trace))
        return TOOL_FAILED;
    (void)is_asked(r, -1);
    if (r->told)
        be_silent();
    return give_page(r);
}

int serve_be_reader(const struct serve *s, int server, bool told) {
    static struct reader r;
    if (told)
        be_silent();
    r = (struct reader){.what = s,
                        .server = server,
                        .told = told,
                        .tallies = {.options = s->options}};
    return read_trace(&r);
}
