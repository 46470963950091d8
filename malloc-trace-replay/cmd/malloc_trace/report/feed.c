/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/feed.h"

#include "common/files.h"
#include "common/main.h"
#include "formats/format_open.h"
#include "trace/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static TCM_NORETURN void become_postprocess(const char *path, const char *name,
                                            bool follow, int in, int out) {
    tool_before_exec();
    if ((in < 0 || dup2(in, STDIN_FILENO) >= 0) &&
        dup2(out, STDOUT_FILENO) >= 0)
        execl(path, tool_name(), "--quiet", follow ? "--follow" : "--quiet",
              "--", in < 0 ? name : "-", "-", (char *)NULL);
    tool_error("cannot run %s: %s", path, strerror(errno));
    _exit(TOOL_FAILED);
}

/* The read end of a pipe that a process fills with what IN has; -1: errno
   tells. */
static int pass_on(struct tool_input *in, pid_t *filler) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    *filler = fork();
    if (*filler == 0) {
        close(ends[0]);
        _exit(tool_input_pass_on(in, ends[1]) ? TOOL_OK : TOOL_FAILED);
    }
    close(ends[1]);
    if (*filler > 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* PASSED: what NAME has, which cannot be opened again; NULL: it can. */
static bool start_postprocess(struct feed *f, const char *name, bool follow,
                              struct tool_input *passed) {
    char folder[PATH_MAX], path[PATH_MAX + 16];
    int ends[2], in = -1;
    if (!tool_own_folder(folder)) {
        tool_error("cannot tell where postprocess is");
        return false;
    }
    snprintf(path, sizeof(path), "%s/postprocess", folder);
    if ((passed != NULL && (in = pass_on(passed, &f->filler)) < 0) ||
        pipe2(ends, O_CLOEXEC) != 0 || (f->child = fork()) < 0) {
        tool_error("cannot run postprocess: %s", strerror(errno));
        return false;
    }
    if (f->child == 0)
        become_postprocess(path, name, follow, in, ends[1]);
    close(ends[1]);
    if (in >= 0)
        close(in);
    f->fd = ends[0];
    f->in = tool_input_from_fd(ends[0], name);
    if (f->in == NULL) {
        tool_error("out of memory");
        (void)feed_close(f, true);
        return false;
    }
    return true;
}

bool feed_open(struct feed *f, const char *name, bool follow) {
    bool is_stdin = strcmp(name, "-") == 0;
    f->child = f->filler = 0;
    f->fd = -1;
    f->in = format_open(name);
    if (f->in == NULL && errno == ENOMEM) {
        tool_error("out of memory");
        return false;
    }
    struct tool_input *in = f->in;
    if (in != NULL && tool_ops_is_processed(in, name))
        return true;
    if (in != NULL && (is_stdin || !tool_input_is_file(in))) {
        if (!tool_input_is_raw(in))
            return true;
        bool ok = start_postprocess(f, name, follow, in);
        tool_input_close(in);
        return ok;
    }
    /* What cannot be opened may be a recording of which only the spool is
       there. */
    if (in != NULL)
        tool_input_close(in);
    f->in = NULL;
    return start_postprocess(f, name, follow, NULL);
}

int feed_close(struct feed *f, bool given_up) {
    int status;
    if (f->in != NULL)
        tool_input_close(f->in);
    f->in = NULL;
    if (f->child == 0)
        return TOOL_OK;
    if (given_up)
        kill(f->child, SIGKILL);
    while (waitpid(f->child, &status, 0) < 0)
        if (errno != EINTR)
            return TOOL_FAILED;
    f->child = 0;
    if (f->filler > 0) {
        kill(f->filler, SIGKILL);
        waitpid(f->filler, NULL, 0);
    }
    f->filler = 0;
    if (given_up)
        return TOOL_OK;
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}
