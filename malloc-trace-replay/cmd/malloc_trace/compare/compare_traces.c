/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_traces.h"

#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/subcommands.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "common/allocators.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/input.h"
#include "common/main.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/temp_folder.h"
#include "common/text.h"
#include "formats/format_import.h"
#include "model/info.h"
#include "open/forked.h"
#include "open/recordings.h"
#include "open/trace_open.h"
#include "sort/sorter.h"
#include "trace/ops.h"
#include "trace/raw.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- Command lines -------------------------------------------------------- */

const char *const compare_clock_name[] = {"real", "recorded", NULL};

enum { RESULTS = 5 };

/* Stores the names of the results in RESULT, and returns their number. */
static int results_of(const struct compare_files *f,
                      const char *result[RESULTS]) {
    const char *const all[RESULTS] = {f->json, f->csv, f->html, f->other,
                                      f->record};
    int n = 0;
    for (int i = 0; i < RESULTS; i++)
        if (all[i] != NULL)
            result[n++] = all[i];
    return n;
}

bool compare_files_take(struct compare_files *f, const struct tool_opts *o) {
    const char *result[RESULTS];
    int names = f->is_command
                    ? o->operand_count
                    : open_recordings_join_spools(o->operand, o->operand_count);
    f->operand = o->operand;
    f->operands = (size_t)names;
    f->operand[f->operands] = NULL;
    if (f->operands == 0) {
        (void)tool_usage_error("no FILE and no COMMAND given");
        return false;
    }
    bool has_traces = !f->is_command && !f->is_merge;
    for (size_t i = 0; has_traces && i < f->operands; i++)
        if (strcmp(f->operand[i], "-") == 0) {
            (void)tool_usage_error("FILE \"-\": standard input cannot be read "
                                   "again for every run");
            return false;
        }
    return !tool_files_collide(result, results_of(f, result),
                               (const char *const *)f->operand,
                               has_traces ? names : 0);
}

bool compare_files_take_stdout(const struct compare_files *f) {
    const char *result[RESULTS];
    bool taken = false;
    for (int i = results_of(f, result); i-- > 0;)
        taken |= tool_file_is_stdout(result[i]);
    return taken;
}

/* --- One trace ------------------------------------------------------------ */

/* Reads T, for its numbers of operations and threads, and its times. */
static bool scan_trace(struct comparison *c, struct compare_trace *t) {
    static struct info_file f;
    struct tool_input *in = format_open(t->path);
    if (in == NULL) {
        tool_error("%s: %s", t->path, strerror(errno));
        return false;
    }
    memset(&f, 0, sizeof(f));
    f.name = t->name;
    info_read_processed(&f, in);
    bool good = f.status != TOOL_FAILED;
    const char *problem = f.problem_count != 0 ? f.problems[0] : t->name;
    if (!good)
        tool_error("%s", problem);
    t->threads = raw_threads_with_events(&f.threads);
    t->ops = info_event_count(&f);
    t->has_times = info_has_times(&f);
    snprintf(t->allocator, sizeof(t->allocator), "%.63s", f.header.allocator);
    if (f.status == TOOL_DAMAGED) {
        tool_warn("%s", problem);
        c->lacks = true;
    }
    info_free(&f);
    return good;
}

static bool write_sorted(void *ctx, const void *data, size_t n) {
    return tool_output_write(ctx, data, n);
}

/* Sorts the raw trace NAME into the file OUT_NAME, once for all runs. The
   numbers that the sorter knows go into T, so that OUT_NAME need not be
   scanned. */
static bool sort_trace(struct comparison *c, struct compare_trace *t,
                       const char *name, const char *out_name) {
    struct tool_output *out = tool_output_open(
        out_name,
        mtf_compress_available() ? TOOL_OUTPUT_LZ4 : TOOL_OUTPUT_PLAIN);
    if (out == NULL) {
        tool_error("%s: %s", out_name, tool_file_error_text(errno));
        return false;
    }
    enum sorter_step step = SORTER_FAILED;
    struct inherited inherited;
    forked_inherited(&inherited, name);
    struct sorter *s =
        sorter_new(&(struct sorter_options){.name = name,
                                            .quiet = true,
                                            .inherited = &inherited,
                                            .write = write_sorted,
                                            .ctx = out});
    if (s != NULL)
        while ((step = sorter_step(s)) == SORTER_MORE)
            continue;
    bool good = step == SORTER_END && sorter_end(s);
    const char *problem = s == NULL ? "out of memory" : sorter_problem(s);
    int error = tool_output_error(out);
    if (!good && problem == NULL && error == 0)
        problem = "out of memory";
    if (!good && problem != NULL)
        tool_error("%s", problem);
    if (good && !tool_stop_requested()) {
        const struct sort_account *a = sorter_account(s);
        struct mtf_raw_info info;
        if (tool_raw_read_header(name, &info))
            snprintf(t->allocator, sizeof(t->allocator), "%.63s",
                     info.allocator);
        t->threads = a->counts.threads;
        t->ops = a->ops + a->counts.failed - a->prologue_ops;
        t->has_times = a->end_ns > a->start_ns;
        c->lacks |= sorter_tell(s) != TOOL_OK;
    }
    sorter_free(s);
    inherited_free(&inherited);
    if (!good)
        tool_output_drop(out);
    else if (!tool_output_close(out))
        error = errno;
    if (error != 0)
        tool_error("%s: %s", out_name, tool_file_error_text(error));
    return good && error == 0 && !tool_stop_requested();
}

/* Puts the absolute name of a processed or foreign trace into PATH. false: NAME
   is a raw trace, or none, with errno in *ERROR. */
static bool is_replayable(const char *name, char path[PATH_MAX], int *error) {
    struct trace t;
    *error = 0;
    if (!trace_open(&t, name, NULL)) {
        *error = errno;
        return false;
    }
    bool ready = t.sorting == NULL && tool_ops_is_processed(t.in, name);
    (void)trace_close(&t, true);
    if (ready && realpath(name, path) == NULL)
        *error = errno;
    return ready;
}

/* Adds the raw trace NAME in a sorted form. */
static bool add_sorted(struct comparison *c, const char *name,
                       const char *folder) {
    char real_folder[PATH_MAX], path[2 * PATH_MAX];
    if (realpath(folder, real_folder) == NULL) {
        tool_error("%s: %s", folder, strerror(errno));
        return false;
    }
    snprintf(path, sizeof(path), "%s/%zu.trace.lz4", real_folder, c->traces);
    return comparison_add_trace(c, path, name) &&
           sort_trace(c, &c->trace[c->traces - 1], name, path);
}

bool compare_traces_seen(struct comparison *c, const char *name, uint64_t calls,
                         const char *allocator) {
    c->unseen = trace_not_seen(name, calls, allocator) != TOOL_OK;
    return !c->unseen;
}

int compare_traces_failed(const struct comparison *c) {
    return tool_stop_requested() || c->unseen ? TOOL_DAMAGED : TOOL_FAILED;
}

static bool add_trace(struct comparison *c, const char *name,
                      const char *sorted) {
    char path[PATH_MAX];
    int error;
    size_t before = c->traces;
    if (trace_is_program(name))
        return false;
    if (sorted == NULL)
        return comparison_add_trace(c, name, name);
    bool replayable = is_replayable(name, path, &error);
    if (error != 0) {
        tool_error("%s: %s", name, strerror(error));
        return false;
    }
    bool good = replayable ? comparison_add_trace(c, path, name) &&
                                 scan_trace(c, &c->trace[before])
                           : add_sorted(c, name, sorted);
    good = good && compare_traces_seen(c, name, c->trace[before].ops,
                                       c->trace[before].allocator);
    if (!good && c->traces > before)
        comparison_remove_trace(c);
    TCM_ASSERT(c->traces == before + good);
    return good;
}

bool compare_traces_add_all(struct comparison *c, const char *const *operand,
                            size_t count, const char *sorted) {
    char room[PATH_MAX];
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const char *name =
            count == 1 ? open_recordings_choose(operand[i], room) : operand[i];
        good = !tool_stop_requested() && add_trace(c, name, sorted);
    }
    return good;
}

bool compare_traces_set_modes(struct comparison *c) {
    bool wanted = c->clock != NULL && strcmp(c->clock, "recorded") == 0;
    bool may = c->clock == NULL ? c->speed == NULL : wanted;
    bool has_clock = false;
    if (may && !compare_run_has_clock(&has_clock))
        return false;
    if (wanted && !has_clock) {
        tool_error("--clock=recorded: this build of replay has no recorded "
                   "clock");
        return false;
    }
    for (size_t i = 0; i < c->traces; i++) {
        struct compare_trace *t = &c->trace[i];
        t->mode = c->threads != NULL ? c->threads
                  : t->threads > 1   ? "real"
                                     : "none";
        t->clock = has_clock && t->has_times;
        bool scanned = t->ops != 0;
        if (wanted && scanned && !t->has_times)
            tool_warn("%s: the trace has no times; its replays run without a "
                      "recorded clock",
                      t->name);
    }
    return true;
}

/* --- The program's own allocator ------------------------------------------ */

const char *compare_traces_allocator(const struct comparison *c,
                                     const char **origin) {
    static const char *const words[] = {"linked ", "preloaded ", "static "};
    for (size_t i = 1; i < c->traces; i++)
        if (strcmp(c->trace[i].allocator, c->trace[0].allocator) != 0)
            return NULL;
    for (size_t i = 0; c->traces != 0 && i < TCM_ARRAY_SIZE(words); i++)
        if (strncmp(c->trace[0].allocator, words[i], strlen(words[i])) == 0) {
            *origin = words[i];
            return c->trace[0].allocator + strlen(words[i]);
        }
    return NULL;
}

bool compare_traces_has_own(const struct comparison *c,
                            const struct compare_contestant *entry) {
    const char *origin, *name = compare_traces_allocator(c, &origin);
    const char *known = compare_contestant_known(entry);
    return name != NULL && entry->library[0] != '\0' &&
           (strcmp(entry->name, name) == 0 ||
            strcmp(tool_file_base(entry->library), name) == 0 ||
            (known != NULL && strcmp(known, name) == 0));
}

/* Returns the contestant that is the program's own allocator, without settings
   if there is one such. SIZE_MAX: there is none. */
static size_t find_own(const struct comparison *c) {
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < c->contestants.count; i++)
        if (compare_traces_has_own(c, &c->contestants.list[i]) &&
            (found == SIZE_MAX ||
             c->contestants.list[i].envs < c->contestants.list[found].envs))
            found = i;
    return found;
}

bool compare_traces_take_own(struct comparison *c, bool add,
                             const char *option) {
    char path[PATH_MAX];
    const char *origin, *name = compare_traces_allocator(c, &origin);
    if (name == NULL)
        return true;
    size_t own = find_own(c);
    if (own == SIZE_MAX && add &&
        tool_allocator_find(name, path) == TOOL_ALLOCATOR_FOUND) {
        if (!compare_contestants_add(&c->contestants, name))
            return false;
        own = c->contestants.count - 1;
    }
    if (own != SIZE_MAX && c->contestants.list[own].why == NULL)
        c->baseline = own;
    if (tool_is_quiet())
        return true;
    fprintf(stderr, "%s: the program has %s (%s): ", tool_name(),
            tool_text_shown(name),
            *origin == 'l'   ? "linked; LD_PRELOAD puts another one before it"
            : *origin == 'p' ? "preloaded; another one is preloaded instead"
                             : "in its own file; another one has to be linked");
    if (c->baseline == own)
        fprintf(stderr,
                "the others are compared with it (--%s=%s: with the C "
                "library's)\n",
                option, TOOL_ALLOCATOR_C_LIBRARY);
    else
        fprintf(stderr, "-a %s=LIBRARY --%s=%s compares the others with it\n",
                tool_text_shown(name), option, tool_text_shown(name));
    return true;
}

/* --- Recordings of a command ---------------------------------------------- */

/* Adds the traces of the process with the most events, or of all processes that
   have at least a twentieth of its events: figures of smaller ones are mostly
   those of start and end. */
static bool add_recordings(struct comparison *c,
                           const struct open_recordings *all,
                           const struct compare_files *f, const char *sorted) {
    size_t taken = 0;
    while (taken < all->count &&
           (taken == 0 || (f->all_processes && all->list[taken].events >=
                                                   all->list[0].events / 20))) {
        const struct open_recording *r = &all->list[taken++];
        if (tool_stop_requested() || !add_trace(c, r->path, sorted))
            return false;
        struct compare_trace *t = &c->trace[c->traces - 1];
        free(t->name);
        t->name = strdup(r->name);
        if (t->name == NULL)
            return tool_out_of_memory();
    }
    TCM_ASSERT(taken == c->traces);
    if (taken < all->count && !f->again)
        open_recordings_warn(
            all, taken, "compared",
            f->all_processes ? "" : "; --all-processes adds the larger ones");
    return true;
}

/* Adds the recording that stays in the file F->record. */
static bool add_kept(struct comparison *c, const struct compare_files *f,
                     const char *sorted) {
    char room[PATH_MAX];
    return add_trace(c, open_recordings_choose(f->record, room), sorted);
}

/* --- Stopping a command --------------------------------------------------- */

/* Time after which a program that was asked to end by SIGINT gets SIGTERM. */
#define TERM_NS 10000000000u
/* Time between two looks whether the program has ended. */
#define LOOK_NS 20000000
/* Time after which a message says that the program still runs. */
#define STILL_NS 10000000000u

/* The request to end the recorded program. A user who ends a server by Ctrl-C
   wants its trace compared, so this is no request to stop the comparison. */
static uint32_t end_signal; /* 0: none yet */
static uint32_t end_is_of_terminal;
/* A signal came that this process ignores, as one that a script runs in the
   background does. The program may catch it, and end. */
static uint32_t end_was_ignored;

/* A second signal ends this program. */
static void take_end_request(int sig, siginfo_t *info, void *context) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)context;
    if (tcm_load_relaxed(&end_signal) == 0) {
        tcm_store_relaxed(&end_is_of_terminal, (uint32_t)(info->si_code > 0));
        tcm_store_relaxed(&end_signal, (uint32_t)sig);
        return;
    }
    sigaction(sig, &plain, NULL);
    raise(sig);
}

static void note_ignored(int sig) {
    (void)sig;
    tcm_store_relaxed(&end_was_ignored, 1u);
}

static const int end_signals[] = {SIGINT, SIGTERM};
enum { END_SIGNALS = TCM_ARRAY_SIZE(end_signals) };

/* Notes signals that are ignored, too. Called when the program runs: it
   inherits that they are ignored. */
static void note_ignored_signals(const struct sigaction before[END_SIGNALS]) {
    struct sigaction take = {.sa_handler = note_ignored,
                             .sa_flags = SA_RESTART};
    sigemptyset(&take.sa_mask);
    for (unsigned i = 0; i < END_SIGNALS; i++)
        if (before[i].sa_handler == SIG_IGN)
            sigaction(end_signals[i], &take, NULL);
}

/* Takes the signals; BEFORE gets their dispositions. Ignored ones stay so. */
static void catch_end_requests(struct sigaction before[END_SIGNALS]) {
    struct sigaction take = {.sa_sigaction = take_end_request,
                             .sa_flags = SA_SIGINFO};
    sigemptyset(&take.sa_mask);
    for (unsigned i = 0; i < END_SIGNALS; i++) {
        sigaction(end_signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(end_signals[i], &take, NULL);
    }
}

/* Sends SIG to the children of PARENT. */
static void signal_children(pid_t parent, int sig) {
    char path[64], text[256];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
             (int)parent);
    FILE *f = fopen(path, "re");
    bool known = f != NULL && fgets(text, sizeof(text), f) != NULL;
    if (f != NULL)
        fclose(f);
    if (!known) { /* `record` forwards this signal */
        (void)kill(parent, SIGTERM);
        return;
    }
    for (char *at = text, *end;; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at || pid <= 0)
            return;
        (void)kill((pid_t)pid, sig);
    }
}

/* Waits for `malloc-trace record` in CHILD, and ends its program on request:
   with SIGINT, unless the terminal has sent it to all, and after a while with
   SIGTERM. */
static void await_recorder(struct tool_child *child,
                           struct tool_child_end *end) {
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t since_ns = 0;
    bool terminated = false, told = tool_is_quiet();
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        int sig = (int)tcm_load_relaxed(&end_signal);
        if (waitid(P_PID, (id_t)child->pid, &info,
                   WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == child->pid)
            break;
        if (sig != 0 && since_ns == 0) {
            since_ns = tcm_clock_ns();
            terminated = sig == SIGTERM;
            if (terminated)
                (void)kill(child->pid, SIGTERM); /* it forwards this one */
            else if (tcm_load_relaxed(&end_is_of_terminal) == 0)
                signal_children(child->pid, SIGINT);
            tool_warn("the program is asked to end; what it did until then is "
                      "compared");
        } else if (sig != 0 && !terminated &&
                   tcm_clock_ns() - since_ns >= TERM_NS) {
            terminated = true;
            (void)kill(child->pid, SIGTERM);
        }
        if (!told && sig == 0 && tcm_clock_ns() - child->start_ns >= STILL_NS) {
            told = true;
            fprintf(stderr,
                    "%s: the program is still recorded; after Ctrl-C what it "
                    "did until then is compared\n",
                    tool_name());
        }
        (void)nanosleep(&pause, NULL);
    }
    tool_child_wait(child, 0, end);
}

/* --- A command ------------------------------------------------------------ */

/* Runs SPEC, `malloc-trace record`: requests to end are for its program alone.
   false: it cannot be run, a message was printed. */
static bool run_to_request(const struct tool_child_spec *spec,
                           struct tool_child_end *end) {
    struct tool_child child;
    struct sigaction before[END_SIGNALS];
    catch_end_requests(before);
    int error = tool_child_start(&child, spec);
    if (error != 0) {
        tool_error("cannot run %s: %s", spec->argv[0], strerror(error));
    } else {
        note_ignored_signals(before);
        await_recorder(&child, end);
    }
    for (unsigned i = 0; i < END_SIGNALS; i++)
        sigaction(end_signals[i], &before[i], NULL);
    return error == 0;
}

/* Time from a request to end to the end of a program. */
#define END_NS 10000000000u

/* Runs `malloc-trace record -o PATTERN` for COMMAND, with the descriptors of
   SPEC. STOP_NS 0: until it ends, or the user ends it; else for that time at
   most, and requests to end are for this program, too. false: it cannot be run,
   a message was printed. */
static bool run_recorder(char **command, char *pattern,
                         struct tool_child_spec spec, uint64_t stop_ns,
                         struct tool_child_end *end) {
    static char program[PATH_MAX];
    static char record[] = "record", quiet[] = "-q", output[] = "-o",
                dashes[] = "--";
    size_t words = 0, n = 0;
    while (command[words] != NULL)
        words++;
    char **argv = calloc(words + 7, sizeof(*argv));
    if (argv == NULL)
        return tool_out_of_memory();
    bool good = tool_own_program("malloc-trace", program);
    char *const first[] = {program, record, quiet, output, pattern, dashes};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(first); i++)
        argv[n++] = first[i];
    memcpy(argv + n, command, words * sizeof(*argv));
    spec.argv = argv;
    spec.dies_with_parent = true;
    spec.stop_ns = stop_ns;
    spec.signals = stop_ns == 0 ? TOOL_CHILD_APART : TOOL_CHILD_STOPS;
    good =
        good && (stop_ns == 0 ? run_to_request(&spec, end)
                              : tool_child_run(&spec, stop_ns + END_NS, end));
    free(argv);
    return good;
}

/* Sets the mode of call sites for `record`. */
static bool set_sites(const struct compare_files *f,
                      const struct record_facts *facts) {
    const char *mode = f->sites != NULL ? f->sites : facts->sites;
    return !f->needs_sites ||
           setenv("TCMALLOC_TRACE_SITES", mode, f->sites != NULL) == 0 ||
           tool_out_of_memory();
}

/* Tells whether the command did what is wanted of it: its status does not
   become that of this program. */
static bool check_end(const struct compare_files *f,
                      const struct compare_recorded *r,
                      const struct tool_child_end *end) {
    char how[120];
    if (r->ended_by_user ||
        (WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0))
        return true;
    tool_child_end_text(end, how, sizeof(how));
    if (f->must_succeed)
        tool_error("%s: %s; a gate needs a program that succeeds",
                   f->operand[0], how);
    else
        tool_warn("%s: %s; what it did until then is replayed", f->operand[0],
                  how);
    return !f->must_succeed;
}

/* Least exit status of a command that cannot be run, after a message. */
enum { CANNOT_RUN = 126 };

static bool record_command(struct comparison *c, const struct compare_files *f,
                           const char *folder, const char *sorted,
                           struct compare_recorded *r) {
    struct tool_child_end end;
    struct open_recordings all = {0};
    char pattern[OPEN_RECORDINGS_PATTERN];
    const char *command = f->operand[0];
    struct record_facts facts;
    int status = record_program_facts(&facts, command);
    c->unseen = status == TOOL_DAMAGED;
    if (status != TOOL_OK)
        return false;
    if (!f->again)
        record_program_note(&facts);
    if (f->record != NULL)
        snprintf(pattern, sizeof(pattern), "%s", f->record);
    else
        open_recordings_pattern(folder, pattern);
    if (!set_sites(f, &facts) ||
        !run_recorder(f->operand, pattern,
                      (struct tool_child_spec){
                          .out = compare_files_take_stdout(f) ? STDERR_FILENO
                                                              : STDOUT_FILENO},
                      0, &end))
        return false;
    *r = (struct compare_recorded){.status = end.status,
                                   .wall_ns = end.wall_ns,
                                   .ended_by_user =
                                       tcm_load_relaxed(&end_signal) != 0 ||
                                       tcm_load_relaxed(&end_was_ignored) != 0};
    if (f->record != NULL)
        return add_kept(c, f, sorted) && check_end(f, r, &end);
    bool good = open_recordings_find(&all, folder, command);
    if (good &&
        (all.count == 0 || (all.count > 1 && all.list[0].events == 0))) {
        good = false;
        if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) < CANNOT_RUN)
            (void)compare_traces_seen(c, command, 0, "");
    }
    good = good && add_recordings(c, &all, f, sorted);
    open_recordings_free(&all);
    return good && check_end(f, r, &end);
}

/* Time that further recordings may take, but for the least number of them, and
   the largest number. */
#define AGAIN_NS 30000000000u
/* A program that takes this longer than thrice its first time does not end, as
   a server that its client ended. */
#define AGAIN_HANGS_NS 15000000000u
enum { AGAIN_LEAST = 2, AGAIN_MOST = 11 };

/* Sorts the recording NAME for the further replays of T, into the file PATH. */
static bool add_again(struct comparison *c, struct compare_trace *t,
                      const char *name, const char *path) {
    struct compare_trace sorted = {.ops = 0};
    char **grown = realloc(t->again, (t->agains + 1) * sizeof(*grown));
    if (grown == NULL)
        return tool_out_of_memory();
    t->again = grown;
    t->again[t->agains] = strdup(path);
    if (t->again[t->agains] == NULL || !sort_trace(c, &sorted, name, path) ||
        sorted.ops == 0) {
        free(t->again[t->agains]);
        return false;
    }
    t->agains++;
    return true;
}

/* Records COMMAND once more. false: it was not, or ended in another way. */
static bool record_again(struct comparison *c,
                         const struct compare_command *command,
                         const char *folder) {
    struct tool_temp_folder own = {.lock = 0};
    struct tool_child_end end;
    struct open_recordings all = {0};
    struct compare_trace *t = &c->trace[0];
    char path[2 * PATH_MAX], pattern[OPEN_RECORDINGS_PATTERN];
    snprintf(path, sizeof(path), "%s/again.%zu.trace.lz4", folder, t->agains);
    bool good = tool_temp_folder_make(&own);
    if (good)
        open_recordings_pattern(own.path, pattern);
    good = good &&
           run_recorder(command->words, pattern, compare_program_spec(command),
                        AGAIN_HANGS_NS + 3 * command->recorded_ns, &end) &&
           !tool_stop_requested() &&
           !compare_program_has_failed(command, &end) &&
           open_recordings_find(&all, own.path, command->words[0]) &&
           all.count != 0 && add_again(c, t, all.list[0].path, path);
    open_recordings_free(&all);
    tool_temp_folder_remove(&own);
    return good;
}

void compare_traces_record_again(struct comparison *c,
                                 const struct compare_files *f,
                                 const char *folder, size_t most,
                                 const struct compare_recorded *r) {
    struct tool_text text;
    const struct compare_command command = {.words = f->operand,
                                            .status = WEXITSTATUS(r->status),
                                            .recorded_ns = r->wall_ns};
    uint64_t each_ns = r->wall_ns + r->wall_ns / 2; /* it is sorted, too */
    size_t n = AGAIN_NS / (each_ns + 1);
    n = n < AGAIN_LEAST ? AGAIN_LEAST : n;
    n = n > AGAIN_MOST ? AGAIN_MOST : n;
    n = n > most ? most : n;
    if (n == 0)
        return;
    if (!tool_is_quiet())
        fprintf(stderr,
                "%s: %s is recorded %zu times more, which takes about %s: its "
                "memory differs from run to run (--no-run-program records it "
                "once)\n",
                tool_name(), tool_text_shown(f->operand[0]), n,
                tool_text_ns(&text, n * each_ns));
    size_t i = 0;
    while (i < n && !tool_stop_requested() && record_again(c, &command, folder))
        i++;
    if (i < n && !tool_stop_requested())
        tool_warn("%s ended in another way when it was recorded again: memory "
                  "is that of %zu recording%s",
                  f->operand[0], i + 1, i == 0 ? "" : "s");
}

bool compare_traces_gather(struct comparison *c, const struct compare_files *f,
                           const char *folder, const char *sorted,
                           struct compare_recorded *r) {
    bool good = f->is_command
                    ? record_command(c, f, folder, sorted, r)
                    : compare_traces_add_all(c, (const char *const *)f->operand,
                                             f->operands, sorted);
    return good && compare_traces_set_modes(c);
}
