/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes of the tools: errors of exec, descriptors, environment,
 * signals, time limits, output of limited length.
 */
#include "common/child.h"

#include "common/main.h"
#include "common/stop.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL(script)                                                          \
    (char *const[]) {                                                          \
        (char[]){"sh"}, (char[]){"-c"}, (char[]){script}, NULL                 \
    }

/* Process that the last call of kill was for. */
static pid_t last_killed;

int kill(pid_t pid, int sig) {
    last_killed = pid;
    return (int)syscall(SYS_kill, pid, sig);
}

static bool exited_with(const struct tool_child_end *end, int status) {
    return end->error == 0 && WIFEXITED(end->status) &&
           WEXITSTATUS(end->status) == status;
}

static void test_programs(void) {
    struct tool_child_end end;
    struct tool_child c;
    struct tool_child_spec what = {.argv = SHELL("exit 7"), .file = NULL};
    char text[200];
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 7),
           "a program is found in PATH, and its status is known");
    tap_ok(end.wall_ns != 0 && end.usage.ru_maxrss > 0,
           "so are its time and memory");
    tool_child_end_text(&end, text, sizeof(text));
    tap_ok(strcmp(text, "exit status 7") == 0, "a status in words");

    what.argv = (char *const[]){(char[]){"/nonexistent/program"}, NULL};
    tap_ok(tool_child_start(&c, &what) == ENOENT && c.pid == 0,
           "errno tells of a missing program");
    tap_ok(tool_child_run(&what, 0, &end) && end.error == ENOENT,
           "also at its end");
    tool_child_end_text(&end, text, sizeof(text));
    tap_ok(strncmp(text, "cannot be run: ", 15) == 0, "and in words");
    what.argv = (char *const[]){(char[]){"/"}, NULL};
    tap_ok(tool_child_start(&c, &what) == EACCES,
           "and of one that cannot be run");

    what = (struct tool_child_spec){.argv = SHELL("exit 3"), .file = "/bin/sh"};
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 3),
           "a file is executed under another name");
    tool_child_wait(&c, 0, &end);
    tap_ok(end.wall_ns == 0 && end.status == 0,
           "to wait for no child does nothing");
}

static void test_limit(void) {
    struct tool_child_end end;
    struct tool_child_spec what = {.argv = SHELL("exec sleep 100"),
                                   .file = NULL};
    char text[200];
    tap_ok(tool_child_run(&what, 50000000, &end) && end.timed_out &&
               WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL,
           "a program is killed at its limit");
    tool_child_end_text(&end, text, sizeof(text));
    tap_ok(strcmp(text, "did not end in 0 s") == 0, "and in words");
    what.argv = SHELL("exit 4");
    tap_ok(tool_child_run(&what, 100000000000u, &end) && !end.timed_out &&
               exited_with(&end, 4),
           "one that ends before its limit is not");
    what = (struct tool_child_spec){.argv = SHELL("sleep 100 & wait"),
                                    .own_group = true};
    tap_ok(tool_child_run(&what, 50000000, &end) && end.timed_out,
           "a group is killed at its limit");
    what = (struct tool_child_spec){.argv = SHELL("exec sleep 100"),
                                    .stop_ns = 50000000};
    tap_ok(tool_child_run(&what, 0, &end) && !end.timed_out &&
               WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGTERM,
           "a program is asked to end after its time");
    (void)signal(SIGTERM, SIG_IGN); /* which the program inherits */
    tap_ok(tool_child_run(&what, 200000000, &end) && end.timed_out &&
               WTERMSIG(end.status) == SIGKILL,
           "and killed at its limit where it does not");
    (void)signal(SIGTERM, SIG_DFL);
}

static void test_descriptors(void) {
    struct tool_child_end end;
    size_t size = 0;
    int out = tool_child_scratch("out"), kept = tool_child_scratch("kept");
    char script[100], small[4];
    snprintf(script, sizeof(script),
             "cat; echo error >&2; echo kept >/proc/self/fd/%d", kept);
    struct tool_child_spec what = {
        .argv = (char *const[]){(char[]){"sh"}, (char[]){"-c"}, script, NULL},
        .in = TOOL_CHILD_NULL,
        .out = TOOL_CHILD_NULL,
        .err = out};
    tap_ok(tool_child_run(&what, 0, &end) && end.error == 0 &&
               !exited_with(&end, 0),
           "a descriptor that is not kept is not there");
    what.keep = &kept;
    what.keep_count = 1;
    (void)ftruncate(out, 0);
    (void)lseek(out, 0, SEEK_SET);
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 0),
           "one that is kept is there");
    char *text = tool_child_text(out, 100, &size);
    tap_ok(text != NULL && size == 6 && strcmp(text, "error\n") == 0,
           "output is read");
    free(text);
    text = tool_child_text(out, 2, &size);
    tap_ok(text != NULL && size == 2 && strcmp(text, "er") == 0,
           "up to a bound");
    free(text);
    tap_ok(tool_child_size(kept) == 5 &&
               tool_child_read(kept, small, sizeof(small)) == 3 &&
               strcmp(small, "kep") == 0,
           "or into a buffer");
    close(out);
    close(kept);
}

static bool set_variable(void *ctx) {
    return setenv("CHILD_VARIABLE", ctx, 1) == 0;
}

static bool refuse(void *ctx) {
    (void)ctx;
    errno = EOVERFLOW;
    return false;
}

static int leave(void *ctx) {
    return *(const int *)ctx;
}

static void test_preparation(void) {
    struct tool_child_end end;
    int status = 42;
    char value[] = "5";
    struct tool_child_spec what = {.argv = SHELL("exit $CHILD_VARIABLE"),
                                   .prepare = set_variable,
                                   .ctx = value};
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 5) &&
               getenv("CHILD_VARIABLE") == NULL,
           "an environment is the child's alone");
    what.prepare = refuse;
    tap_ok(tool_child_run(&what, 0, &end) && end.error == EOVERFLOW,
           "a failed preparation is told by errno");
    what = (struct tool_child_spec){.body = leave, .ctx = &status};
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 42),
           "a function runs in a copy");
}

static volatile sig_atomic_t caught;

static void note(int sig) {
    caught = sig;
}

/* Leaves a child that ended by itself, to which requests to stop were
   passed. */
static void test_try_wait(void) {
    struct tool_child c;
    struct tool_child_end end;
    int input[2];
    char *const cat[] = {(char[]){"cat"}, NULL};
    struct tool_child_spec what = {.argv = cat, .signals = TOOL_CHILD_STOPS};
    if (pipe2(input, O_CLOEXEC) != 0)
        tap_bail("no pipe");
    what.in = input[0];
    tap_ok(tool_child_start(&c, &what) == 0 && !tool_child_try_wait(&c, &end) &&
               c.pid > 0,
           "a child that runs is not waited for");
    close(input[1]);
    while (!tool_child_try_wait(&c, &end))
        usleep(1000);
    tap_ok(c.pid == 0 && exited_with(&end, 0), "one that has ended is");
    tap_ok(!tool_child_try_wait(&c, &end), "once");
    close(input[0]);
}

/* Returns the dispositions of SIGUSR1 and SIGUSR2 and the mask, in a child. */
static int look_at_signals(void *ctx) {
    struct sigaction one, two;
    sigset_t mask;
    (void)ctx;
    sigaction(SIGUSR1, NULL, &one);
    sigaction(SIGUSR2, NULL, &two);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return (one.sa_handler == SIG_DFL ? 0 : 1) |
           (two.sa_handler == SIG_IGN ? 0 : 2) |
           (sigismember(&mask, SIGUSR1) == 0 ? 0 : 4) |
           (sigismember(&mask, SIGTERM) == 0 ? 0 : 8);
}

static bool is_same_mask(const sigset_t *a, const sigset_t *b) {
    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(a, sig) != sigismember(b, sig))
            return false;
    return true;
}

static void test_signals(void) {
    struct tool_child_end end;
    sigset_t before, after;
    struct tool_child_spec what = {.body = look_at_signals};
    signal(SIGUSR1, note);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGINT, SIG_DFL); /* jobs in the background ignore it */
    sigprocmask(SIG_BLOCK, NULL, &before);
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 0),
           "in a child caught signals have their default action, ignored "
           "ones stay so");
    what.signals = TOOL_CHILD_OBEYS;
    tap_ok(tool_child_run(&what, 0, &end) && exited_with(&end, 8),
           "requests to stop wait for one that obeys");
    sigprocmask(SIG_BLOCK, NULL, &after);
    tap_ok(is_same_mask(&before, &after), "the mask is what it was");

    struct tool_child c;
    what = (struct tool_child_spec){.argv = SHELL("exec sleep 100"),
                                    .signals = TOOL_CHILD_FRONT};
    tap_ok(tool_child_start(&c, &what) == 0 && c.pid > 0,
           "a program is started and not waited for");
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    tap_ok(now.sa_handler == SIG_IGN,
           "in front of a child the terminal's signals are ignored");
    kill(getpid(), SIGUSR1);
    tool_child_wait(&c, 0, &end);
    tap_ok(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGUSR1 &&
               caught == 0,
           "and one that is sent ends the child");
    sigaction(SIGINT, NULL, &now);
    bool is_default = now.sa_handler == SIG_DFL;
    sigaction(SIGUSR1, NULL, &now);
    tap_ok(is_default && now.sa_handler == note, "then they are as they were");
    what.argv = (char *const[]){(char[]){"/nonexistent/program"}, NULL};
    tap_ok(tool_child_start(&c, &what) == ENOENT, "without a program");
    sigaction(SIGUSR1, NULL, &now);
    tap_ok(now.sa_handler == note, "they are, too");

    test_try_wait();
    tool_stop_catch();
    kill(getpid(), SIGTERM);
    tap_ok(tool_stop_requested() && last_killed == getpid(),
           "a request to stop does not reach a child that has ended");
    what = (struct tool_child_spec){.argv = SHELL("exec sleep 100"),
                                    .signals = TOOL_CHILD_STOPS};
    tap_ok(tool_child_run(&what, 0, &end) && WIFSIGNALED(end.status) &&
               WTERMSIG(end.status) == SIGTERM,
           "it reaches a child that is made later");
}

int main(void) {
    tool_begin("prog");
    test_programs();
    test_limit();
    test_descriptors();
    test_preparation();
    test_signals();
    return tap_done();
}
