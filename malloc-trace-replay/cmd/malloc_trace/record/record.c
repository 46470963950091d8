/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace record: runs a command under the recorder.
 *
 * The command behaves as without it: it gets this process's descriptors,
 * signal dispositions and process group, its exit status is passed on, and
 * when a signal kills it this process dies of the same one. Signals of the
 * terminal (interrupt, quit) reach the command by themselves and are ignored
 * here while it runs; those sent to this process alone are passed on.
 *
 * Why the output's name is made absolute here: a program started in another
 * folder by the command would otherwise put its trace there.
 */
#include "cmd/malloc_trace/malloc_trace.h"
#include "cmd/malloc_trace/record/report.h"
#include "cmd/malloc_trace/record/timer.h"
#include "common/files.h"
#include "common/main.h"
#include "common/own_library.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "Usage: malloc-trace record [OPTION]... [--] COMMAND [ARGUMENT]...\n"
    "Run COMMAND and record what it asks of malloc.\n"
    "\n"
    "  -o FILE        record to FILE; in its name %p stands for the process\n"
    "                 id, %e for the executable's name, %% for a percent\n"
    "                 sign. With %p every process that COMMAND starts is\n"
    "                 recorded too. Default: COMMAND.%p.trace.lz4\n"
    "      --delay S     begin after S seconds, and record COMMAND's own\n"
    "                    process alone\n"
    "      --duration S  end the recording of COMMAND's own process S seconds\n"
    "                    after it began; COMMAND goes on\n"
    "      --sites=MODE  record where allocations were asked for: caller,\n"
    "                    stack[:DEPTH], sample[:BYTES], lang[:N] (the lines\n"
    "                    of Python, Perl, Ruby, one calling the other) or\n"
    "                    none\n"
    "      --free-sites  record where blocks are freed, too\n"
    "      --check-frees  look at each free, for report --errors\n"
    "  -q, --quiet    no summary, but what is wrong\n"
    "  -h, --help     print this text and exit\n"
    "  -V, --version  print the version and exit\n"
    "\n"
    "The exit status is COMMAND's; a signal that kills COMMAND kills this\n"
    "program too. 1: the library is not there; 2: wrong command line;\n"
    "126, 127: COMMAND cannot be run, is not found.\n"
    "Environment: MALLOC_TRACE_LIBRARY, the recording library to use instead\n"
    "of the one that was built or installed with this program.\n";

/* "NAME" or "NAME:NUMBER", from 1 to MAX. */
static bool is_numbered(const char *text, const char *name, uint64_t max) {
    uint64_t number;
    size_t n = strlen(name);
    if (strncmp(text, name, n) != 0)
        return false;
    return text[n] == '\0' ||
           (text[n] == ':' && tool_parse_u64(text + n + 1, max, &number) &&
            number != 0);
}

/* As the library takes them (tracer/sites.h). */
static bool is_mode(const char *text) {
    return strcmp(text, "caller") == 0 || strcmp(text, "none") == 0 ||
           is_numbered(text, "stack", 256) || is_numbered(text, "lang", 256) ||
           is_numbered(text, "sample", (uint64_t)1 << 40);
}

enum { NOT_FOUND = 127, CANNOT_RUN = 126 };

/* --- The library -------------------------------------------------------- */

/* MALLOC_TRACE_LIBRARY goes before the one that belongs to this program. */
static bool find_library(char path[PATH_MAX]) {
    const char *given = getenv("MALLOC_TRACE_LIBRARY");
    if (given == NULL || *given == '\0')
        return tool_own_library(TOOL_RECORDING_LIBRARY, path);
    if (realpath(given, path) != NULL && access(path, R_OK) == 0)
        return true;
    tool_error("cannot read the library %s of MALLOC_TRACE_LIBRARY: %s", given,
               strerror(errno));
    return false;
}

/* --- The output's name -------------------------------------------------- */

/* Appends S with every % doubled. */
static size_t put_escaped(char *out, size_t used, size_t cap, const char *s) {
    for (; *s != '\0' && used + 3 < cap; s++) {
        if (*s == '%')
            out[used++] = '%';
        out[used++] = *s;
    }
    out[used] = '\0';
    return used;
}

/* The absolute pattern of -o FILE (NULL: not given) for COMMAND. */
static bool make_pattern(char out[PATH_MAX], const char *file,
                         const char *command) {
    char name[PATH_MAX];
    char here[PATH_MAX];
    size_t used = 0;
    if (file == NULL) {
        const char *slash = strrchr(command, '/');
        used = put_escaped(name, 0, PATH_MAX - 32,
                           slash != NULL ? slash + 1 : command);
        snprintf(name + used, sizeof(name) - used, ".%%p.trace%s",
                 mtf_compress_available() ? ".lz4" : "");
        file = name;
    }
    out[0] = '\0';
    used = 0;
    if (*file != '/') {
        if (getcwd(here, sizeof(here)) == NULL) {
            tool_error("cannot tell the current folder: %s", strerror(errno));
            return false;
        }
        used = put_escaped(out, 0, PATH_MAX, here);
        if (used != 0 && out[used - 1] != '/' && used + 1 < PATH_MAX)
            out[used++] = '/';
    }
    if (used + strlen(file) >= PATH_MAX) {
        tool_error("the output's name is too long: %s", file);
        return false;
    }
    memcpy(out + used, file, strlen(file) + 1);
    return true;
}

/* --- The run ------------------------------------------------------------ */

static const int passed_on[] = {SIGTERM, SIGHUP,  SIGUSR1, SIGUSR2,
                                SIGALRM, SIGCONT, SIGWINCH};
static volatile pid_t child;

static void pass_on(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    (void)context;
    /* One of the terminal or the kernel went to the whole group. */
    if (info->si_code <= 0 && child > 0 && info->si_pid != child)
        kill(child, sig);
    errno = saved;
}

struct run {
    char **command;
    const char *library;
    const char *pattern;
    const char *sites; /* NULL: as the environment says */
    bool free_sites;   /* false: the same */
    bool check_frees;  /* the same */
    struct record_times times;
    sigset_t mask; /* before the run */
    struct sigaction interrupt, quit;
    struct sigaction before[TCM_ARRAY_SIZE(passed_on)];
};

static bool set_environment(const struct run *r) {
    const char *old = getenv("LD_PRELOAD");
    if (old == NULL)
        old = "";
    size_t length = strlen(r->library) + strlen(old) + 2;
    char *list = malloc(length);
    if (list == NULL)
        return false;
    snprintf(list, length, "%s%s%s", r->library, *old != '\0' ? ":" : "", old);
    bool good = setenv("LD_PRELOAD", list, 1) == 0 &&
                setenv("TCMALLOC_TRACE_OUTPUT", r->pattern, 1) == 0 &&
                /* The command begins a recording of its own, even when this
                   program runs under another. */
                unsetenv("TCMALLOC_TRACE_OWNER") == 0;
    if (r->sites != NULL)
        good = good && setenv("TCMALLOC_TRACE_SITES", r->sites, 1) == 0;
    if (r->free_sites)
        good = good && setenv("TCMALLOC_TRACE_FREE_SITES", "1", 1) == 0;
    if (r->check_frees)
        good = good && setenv("TCMALLOC_TRACE_CHECK_FREES", "1", 1) == 0;
    if (r->times.delayed)
        good = good && setenv("TCMALLOC_TRACE_START", "0", 1) == 0;
    if (r->times.delayed || r->times.ends)
        good = good && setenv("TCMALLOC_TRACE_CONTROL", "1", 1) == 0;
    free(list);
    return good;
}

static void restore_signals(const struct run *r) {
    sigaction(SIGINT, &r->interrupt, NULL);
    sigaction(SIGQUIT, &r->quit, NULL);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(passed_on); i++)
        sigaction(passed_on[i], &r->before[i], NULL);
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
}

static TCM_NORETURN void become_command(const struct run *r, int report) {
    tool_before_exec();
    restore_signals(r);
    errno = ENOMEM;
    if (set_environment(r))
        execvp(r->command[0], r->command);
    int error = errno;
    ssize_t n = write(report, &error, sizeof(error));
    _exit(n == (ssize_t)sizeof(error) ? NOT_FOUND : CANNOT_RUN);
}

static void catch_signals(struct run *r) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction pass = {.sa_sigaction = pass_on,
                             .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t all;
    sigfillset(&all);
    sigfillset(&pass.sa_mask);
    /* Until the child's id is known nothing can be passed on. */
    sigprocmask(SIG_SETMASK, &all, &r->mask);
    sigaction(SIGINT, &ignore, &r->interrupt);
    sigaction(SIGQUIT, &ignore, &r->quit);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(passed_on); i++) {
        sigaction(passed_on[i], NULL, &r->before[i]);
        /* Ignored by inheritance (nohup) stays ignored. */
        if (r->before[i].sa_handler != SIG_IGN)
            sigaction(passed_on[i], &pass, NULL);
    }
}

/* Waits until the command ends. Its id stays taken until no handler can use
   it any more. */
static int await_command(const struct run *r) {
    siginfo_t info;
    sigset_t all;
    int status = 0;
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR)
        continue;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    child = 0;
    /* The summary can be interrupted. */
    restore_signals(r);
    return status;
}

/* Runs the command and stores its wait status. Returns false with *EXIT_STATUS
   set when it could not be run. */
static bool run_command(struct run *r, int *status, int *exit_status) {
    int report[2];
    int error = 0;
    *exit_status = TOOL_FAILED;
    if (pipe2(report, O_CLOEXEC) != 0) {
        tool_error("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    catch_signals(r);
    child = fork();
    if (child == 0) {
        close(report[0]);
        become_command(r, report[1]);
    }
    close(report[1]);
    if (child < 0) {
        error = errno;
        close(report[0]);
        restore_signals(r);
        tool_error("cannot fork: %s", strerror(error));
        return false;
    }
    ssize_t n;
    do {
        n = read(report[0], &error, sizeof(error));
    } while (n < 0 && errno == EINTR);
    close(report[0]);
    pid_t helper = 0;
    if (n != (ssize_t)sizeof(error))
        helper = record_timer_begin(&r->times, child);
    *status = await_command(r);
    record_timer_end(helper);
    if (n != (ssize_t)sizeof(error))
        return true;
    tool_error("cannot run %s: %s", r->command[0], strerror(error));
    *exit_status = error == ENOENT ? NOT_FOUND : CANNOT_RUN;
    return false;
}

/* Ends this process as the command ended, without a second core dump. */
static int die_of(int sig) {
    const struct rlimit none = {0, 0};
    sigset_t one;
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
    return 128 + sig;
}

int cmd_record(int argc, char **argv) {
    enum {
        OPT_OUTPUT = 1,
        OPT_DELAY,
        OPT_DURATION,
        OPT_SITES,
        OPT_FREE_SITES,
        OPT_CHECK_FREES
    };
    static const struct tool_option table[] = {
        {NULL, 'o', true, OPT_OUTPUT},
        {"delay", 0, true, OPT_DELAY},
        {"duration", 0, true, OPT_DURATION},
        {"sites", 0, true, OPT_SITES},
        {"free-sites", 0, false, OPT_FREE_SITES},
        {"check-frees", 0, false, OPT_CHECK_FREES},
        {NULL, 0, false, 0},
    };
    static char library[PATH_MAX], link[PATH_MAX], pattern[PATH_MAX];
    struct tool_options o;
    struct run r = {.library = library, .pattern = pattern};
    const char *file = NULL;
    int id, status = 0, exit_status;

    tool_options_init(&o, argc, argv, table, help);
    o.stop_at_operand = true;
    while ((id = tool_option_next(&o)) > 0) {
        if (id == OPT_OUTPUT) {
            file = o.value;
            continue;
        }
        if (id == OPT_FREE_SITES) {
            r.free_sites = true;
            continue;
        }
        if (id == OPT_CHECK_FREES) {
            r.check_frees = true;
            continue;
        }
        if (id == OPT_SITES) {
            if (!is_mode(o.value))
                return tool_usage_error("--sites: \"%s\" is no mode of call "
                                        "sites",
                                        o.value);
            r.sites = o.value;
            continue;
        }
        bool is_delay = id == OPT_DELAY;
        uint64_t ns;
        if (!record_parse_seconds(o.value, &ns))
            return tool_usage_error("'%s' is no number of seconds", o.value);
        *(is_delay ? &r.times.delay_ns : &r.times.duration_ns) = ns;
        *(is_delay ? &r.times.delayed : &r.times.ends) = true;
    }
    if (id < 0)
        return o.status;
    if (o.operand_count == 0 || *o.operand[0] == '\0')
        return tool_usage_error("no command given");
    if (file != NULL && (*file == '\0' || strcmp(file, "-") == 0))
        return tool_usage_error("-o needs the name of a file");
    /* The file would be replaced while COMMAND writes to it. */
    const char *const outs[] = {NULL, file};
    if (file != NULL && strchr(file, '%') == NULL &&
        !tool_file_is_stdout(file) && tool_files_collide(outs, 2, NULL, 0))
        return TOOL_USAGE;
    o.operand[o.operand_count] = NULL;
    r.command = o.operand;

    if (!make_pattern(pattern, file, r.command[0]) || !find_library(library) ||
        !tool_preload_link(library, link))
        return TOOL_FAILED;
    struct record_report *report = record_report_before(pattern);
    bool ran = report != NULL && run_command(&r, &status, &exit_status);
    tool_preload_unlink(link);
    if (report == NULL) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    if (ran)
        record_report_after(report, r.command[0]);
    record_report_free(report);
    if (!ran)
        return exit_status;
    if (WIFSIGNALED(status))
        return die_of(WTERMSIG(status));
    return WEXITSTATUS(status);
}
