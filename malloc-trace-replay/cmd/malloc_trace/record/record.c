/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace record: runs a command under the recorder.
 *
 * The command behaves as it does when it is run directly: it gets this
 * process's descriptors, signal dispositions and process group; its exit status
 * is passed on; and when a signal kills it, this process dies of the same
 * signal. The terminal's signals (interrupt, quit) reach the command directly
 * and are ignored here while it runs; signals sent to this process only are
 * passed on.
 *
 * Why the output's name is made absolute: programs that the command starts in
 * other folders would put their traces there.
 */
#include "base/clock.h"
#include "cmd/malloc_trace/record/record.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/child.h"
#include "common/control_client.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/shared_library.h"
#include "common/text.h"
#include "traceformat/compress.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Tells whether TEXT is "NAME" or "NAME:NUMBER", with a number from 1 to
   MAX. */
static bool is_numbered(const char *text, const char *name, uint64_t max) {
    uint64_t number;
    size_t n = strlen(name);
    if (strncmp(text, name, n) != 0)
        return false;
    return text[n] == '\0' ||
           (text[n] == ':' && tool_parse_u64(text + n + 1, max, &number) &&
            number != 0);
}

bool record_is_mode(const char *text) {
    return strcmp(text, "caller") == 0 || strcmp(text, "none") == 0 ||
           is_numbered(text, "stack", 256) || is_numbered(text, "lang", 256) ||
           is_numbered(text, "sample", (uint64_t)1 << 40);
}

struct sites_option {
    const char *mode; /* NULL: not given */
    bool bare;        /* given without a mode */
};

static bool take_sites(void *ctx, const char *text) {
    struct sites_option *sites = ctx;
    sites->bare = text == NULL;
    sites->mode = text == NULL ? "lang" : text;
    return record_is_mode(sites->mode);
}

enum { NOT_FOUND = 127, CANNOT_RUN = 126 };

/* --- The output's name -------------------------------------------------- */

/* Makes the absolute pattern of the output. FILE: of option -o, or NULL. */
static bool make_pattern(char out[PATH_MAX], const char *file,
                         const char *command) {
    char name[PATH_MAX];
    if (file == NULL) {
        tool_file_escape(name, PATH_MAX - 32, tool_file_base(command));
        size_t used = strlen(name);
        snprintf(name + used, sizeof(name) - used, ".%%p.trace%s",
                 mtf_compress_available() ? ".lz4" : "");
        file = name;
    }
    return tool_file_make_pattern(out, PATH_MAX, file);
}

/* --- The timer ------------------------------------------------------------ */

/*
 * Options --delay and --duration: a helper process beside the command starts
 * and stops its recording through the control socket.
 */

/* About 30 years. */
#define RECORD_TIME_MAX_NS ((uint64_t)1000000000 * 1000000000)

struct record_times {
    bool delayed; /* recording begins after DELAY_NS, not at once */
    bool ends;    /* recording ends DURATION_NS after it began */
    uint64_t delay_ns;
    uint64_t duration_ns;
};

#define SECOND 1000000000u
/* Longest time that a program may take to run its constructors, or from one
   exec to the next, before it is assumed not to have the library; and the pause
   between attempts. */
#define PATIENCE_NS ((uint64_t)5 * SECOND)
#define TRY_NS      20000000u

static void sleep_ns(uint64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / SECOND),
                            .tv_nsec = (long)(ns % SECOND)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* Sends COMMAND to PID, which has its socket by now or soon. false: a message
   was printed, or the process has ended. */
static bool order(pid_t pid, enum mtf_control_command command) {
    static struct mtf_control_reply reply;
    char problem[TOOL_CONTROL_PROBLEM_MAX];
    uint64_t give_up = tcm_clock_ns() + PATIENCE_NS;
    while (!tool_control_exists(pid) && kill(pid, 0) == 0 &&
           tcm_clock_ns() < give_up)
        sleep_ns(TRY_NS);
    if (tool_control_request(pid, command, "", "", &reply, problem))
        return true;
    /* no message if the process has ended */
    siginfo_t info = {0};
    if (kill(pid, 0) == 0 &&
        (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == 0))
        tool_warn("cannot %s recording: %s",
                  command == MTF_CONTROL_START ? "start" : "stop", problem);
    return false;
}

struct timer_work {
    const struct record_times *times;
    pid_t command;
};

/* Body of the helper. */
static int run_timer(void *ctx) {
    const struct timer_work *w = ctx;
    if (w->times->delayed) {
        sleep_ns(w->times->delay_ns);
        if (!order(w->command, MTF_CONTROL_START))
            return TOOL_OK;
    }
    if (w->times->ends) {
        sleep_ns(w->times->duration_ns);
        order(w->command, MTF_CONTROL_STOP);
    }
    return TOOL_OK;
}

/* Starts HELPER, which controls the process COMMAND. HELPER has no process if
   there is nothing to do, or if it could not be made, with a message. */
static void record_timer_begin(struct tool_child *helper,
                               const struct record_times *t, pid_t command) {
    struct timer_work w = {.times = t, .command = command};
    struct tool_child_spec spec = {
        .body = run_timer, .ctx = &w, .dies_with_parent = true};
    helper->pid = 0;
    if (!t->delayed && !t->ends)
        return;
    int error = tool_child_start(helper, &spec);
    if (error != 0)
        tool_warn(
            "cannot make a process, --delay and --duration have no effect: %s",
            strerror(error));
}

/* Ends HELPER, after the end of COMMAND. */
static void record_timer_end(struct tool_child *helper) {
    tool_child_kill(helper);
    tool_child_wait(helper, 0, NULL);
}

/* --- The run ------------------------------------------------------------ */

struct run {
    char **command;
    const char *library; /* NULL: none is preloaded */
    const char *pattern;
    /* options; NULL or false: the environment of this process decides */
    struct sites_option sites;
    bool free_sites;
    bool check_frees;
    struct record_times times;
    bool anyway;     /* also if the program or the output has an obstacle */
    char *allocator; /* for TCMALLOC_TRACE_ALLOCATOR; NULL: none */
};

static bool preload(const char *library) {
    const char *old = getenv("LD_PRELOAD");
    if (library == NULL)
        return true;
    if (old == NULL)
        old = "";
    size_t length = strlen(library) + strlen(old) + 2;
    char *list = malloc(length);
    if (list == NULL)
        return false;
    snprintf(list, length, "%s%s%s", library, *old != '\0' ? ":" : "", old);
    bool good = setenv("LD_PRELOAD", list, 1) == 0;
    free(list);
    return good;
}

/* Sets the environment of the command, in the child. */
static bool set_environment(void *ctx) {
    const struct run *r = ctx;
    bool good = preload(r->library) &&
                setenv("TCMALLOC_TRACE_OUTPUT", r->pattern, 1) == 0 &&
                /* the command begins a recording of its own, also where this
                   program is being recorded */
                unsetenv("TCMALLOC_TRACE_OWNER") == 0 &&
                (r->allocator == NULL ? unsetenv("TCMALLOC_TRACE_ALLOCATOR")
                                      : setenv("TCMALLOC_TRACE_ALLOCATOR",
                                               r->allocator, 1)) == 0;
    if (r->sites.mode != NULL)
        good = good && setenv("TCMALLOC_TRACE_SITES", r->sites.mode, 1) == 0;
    if (r->free_sites)
        good = good && setenv("TCMALLOC_TRACE_FREE_SITES", "1", 1) == 0;
    if (r->check_frees)
        good = good && setenv("TCMALLOC_TRACE_CHECK_FREES", "1", 1) == 0;
    if (r->times.delayed)
        good = good && setenv("TCMALLOC_TRACE_START", "0", 1) == 0;
    if (r->times.delayed || r->times.ends)
        good = good && setenv("TCMALLOC_TRACE_CONTROL", "1", 1) == 0;
    return good;
}

/* Runs the command, and stores its process and how that ended. false: it could
   not be run, and *EXIT_STATUS is set. */
static bool run_command(struct run *r, pid_t *pid, struct tool_child_end *end,
                        int *exit_status) {
    struct tool_child child, helper;
    struct tool_child_spec spec = {.argv = r->command,
                                   .prepare = set_environment,
                                   .ctx = r,
                                   .signals = TOOL_CHILD_FRONT};
    int error = tool_child_start(&child, &spec);
    if (error != 0) {
        *exit_status = child.pid < 0     ? TOOL_FAILED
                       : error == ENOENT ? NOT_FOUND
                                         : CANNOT_RUN;
        tool_error("cannot run %s: %s", r->command[0], strerror(error));
        return false;
    }
    *pid = child.pid;
    record_timer_begin(&helper, &r->times, child.pid);
    tool_child_wait(&child, 0, end);
    record_timer_end(&helper);
    return true;
}

/* Ends this process by the signal SIG that ended the command, without a second
   core dump. */
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

/* Warns of a preloaded malloc. This program runs with the same LD_PRELOAD as
   the command would, so such a malloc is its own, too. */
static void warn_of_preloaded(void) {
    Dl_info info;
    const void *used = tool_symbol("malloc");
    const void *library = tool_symbol_library(used);
    if (getenv("LD_PRELOAD") == NULL || library == NULL ||
        library == tool_symbol_library(tool_symbol("abort")) ||
        tool_symbol_own(library, "malloc_trace_start") != NULL ||
        dladdr(used, &info) == 0)
        return;
    tool_warn("LD_PRELOAD has %s, whose malloc gets no calls while the program "
              "is recorded: the recorder's malloc comes first",
              tool_text_shown(info.dli_fname));
}

/* Examines the program of R and the output. Returns TOOL_OK if the command may
   start, else the exit status, after a message. */
static int examine(const struct run *r, struct record_program *program,
                   const char *library, const char *pattern) {
    record_program_examine(program, r->command[0], library);
    if (*program->path == '\0') {
        if (r->sites.bare && record_is_mode(r->command[0]))
            return tool_usage_error("--sites takes its mode after an equals "
                                    "sign: --sites=%s",
                                    r->command[0]);
        return TOOL_OK; /* the start fails */
    }
    if (program->obstacle != NULL && !r->anyway) {
        record_program_refuse(program);
        return TOOL_FAILED;
    }
    const char *place = r->anyway ? NULL : record_report_bad_output(pattern);
    if (place != NULL) {
        tool_error("cannot make the output: %s: %s; name another with -o, or "
                   "run it with --anyway",
                   place, strerror(errno));
        return TOOL_FAILED;
    }
    record_program_caution(program);
    warn_of_preloaded();
    return TOOL_OK;
}

/* Records the command of R. FILE: of option -o, or NULL. Returns the exit
   status. */
static int record(struct run *r, const char *file) {
    static char library[PATH_MAX], link[PATH_MAX], pattern[PATH_MAX];
    static struct record_program program;
    struct tool_child_end end;
    pid_t pid = 0;
    int exit_status;
    if (!make_pattern(pattern, file, r->command[0]) ||
        !record_find_library(library))
        return TOOL_FAILED;
    exit_status = examine(r, &program, library, pattern);
    if (exit_status != TOOL_OK)
        return exit_status;
    if (!tool_preload_link(library, link))
        return TOOL_FAILED;
    /* A program with a recorder in it would have two, of which the preloaded
       one gets no calls; other processes need it, if they are recorded. */
    r->library = program.has_recorder && !record_report_per_process(pattern)
                     ? NULL
                     : library;
    r->pattern = pattern;
    if (program.takes_library && program.allocator != NULL &&
        asprintf(&r->allocator, "%s/%s", program.allocator,
                 tool_file_base(program.path)) < 0)
        r->allocator = NULL;
    struct record_report *report = record_report_before(pattern);
    bool ran = report != NULL && run_command(r, &pid, &end, &exit_status);
    tool_preload_unlink(link);
    free(r->allocator);
    if (report == NULL) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    if (ran)
        record_report_after(report, &program, pid, end.name);
    record_report_free(report);
    if (!ran)
        return exit_status;
    if (!WIFSIGNALED(end.status))
        return WEXITSTATUS(end.status);
    return die_of(WTERMSIG(end.status));
}

static const char notes[] =
    "The exit status is COMMAND's; a signal that kills COMMAND "
    "kills this program too. 1: the recording library is "
    "missing, or COMMAND or the output needs --anyway; 2: wrong "
    "command line; 126: COMMAND cannot be run; "
    "127: COMMAND is not found.\n"
    "Environment: MALLOC_TRACE_LIBRARY, a recording library to use "
    "instead of the one that was built or installed with this "
    "program.";

/* Parses the options into R and *FILE, the value of -o. false: the status is
   O's. */
static bool parse_options(struct run *r, const char **file, struct tool_opts *o,
                          int argc, char **argv) {
    const struct tool_opt opts[] = {
        {.letter = 'o',
         .value = "FILE",
         .help = "record to FILE; in its name %p stands for the process id, %e "
                 "for the executable's name, %% for a percent sign. With %p, "
                 "all processes that COMMAND starts are recorded too. Default: "
                 "COMMAND.%p.trace.lz4",
         .text = file},
        {.name = "delay",
         .value = "TIME",
         .help = "begin after TIME, and record only COMMAND's own process",
         .ns = &r->times.delay_ns,
         .most = RECORD_TIME_MAX_NS,
         .given = &r->times.delayed},
        {.name = "duration",
         .value = "TIME",
         .help = "end the recording of COMMAND's own process TIME after it "
                 "began; COMMAND continues",
         .ns = &r->times.duration_ns,
         .most = RECORD_TIME_MAX_NS,
         .given = &r->times.ends},
        {.name = "sites",
         .value = "MODE",
         .value_optional = true,
         .help = "record the call sites of allocations: caller, "
                 "stack[:DEPTH], sample[:BYTES], lang[:N] (N lines of Python, "
                 "Perl or Ruby that call each other) or none; without MODE: "
                 "lang",
         .take = take_sites,
         .ctx = &r->sites,
         .expects = "caller, stack[:DEPTH], sample[:BYTES], lang[:N] or none"},
        {.name = "free-sites",
         .help = "record the call sites of frees, too",
         .flag = &r->free_sites},
        {.name = "check-frees",
         .help = "check each free for errors, which report --errors prints",
         .flag = &r->check_frees},
        {.name = "anyway",
         .help = "run COMMAND even if no trace can come of it: it is "
                 "statically linked, setuid or of another architecture, or "
                 "the output cannot be made",
         .flag = &r->anyway},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace record [OPTION]... [--] COMMAND [ARGUMENT]...",
        .about = "Run COMMAND and record its memory requests.",
        .opts = opts,
        .quiet = "no summary; errors and warnings only",
        .notes = notes,
        .stop_at_operand = true};
    return tool_opts_parse(o, &command, argc, argv);
}

int cmd_record(int argc, char **argv) {
    struct run r = {0};
    const char *file = NULL;
    struct tool_opts o;
    if (!parse_options(&r, &file, &o, argc, argv))
        return o.status;
    if (o.operand_count == 0 || *o.operand[0] == '\0')
        return tool_usage_error("no command given");
    if (file != NULL && (*file == '\0' || strcmp(file, "-") == 0))
        return tool_usage_error("-o needs the name of a file");
    /* the recording would replace a file to which COMMAND writes */
    const char *const outs[] = {NULL, file};
    if (file != NULL && strchr(file, '%') == NULL &&
        !tool_file_is_stdout(file) && tool_files_collide(outs, 2, NULL, 0))
        return TOOL_USAGE;
    o.operand[o.operand_count] = NULL;
    r.command = o.operand;
    return record(&r, file);
}
