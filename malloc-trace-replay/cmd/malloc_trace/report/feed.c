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
                                            bool follow, int out) {
    tool_before_exec();
    if (dup2(out, STDOUT_FILENO) >= 0)
        execl(path, tool_name(), "--quiet", follow ? "--follow" : "--quiet",
              "--", name, "-", (char *)NULL);
    tool_error("cannot run %s: %s", path, strerror(errno));
    _exit(TOOL_FAILED);
}

static bool start_postprocess(struct feed *f, const char *name, bool follow) {
    char folder[PATH_MAX], path[PATH_MAX + 16];
    int ends[2];
    if (!tool_own_folder(folder)) {
        tool_error("cannot tell where postprocess is");
        return false;
    }
    snprintf(path, sizeof(path), "%s/postprocess", folder);
    if (pipe2(ends, O_CLOEXEC) != 0 || (f->child = fork()) < 0) {
        tool_error("cannot run postprocess: %s", strerror(errno));
        return false;
    }
    if (f->child == 0)
        become_postprocess(path, name, follow, ends[1]);
    close(ends[1]);
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
    f->child = 0;
    f->fd = -1;
    f->in = format_open(name);
    if (f->in == NULL && errno == ENOMEM) {
        tool_error("out of memory");
        return false;
    }
    if (f->in != NULL && (is_stdin || tool_ops_is_processed(f->in, name)))
        return true;
    /* What cannot be opened may be a recording of which only the spool is
       there. */
    if (f->in != NULL)
        tool_input_close(f->in);
    f->in = NULL;
    return start_postprocess(f, name, follow);
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
    if (given_up)
        return TOOL_OK;
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}
