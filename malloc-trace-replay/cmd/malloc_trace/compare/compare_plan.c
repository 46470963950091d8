/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_plan.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_file.h"
#include "cmd/malloc_trace/compare/compare_machine.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_FORMAT "malloc-trace plan 1"

/* Largest number of rounds with --until: on a machine that would need more,
   intervals do not become narrow. */
enum { MOST_ROUNDS = 400 };

/* --- Progress ------------------------------------------------------------- */

struct work {
    struct comparison *c;
    const struct compare_rounds *r;
    struct tool_progress progress;
    uint64_t made, expected;           /* runs */
    uint64_t replays_ns;               /* time of these */
    bool runs_program;                 /* in this round */
    uint64_t program_runs, program_ns; /* and their time */
    size_t *order;
};

static void show_progress(struct work *w, size_t round, size_t contestant) {
    char line[160];
    struct tool_text t;
    if (!w->progress.shown)
        return;
    int n = round == 0 ? snprintf(line, sizeof(line), "warming up: %.40s",
                                  compare_contestant_shown(
                                      &w->c->contestants.list[contestant]))
                       : snprintf(line, sizeof(line), "round %zu of %zu: %.40s",
                                  round, w->c->rounds,
                                  compare_contestant_shown(
                                      &w->c->contestants.list[contestant]));
    if (w->made > w->c->contestants.count && w->expected > w->made) {
        double spent = (double)(tcm_clock_ns() - w->progress.start_ns);
        double left = spent / (double)w->made * (double)(w->expected - w->made);
        snprintf(line + n, sizeof(line) - (size_t)n, ", %s left",
                 tool_text_ns(&t, (uint64_t)left));
    }
    tool_progress_line(&w->progress, line);
}

/* --- Runs ----------------------------------------------------------------- */

/* Makes one run and takes its figures. false: a message was printed, or a stop
   was requested. */
static bool run_once(struct comparison *c, size_t round, size_t trace,
                     size_t contestant) {
    char problem[200];
    size_t n;
    char *text = compare_run_make(c, round, trace, contestant, &n);
    if (text == NULL)
        return false;
    TCM_ASSERT(!comparison_run(c, round, trace, contestant)->there);
    bool good = compare_run_take(c, text, n, round, trace, contestant, problem);
    TCM_ASSERT(!good || comparison_run(c, round, trace, contestant)->there);
    free(text);
    if (!good)
        tool_error("a run of %s left no result: %s",
                   c->contestants.list[contestant].name, problem);
    return good;
}

/* Tells whether a run is left out: a trace that failed under a contestant is
   not tried there again. */
static bool is_left_out(const struct comparison *c, size_t round, size_t trace,
                        size_t contestant) {
    if (c->contestants.list[contestant].why != NULL)
        return true;
    for (size_t r = 0; r < round; r++)
        if (comparison_run(c, r, trace, contestant)->failed)
            return true;
    return false;
}

/* Least number of rounds in which the program is run, if in any: fewer say
   nothing of how sure their figures are. */
enum { PROGRAM_LEAST_ROUNDS = 3 };
/* Time that runs of the program may take even where replays take less. */
#define PROGRAM_NS 30e9

/* Decides whether the program is run in round ROUND: its runs have as long as
   all replays take, or PROGRAM_NS, spread evenly over the rounds, if that is
   enough for PROGRAM_LEAST_ROUNDS rounds. Round 0 tells how long replays take.
   */
static bool program_fits(struct work *w, size_t round) {
    struct comparison *c = w->c;
    size_t contestants = compare_contestants_taking_part(&c->contestants);
    if (w->r->program == NULL || round == 0 || c->program_skipped != NULL)
        return false;
    if (w->r->program_always)
        return true;
    double replay_ns = (double)w->replays_ns / (double)w->made;
    double run_ns = w->program_runs == 0
                        ? (double)w->r->program->recorded_ns
                        : (double)w->program_ns / (double)w->program_runs;
    double round_ns = run_ns * (double)contestants;
    double allowed_ns = fmax(replay_ns * (double)w->expected, PROGRAM_NS);
    double part = (double)(w->made + contestants * c->traces) /
                  (double)(w->expected == 0 ? 1 : w->expected);
    if (w->program_runs == 0 &&
        round_ns * (double)PROGRAM_LEAST_ROUNDS > allowed_ns) {
        c->program_skipped = "three rounds of it would take too long "
                             "(--run-program)";
        return false;
    }
    return (double)w->program_ns + round_ns <= allowed_ns * fmin(part, 1);
}

/* Says before the first run of the program that it is run again. */
static void tell_of_program(struct work *w) {
    if (w->program_runs != 0 || tool_is_quiet())
        return;
    tool_progress_clear(&w->progress);
    fprintf(stderr,
            "%s: %s is run under each allocator, too, without its output%s\n",
            tool_name(), tool_text_shown(w->r->program->words[0]),
            w->r->program_always ? "" : " (not with --no-run-program)");
}

/* Runs the program. One that failed under a contestant is not tried there
   again. */
static bool make_program_run(struct work *w, size_t round, size_t contestant) {
    for (size_t r = 1; r < round; r++)
        if (comparison_program(w->c, r, contestant)->failed)
            return true;
    uint64_t start_ns = tcm_clock_ns();
    tell_of_program(w);
    if (!compare_program_run(w->c, w->r->program, round, contestant))
        return false;
    if (w->c->program_skipped != NULL)
        return true;
    w->program_ns += tcm_clock_ns() - start_ns;
    w->program_runs++;
    w->c->ran_program = true;
    return true;
}

static bool make_run(struct work *w, size_t round, size_t trace,
                     size_t contestant) {
    struct comparison *c = w->c;
    if (is_left_out(c, round, trace, contestant))
        return true;
    show_progress(w, round, contestant);
    uint64_t start_ns = tcm_clock_ns();
    if (tool_stop_requested() || !run_once(c, round, trace, contestant))
        return false;
    w->replays_ns += tcm_clock_ns() - start_ns;
    w->made++;
    return trace != 0 || !w->runs_program ||
           make_program_run(w, round, contestant);
}

static bool make_round(struct work *w, size_t round, uint64_t *state) {
    struct comparison *c = w->c;
    size_t n = c->traces * c->contestants.count;
    bool first = c->limit_ns == 0;
    uint64_t longest_ns = 0;
    w->runs_program = program_fits(w, round);
    /* the time that the baseline takes bounds all later runs */
    for (size_t t = 0; first && t < c->traces; t++) {
        uint64_t before = tcm_clock_ns();
        if (!make_run(w, round, t, c->baseline))
            return false;
        uint64_t took_ns = tcm_clock_ns() - before;
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
    }
    if (first)
        c->limit_ns = compare_run_limit_ns(longest_ns);
    tool_random_order(w->order, n, state);
    for (size_t i = 0; i < n; i++) {
        size_t trace = w->order[i] / c->contestants.count;
        size_t contestant = w->order[i] % c->contestants.count;
        if ((!first || contestant != c->baseline) &&
            !make_run(w, round, trace, contestant))
            return false;
    }
    return true;
}

/* --- How many ------------------------------------------------------------- */

/* Half of the widest interval of time or peak memory, as a ratio; 0: none is
   known. */
static double widest_interval(const struct comparison *c) {
    static const enum compare_metric these[] = {METRIC_TIME, METRIC_PEAK_RSS};
    double most = 0;
    for (size_t i = 0; i < c->contestants.count; i++)
        for (size_t k = 0; i != c->baseline && k < 2; k++) {
            struct compare_verdict v;
            if (!compare_verdict_of(c, i, these[k], &v) || !v.measured)
                continue;
            if (!v.has_interval)
                return 0;
            most = fmax(most, sqrt(v.high / v.low) - 1);
        }
    return most;
}

/* Notes that intervals do not get narrower than WIDTH, where UNTIL was wanted.
   */
static void note_width(struct comparison *c, double width, double until) {
    struct compare_machine_notes *n = &c->disturbances;
    if (n->count == COMPARE_MACHINE_NOTES)
        n->count--;
    snprintf(n->text[n->count++], sizeof(n->text[0]),
             "more than %d rounds would be needed: the widest interval is "
             "+- %.2f %%, and --until asks for %.2f %%",
             MOST_ROUNDS, 100 * width, 100 * until);
}

/* Tells whether another round follows ROUND. The width of intervals falls with
   the square root of the number of rounds. */
static bool wants_round_after(struct work *w, size_t round) {
    struct comparison *c = w->c;
    if (w->r->until == 0 || round < c->rounds)
        return round < c->rounds;
    double width = compare_verdict_prepare(c) ? widest_interval(c) : 0;
    size_t more = c->rounds + 4;
    if (width != 0) {
        if (width <= w->r->until)
            return false;
        double needed = (double)round * pow(width / w->r->until, 2) + 1;
        if (needed > (double)MOST_ROUNDS) {
            note_width(c, width, w->r->until);
            return false;
        }
        more = (size_t)fmin(needed, (double)(2 * c->rounds));
        more = more > c->rounds ? more : c->rounds + 1;
    }
    if (!comparison_make_room(c, more))
        return false;
    w->expected = (more + 1) * c->traces * c->contestants.count;
    return true;
}

/* For assertions: in each complete round every contestant that took part in all
   of them without a failure has one run of each trace. */
static bool rounds_are_balanced(const struct comparison *c) {
    for (size_t r = 1; r <= c->made; r++)
        for (size_t i = 0; i < c->contestants.count; i++) {
            const struct compare_contestant *entry = &c->contestants.list[i];
            size_t runs = 0;
            for (size_t t = 0; t < c->traces; t++)
                runs += comparison_run(c, r, t, i)->there;
            if (entry->why == NULL ? entry->failures == 0 && runs != c->traces
                                   : runs != 0)
                return false;
        }
    return true;
}

bool compare_rounds_make(struct comparison *c, const struct compare_rounds *r) {
    struct compare_machine_load from, to;
    size_t n = c->traces * c->contestants.count;
    struct work w = {.c = c,
                     .r = r,
                     .expected = (r->wanted + 1) * n,
                     .order = calloc(n, sizeof(size_t))};
    tool_progress_init(&w.progress);
    uint64_t state = c->seed;
    if (w.order == NULL || !comparison_make_room(c, r->wanted)) {
        free(w.order);
        return false;
    }
    compare_machine_read(&c->machine);
    compare_machine_before(&c->machine, &c->disturbances);
    compare_machine_load(&from);
    bool good = true;
    for (size_t round = 0; good; round++) {
        good = make_round(&w, round, &state);
        if (!good)
            break;
        c->made = round;
        if (!wants_round_after(&w, round))
            break;
    }
    TCM_ASSERT(c->made <= c->rounds);
    TCM_ASSERT_SLOW(comparison_is_consistent(c));
    TCM_ASSERT_SLOW(rounds_are_balanced(c));
    tool_progress_clear(&w.progress);
    compare_machine_load(&to);
    compare_machine_during(&c->machine, &from, &to, &c->disturbances);
    free(w.order);
    c->interrupted = tool_stop_requested();
    return good || c->interrupted;
}

/* --- The folder ----------------------------------------------------------- */

static bool is_empty(const char *dir) {
    struct dirent *entry;
    bool empty = true;
    DIR *d = opendir(dir);
    while (d != NULL && (entry = readdir(d)) != NULL)
        empty = empty && (strcmp(entry->d_name, ".") == 0 ||
                          strcmp(entry->d_name, "..") == 0);
    if (d != NULL)
        closedir(d);
    return empty;
}

static bool make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    tool_error("cannot make the folder %s: %s", path, strerror(errno));
    return false;
}

/* Tells whether PATH can be part of a line of jobs.txt, which is a command:
   quotes protect everything but the line's end, and programs that run such
   lines take other control characters for one. */
static bool is_line_text(const char *path) {
    for (const char *at = path; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            tool_error("%s: a control character in the name breaks the lines "
                       "of jobs.txt",
                       path);
            return false;
        }
    return true;
}

bool compare_plan_make_folder(const char *dir, char traces[PATH_MAX]) {
    char path[2 * PATH_MAX], program[PATH_MAX];
    if (!tool_own_program("malloc-trace", program) || !is_line_text(program) ||
        !is_line_text(dir) || !make_folder(dir))
        return false;
    if (realpath(dir, traces) == NULL) {
        tool_error("%s: %s", dir, strerror(errno));
        return false;
    }
    if (!is_line_text(traces))
        return false;
    if (!is_empty(dir)) {
        tool_error("--plan: the folder %s is not empty", dir);
        return false;
    }
    snprintf(path, sizeof(path), "%s/results", dir);
    if (!make_folder(path))
        return false;
    snprintf(path, sizeof(path), "%s/traces", dir);
    if (!make_folder(path))
        return false;
    if (realpath(path, traces) != NULL)
        return true;
    tool_error("%s: %s", path, strerror(errno));
    return false;
}

static bool write_plan(const struct comparison *c, const char *dir) {
    static struct tool_json j;
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", PLAN_FORMAT);
    tool_json_string(&j, "command", c->command);
    tool_json_string(&j, "baseline", c->contestants.list[c->baseline].name);
    tool_json_u64(&j, "rounds", c->rounds);
    tool_json_double(&j, "margin", c->margin);
    tool_json_double(&j, "confidence", c->confidence);
    tool_json_u64(&j, "limit_ns", c->limit_ns);
    tool_json_string(&j, "touch", c->touch == NULL ? "" : c->touch);
    tool_json_string(&j, "speed", c->speed == NULL ? "" : c->speed);
    tool_json_begin_array(&j, "contestants");
    for (size_t i = 0; i < c->contestants.count; i++) {
        const struct compare_contestant *entry = &c->contestants.list[i];
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "name", entry->name);
        tool_json_string(&j, "library", entry->library);
        tool_json_begin_array(&j, "environment");
        for (size_t e = 0; e < entry->envs; e++)
            tool_json_string(&j, NULL, entry->env[e]);
        tool_json_end_array(&j);
        if (entry->why != NULL)
            tool_json_string(&j, "why", entry->why);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_begin_array(&j, "traces");
    for (size_t i = 0; i < c->traces; i++) {
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "name", c->trace[i].name);
        tool_json_string(&j, "path", c->trace[i].path);
        tool_json_string(&j, "mode", c->trace[i].mode);
        tool_json_string(&j, "clock", c->trace[i].clock ? "recorded" : "real");
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

static void put_job(FILE *f, const char *program, const char *dir, size_t round,
                    size_t trace, size_t contestant) {
    tool_shell_put_quoted(f, program);
    fputs(" compare --job ", f);
    fprintf(f, "%zu.%zu.%zu ", round, trace, contestant);
    tool_shell_put_quoted(f, dir);
}

static bool write_jobs(const struct comparison *c, const char *dir) {
    char path[2 * PATH_MAX], program[PATH_MAX], absolute[PATH_MAX];
    size_t a_round = c->traces * c->contestants.count;
    size_t *order = malloc(a_round * sizeof(*order));
    if (!tool_own_program("malloc-trace", program) || order == NULL ||
        realpath(dir, absolute) == NULL) {
        free(order);
        tool_error("%s: %s", dir, strerror(errno));
        return false;
    }
    snprintf(path, sizeof(path), "%s/jobs.txt", dir);
    FILE *f = tool_file_stream(path);
    uint64_t state = c->seed;
    for (size_t r = 0; f != NULL && r <= c->rounds; r++) {
        tool_random_order(order, a_round, &state);
        for (size_t i = 0; i < a_round; i++) {
            if (c->contestants.list[order[i] % c->contestants.count].why !=
                NULL)
                continue;
            put_job(f, program, absolute, r, order[i] / c->contestants.count,
                    order[i] % c->contestants.count);
            fputc('\n', f);
        }
    }
    free(order);
    return f != NULL && tool_file_stream_end(f, path);
}

bool compare_plan_write(const struct comparison *c, const char *dir) {
    return write_plan(c, dir) && write_jobs(c, dir);
}

/* --- The plan is read ----------------------------------------------------- */

static char *copy_text(const struct tool_json_value *object, const char *key) {
    return strdup(compare_json_text(object, key));
}

static bool take_contestant(struct comparison *c,
                            const struct tool_json_value *j) {
    struct compare_contestants *all = &c->contestants;
    if (!compare_contestants_add_plain(all, compare_json_text(j, "name"),
                                       compare_json_text(j, "library")))
        return false;
    struct compare_contestant *own = &all->list[all->count - 1];
    for (const struct tool_json_value *v =
             tool_json_first(tool_json_member(j, "environment"));
         v != NULL; v = tool_json_next(v)) {
        const char *set = tool_json_text(v);
        if (set == NULL || !compare_contestant_set(own, set))
            return false;
    }
    const char *why = compare_json_text(j, "why");
    if (why[0] != '\0')
        compare_contestant_exclude(own, "%s", why);
    return true;
}

static bool take_plan(struct comparison *c, const struct tool_json_value *root,
                      size_t *rounds) {
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(root, "contestants"));
    for (; v != NULL; v = tool_json_next(v))
        if (!take_contestant(c, v))
            return false;
    const struct tool_json_value *t =
        tool_json_first(tool_json_member(root, "traces"));
    for (size_t i = 0; t != NULL; t = tool_json_next(t), i++) {
        if (!comparison_add_trace(c, compare_json_text(t, "path"),
                                  compare_json_text(t, "name")))
            return false;
        const char *mode = compare_json_text(t, "mode");
        c->trace[i].mode = strcmp(mode, "real") == 0     ? "real"
                           : strcmp(mode, "switch") == 0 ? "switch"
                                                         : "none";
        c->trace[i].clock =
            strcmp(compare_json_text(t, "clock"), "recorded") == 0;
    }
    c->baseline = compare_contestants_find(&c->contestants,
                                           compare_json_text(root, "baseline"));
    c->margin = compare_json_number(root, "margin");
    c->confidence = compare_json_number(root, "confidence");
    c->limit_ns = compare_json_whole(root, "limit_ns");
    c->touch = *compare_json_text(root, "touch") == '\0'
                   ? NULL
                   : copy_text(root, "touch");
    c->speed = *compare_json_text(root, "speed") == '\0'
                   ? NULL
                   : copy_text(root, "speed");
    c->command = copy_text(root, "command");
    uint64_t n = compare_json_whole(root, "rounds");
    *rounds = (size_t)n;
    return c->contestants.count != 0 && c->traces != 0 &&
           c->baseline != SIZE_MAX && c->margin >= 0 && c->margin < 1 &&
           c->confidence > 0 && c->confidence < 1 && n != 0 &&
           n <= COMPARE_MOST_ROUNDS;
}

static bool read_plan(struct comparison *c, const char *path, size_t *rounds) {
    const struct tool_json_value *root = compare_json_file(path, PLAN_FORMAT);
    if (root == NULL)
        return false;
    bool good = take_plan(c, root, rounds);
    if (!good)
        tool_error("%s: the plan is incomplete, or has more than %d rounds",
                   path, COMPARE_MOST_ROUNDS);
    tool_json_read_free(root);
    return good;
}

/* --- A job ---------------------------------------------------------------- */

static void result_path(char *path, size_t size, const char *dir, size_t round,
                        size_t trace, size_t contestant) {
    snprintf(path, size, "%s/results/%zu.%zu.%zu.json", dir, round, trace,
             contestant);
}

static bool write_result(const char *path, const char *text, size_t n) {
    struct tool_file_new file;
    int fd = tool_file_open_new(&file, path);
    bool good = fd >= 0 && tcm_io_write_all(fd, text, n);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && !tool_file_keep(&file)) {
        good = false;
        error = errno;
    }
    if (!good) {
        tool_error("cannot write %s: %s", path, tool_file_error_text(error));
        tool_file_drop(&file);
    }
    return good;
}

static bool parse_id(const char *id, size_t number[3]) {
    char text[32];
    for (int i = 0; i < 3; i++) {
        uint64_t v;
        size_t n = strcspn(id, ".");
        if (n >= sizeof(text) || (id[n] == '.') != (i < 2))
            return false;
        memcpy(text, id, n);
        text[n] = '\0';
        if (!tool_parse_u64(text, UINT32_MAX, &v))
            return false;
        number[i] = (size_t)v;
        id += n + (i < 2);
    }
    return true;
}

/* Returns the contents of the regular file PATH, to be freed, with a null byte
   behind; NULL: errno. */
static char *read_result_file(const char *path, size_t *size) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    char *text = is_file ? tool_child_text(fd, SIZE_MAX - 1, size) : NULL;
    close(fd);
    return text;
}

int compare_plan_run_job(const char *dir, const char *id) {
    struct comparison c = {0};
    char path[2 * PATH_MAX];
    size_t at[3], n, rounds;
    int status = TOOL_FAILED;
    if (!parse_id(id, at))
        return tool_usage_error("--job: \"%s\" is not ROUND.TRACE.CONTESTANT",
                                id);
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!read_plan(&c, path, &rounds)) {
        comparison_free(&c);
        return TOOL_FAILED;
    }
    if (at[0] > rounds || at[1] >= c.traces || at[2] >= c.contestants.count) {
        status =
            tool_usage_error("--job: \"%s\" is not in the plan, which "
                             "ends with %zu.%zu.%zu",
                             id, rounds, c.traces - 1, c.contestants.count - 1);
        comparison_free(&c);
        return status;
    }
    result_path(path, sizeof(path), dir, at[0], at[1], at[2]);
    char problem[200];
    char *before = read_result_file(path, &n);
    if (before != NULL &&
        compare_run_is(&c, before, n, at[0], at[1], at[2], problem)) {
        status = TOOL_OK;
    } else {
        char *text = compare_run_make(&c, at[0], at[1], at[2], &n);
        if (text != NULL && write_result(path, text, n))
            status = TOOL_OK;
        free(text);
    }
    free(before);
    comparison_free(&c);
    return status;
}

/* Returns the last round, at most MOST, that has a file in results/ of DIR.
   FILES gets the number of files. */
static size_t find_last_round(const char *dir, size_t most, size_t *files) {
    char path[2 * PATH_MAX];
    size_t last = 0, number[3];
    struct dirent *entry;
    snprintf(path, sizeof(path), "%s/results", dir);
    DIR *d = opendir(path);
    *files = 0;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char *end = strstr(entry->d_name, ".json");
        if (end == NULL || end[5] != '\0')
            continue;
        *end = '\0';
        if (!parse_id(entry->d_name, number) || number[0] > most)
            continue;
        last = number[0] > last ? number[0] : last;
        ++*files;
    }
    if (d != NULL)
        closedir(d);
    return last;
}

/* --- Merging -------------------------------------------------------------- */

/* One of the plans that are merged. */
struct merge_part {
    const char *dir;
    struct comparison plan;
    size_t rounds; /* planned */
    size_t last;   /* last round with a result */
    size_t first;  /* index of its first trace among all */
    size_t *index; /* of its contestants, among those of the comparison */
};

/* Number of jobs without a result that messages name. */
enum { NAMED = 20 };

static void tell_missing(const struct merge_part *part, size_t round,
                         size_t trace, size_t contestant, const char *why,
                         size_t *missing) {
    if (*missing < NAMED)
        tool_error("%s: job %zu.%zu.%zu %s", part->dir, round, trace,
                   contestant, why);
    else if (*missing == NAMED)
        tool_error("%s: further jobs without a result are not named",
                   part->dir);
    ++*missing;
}

static void merge_result(struct comparison *c, const struct merge_part *part,
                         size_t round, size_t trace, size_t contestant,
                         size_t *missing) {
    char path[2 * PATH_MAX], problem[200], why[240];
    size_t n = 0;
    result_path(path, sizeof(path), part->dir, round, trace, contestant);
    char *text = read_result_file(path, &n);
    if (text == NULL) {
        /* a warm-up has no figures to miss */
        if (round != 0)
            tell_missing(part, round, trace, contestant, "has no result",
                         missing);
    } else if (!compare_run_take(c, text, n, round, part->first + trace,
                                 part->index[contestant], problem)) {
        snprintf(why, sizeof(why), "has a bad result: %s", problem);
        tell_missing(part, round, trace, contestant, why, missing);
    }
    free(text);
}

/* Takes the results up to the last round that has any. */
static void merge_results(struct comparison *c, const struct merge_part *part,
                          size_t *missing) {
    for (size_t r = 0; r <= part->last; r++)
        for (size_t t = 0; t < part->plan.traces; t++)
            for (size_t i = 0; i < part->plan.contestants.count; i++)
                if (c->contestants.list[part->index[i]].why == NULL)
                    merge_result(c, part, r, t, i, missing);
}

/* Counts and names the jobs of later rounds, none of which has a result. */
static void count_missing(const struct comparison *c,
                          const struct merge_part *part, size_t *missing) {
    size_t contestants = 0, traces = part->plan.traces;
    for (size_t i = 0; i < part->plan.contestants.count; i++)
        contestants += c->contestants.list[part->index[i]].why == NULL;
    if (contestants * traces == 0)
        return;
    for (size_t r = part->last + 1; r <= part->rounds; r++) {
        if (*missing > NAMED) {
            *missing += (part->rounds - r + 1) * contestants * traces;
            return;
        }
        for (size_t t = 0; t < traces; t++)
            for (size_t i = 0; i < part->plan.contestants.count; i++)
                if (c->contestants.list[part->index[i]].why == NULL)
                    tell_missing(part, r, t, i, "has no result", missing);
    }
}

/* Tells whether a plan has far more places for runs, up to the last round with
   a result, than results in FILES files: memory would go to empty places. */
static bool is_sparse(const struct merge_part *part, size_t files) {
    double places = (double)(part->last + 1) * (double)part->plan.traces *
                    (double)part->plan.contestants.count;
    return places > 1e6 + 1e3 * (double)files;
}

static bool read_part(struct merge_part *part, const char *dir) {
    char path[2 * PATH_MAX];
    size_t files;
    part->dir = dir;
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!read_plan(&part->plan, path, &part->rounds))
        return false;
    part->last = find_last_round(dir, part->rounds, &files);
    if (is_sparse(part, files)) {
        tool_error("%s: %zu results are too few for a plan of %zu rounds, %zu "
                   "traces and %zu contestants",
                   dir, files, part->last, part->plan.traces,
                   part->plan.contestants.count);
        return false;
    }
    part->index = calloc(part->plan.contestants.count, sizeof(*part->index));
    return part->index != NULL || tool_out_of_memory();
}

/* Sets up C as the first plan has it, but without traces. */
static bool begin_merge(struct comparison *c, const char *dir) {
    char path[2 * PATH_MAX];
    size_t rounds;
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!read_plan(c, path, &rounds))
        return false;
    while (c->traces != 0)
        comparison_remove_trace(c);
    return true;
}

/* Adds the traces of a plan to C, and finds its contestants there. */
static bool merge_plan(struct comparison *c, struct merge_part *part) {
    const struct comparison *plan = &part->plan;
    part->first = c->traces;
    for (size_t i = 0; i < plan->contestants.count; i++) {
        const struct compare_contestant *entry = &plan->contestants.list[i];
        size_t found = compare_contestants_find(&c->contestants, entry->name);
        if (found == SIZE_MAX) {
            tool_error("%s: contestant %s is not in the other plans", part->dir,
                       entry->name);
            return false;
        }
        if (!compare_contestant_is_like(&c->contestants.list[found], entry)) {
            tool_error("%s: contestant %s has another library or other "
                       "settings than in the other plans",
                       part->dir, entry->name);
            return false;
        }
        part->index[i] = found;
    }
    for (size_t i = 0; i < plan->traces; i++) {
        const struct compare_trace *from = &plan->trace[i];
        if (!comparison_add_trace(c, from->path, from->name))
            return false;
        c->trace[c->traces - 1].mode = from->mode;
        c->trace[c->traces - 1].clock = from->clock;
        c->trace[c->traces - 1].number = i;
    }
    TCM_ASSERT(c->traces == part->first + plan->traces);
    return true;
}

bool compare_plan_merge(struct comparison *c, char *const *dir, int n,
                        size_t *missing) {
    struct merge_part *part = calloc((size_t)n, sizeof(*part));
    size_t rounds = 0;
    bool good = part == NULL ? tool_out_of_memory() : begin_merge(c, dir[0]);
    *missing = 0;
    for (int i = 0; good && i < n; i++) {
        good = read_part(&part[i], dir[i]) && merge_plan(c, &part[i]);
        rounds = part[i].last > rounds ? part[i].last : rounds;
    }
    good = good && comparison_make_room(c, rounds);
    for (int i = 0; good && i < n; i++) {
        merge_results(c, &part[i], missing);
        count_missing(c, &part[i], missing);
    }
    c->made = rounds;
    for (int i = 0; part != NULL && i < n; i++) {
        free(part[i].index);
        comparison_free(&part[i].plan);
    }
    free(part);
    return good;
}
