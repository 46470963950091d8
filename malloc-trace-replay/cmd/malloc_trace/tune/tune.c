/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace tune: the allocator and the settings that serve a program best,
 * searched together, and judged by runs that took no part in the search. The
 * command line, and the order of the steps.
 */
#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_traces.h"
#include "cmd/malloc_trace/subcommands.h"
#include "cmd/malloc_trace/tune/tune_outcome.h"
#include "cmd/malloc_trace/tune/tune_runs.h"
#include "common/allocators.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/stop.h"
#include "common/temp_folder.h"
#include "common/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Runs of a search if none are given, and the most that minutes buy. */
enum { RUNS = 200, MOST_RUNS = 100000, LEAST_RUNS = 8 };
#define NS_OF_MINUTE 60e9

struct tune_request {
    struct tune_runs runs;
    struct comparison holdout;
    struct tune_search *search;
    struct tune_outcome outcome;
    unsigned goal;
    struct compare_files files;
    const char *baseline;
    const char *held[16];
    struct tool_opt_list holds;
    uint64_t budget;
    double minutes, margin;
    bool has_goal, has_loss, run_program, no_check, list;
    struct tool_temp_folder folder, held_folder;
    struct compare_recorded recorded;
    char *command;
    struct tool_progress progress;
    bool failed;   /* a round failed, such as to be saved; a message says why */
    uint64_t made; /* runs of the search, also those from the file */
};

/* --- The command line ----------------------------------------------------- */

/* Options, and the empty row behind them. */
enum { OPTIONS = 24 };

static void add_options(struct tune_request *o, struct tool_opt *opts) {
    const struct tool_opt rows[] = {
        {.name = "goal",
         .value = "WHAT",
         .help = "memory (mean resident memory), peak, time (processor time in "
                 "malloc), or cost, which needs a price. Default: cost with a "
                 "price, else memory",
         .word = &o->goal,
         .words = tune_goal_name,
         .given = &o->has_goal},
        {.letter = 'a',
         .value = "NAME[=LIBRARY][,VARIABLE=VALUE]...",
         .help = "an allocator to search, as in compare. Default: all that "
                 "are installed",
         .take = compare_contestants_take,
         .ctx = &o->runs.base.contestants},
        {.name = "default",
         .value = "NAME",
         .help = "the allocator that is to be beaten (the program\'s own, as "
                 "the trace has it, or " TOOL_ALLOCATOR_C_LIBRARY ")",
         .text = &o->baseline},
        {.name = "runs",
         .value = "N",
         .help = "make at most N runs before the fresh ones that judge (200)",
         .count = &o->budget,
         .least = LEAST_RUNS,
         .most = MOST_RUNS},
        {.name = "minutes",
         .value = "M",
         .help = "end within about M minutes, fresh runs included",
         .number = &o->minutes,
         .low = 0.01,
         .high = 1e5},
        {.name = "most-loss",
         .value = "P%",
         .help = "propose nothing that takes P % more of the program's time, "
                 "or with --goal=time of memory (10 %)",
         .ratio = &o->runs.most_loss,
         .given = &o->has_loss},
        {.name = "holdout",
         .value = "FILE",
         .help = "judge also on this trace, which the search does not see",
         .list = &o->holds},
        {.name = "run-program",
         .help = "run COMMAND itself with the default and with the settings",
         .flag = &o->run_program},
        {.name = "resume",
         .value = "FILE",
         .help = "keep all runs in FILE, and go on from those that it has",
         .text = &o->runs.file},
        {.name = "list",
         .rare = true,
         .help = "print the settings that are known for each allocator, its "
                 "default, and values worth a try; search nothing",
         .flag = &o->list},
        {.name = "price-gb-month",
         .rare = true,
         .value = "PRICE",
         .help = "of a GiB of memory for a month",
         .number = &o->runs.gb_month,
         .low = 0,
         .high = 1e9},
        {.name = "price-cpu-hour",
         .rare = true,
         .value = "PRICE",
         .help = "of a processor for an hour",
         .number = &o->runs.cpu_hour,
         .low = 0,
         .high = 1e9},
        {.name = "margin",
         .rare = true,
         .value = "P%",
         .help = "smaller gains are not proposed (2 %)",
         .ratio = &o->margin},
        {.name = "seed",
         .rare = true,
         .value = "N",
         .help = "begin random choices with N (1)",
         .count = &o->runs.seed},
        COMPARE_REPLAY_OPTIONS(&o->runs.base),
        COMPARE_SEARCH_OPTIONS(&o->files, &o->no_check),
        COMPARE_RESULT_OPTIONS(&o->files),
    };
    TCM_ASSERT(TCM_ARRAY_SIZE(rows) < OPTIONS);
    memcpy(opts, rows, sizeof(rows));
}

static bool is_usable(struct tune_request *o) {
    bool has_price = o->runs.gb_month > 0 || o->runs.cpu_hour > 0;
    if (!o->has_goal)
        o->goal = has_price ? TUNE_COST : TUNE_MEMORY;
    o->runs.goal = (enum tune_goal)o->goal;
    if (o->runs.goal == TUNE_COST && !has_price) {
        (void)tool_usage_error("--goal=cost needs --price-gb-month or "
                               "--price-cpu-hour");
        return false;
    }
    if (o->files.is_command && o->runs.file != NULL) {
        (void)tool_usage_error("--resume needs FILEs: record COMMAND first "
                               "(malloc-trace record)");
        return false;
    }
    if (!o->files.is_command && (o->run_program || o->files.all_processes)) {
        (void)tool_usage_error("%s needs a COMMAND", o->run_program
                                                         ? "--run-program"
                                                         : "--all-processes");
        return false;
    }
    return true;
}

/* false: exit with *STATUS. */
static bool parse_request(struct tune_request *o, int argc, char **argv,
                          int *status) {
    struct tool_opt opts[OPTIONS] = {{0}};
    struct tool_opts options;
    o->files.is_command = tool_opts_has_dashes(argc, argv);
    o->command = tool_shell_command_line("malloc-trace", argc, argv);
    o->runs.seed = 1;
    o->runs.most_loss = 0.1;
    o->margin = 0.02;
    o->holds =
        (struct tool_opt_list){.at = o->held, .room = TCM_ARRAY_SIZE(o->held)};
    add_options(o, opts);
    const struct tool_command command = {
        .usage = "malloc-trace tune [OPTION]... FILE...\n"
                 "malloc-trace tune [OPTION]... -- COMMAND [ARGUMENT]...\n"
                 "malloc-trace tune --list [-a NAME[=LIBRARY]]...",
        .about =
            "Find the allocator and the settings that serve these traces best: "
            "replays them under many, searches near the best, judges the "
            "winner by fresh runs, and prints the lines that set it. With "
            "COMMAND it is recorded first.",
        .opts = opts,
        .quiet = "no report and no progress, only warnings and errors",
        .notes = "Ctrl-C ends the search with the best so far.\n"
                 "Exit status: 0; 1 error; 2 usage; 3 a trace is incomplete, "
                 "or the search was interrupted.",
        .stop_at_operand = o->files.is_command};
    if (!tool_opts_parse(&options, &command, argc, argv)) {
        *status = options.status;
        return false;
    }
    *status = TOOL_USAGE;
    o->files.other = o->runs.file;
    if (o->list && options.operand_count == 0)
        return true;
    return compare_files_take(&o->files, &options) && is_usable(o);
}

/* --- The space ------------------------------------------------------------ */

static bool choose_allocators(struct tune_request *o) {
    struct compare_contestants *all = &o->runs.base.contestants;
    const char *name =
        o->baseline == NULL ? TOOL_ALLOCATOR_C_LIBRARY : o->baseline;
    if (all->count == 0 && !compare_contestants_add_known(all))
        return false;
    if (compare_contestants_find(all, name) == SIZE_MAX &&
        !compare_contestants_add(all, name))
        return false;
    o->runs.base.baseline = compare_contestants_find(all, name);
    return true;
}

static bool add_allocator(struct tune_runs *r, size_t contestant) {
    const struct compare_contestant *c = &r->base.contestants.list[contestant];
    size_t count, at = r->space.allocators;
    const struct tool_setting *table = tool_settings(&count);
    const struct tune_library library = {.known = compare_contestant_known(c),
                                         .version = c->version,
                                         .told = c->told,
                                         .tolds = c->tolds};
    r->contestant[at] = contestant;
    if (!tune_space_add(&r->space, c->name, &library, table, count))
        return false;
    if (r->space.allocator[at].dimensions == 0)
        tool_warn("no settings known for %s: it is tried as it is",
                  compare_contestant_shown(c));
    return true;
}

/* Makes the space of the allocators that take part, the default first. */
static bool make_space(struct tune_request *o) {
    struct tune_runs *r = &o->runs;
    const struct compare_contestants *all = &r->base.contestants;
    r->contestant = calloc(all->count, sizeof(*r->contestant));
    if (r->contestant == NULL)
        return tool_out_of_memory();
    if (!add_allocator(r, r->base.baseline))
        return false;
    for (size_t i = 0; i < all->count; i++) {
        if (i == r->base.baseline)
            continue;
        if (all->list[i].why != NULL)
            tool_warn("%s takes no part: %s", all->list[i].name,
                      all->list[i].why);
        else if (!add_allocator(r, i))
            return false;
    }
    return true;
}

static bool check_allocators(struct tune_request *o) {
    struct comparison *c = &o->runs.base;
    const struct compare_contestant *base = &c->contestants.list[c->baseline];
    if (!compare_run_check_contestants(c))
        return false;
    if (base->why == NULL)
        return o->no_check || compare_run_check_blocks(c, 1);
    tool_error("the default %s takes no part: %s", base->name, base->why);
    return false;
}

/* --list: prints the settings of the space. Returns an exit status. */
static int list_settings(struct tune_request *o) {
    struct tune_runs *r = &o->runs;
    if (!compare_run_check_contestants(&r->base) || !make_space(o))
        return TOOL_FAILED;
    for (size_t i = 0; i < r->space.allocators; i++) {
        const struct compare_contestant *c =
            &r->base.contestants.list[r->contestant[i]];
        if (r->space.allocator[i].dimensions == 0)
            continue;
        fputs(compare_contestant_shown(c), stdout);
        if (c->version[0] != '\0')
            printf(" (%s)", tool_text_shown(c->version));
        printf(" %s\n", tool_text_shown(c->library));
        tune_space_print(&r->space.allocator[i], stdout);
    }
    return TOOL_OK;
}

/* --- Traces --------------------------------------------------------------- */

static bool gather_traces(struct tune_request *o) {
    struct comparison *c = &o->runs.base;
    if (!tool_temp_folder_make(&o->folder) ||
        !compare_traces_gather(c, &o->files, o->folder.path, o->folder.path,
                               &o->recorded) ||
        (o->baseline == NULL && !compare_traces_take_own(c, true, "default")))
        return false;
    if (o->holds.count == 0)
        return true;
    o->holdout = (struct comparison){
        .margin = c->margin, .confidence = c->confidence, .clock = c->clock};
    /* a folder of its own: sorted forms have their number as a name */
    if (!tool_temp_folder_make(&o->held_folder))
        return false;
    bool held = compare_traces_add_all(&o->holdout, o->held, o->holds.count,
                                       o->held_folder.path);
    c->unseen = o->holdout.unseen;
    if (!held)
        return false;
    c->lacks |= o->holdout.lacks;
    return compare_traces_set_modes(&o->holdout);
}

/* --- The search ----------------------------------------------------------- */

static void show_progress(struct tune_request *o) {
    char line[200], name[TUNE_NAME];
    struct tool_text t;
    if (!o->progress.shown)
        return;
    int n =
        snprintf(line, sizeof(line), "run %llu of %llu",
                 (unsigned long long)o->made, (unsigned long long)o->budget);
    size_t *order = calloc(tune_search_count(o->search), sizeof(*order));
    if (order != NULL && tune_search_rank(o->search, order) != 0) {
        tune_point_name(&o->runs.space,
                        &tune_search_at(o->search, order[0])->point, name);
        n += snprintf(line + n, sizeof(line) - (size_t)n,
                      ", best %.60s: %s %.3f", tool_text_shown(name),
                      tune_goal_name[o->runs.goal],
                      tune_runs_ratio(&o->runs, name, o->runs.goal));
    }
    free(order);
    if (o->runs.replays != 0 && o->budget > o->made)
        snprintf(line + n, sizeof(line) - (size_t)n, ", %s left",
                 tool_text_ns(&t, o->runs.replays_ns / o->runs.replays *
                                      (o->budget - o->made) *
                                      o->runs.base.traces));
    tool_progress_line(&o->progress, line);
}

/* Tells the scores of a round: those that the file has, and of the others by a
   round of replays. false: a message was printed, or a stop was requested. */
static bool make_round(struct tune_request *o, const size_t *round, size_t n) {
    struct tune_point points[TUNE_ROUND];
    size_t candidate[TUNE_ROUND], missing = 1;
    char name[TUNE_NAME];
    points[0] = tune_search_at(o->search, 0)->point;
    for (size_t i = 1; i < n; i++) {
        const struct tune_point *p =
            &tune_search_at(o->search, round[i])->point;
        struct tune_run *run =
            tune_runs_take(&o->runs, tune_point_name(&o->runs.space, p, name));
        if (run != NULL) {
            tune_search_tell(o->search, round[i],
                             tune_runs_score(&o->runs, run));
            continue;
        }
        candidate[missing] = round[i];
        points[missing++] = *p;
    }
    if (missing > 1 && !tune_runs_round(&o->runs, points, missing))
        return false;
    for (size_t i = 1; i < missing; i++) {
        struct tune_run *run = tune_runs_take(
            &o->runs, tune_point_name(&o->runs.space, &points[i], name));
        TCM_ASSERT(run != NULL);
        tune_search_tell(o->search, candidate[i],
                         tune_runs_score(&o->runs, run));
    }
    tune_search_tell(o->search, 0, 0);
    o->made += n;
    return true;
}

/* Runs the default once, for what it tells of the traces, and for how long a
   run takes. */
static bool make_first_round(struct tune_request *o) {
    struct tune_runs *r = &o->runs;
    if (r->count == 0 && !tune_runs_round(r, &(struct tune_point){0}, 1))
        return false;
    if (r->run[0].failed) {
        tool_error("the default failed: %s",
                   r->failures != 0 ? r->failure : "its run has no figures");
        return false;
    }
    uint64_t run_ns = r->replays == 0 ? 0 : r->replays_ns / r->replays;
    r->base.limit_ns = compare_run_limit_ns(run_ns);
    for (size_t t = 0; t < r->base.traces; t++) {
        bool has_mean = !isnan(r->run[0].trace[t].mean_bytes);
        if (r->goal == TUNE_MEMORY && !has_mean) {
            tool_warn("%s: the replay is too short for a mean of memory; its "
                      "peak is the goal",
                      r->base.trace[t].name);
            r->goal = TUNE_PEAK;
        }
        if (r->goal == TUNE_COST && !(r->base.trace[t].recorded_ns > 0)) {
            tool_error("%s: the trace has no times, so --goal=cost has no "
                       "month to count by",
                       r->base.trace[t].name);
            return false;
        }
    }
    return true;
}

/* Sets the number of runs from the minutes, less those of the fresh runs. */
static void set_budget(struct tune_request *o) {
    const struct tune_runs *r = &o->runs;
    if (o->minutes > 0 && r->replays != 0) {
        double run_ns =
            (double)r->replays_ns / (double)r->replays * (double)r->base.traces;
        double fresh = 3 * (TUNE_FRESH_ROUNDS + 1) +
                       (o->holds.count != 0 ? 2 * TUNE_FRESH_ROUNDS : 0);
        double left_ns = o->minutes * NS_OF_MINUTE -
                         (double)(tcm_clock_ns() - o->progress.start_ns);
        double runs = fmax(left_ns / run_ns - fresh, LEAST_RUNS);
        if (o->budget == 0 || runs < (double)o->budget)
            o->budget = (uint64_t)fmin(runs, MOST_RUNS);
    }
    if (o->budget == 0)
        o->budget = RUNS;
}

/* Tells whether the minutes are nearly over. */
static bool is_late(const struct tune_request *o) {
    const struct tune_runs *r = &o->runs;
    if (o->minutes == 0 || r->replays == 0)
        return false;
    double fresh_ns = (double)r->replays_ns / (double)r->replays *
                      (double)r->base.traces * 3 * (TUNE_FRESH_ROUNDS + 1);
    return (double)(tcm_clock_ns() - o->progress.start_ns) + fresh_ns >
           o->minutes * NS_OF_MINUTE;
}

static bool search(struct tune_request *o) {
    size_t round[TUNE_ROUND], n;
    if (!make_first_round(o))
        return false;
    set_budget(o);
    o->search = tune_search_new(&o->runs.space, o->budget, o->runs.seed);
    if (o->search == NULL)
        return false;
    while ((o->made == 0 || !is_late(o)) && !tool_stop_requested() &&
           (n = tune_search_ask(o->search, round)) != 0) {
        show_progress(o);
        if (!make_round(o, round, n)) {
            o->failed = !tool_stop_requested();
            break;
        }
    }
    tool_progress_clear(&o->progress);
    return true;
}

/* --- Steps ---------------------------------------------------------------- */

static bool judge(struct tune_request *o) {
    struct tune_outcome *out = &o->outcome;
    int status = o->recorded.status;
    if (tool_stop_requested()) {
        out->interrupted = true;
        return true;
    }
    if (!tune_judge(out))
        return false;
    if (out->judged && o->holdout.traces != 0 &&
        !tune_judge_holdout(out, &o->holdout))
        return false;
    const struct compare_command program = {
        .words = o->files.operand,
        .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .recorded_ns = o->recorded.wall_ns};
    if (!out->judged || !o->run_program || tool_stop_requested())
        return true;
    if (o->recorded.ended_by_user) {
        tool_warn("--run-program: a signal ended the recorded run, so it is "
                  "not repeated");
        return true;
    }
    return tune_judge_program(out, &program);
}

static bool write_reports(struct tune_request *o) {
    const struct compare_files *f = &o->files;
    bool taken = f->is_command || compare_files_take_stdout(f);
    FILE *out = taken ? stderr : stdout;
    o->outcome.elapsed_ns = tcm_clock_ns() - o->progress.start_ns;
    if (!tool_is_quiet())
        tune_print(&o->outcome, out);
    fflush(out);
    return (f->json == NULL || tune_json(&o->outcome, f->json)) &&
           (f->html == NULL || tune_page(&o->outcome, f->html, o->command));
}

static int tune(struct tune_request *o) {
    tool_progress_init(&o->progress);
    o->runs.base.margin = o->margin;
    o->runs.base.confidence = 0.95;
    if (!gather_traces(o) || !check_allocators(o) || !make_space(o) ||
        !tune_runs_load(&o->runs) || !search(o))
        return compare_traces_failed(&o->runs.base);
    compare_machine_read(&o->runs.base.machine);
    o->outcome = (struct tune_outcome){
        .runs = &o->runs, .search = o->search, .margin = o->margin};
    if (!tune_outcome_begin(&o->outcome) || !judge(o) || !write_reports(o))
        return TOOL_FAILED;
    if (o->failed)
        return TOOL_FAILED;
    return o->outcome.interrupted || o->runs.base.lacks ||
                   o->runs.base.baseline_failed
               ? TOOL_DAMAGED
               : TOOL_OK;
}

int cmd_tune(int argc, char **argv) {
    static struct tune_request o;
    int status;
    if (!parse_request(&o, argc, argv, &status))
        return status;
    if (!choose_allocators(&o))
        return TOOL_USAGE;
    tool_stop_catch();
    if (o.list) {
        status = list_settings(&o);
        tune_runs_free(&o.runs);
        free(o.command);
        return status;
    }
    if (o.run_program && !compare_program_can_repeat())
        return tool_usage_error("--run-program: standard input cannot be read "
                                "again; redirect it from a file");
    status = tune(&o);
    tool_temp_folder_remove(&o.folder);
    tool_temp_folder_remove(&o.held_folder);
    tune_outcome_free(&o.outcome);
    tune_search_free(o.search);
    tune_runs_free(&o.runs);
    comparison_free(&o.holdout);
    free(o.command);
    return status;
}
