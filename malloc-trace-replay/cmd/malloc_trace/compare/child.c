/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/child.h"

#include "base/clock.h"
#include "common/main.h"
#include "common/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool place(int fd, int at) {
    int from = fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
    return from >= 0 && (from == at || dup2(from, at) == at);
}

/* The pipe REPORT gets errno if there is no program. */
static TCM_NORETURN void become(const struct child *c, pid_t parent, int report,
                                const sigset_t *mask) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(TOOL_FAILED);
    tool_before_exec();
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (place(c->in, STDIN_FILENO) && place(c->out, STDOUT_FILENO) &&
        place(c->err, STDERR_FILENO) &&
        (c->under == NULL ||
         contestant_set_environment(c->under, c->keep_preload)))
        execvp(c->argv[0], c->argv);
    int error = errno;
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

/* Waits for CHILD, no longer than LIMIT_NS after START. SIGCHLD is blocked, so
   that one that comes before the wait ends it. */
static void await(pid_t child, uint64_t start, uint64_t limit_ns,
                  struct child_end *end) {
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (;;) {
        pid_t got =
            wait4(child, &end->status,
                  limit_ns == 0 || end->timed_out ? 0 : WNOHANG, &end->usage);
        if (got == child || (got < 0 && errno != EINTR))
            return;
        uint64_t spent = tcm_clock_ns() - start;
        if (got < 0)
            continue;
        if (spent >= limit_ns) {
            end->timed_out = true;
            kill(child, SIGKILL);
            continue;
        }
        uint64_t left = limit_ns - spent;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
        (void)sigtimedwait(&ended, NULL, &t);
    }
}

bool child_run(const struct child *c, struct child_end *end) {
    int report[2];
    pid_t parent = getpid();
    memset(end, 0, sizeof(*end));
    if (pipe2(report, O_CLOEXEC) != 0) {
        tool_error("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    uint64_t start = tcm_clock_ns();
    sigset_t mask, ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &mask);
    /* a stop that comes before the new process can obey is not lost */
    tool_stop_hold(true);
    pid_t child = fork();
    if (child == 0) {
        tool_stop_hold(false);
        become(c, parent, report[1], &mask);
    }
    tool_stop_hold(false);
    close(report[1]);
    if (child < 0) {
        tool_error("cannot make a process: %s", strerror(errno));
        close(report[0]);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        return false;
    }
    tool_stop_pass_to(child);
    await(child, start, c->limit_ns, end);
    tool_stop_pass_to(0);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    end->wall_ns = tcm_clock_ns() - start;
    if (read(report[0], &end->error, sizeof(end->error)) !=
        (ssize_t)sizeof(end->error))
        end->error = 0;
    close(report[0]);
    return true;
}

void child_end_text(const struct child_end *end, char *text, size_t size) {
    if (end->error != 0)
        snprintf(text, size, "cannot be run: %s", strerror(end->error));
    else if (end->timed_out)
        snprintf(text, size, "did not end in %llu s",
                 (unsigned long long)(end->wall_ns / 1000000000));
    else if (WIFSIGNALED(end->status))
        snprintf(text, size, "ended by signal %d (%s)", WTERMSIG(end->status),
                 strsignal(WTERMSIG(end->status)));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(end->status));
}

int child_scratch(const char *name) {
    int fd = memfd_create(name, 0);
    if (fd < 0)
        tool_error("cannot make a file in memory: %s", strerror(errno));
    return fd;
}

char *child_file_text(int fd, size_t *size) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        st.st_size = 0;
    char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL) {
        tool_error("out of memory");
        return NULL;
    }
    ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
    *size = n > 0 ? (size_t)n : 0;
    text[*size] = '\0';
    return text;
}
