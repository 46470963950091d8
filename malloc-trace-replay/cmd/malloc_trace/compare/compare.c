/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace compare: which allocator serves a program best, by how much, and
 * how sure that is; and malloc-trace gate, which fails where that is worse than
 * it may be. The command lines, and the order of the steps.
 */
#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_contestants.h"
#include "cmd/malloc_trace/compare/compare_gate.h"
#include "cmd/malloc_trace/compare/compare_plan.h"
#include "cmd/malloc_trace/compare/compare_print.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_traces.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/allocators.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/stop.h"
#include "common/temp_folder.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
    struct comparison c;
    struct compare_rounds rounds;
    struct compare_budget budget;
    struct compare_files files;
    const char *baseline, *plan, *job;
    const char *save, *against;
    double tolerance;
    const char *sweep[16]; /* values of the list below */
    struct tool_opt_list sweeps;
    bool once; /* COMMAND is run once, to be recorded */
    bool run_program, no_run_program, no_check, has_budget, budget_strict,
        has_margin;
    bool is_gate_command;
    struct tool_temp_folder folder;
    struct compare_recorded recorded;
    struct compare_command program;
};

/* --- The command line ----------------------------------------------------- */

static bool take_budget(void *ctx, const char *value) {
    return compare_budget_parse(ctx, value);
}

/* Room for all options and the empty row behind them. */
enum { OPTIONS = 40 };

static size_t add_rows(struct tool_opt *opts, size_t count,
                       const struct tool_opt *rows, size_t n) {
    TCM_ASSERT(count + n < OPTIONS);
    memcpy(opts + count, rows, n * sizeof(*rows));
    return count + n;
}

/* Appends the options of compare and gate to the COUNT in OPTS. Returns the new
   count, as the two functions below do. */
static size_t add_common_options(struct request *o, struct tool_opt *opts,
                                 size_t count) {
    static const char *const threads[] = {"none", "real", "switch", NULL};
    const struct tool_opt rows[] = {
        {.letter = 'a',
         .value = "NAME[=LIBRARY][,VARIABLE=VALUE]...",
         .help = "an allocator and its environment; LIBRARY may be left out "
                 "for a known one (" TOOL_ALLOCATOR_C_LIBRARY
                 ", " TCM_ALLOCATOR_NAME ", jemalloc, mimalloc, "
                 "gperftools, ...). Default: all that are installed",
         .take = compare_contestants_take,
         .ctx = &o->c.contestants},
        {.name = "baseline",
         .value = "NAME",
         .help =
             "what the others are compared with (" TOOL_ALLOCATOR_C_LIBRARY ")",
         .text = &o->baseline},
        {.letter = 'n',
         .value = "ROUNDS",
         .help = o->is_gate_command
                     ? "runs of each; default: as many as a verdict needs. For "
                       "counts: recordings of COMMAND, or at most as many (5)"
                     : "runs of each; default: as many as a verdict needs",
         .count = &o->rounds.wanted,
         .least = 1,
         .most = COMPARE_MOST_ROUNDS},
        {.name = "until",
         .rare = true,
         .value = "P%",
         .help = "go on until the intervals of time and peak memory are no "
                 "wider than +- P %",
         .ratio = &o->rounds.until},
        {.name = "threads",
         .value = "MODE",
         .help = "how recorded threads are replayed: none, real or switch, as "
                 "in replay. Default: real where the trace has several "
                 "threads, else none",
         .text = &o->c.threads,
         .words = threads},
        COMPARE_REPLAY_OPTIONS(&o->c),
        {.name = "speed",
         .rare = true,
         .value = "X",
         .help = "passed to replay",
         .text = &o->c.speed},
        {.name = "margin",
         .rare = true,
         .value = "P%",
         .help = "smaller differences are not shown as such (2 %)",
         .ratio = &o->c.margin,
         .given = &o->has_margin},
        COMPARE_SEARCH_OPTIONS(&o->files, &o->no_check),
        {.name = "merge",
         .rare = true,
         .help =
             "read the results of the plans in the folders DIR and give the "
             "verdict",
         .flag = &o->files.is_merge},
        COMPARE_RESULT_OPTIONS(&o->files),
        {.name = "csv",
         .rare = true,
         .value = "FILE",
         .help = "write the figures of every run",
         .text = &o->files.csv},
    };
    return add_rows(opts, count, rows, TCM_ARRAY_SIZE(rows));
}

static size_t add_compare_options(struct request *o, struct tool_opt *opts,
                                  size_t count) {
    const struct tool_opt rows[] = {
        {.name = "run-program",
         .rare = true,
         .help = "run COMMAND itself under every allocator in each round. "
                 "Default: in as many rounds as take no longer than the "
                 "replays or 30 s, if these are three or more",
         .flag = &o->run_program},
        {.name = "no-run-program",
         .help = "run COMMAND once, to record it",
         .flag = &o->no_run_program},
        {.name = "sweep",
         .value = "VARIABLE=VALUE,...",
         .help = "run every allocator with each value; several sweeps make all "
                 "combinations",
         .list = &o->sweeps},
        {.name = "plan",
         .rare = true,
         .value = "DIR",
         .help = "write the runs to DIR/jobs.txt, a command a line",
         .text = &o->plan},
        {.name = "job",
         .rare = true,
         .value = "ID",
         .help = "make one run of the plan in the folder DIR, as its jobs.txt "
                 "has it",
         .text = &o->job},
    };
    return add_rows(opts, count, rows, TCM_ARRAY_SIZE(rows));
}

/* HIDDEN: --help does not show them. */
static size_t add_gate_options(struct request *o, struct tool_opt *opts,
                               size_t count, bool hidden) {
    const struct tool_opt rows[] = {
        {.name = "save-baseline",
         .value = "FILE",
         .help = "write counts that have no times: calls by size, peak of live "
                 "bytes, the allocator's slow paths, each as the least and "
                 "the most of five recordings of COMMAND",
         .text = &o->save},
        {.name = "against",
         .value = "FILE",
         .help = "compare such counts with saved ones: exit status 4 if one is "
                 "larger",
         .text = &o->against},
        {.name = "tolerance",
         .value = "P%",
         .help = "by how much a count may be larger (0.5 %)",
         .ratio = &o->tolerance},
        {.name = "budget",
         .value = "'METRIC<=RATIO,...'",
         .help = "exit status 4 if an allocator is shown to take more than "
                 "RATIO times as much as the baseline, 3 if that cannot be "
                 "judged",
         .take = take_budget,
         .ctx = &o->budget,
         .expects = "METRIC<=RATIO,... with time, wall, p999, peak_rss, "
                    "avg_rss, frag, peak_waste, after_peak, faults or huge",
         .given = &o->has_budget},
        {.name = "budget-strict",
         .help =
             "exit status 4 also if no allocator is shown to take more, but "
             "one is not shown to take less",
         .flag = &o->budget_strict},
    };
    size_t end = add_rows(opts, count, rows, TCM_ARRAY_SIZE(rows));
    for (; hidden && count < end; count++)
        opts[count].help = NULL;
    return end;
}

/* Reads the options. false: exit with the status in OPTIONS. */
static bool parse_options(struct request *o, struct tool_opts *options,
                          int argc, char **argv) {
    struct tool_opt opts[OPTIONS] = {{0}};
    bool is_gate = o->is_gate_command;
    size_t count = is_gate ? add_gate_options(o, opts, 0, false) : 0;
    count = add_common_options(o, opts, count);
    if (!is_gate) {
        count = add_compare_options(o, opts, count);
        count = add_gate_options(o, opts, count, true);
    }
    TCM_ASSERT(count < OPTIONS);
    const struct tool_command compare = {
        .usage = "malloc-trace compare [OPTION]... FILE...\n"
                 "malloc-trace compare [OPTION]... -- COMMAND [ARGUMENT]...\n"
                 "malloc-trace compare [OPTION]... --merge DIR...",
        .about = "Say which allocator serves these traces best, by how much, "
                 "and how sure that is: replays them under every allocator, "
                 "again and again, in random order. With COMMAND it is "
                 "recorded first; Ctrl-C ends COMMAND, such as a server, and "
                 "its trace is compared.",
        .opts = opts,
        .quiet = "no report and no progress, only warnings and errors",
        .notes = "Options of 'malloc-trace gate' are taken, too.\n"
                 "Exit status: 0; 1 error; 2 usage; 3 a trace is incomplete, "
                 "runs are missing, or the comparison was interrupted.",
        .stop_at_operand = o->files.is_command};
    const struct tool_command gate = {
        .usage = "malloc-trace gate OPTION... FILE...\n"
                 "malloc-trace gate OPTION... -- COMMAND [ARGUMENT]...\n"
                 "malloc-trace gate --budget=... [OPTION]... --merge DIR...",
        .about = "Fail where a program asks for more memory than it did, or "
                 "an allocator takes more than it may: compares counts of "
                 "requests with those of several recordings before, or the "
                 "figures of allocators with a budget.",
        .opts = opts,
        .quiet = "no report and no progress, only what is judged, warnings "
                 "and errors",
        .notes = "Exit status: 0 everything was judged and kept; 1 error, or "
                 "COMMAND failed; 2 usage; 3 something cannot be judged; 4 a "
                 "count is larger, or a budget is missed.",
        .stop_at_operand = o->files.is_command};
    o->sweeps = (struct tool_opt_list){.at = o->sweep,
                                       .room = TCM_ARRAY_SIZE(o->sweep)};
    return tool_opts_parse(options, is_gate ? &gate : &compare, argc, argv);
}

static bool parse_request(struct request *o, int argc, char **argv,
                          int *status) {
    struct tool_opts options;
    o->c.margin = 0.02;
    o->c.confidence = 0.95;
    o->tolerance = 0.005;
    o->c.seed = tcm_clock_ns();
    o->files.is_command = tool_opts_has_dashes(argc, argv);
    o->c.command = tool_shell_command_line("malloc-trace", argc, argv);
    if (!parse_options(o, &options, argc, argv)) {
        *status = options.status;
        return false;
    }
    *status = TOOL_USAGE;
    const struct compare_files *f = &o->files;
    if (!compare_files_take(&o->files, &options))
        return false;
    if ((o->run_program || o->no_run_program || f->all_processes) &&
        !f->is_command) {
        (void)tool_usage_error("%s needs a COMMAND",
                               o->run_program      ? "--run-program"
                               : o->no_run_program ? "--no-run-program"
                                                   : "--all-processes");
        return false;
    }
    if (o->run_program && o->no_run_program) {
        (void)tool_usage_error("--run-program contradicts --no-run-program");
        return false;
    }
    bool counts = o->save != NULL || o->against != NULL;
    o->files.must_succeed = counts || o->has_budget;
    if (o->is_gate_command && !f->must_succeed) {
        (void)tool_usage_error("no --save-baseline, --against or --budget "
                               "given");
        return false;
    }
    if (counts && (o->has_budget || f->is_merge || o->plan != NULL)) {
        (void)tool_usage_error("%s compares no allocators: it cannot be "
                               "combined with --budget, --merge or --plan",
                               o->save != NULL ? "--save-baseline"
                                               : "--against");
        return false;
    }
    if (counts && (f->json != NULL || f->csv != NULL || f->html != NULL)) {
        (void)tool_usage_error("%s prints counts alone: --json, --csv and "
                               "--html are for --budget",
                               o->save != NULL ? "--save-baseline"
                                               : "--against");
        return false;
    }
    if (o->c.clock != NULL && strcmp(o->c.clock, "recorded") == 0 &&
        o->c.speed != NULL) {
        (void)tool_usage_error("--clock=recorded runs at full speed: it is not "
                               "for --speed");
        return false;
    }
    if (o->budget_strict && !o->has_budget) {
        (void)tool_usage_error("--budget-strict needs --budget");
        return false;
    }
    if (o->plan != NULL && (o->run_program || f->is_merge || o->has_budget)) {
        (void)tool_usage_error("--plan cannot be combined with --run-program, "
                               "--merge or --budget");
        return false;
    }
    return true;
}

/* --- Contestants ---------------------------------------------------------- */

/* Adds the contestants of sweeps, and the C library as their baseline unless
   another one is named. */
static bool add_sweeps(struct request *o) {
    struct compare_contestants *all = &o->c.contestants;
    if (all->count == 0) {
        (void)tool_usage_error(
            "--sweep needs -a, the allocators whose variable "
            "it is");
        return false;
    }
    for (size_t i = 0; i < o->sweeps.count; i++)
        if (!compare_contestants_sweep(all, o->sweep[i]))
            return false;
    return o->baseline != NULL ||
           compare_contestants_find(all, TOOL_ALLOCATOR_C_LIBRARY) !=
               SIZE_MAX ||
           compare_contestants_add(all, TOOL_ALLOCATOR_C_LIBRARY);
}

static bool choose_contestants(struct request *o) {
    struct compare_contestants *all = &o->c.contestants;
    if (o->sweeps.count != 0 && !add_sweeps(o))
        return false;
    if (all->count == 0 && !compare_contestants_add_known(all))
        return false;
    const char *name = o->baseline;
    if (name == NULL &&
        compare_contestants_find(all, TOOL_ALLOCATOR_C_LIBRARY) != SIZE_MAX)
        name = TOOL_ALLOCATOR_C_LIBRARY;
    o->c.baseline = name == NULL ? 0 : compare_contestants_find(all, name);
    if (o->c.baseline == SIZE_MAX) {
        (void)tool_usage_error("--baseline: \"%s\" is not the name of a "
                               "contestant",
                               name);
        return false;
    }
    if (all->count < 2) {
        (void)tool_usage_error("-a: one contestant alone cannot be compared");
        return false;
    }
    for (size_t i = 0; i < all->count; i++)
        if (o->c.threads != NULL && strcmp(o->c.threads, "switch") == 0 &&
            !compare_contestant_is_own(&all->list[i])) {
            (void)tool_usage_error(
                "--threads: \"switch\" is not possible with %s, "
                "which cannot switch thread caches",
                all->list[i].name);
            return false;
        }
    return true;
}

/* Tells whether the baseline still takes part. false: a message was printed. */
static bool has_baseline(const struct comparison *c) {
    if (c->contestants.list[c->baseline].why != NULL) {
        tool_error("the baseline %s takes no part: %s",
                   c->contestants.list[c->baseline].name,
                   c->contestants.list[c->baseline].why);
        return false;
    }
    return true;
}

/* Excludes contestants that cannot be compared, and chooses the number of
   rounds. */
static bool check_contestants(struct request *o) {
    struct comparison *c = &o->c;
    if (!compare_run_check_contestants(c) || !has_baseline(c) ||
        (!o->no_check && !compare_run_check_blocks(c, 2)))
        return false;
    if (o->rounds.wanted == 0)
        o->rounds.wanted = compare_verdict_least_rounds(c) + 1;
    return true;
}

/* --- Steps ---------------------------------------------------------------- */

/* Stream of the report: standard error if a command ran, whose output goes to
   standard output, as with time and strace. */
static FILE *text_out(const struct request *o) {
    return o->files.is_command || compare_files_take_stdout(&o->files) ? stderr
                                                                       : stdout;
}

/* Gathers the traces. FOLDER gets recordings, SORTED the sorted forms of raw
   traces; NULL: none are wanted. */
static bool gather_traces(struct request *o, const char *folder,
                          const char *sorted) {
    return compare_traces_gather(&o->c, &o->files, folder, sorted,
                                 &o->recorded) &&
           (o->baseline != NULL || o->is_gate_command ||
            compare_traces_take_own(&o->c, false, "baseline"));
}

static int write_reports(struct request *o, int status) {
    struct comparison *c = &o->c;
    FILE *out = text_out(o);
    if (!compare_verdict_prepare(c))
        return TOOL_FAILED;
    if (!tool_is_quiet()) {
        if (!compare_print(c, out) ||
            (o->sweeps.count != 0 && !compare_print_frontier(c, out)) ||
            (c->ran_program && !compare_program_print(c, out)))
            return TOOL_FAILED;
    }
    fflush(out);
    const struct compare_files *f = &o->files;
    if ((f->json != NULL && !compare_json(c, f->json)) ||
        (f->csv != NULL && !compare_csv(c, f->csv)) ||
        (f->html != NULL && !compare_page_write(c, f->html)))
        return TOOL_FAILED;
    int judged = o->has_budget ? compare_budget_judge(&o->budget, c,
                                                      o->budget_strict, out)
                               : TOOL_OK;
    return judged == TOOL_OK ? status : judged;
}

/* Losses of traces, and of the baseline, were told of by messages. */
static int traces_status(const struct comparison *c) {
    return c->lacks || c->baseline_failed ? TOOL_DAMAGED : TOOL_OK;
}

static int run_gate(struct request *o) {
    const struct compare_gate gate = {.save = o->save,
                                      .against = o->against,
                                      .tolerance = o->tolerance,
                                      .files = &o->files,
                                      .recordings = o->rounds.wanted,
                                      .trace = o->files.is_command ||
                                                       o->files.operands != 1
                                                   ? NULL
                                                   : o->files.operand[0]};
    return compare_gate(&o->c, &gate, text_out(o));
}

/* Decides whether the program is run under the contestants, too. */
static void plan_program(struct request *o) {
    int status = o->recorded.status;
    if (!o->files.is_command || o->no_run_program)
        return;
    o->program = (struct compare_command){
        .words = o->files.operand,
        .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .recorded_ns = o->recorded.wall_ns,
        .asked = o->run_program};
    o->rounds.program = &o->program;
    o->rounds.program_always = o->run_program;
    if (!o->run_program)
        o->c.program_skipped = o->recorded.ended_by_user
                                   ? "a signal ended it when it was recorded"
                               : !WIFEXITED(status) || WEXITSTATUS(status) != 0
                                   ? "it failed when it was recorded"
                               : !compare_program_can_repeat()
                                   ? "its standard input cannot be read again"
                                   : NULL;
}

/* Fewer rounds are a first look, for which one recording will do. */
enum { ROUNDS_OF_SEVERAL = 3 };

/* Records the program as often as there are rounds, if it can be run again. */
static void record_again(struct request *o) {
    int status = o->recorded.status;
    if (!o->files.is_command || o->once || o->files.all_processes ||
        o->c.traces != 1 || o->rounds.wanted < ROUNDS_OF_SEVERAL ||
        o->recorded.ended_by_user || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0 || !compare_program_can_repeat())
        return;
    compare_traces_record_again(&o->c, &o->files, o->folder.path,
                                o->rounds.wanted - 1, &o->recorded);
    if (o->c.trace[0].agains == 0 && !o->run_program)
        o->c.program_skipped = "it did not end by itself, or not in the same "
                               "way, when it was recorded again";
}

static int run_comparison(struct request *o) {
    struct comparison *c = &o->c;
    if (!tool_temp_folder_make(&o->folder) ||
        !gather_traces(o, o->folder.path, o->folder.path) ||
        !check_contestants(o))
        return compare_traces_failed(c);
    plan_program(o);
    record_again(o);
    if (!compare_rounds_make(c, &o->rounds))
        return TOOL_FAILED;
    return write_reports(o, c->interrupted ? TOOL_DAMAGED : traces_status(c));
}

static int make_plan(struct request *o) {
    struct comparison *c = &o->c;
    char traces[PATH_MAX];
    if (!compare_plan_make_folder(o->plan, traces) ||
        !gather_traces(o, traces, traces) || !check_contestants(o))
        return compare_traces_failed(c);
    c->limit_ns = 3600u * (uint64_t)1000000000;
    if (!comparison_make_room(c, o->rounds.wanted) ||
        !compare_plan_write(c, o->plan))
        return TOOL_FAILED;
    if (!tool_is_quiet())
        printf("%zu jobs are in %s/jobs.txt; afterwards: malloc-trace compare "
               "--merge %s\n",
               (c->rounds + 1) * c->traces *
                   compare_contestants_taking_part(&c->contestants),
               tool_text_shown(o->plan), tool_text_shown(o->plan));
    return traces_status(c);
}

static int merge_plans(struct request *o) {
    size_t missing = 0;
    double margin = o->c.margin;
    const char *command = o->c.command;
    o->c.command = NULL;
    if (!compare_plan_merge(&o->c, o->files.operand, (int)o->files.operands,
                            &missing))
        return TOOL_FAILED;
    free((char *)(uintptr_t)command);
    if (o->has_margin)
        o->c.margin = margin;
    if (o->baseline != NULL) {
        o->c.baseline =
            compare_contestants_find(&o->c.contestants, o->baseline);
        if (o->c.baseline == SIZE_MAX) {
            o->c.baseline = 0;
            return tool_usage_error("--baseline: \"%s\" is not the name of a "
                                    "contestant",
                                    o->baseline);
        }
    }
    return write_reports(o, missing != 0 ? TOOL_DAMAGED : TOOL_OK);
}

static int run_request(int argc, char **argv, bool is_gate_command) {
    static struct request o;
    int status;
    o.is_gate_command = is_gate_command;
    if (!parse_request(&o, argc, argv, &status))
        return status;
    o.once = o.no_run_program;
    /* budgets are judged by replays */
    o.no_run_program = o.no_run_program || is_gate_command;
    tool_stop_catch();
    if (o.job != NULL)
        return compare_plan_run_job(o.files.operand[0], o.job);
    bool counts = o.save != NULL || o.against != NULL;
    if (!o.files.is_merge && !counts && !choose_contestants(&o))
        return TOOL_USAGE;
    if (o.run_program && !compare_program_can_repeat())
        return tool_usage_error("--run-program: standard input cannot be read "
                                "again; redirect it from a file");
    status = o.files.is_merge ? merge_plans(&o)
             : counts         ? run_gate(&o)
             : o.plan != NULL ? make_plan(&o)
                              : run_comparison(&o);
    tool_temp_folder_remove(&o.folder);
    free((char *)(uintptr_t)o.c.command);
    comparison_free(&o.c);
    return status;
}

int cmd_compare(int argc, char **argv) {
    return run_request(argc, argv, false);
}

int cmd_gate(int argc, char **argv) {
    return run_request(argc, argv, true);
}
