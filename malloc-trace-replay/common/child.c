/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/child.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_file.h"
#include "common/main.h"
#include "common/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* --- Standing in for a child ---------------------------------------------- */

static const int terminal_signals[] = {SIGINT, SIGQUIT};
static const int sent_signals[] = {SIGTERM, SIGHUP,  SIGUSR1, SIGUSR2,
                                   SIGALRM, SIGCONT, SIGWINCH};
enum {
    TERMINAL_SIGNALS = TCM_ARRAY_SIZE(terminal_signals),
    SENT_SIGNALS = TCM_ARRAY_SIZE(sent_signals)
};
/* Dispositions before front_begin. */
static struct sigaction front_before[TERMINAL_SIGNALS + SENT_SIGNALS];
static pid_t front_child; /* read by the handler; 0: no child */

static int front_signal(unsigned i) {
    return i < TERMINAL_SIGNALS ? terminal_signals[i]
                                : sent_signals[i - TERMINAL_SIGNALS];
}

static void front_pass_on(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    pid_t child = tcm_load_relaxed(&front_child);
    (void)context;
    /* signals from the terminal or the kernel went to the whole group */
    if (info->si_code <= 0 && child > 0 && info->si_pid != child)
        kill(child, sig);
    errno = saved;
}

static void front_begin(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction pass = {.sa_sigaction = front_pass_on,
                             .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&pass.sa_mask);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(front_before); i++) {
        bool sent = i >= TERMINAL_SIGNALS;
        sigaction(front_signal(i), NULL, &front_before[i]);
        /* a signal that was ignored at the start (nohup) stays ignored */
        if (!sent || front_before[i].sa_handler != SIG_IGN)
            sigaction(front_signal(i), sent ? &pass : &ignore, NULL);
    }
}

static void front_end(void) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(front_before); i++)
        sigaction(front_signal(i), &front_before[i], NULL);
}

/* --- Inside the child ----------------------------------------------------- */

/* Program that launches others, and the pipe through which it tells their
   end. */
struct launch {
    char path[PATH_MAX];
    int tell[2];
};

/* Tells whether SIG is a fault, whose handlers (of sanitizers) stay. */
static bool is_fault(int sig) {
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL;
}

static void forget_handlers(void) {
    struct sigaction now, none = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        if (!is_fault(sig) && sigaction(sig, NULL, &now) == 0 &&
            now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
            sigaction(sig, &none, NULL);
}

/* Puts FD, as in struct tool_child_spec, in the place of descriptor AT. */
static bool place(int fd, int at) {
    if (fd == 0)
        return true;
    int from = fd > 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
    return from >= 0 && (from == at || dup2(from, at) == at);
}

static bool place_all(const struct tool_child_spec *spec) {
    bool good = place(spec->in, STDIN_FILENO) &&
                place(spec->out, STDOUT_FILENO) &&
                place(spec->err, STDERR_FILENO);
    for (size_t i = 0; good && i < spec->keep_count; i++)
        good = fcntl(spec->keep[i], F_SETFD, 0) == 0;
    return good;
}

/* Variable with the LD_PRELOAD of a launched program, which the launcher itself
   must not load: it would take memory that counts as the program's. */
#define LAUNCH_PRELOAD "TCM_LAUNCH_PRELOAD"

static bool hide_preload(void) {
    const char *preload = getenv("LD_PRELOAD");
    return preload == NULL || (setenv(LAUNCH_PRELOAD, preload, 1) == 0 &&
                               unsetenv("LD_PRELOAD") == 0);
}

static bool show_preload(void *ctx) {
    const char *preload = getenv(LAUNCH_PRELOAD);
    (void)ctx;
    return preload == NULL || (setenv("LD_PRELOAD", preload, 1) == 0 &&
                               unsetenv(LAUNCH_PRELOAD) == 0);
}

/* Replaces this process by the launcher LAUNCH->path. Returns if that fails. */
static void exec_launcher(struct launch *launch, char *const *argv) {
    size_t n = 0;
    static char option[] = TOOL_CHILD_LAUNCH;
    char fd[16];
    while (argv[n] != NULL)
        n++;
    char **words = malloc((n + 4) * sizeof(*words));
    if (words == NULL || !hide_preload())
        return;
    snprintf(fd, sizeof(fd), "%d", launch->tell[1]);
    words[0] = launch->path;
    words[1] = option;
    words[2] = fd;
    memcpy(words + 3, argv, (n + 1) * sizeof(*words));
    if (fcntl(launch->tell[1], F_SETFD, 0) == 0)
        execv(launch->path, words);
}

/* Runs the child. LAUNCH: launcher, if the program is to have one. MASK: the
   signal mask to set. REPORT: the end of a pipe that gets errno if the program
   cannot be run. */
static TCM_NORETURN void run_inside(const struct tool_child_spec *spec,
                                    struct launch *launch, pid_t parent,
                                    int report, const sigset_t *mask) {
    if (spec->dies_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(TOOL_FAILED);
    }
    if (spec->own_group)
        (void)setpgid(0, 0);
    if (spec->signals == TOOL_CHILD_FRONT)
        front_end();
    if (spec->body != NULL || spec->signals != TOOL_CHILD_FRONT)
        forget_handlers();
    bool good = place_all(spec);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (spec->body != NULL) {
        if (!good)
            tool_error("cannot redirect a process: %s", strerror(errno));
        _exit(good ? spec->body(spec->ctx) : TOOL_FAILED);
    }
    if (good) {
        tool_before_exec();
        errno = ENOMEM;
        if (spec->prepare == NULL || spec->prepare(spec->ctx)) {
            if (spec->launched)
                exec_launcher(launch, spec->argv);
            else if (spec->file != NULL)
                execv(spec->file, spec->argv);
            else
                execvp(spec->argv[0], spec->argv);
        }
    }
    int error = errno;
    (void)tcm_io_write_all(report, &error, sizeof(error));
    _exit(127);
}

/* --- In the parent -------------------------------------------------------- */

static void pass_signals_to(enum tool_child_signals signals, pid_t child) {
    if (signals == TOOL_CHILD_FRONT)
        tcm_store_relaxed(&front_child, child);
    else if (signals != TOOL_CHILD_APART)
        tool_stop_pass_to(child);
}

static void block_all(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

/* Returns the errno that the child wrote into the pipe, or 0 if exec closed
   it. */
static int read_report(int fd) {
    int error = 0;
    size_t n = 0;
    bool whole =
        tcm_io_read_full(fd, &error, sizeof(error), &n) && n == sizeof(error);
    close(fd);
    return whole ? error : 0;
}

/* Finds the launcher of a program, and makes its pipe. false: errno is set. */
static bool prepare_launch(struct launch *launch) {
    errno = ENOENT;
    return tool_own_program("malloc-trace-allocator", launch->path) &&
           pipe2(launch->tell, O_CLOEXEC) == 0;
}

static void close_both(const int fd[2]) {
    int saved = errno;
    close(fd[0]);
    close(fd[1]);
    errno = saved;
}

static void close_told(struct tool_child *c) {
    if (c->told > 0)
        close(c->told);
    c->told = 0;
}

/* Takes the end of the program from the launcher, if that could still tell
   it. */
static void take_told(struct tool_child *c, struct tool_child_end *end) {
    struct tool_child_end told;
    size_t n = 0;
    if (c->told > 0 && tcm_io_read_full(c->told, &told, sizeof(told), &n) &&
        n == sizeof(told)) {
        end->status = told.status;
        end->error = told.error;
        end->usage = told.usage;
    }
    close_told(c);
}

int tool_child_start(struct tool_child *c, const struct tool_child_spec *spec) {
    struct launch launch = {.tell = {-1, -1}};
    int report[2] = {-1, -1};
    bool executes = spec->body == NULL;
    sigset_t mask;
    TCM_ASSERT(executes == (spec->argv != NULL));
    TCM_ASSERT(spec->signals != TOOL_CHILD_FRONT || front_child == 0);
    TCM_ASSERT(!spec->launched ||
               (executes && spec->signals != TOOL_CHILD_FRONT));
    *c = (struct tool_child){.pid = -1,
                             .signals = spec->signals,
                             .own_group = spec->own_group,
                             .start_ns = tcm_clock_ns(),
                             .stop_ns = spec->stop_ns};
    if (executes && pipe2(report, O_CLOEXEC) != 0)
        return errno;
    if (spec->launched && !prepare_launch(&launch)) {
        close_both(report);
        return errno;
    }
    pid_t parent = getpid();
    block_all(&mask);
    if (spec->signals == TOOL_CHILD_FRONT)
        front_begin();
    c->pid = fork();
    if (c->pid == 0) {
        sigset_t held = mask;
        if (spec->signals == TOOL_CHILD_OBEYS)
            tool_stop_add_signals(&held);
        run_inside(spec, &launch, parent, report[1], &held);
    }
    int error = c->pid < 0 ? errno : 0;
    if (c->pid > 0) {
        /* in both processes, because either may run first */
        if (spec->own_group)
            (void)setpgid(c->pid, c->pid);
        pass_signals_to(spec->signals, c->pid);
    } else if (spec->signals == TOOL_CHILD_FRONT) {
        front_end();
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (!executes)
        return error;
    if (spec->launched) {
        close(launch.tell[1]);
        c->told = launch.tell[0];
    }
    close(report[1]);
    if (c->pid < 0) {
        close(report[0]);
        close_told(c);
        return error;
    }
    error = read_report(report[0]);
    if (error != 0)
        tool_child_wait(c, 0, NULL);
    return error;
}

/* Waits until C has ended, and keeps its id. true: C ran longer than LIMIT_NS
   and was killed. The caller has blocked SIGCHLD, so that one that arrives
   before sigtimedwait ends that call. */
static bool await_end(const struct tool_child *c, uint64_t limit_ns) {
    bool timed_out = false, stopped = c->stop_ns == 0;
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        bool sleeps = stopped && (limit_ns == 0 || timed_out);
        if (waitid(P_PID, (id_t)c->pid, &info,
                   WEXITED | WNOWAIT | (sleeps ? 0 : WNOHANG)) != 0) {
            if (errno == EINTR)
                continue;
            return timed_out;
        }
        if (info.si_pid == c->pid)
            return timed_out;
        uint64_t spent = tcm_clock_ns() - c->start_ns;
        if (limit_ns != 0 && spent >= limit_ns) {
            timed_out = stopped = true;
            tool_child_kill(c);
            continue;
        }
        if (!stopped && spent >= c->stop_ns) {
            stopped = true;
            (void)kill(c->pid, SIGTERM);
            continue;
        }
        uint64_t left = (stopped ? limit_ns : c->stop_ns) - spent;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
        (void)sigtimedwait(&ended, NULL, &t);
    }
}

/* Stores the kernel's name of the program of process PID, which has ended and
   not been waited for. */
static void read_name(pid_t pid, char name[16]) {
    char path[64], text[32];
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    if (tcm_io_read_file(path, text, sizeof(text)) > 0)
        snprintf(name, 16, "%.*s", (int)strcspn(text, "\n"), text);
}

void tool_child_wait(struct tool_child *c, uint64_t limit_ns,
                     struct tool_child_end *end) {
    struct tool_child_end unused;
    sigset_t mask, ended;
    end = end != NULL ? end : &unused;
    memset(end, 0, sizeof(*end));
    if (c->pid <= 0)
        return;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &mask);
    end->timed_out = await_end(c, limit_ns);
    /* no handler may use the id once it is free */
    block_all(&ended);
    pass_signals_to(c->signals, 0);
    read_name(c->pid, end->name);
    while (wait4(c->pid, &end->status, 0, &end->usage) < 0 && errno == EINTR)
        continue;
    c->pid = 0;
    if (c->signals == TOOL_CHILD_FRONT)
        front_end();
    sigprocmask(SIG_SETMASK, &mask, NULL);
    take_told(c, end);
    end->wall_ns = tcm_clock_ns() - c->start_ns;
}

bool tool_child_try_wait(struct tool_child *c, struct tool_child_end *end) {
    siginfo_t info = {.si_pid = 0};
    if (c->pid <= 0)
        return false;
    while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0)
        if (errno != EINTR)
            return false;
    if (info.si_pid != c->pid)
        return false;
    tool_child_wait(c, 0, end);
    return true;
}

void tool_child_kill(const struct tool_child *c) {
    if (c->pid > 0)
        (void)kill(c->own_group ? -c->pid : c->pid, SIGKILL);
}

bool tool_child_run(const struct tool_child_spec *spec, uint64_t limit_ns,
                    struct tool_child_end *end) {
    struct tool_child c;
    int error = tool_child_start(&c, spec);
    if (error != 0 && c.pid < 0) {
        memset(end, 0, sizeof(*end));
        tool_error("cannot make a process: %s", strerror(error));
        return false;
    }
    tool_child_wait(&c, limit_ns, end);
    if (error != 0)
        end->error = error;
    return true;
}

int tool_child_launch(int fd, char *const *argv) {
    struct tool_child_spec spec = {.argv = argv,
                                   .prepare = show_preload,
                                   .signals = TOOL_CHILD_STOPS,
                                   .dies_with_parent = true};
    struct tool_child_end end;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        tool_error("descriptor %d: %s", fd, strerror(errno));
        return TOOL_FAILED;
    }
    tool_stop_catch();
    return tool_child_run(&spec, 0, &end) &&
                   tcm_io_write_all(fd, &end, sizeof(end))
               ? TOOL_OK
               : TOOL_FAILED;
}

void tool_child_end_text(const struct tool_child_end *end, char *text,
                         size_t size) {
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

/* --- Output --------------------------------------------------------------- */

int tool_child_scratch(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        tool_error("cannot make a file in memory: %s", strerror(errno));
    return fd;
}

size_t tool_child_size(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
}

size_t tool_child_read(int fd, char *text, size_t room) {
    size_t used = 0;
    TCM_ASSERT(room > 0);
    while (used < room - 1) {
        ssize_t n = pread(fd, text + used, room - 1 - used, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    return used;
}

char *tool_child_text(int fd, size_t max, size_t *size) {
    size_t room = tcm_min_u64(tool_child_size(fd), max) + 1;
    char *text = malloc(room);
    if (text == NULL)
        tool_out_of_memory();
    else
        *size = tool_child_read(fd, text, room);
    return text;
}
