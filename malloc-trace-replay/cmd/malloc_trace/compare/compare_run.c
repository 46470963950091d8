/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_run.h"

#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_machine.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/temp_folder.h"
#include "model/interval.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- JSON ----------------------------------------------------------------- */

double compare_json_number(const struct tool_json_value *object,
                           const char *key) {
    return tool_json_number(tool_json_member(object, key));
}

/* Like compare_json_number, for a figure of a run: NAN and PROBLEM if it is out
   of bounds. */
static double json_figure(const struct tool_json_value *object, const char *key,
                          char problem[200]) {
    double v = compare_json_number(object, key);
    if (isnan(v) || (v >= 0 && v <= COMPARE_MOST_FIGURE))
        return v;
    snprintf(problem, 200, "its %s is %g, not a figure from 0 to 2e19", key, v);
    return NAN;
}

uint64_t compare_json_whole(const struct tool_json_value *object,
                            const char *key) {
    double v = compare_json_number(object, key);
    return v >= 0 && v < 1.8e19 ? (uint64_t)v : 0;
}

const char *compare_json_text(const struct tool_json_value *object,
                              const char *key) {
    const char *s = tool_json_text(tool_json_member(object, key));
    return s == NULL ? "" : s;
}

static void copy_text(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text);
}

const struct tool_json_value *compare_json_file(const char *path,
                                                const char *format) {
    const struct tool_json_value *root = tool_json_read_file(path);
    if (root != NULL &&
        strcmp(compare_json_text(root, "format"), format) != 0) {
        tool_error("%s: not a file of the format \"%s\"", path, format);
        tool_json_read_free(root);
        root = NULL;
    }
    return root;
}

#define RUN_FORMAT "malloc-trace run 1"

/* Most bytes that are read from a child's output: far above a long run's JSON.
   */
#define OUTPUT_MAX ((size_t)1 << 30)

/* A run that takes HANGS times as long as the baseline's, and HANGS_SECONDS
   more, hangs. */
enum { HANGS = 30, HANGS_SECONDS = 15 };

uint64_t compare_run_limit_ns(uint64_t baseline_ns) {
    return HANGS_SECONDS * (uint64_t)1000000000 + HANGS * baseline_ns;
}

/* --- A run ---------------------------------------------------------------- */

enum { WORDS = 12 };

struct words {
    char *word[WORDS + 1];
    char text[6][64];
    unsigned count, texts;
};

static void add_word(struct words *w, const char *text) {
    w->word[w->count++] = (char *)(uintptr_t)text;
}

static void add_option(struct words *w, const char *option, const char *value) {
    char *text = w->text[w->texts++];
    snprintf(text, sizeof(w->text[0]), "--%s=%s", option, value);
    add_word(w, text);
}

static void add_descriptor_option(struct words *w, const char *option, int fd,
                                  const char *suffix) {
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d%s", fd, suffix);
    add_option(w, option, path);
}

/* Puts the first line that a program wrote to ERR into OUT, without its name.
   */
static void first_message(int err, char *out, size_t size) {
    size_t n;
    out[0] = '\0';
    char *text = tool_child_text(err, OUTPUT_MAX, &n);
    if (text == NULL)
        return;
    text[strcspn(text, "\n")] = '\0';
    const char *at = strncmp(text, "replay: ", 8) == 0 ? text + 8 : text;
    snprintf(out, size, "%s", at);
    free(text);
}

/* Says in WHY why a run has no figures. */
static void explain_failure(const struct tool_child_end *end, int err,
                            char *why, size_t size) {
    char how[120], line[300];
    tool_child_end_text(end, how, sizeof(how));
    first_message(err, line, sizeof(line));
    bool crashed =
        end->error == 0 && !end->timed_out && WIFSIGNALED(end->status);
    if (crashed && WTERMSIG(end->status) == SIGKILL)
        snprintf(why, size,
                 "it was killed (signal 9), most likely because memory ran "
                 "out");
    else if (crashed)
        snprintf(why, size, "it crashed: %s", how);
    else if (line[0] != '\0' && !end->timed_out)
        snprintf(why, size, "%s: %s", how, line);
    else
        snprintf(why, size, "%s", how);
}

struct run_files {
    int result, messages, out;
    struct tool_temp_folder folder; /* of COURSE, if a run makes one */
    char course[PATH_MAX + 16];     /* the file of replay --timeline */
};

static bool run_files_make(struct run_files *f) {
    f->folder.path[0] = '\0';
    f->result = tool_child_scratch("result");
    f->messages = tool_child_scratch("messages");
    f->out = tool_child_scratch("run");
    return f->result >= 0 && f->messages >= 0 && f->out >= 0;
}

static void run_files_close(struct run_files *f) {
    const int all[] = {f->result, f->messages, f->out};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
        if (all[i] >= 0)
            close(all[i]);
    tool_temp_folder_remove(&f->folder);
}

static void put_documents(struct tool_json *j, const struct run_files *f) {
    size_t n;
    char *text = tool_child_text(f->result, OUTPUT_MAX, &n);
    if (text != NULL && text[0] == '{')
        tool_json_document(j, "replay", text);
    else
        tool_json_null(j, "replay");
    free(text);
    int course =
        f->folder.path[0] == '\0' ? -1 : open(f->course, O_RDONLY | O_CLOEXEC);
    if (course < 0)
        return;
    text = tool_child_text(course, OUTPUT_MAX, &n);
    if (text != NULL && text[0] == '{')
        tool_json_document(j, "timeline", text);
    free(text);
    close(course);
}

static bool put_run_json(const struct comparison *c, const struct run_files *f,
                         size_t round, size_t trace, size_t contestant,
                         const char *why, const struct tool_child_end *end) {
    static struct tool_json j;
    char path[40];
    const struct compare_contestant *entry = &c->contestants.list[contestant];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", f->out);
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", RUN_FORMAT);
    tool_json_string(&j, "contestant", entry->name);
    tool_json_string(&j, "library", entry->library);
    tool_json_begin_array(&j, "environment");
    for (size_t i = 0; i < entry->envs; i++)
        tool_json_string(&j, NULL, entry->env[i]);
    tool_json_end_array(&j);
    tool_json_string(&j, "trace", c->trace[trace].name);
    tool_json_u64(&j, "trace_number", c->trace[trace].number);
    tool_json_u64(&j, "round", round);
    tool_json_bool(&j, "ok", why == NULL);
    if (why == NULL)
        tool_json_null(&j, "why");
    else
        tool_json_string(&j, "why", why);
    tool_json_u64(&j, "process_ns", end->wall_ns);
    compare_machine_json(&c->machine, "machine", &j);
    put_documents(&j, f);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

static bool make_course_folder(struct run_files *f) {
    if (!tool_temp_folder_make(&f->folder))
        return false;
    (void)snprintf(f->course, sizeof(f->course), "%s/course.json",
                   f->folder.path);
    return true;
}

/* Round 0 warms up and records memory in the course of the run; later rounds
   measure latency instead. */
static bool run_replay(const struct comparison *c, struct run_files *f,
                       size_t round, size_t trace, size_t contestant,
                       struct tool_child_end *end) {
    static char replay[PATH_MAX];
    struct words w = {.count = 0};
    const struct compare_trace *t = &c->trace[trace];
    if (replay[0] == '\0' && !tool_own_program("replay", replay))
        return false;
    add_word(&w, replay);
    add_word(&w, "-q");
    add_option(&w, "threads", t->mode);
    add_descriptor_option(&w, "json", f->result, "");
    if (c->touch != NULL)
        add_option(&w, "touch", c->touch);
    if (c->speed != NULL)
        add_option(&w, "speed", c->speed);
    if (t->clock)
        add_option(&w, "clock", "recorded");
    if (c->counts_returns)
        add_word(&w, "--count-returns");
    if (c->lean) {
        /* nothing disturbs the operations */
    } else if (round == 0) {
        if (!make_course_folder(f))
            return false;
        add_word(&w, "--timeline");
        add_word(&w, f->course);
    } else {
        add_word(&w, "--latency");
    }
    add_word(&w, "--");
    size_t recording = round % (t->agains + 1);
    add_word(&w, recording == 0 ? t->path : t->again[recording - 1]);
    struct tool_child_spec what = {.argv = w.word,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = f->messages,
                                   .keep = &f->result,
                                   .keep_count = 1};
    return compare_contestant_run(&c->contestants.list[contestant], false,
                                  &what, c->limit_ns, end);
}

char *compare_run_make(struct comparison *c, size_t round, size_t trace,
                       size_t contestant, size_t *size) {
    struct run_files f;
    struct tool_child_end end;
    char why[480];
    char *text = NULL;
    const char *reason = NULL;
    if (c->machine.cpus == 0)
        compare_machine_read(&c->machine);
    if (!compare_contestant_prepare(&c->contestants.list[contestant]))
        return NULL;
    bool good =
        run_files_make(&f) && run_replay(c, &f, round, trace, contestant, &end);
    /* a run that was stopped has only a part of its figures */
    good = good && !tool_stop_requested();
    if (good) {
        int status = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 255;
        if (end.error != 0 || end.timed_out ||
            (status != TOOL_OK && status != TOOL_DAMAGED)) {
            explain_failure(&end, f.messages, why, sizeof(why));
            reason = why;
        }
        good = put_run_json(c, &f, round, trace, contestant, reason, &end);
    }
    if (good)
        text = tool_child_text(f.out, OUTPUT_MAX, size);
    run_files_close(&f);
    return text;
}

/* --- A run is read -------------------------------------------------------- */

/* Tells whether a replay gave its allocator recorded time. */
static bool is_clocked(const struct tool_json_value *replay) {
    return strcmp(compare_json_text(replay, "clock"), "recorded") == 0;
}

/* Tells whether a replay with the recorded clock lacks an answer to whether its
   allocator reads another one. */
static bool clock_is_unknown(const struct tool_json_value *replay) {
    return is_clocked(replay) &&
           (tool_json_member(replay, "clock_reads_counter") == NULL ||
            tool_json_member(replay, "clock_asks_kernel") == NULL);
}

bool compare_run_own_clock(const struct tool_json_value *replay,
                           char text[128]) {
    const char *counter = compare_json_text(replay, "clock_reads_counter");
    const char *kernel = compare_json_text(replay, "clock_asks_kernel");
    text[0] = '\0';
    if (!is_clocked(replay))
        return false;
    if (counter[0] != '\0')
        snprintf(text, 128, "%.60s reads the time-stamp counter", counter);
    else if (kernel[0] != '\0')
        snprintf(text, 128, "%.60s asks the kernel by itself", kernel);
    return text[0] != '\0';
}

static void take_figures(struct compare_run *run,
                         const struct tool_json_value *replay,
                         char problem[200]) {
    char own_clock[128];
    static const char *const key[METRICS] = {
        [METRIC_TIME] = "cpu_ns_per_op",
        [METRIC_WALL] = "ns_per_op",
        [METRIC_P999] = "p999_ns",
        [METRIC_PEAK_RSS] = "peak_rss_bytes",
        [METRIC_AVG_RSS] = "avg_rss_bytes",
        [METRIC_FRAG] = "rss_over_live",
        [METRIC_WASTE] = "peak_waste_bytes",
        [METRIC_AFTER] = "after_peak_rss_bytes",
        [METRIC_FAULTS] = "minor_faults",
        [METRIC_HUGE] = "huge_bytes",
    };
    for (int m = 0; m < METRICS; m++)
        run->value[m] = json_figure(replay, key[m], problem);
    if (tool_json_is_false(tool_json_member(replay, "peak_rss_known")))
        run->value[METRIC_PEAK_RSS] = NAN;
    if (compare_run_own_clock(replay, own_clock))
        run->value[METRIC_AVG_RSS] = run->value[METRIC_AFTER] = NAN;
    double ops = json_figure(replay, "ops", problem) -
                 json_figure(replay, "apart_ops", problem);
    double own_ns = json_figure(replay, "replayer_cpu_ns", problem);
    run->own_ns = ops >= 1 ? own_ns / ops : NAN;
    run->system_ns =
        ops >= 1 ? json_figure(replay, "system_ns", problem) / ops : NAN;
}

void compare_run_take_untouched(struct compare_trace *t,
                                const struct tool_json_value *replay) {
    copy_text(t->untouched, sizeof(t->untouched),
              compare_json_text(replay, "untouched"));
    t->untraced_frees = compare_json_whole(replay, "untraced_frees");
}

static void take_trace(struct compare_trace *t,
                       const struct tool_json_value *replay) {
    compare_run_take_untouched(t, replay);
    double recorded_ns = compare_json_number(replay, "recorded_ns");
    if (recorded_ns > 0 && isnan(t->recorded_ns))
        t->recorded_ns = recorded_ns;
    if (t->ops != 0)
        return;
    t->ops = compare_json_whole(replay, "ops");
    t->threads = compare_json_whole(replay, "threads");
}

/* Reads a moment. false: a figure is missing, or out of bounds with PROBLEM. */
static bool read_moment(const struct tool_json_value *at,
                        struct compare_moment *m, char problem[200]) {
    m->ns = json_figure(at, "recorded_ns", problem);
    m->live_bytes = json_figure(at, "live_bytes", problem);
    m->rss_bytes = json_figure(at, "rss_bytes", problem);
    double recorded = json_figure(at, "recorded_rss_bytes", problem);
    double heap = json_figure(at, "recorded_heap_bytes", problem);
    m->program_bytes = recorded - heap;
    return !isnan(m->ns) && !isnan(m->live_bytes) && !isnan(m->rss_bytes);
}

static void take_course(struct compare_course *course,
                        const struct tool_json_value *list) {
    size_t n = tool_json_count(list);
    char problem[200];
    if (n == 0 || course->moment != NULL)
        return;
    course->moment = calloc(n, sizeof(*course->moment));
    if (course->moment == NULL)
        return;
    for (const struct tool_json_value *v = tool_json_first(list); v != NULL;
         v = tool_json_next(v))
        course->count +=
            read_moment(v, &course->moment[course->count], problem);
    TCM_ASSERT(course->count <= n);
}

static void take_machine(struct comparison *c,
                         const struct tool_json_value *m) {
    struct compare_machine machine = {
        .cpus = compare_json_whole(m, "cpus"),
        .memory_bytes = compare_json_whole(m, "memory_bytes")};
    copy_text(machine.host, sizeof(machine.host), compare_json_text(m, "host"));
    copy_text(machine.processor, sizeof(machine.processor),
              compare_json_text(m, "processor"));
    copy_text(machine.kernel, sizeof(machine.kernel),
              compare_json_text(m, "kernel"));
    copy_text(machine.c_library, sizeof(machine.c_library),
              compare_json_text(m, "c_library"));
    copy_text(machine.huge_pages, sizeof(machine.huge_pages),
              compare_json_text(m, "huge_pages"));
    copy_text(machine.governor, sizeof(machine.governor),
              compare_json_text(m, "governor"));
    if (c->machine.cpus == 0)
        c->machine = machine;
    else if (!compare_machine_is_like(&c->machine, &machine))
        c->unlike++;
}

/* Tells whether the figures of a run can be compared: an allocator that refuses
   requests has less to do than others. */
static bool is_usable(const struct tool_json_value *replay, char why[200]) {
    double refused = compare_json_number(replay, "failed_allocations");
    if (!tool_json_is_object(replay))
        snprintf(why, 200, "it ended the replay without a result");
    else if (refused > 0)
        snprintf(why, 200, "it refused %.0f of %.0f requests", refused,
                 compare_json_number(replay, "ops"));
    return tool_json_is_object(replay) && !(refused > 0);
}

static const struct tool_json_value *
latency_of(const struct tool_json_value *replay) {
    return tool_json_member(tool_json_member(replay, "latency"), "all");
}

static const struct tool_json_value *
course_of(const struct tool_json_value *root) {
    return tool_json_member(tool_json_member(root, "timeline"), "timeline");
}

/* Tells whether all figures are in their bounds. Pages and tables rely on
   that. */
static bool has_sane_figures(const struct tool_json_value *root,
                             char problem[200]) {
    const struct tool_json_value *replay = tool_json_member(root, "replay");
    struct compare_run run;
    struct compare_moment moment;
    problem[0] = '\0';
    take_figures(&run, replay, problem);
    (void)json_figure(replay, "failed_allocations", problem);
    (void)json_figure(replay, "recorded_cpu_ns", problem);
    (void)json_figure(replay, "recorded_ns", problem);
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        (void)json_figure(latency_of(replay), compare_quantile_key[q], problem);
    for (const struct tool_json_value *v = tool_json_first(course_of(root));
         v != NULL; v = tool_json_next(v))
        (void)read_moment(v, &moment, problem);
    return problem[0] == '\0';
}

/* Parses the result of a run, with the parameters of compare_run_take. NULL: it
   is none, PROBLEM says why. */
static const struct tool_json_value *
parse_result(const struct comparison *c, const char *text, size_t n,
             size_t round, size_t trace, size_t contestant, char problem[200]) {
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return NULL;
    bool good =
        strcmp(compare_json_text(root, "format"), RUN_FORMAT) == 0 &&
        compare_contestant_is_named(&c->contestants.list[contestant],
                                    compare_json_text(root, "contestant")) &&
        compare_json_whole(root, "round") == round &&
        compare_json_whole(root, "trace_number") == c->trace[trace].number;
    if (!good)
        snprintf(problem, 200, "it is not the result of this run");
    if (good && has_sane_figures(root, problem))
        return root;
    tool_json_read_free(root);
    return NULL;
}

bool compare_run_is(const struct comparison *c, const char *text, size_t n,
                    size_t round, size_t trace, size_t contestant,
                    char problem[200]) {
    const struct tool_json_value *root =
        parse_result(c, text, n, round, trace, contestant, problem);
    tool_json_read_free(root);
    return root != NULL;
}

/* Adds the quantiles of a run that has all of them. */
static void take_latency(struct comparison *c, size_t contestant,
                         const struct tool_json_value *all) {
    double v[COMPARE_QUANTILES];
    for (int q = 0; q < COMPARE_QUANTILES; q++) {
        v[q] = compare_json_number(all, compare_quantile_key[q]);
        if (isnan(v[q]))
            return;
    }
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        c->latency[contestant][q] += v[q];
    c->latencies[contestant]++;
}

bool compare_run_take(struct comparison *c, const char *text, size_t n,
                      size_t round, size_t trace, size_t contestant,
                      char problem[200]) {
    struct compare_run *run = comparison_run(c, round, trace, contestant);
    struct compare_contestant *entry = &c->contestants.list[contestant];
    const struct tool_json_value *root =
        parse_result(c, text, n, round, trace, contestant, problem);
    if (root == NULL)
        return false;
    const struct tool_json_value *replay = tool_json_member(root, "replay");
    run->there = true;
    take_machine(c, tool_json_member(root, "machine"));
    if (!tool_json_is_true(tool_json_member(root, "ok"))) {
        compare_contestant_failed(entry, compare_json_text(root, "why"));
        run->failed = true;
        tool_json_read_free(root);
        return true;
    }
    if (!is_usable(replay, problem)) {
        compare_contestant_failed(entry, problem);
        run->failed = true;
        tool_json_read_free(root);
        return true;
    }
    run->good = round != 0;
    take_figures(run, replay, problem);
    take_trace(&c->trace[trace], replay);
    double recorded = compare_json_number(replay, "recorded_cpu_ns");
    if (recorded > 0 && isnan(c->trace[trace].recorded_cpu_ns))
        c->trace[trace].recorded_cpu_ns = recorded;
    const char *version = compare_json_text(replay, "allocator");
    if (c->version[contestant][0] == '\0')
        copy_text(c->version[contestant], sizeof(c->version[contestant]),
                  version);
    else if (strncmp(c->version[contestant], version,
                     sizeof(c->version[contestant]) - 1) != 0)
        c->other_versions++;
    char own_clock[128];
    c->clock_unknown = c->clock_unknown || clock_is_unknown(replay);
    if (compare_run_own_clock(replay, own_clock))
        copy_text(c->own_clock[contestant], sizeof(c->own_clock[contestant]),
                  own_clock);
    if (trace == 0) {
        if (round != 0)
            take_latency(c, contestant, latency_of(replay));
        if (own_clock[0] == '\0')
            take_course(&c->course[contestant], course_of(root));
    }
    tool_json_read_free(root);
    return true;
}

/* --- The recorded clock --------------------------------------------------- */

bool compare_run_has_clock(bool *has) {
    char program[PATH_MAX];
    struct tool_child_end end;
    if (!tool_own_program("replay", program))
        return false;
    char *argv[] = {program, (char *)(uintptr_t) "-q",
                    (char *)(uintptr_t) "--clock=recorded",
                    (char *)(uintptr_t) "/dev/null", NULL};
    struct tool_child_spec what = {.argv = argv,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = TOOL_CHILD_NULL,
                                   .signals = TOOL_CHILD_STOPS,
                                   .dies_with_parent = true};
    if (!tool_child_run(&what, compare_run_limit_ns(0), &end) ||
        tool_stop_requested())
        return false;
    *has = end.error == 0 && !end.timed_out && WIFEXITED(end.status) &&
           WEXITSTATUS(end.status) != TOOL_USAGE;
    return true;
}

/* --- The library in charge of malloc -------------------------------------- */

/* Tells whether two paths, which may be links, lead to one file. */
static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Takes what the library of C says of itself. */
static void take_allocator(struct compare_contestant *c,
                           const struct tool_json_value *root) {
    const char *is = compare_json_text(root, "allocator");
    const struct tool_json_value *list = tool_json_member(root, "settings");
    c->is = is[0] == '\0' ? NULL : strdup(is);
    copy_text(c->version, sizeof(c->version),
              compare_json_text(root, "version"));
    c->told = calloc(tool_json_count(list) + 1, sizeof(*c->told));
    for (const struct tool_json_value *v = tool_json_first(list);
         c->told != NULL && v != NULL; v = tool_json_next(v)) {
        const char *text = tool_json_text(v);
        if (text != NULL && (c->told[c->tolds] = strdup(text)) != NULL)
            c->tolds++;
    }
}

/* Reads the answer of `malloc-trace allocator` about C: malloc was taken over
   or not; the library; and why malloc was not taken over. false: TEXT is no
   answer. */
static bool read_answer(const char *text, size_t n,
                        struct compare_contestant *c, bool *took_over,
                        char library[PATH_MAX], char why[256]) {
    char problem[200];
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return false;
    *took_over = tool_json_is_true(tool_json_member(root, "took_over"));
    c->wraps = tool_json_is_true(tool_json_member(root, "wraps_c_library"));
    take_allocator(c, root);
    copy_text(library, PATH_MAX, compare_json_text(root, "library"));
    copy_text(why, 256, compare_json_text(root, "why"));
    tool_json_read_free(root);
    return library[0] != '\0';
}

static bool check_taken_over(struct compare_contestant *c) {
    static char program[PATH_MAX];
    char library[PATH_MAX], why[256], path[40];
    size_t n;
    bool took_over = false;
    struct tool_child_end end;
    int answer = tool_child_scratch("answer"),
        messages = tool_child_scratch("messages");
    if (answer < 0 || messages < 0 || !compare_contestant_prepare(c) ||
        !tool_own_program("malloc-trace-allocator", program))
        return false;
    snprintf(path, sizeof(path), "--json=/proc/self/fd/%d", answer);
    char *argv[] = {program, (char *)(uintptr_t) "-q", path, NULL};
    struct tool_child_spec what = {.argv = argv,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = messages,
                                   .keep = &answer,
                                   .keep_count = 1};
    bool made =
        compare_contestant_run(c, false, &what, compare_run_limit_ns(0), &end);
    char *text = made ? tool_child_text(answer, OUTPUT_MAX, &n) : NULL;
    if (text != NULL && !tool_stop_requested()) {
        if (!read_answer(text, n, c, &took_over, library, why)) {
            explain_failure(&end, messages, why, sizeof(why));
            compare_contestant_exclude(c, "%s", why);
        } else if (c->library[0] != '\0' && !is_same_file(library, c->library))
            compare_contestant_exclude(
                c,
                "it did not take malloc over: malloc comes from "
                "%s",
                library);
        else if (!took_over)
            compare_contestant_exclude(c, "it did not take malloc over: %s",
                                       why);
    }
    free(text);
    close(answer);
    close(messages);
    return text != NULL && !tool_stop_requested();
}

bool compare_run_check_contestants(struct comparison *c) {
    for (size_t i = 0; i < c->contestants.count; i++)
        if (c->contestants.list[i].why == NULL &&
            !check_taken_over(&c->contestants.list[i]))
            return false;
    return true;
}

/* --- Faults with blocks --------------------------------------------------- */

/* Time after which a check ends: a fault shows early, and a check takes several
   times as long as a replay. One that does not end soon after that hangs. */
#define CHECK_NS       10000000000u
#define CHECK_HANGS_NS 60000000000u

/* *CUT: the check ended before the trace did. */
static bool check_blocks(const struct compare_trace *t,
                         struct compare_contestant *entry, bool *cut) {
    char program[PATH_MAX], mode[32], line[300];
    struct tool_child_end end;
    int messages = tool_child_scratch("messages");
    if (messages < 0 || !tool_own_program("replay", program))
        return false;
    snprintf(mode, sizeof(mode), "--threads=%s", t->mode);
    char *argv[] = {
        program, (char *)(uintptr_t) "-q", (char *)(uintptr_t) "--check",
        mode,    (char *)(uintptr_t) "--", t->path,
        NULL};
    struct tool_child_spec what = {.argv = argv,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = messages,
                                   .stop_ns = CHECK_NS};
    bool made =
        compare_contestant_run(entry, false, &what, CHECK_HANGS_NS, &end);
    /* a check that fails for lack of memory finds no fault */
    if (made && end.error == 0 && !end.timed_out && WIFEXITED(end.status) &&
        WEXITSTATUS(end.status) == TOOL_ALLOCATOR) {
        first_message(messages, line, sizeof(line));
        compare_contestant_exclude(entry, "it is at fault: %s", line);
    } else if (made && end.timed_out) {
        tool_child_end_text(&end, line, sizeof(line));
        compare_contestant_exclude(entry, "it hangs: the replay %s", line);
    }
    *cut = end.wall_ns >= CHECK_NS && entry->why == NULL;
    close(messages);
    return made && !tool_stop_requested();
}

/* Chooses another baseline if the checks have excluded it. */
static bool replace_baseline(struct comparison *c, size_t least) {
    const struct compare_contestant *list = c->contestants.list;
    const struct compare_contestant *base = &list[c->baseline];
    if (base->why == NULL)
        return true;
    if (compare_contestants_taking_part(&c->contestants) < least) {
        tool_error("the baseline %s takes no part: %s", base->name, base->why);
        return false;
    }
    c->baseline = 0;
    while (list[c->baseline].why != NULL)
        c->baseline++;
    c->baseline_failed = true;
    tool_warn("the baseline %s takes no part: %s; the others are compared with "
              "%s",
              base->name, base->why, list[c->baseline].name);
    return true;
}

bool compare_run_check_blocks(struct comparison *c, size_t least) {
    size_t largest = 0;
    for (size_t t = 1; t < c->traces; t++)
        if (c->trace[t].ops > c->trace[largest].ops)
            largest = t;
    size_t cuts = 0;
    for (size_t i = 0; i < c->contestants.count; i++) {
        bool cut = false;
        if (c->contestants.list[i].why == NULL &&
            !check_blocks(&c->trace[largest], &c->contestants.list[i], &cut))
            return false;
        cuts += cut;
    }
    if (cuts != 0 && !tool_is_quiet())
        fprintf(stderr,
                "%s: replay --check ended after %u s under %zu allocator%s: "
                "blocks of later operations are not checked\n",
                tool_name(), (unsigned)(CHECK_NS / 1000000000u), cuts,
                cuts == 1 ? "" : "s");
    return replace_baseline(c, least);
}
