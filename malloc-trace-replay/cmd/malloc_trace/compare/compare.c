/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace compare: which allocator serves a program best, by how much, and
 * how sure that is. Wiring.
 */
#include "base/clock.h"
#include "cmd/malloc_trace/compare/budget.h"
#include "cmd/malloc_trace/compare/child.h"
#include "cmd/malloc_trace/compare/gate.h"
#include "cmd/malloc_trace/compare/html.h"
#include "cmd/malloc_trace/compare/plan.h"
#include "cmd/malloc_trace/compare/print.h"
#include "cmd/malloc_trace/compare/program.h"
#include "cmd/malloc_trace/compare/result.h"
#include "cmd/malloc_trace/compare/rounds.h"
#include "cmd/malloc_trace/compare/run.h"
#include "cmd/malloc_trace/compare/settings.h"
#include "cmd/malloc_trace/compare/traces.h"
#include "cmd/malloc_trace/compare/verdict.h"
#include "cmd/malloc_trace/malloc_trace.h"
#include "common/files.h"
#include "common/main.h"
#include "common/shell_word.h"
#include "common/stop.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "Usage: malloc-trace compare [OPTION]... FILE...\n"
    "       malloc-trace compare [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "       malloc-trace compare --merge DIR...\n"
    "Say which allocator serves these traces best, by how much, and how sure\n"
    "that is: replays them under every allocator, again and again, in random\n"
    "order. With COMMAND it is recorded first.\n"
    "\n"
    "  -a NAME[=LIBRARY][,VARIABLE=VALUE]...\n"
    "                    an allocator and its environment; LIBRARY may be "
    "left\n"
    "                    out for a known one (glibc, malloc-trace, jemalloc,\n"
    "                    mimalloc, gperftools, ...). Default: all that are "
    "here\n"
    "      --baseline NAME  what the others are compared with (glibc)\n"
    "  -n ROUNDS         runs of each; default: as many as a verdict needs\n"
    "      --until P%    go on until the intervals of time and peak memory "
    "are\n"
    "                    no wider than +- P %\n"
    "      --threads=MODE   as of replay: none, real or switch. Default: real\n"
    "                    where the trace has several threads, else none\n"
    "      --touch=WHAT, --speed=X  as of replay\n"
    "      --margin P%   smaller differences do not matter (2 %)\n"
    "      --run-program    run COMMAND itself under every allocator, too\n"
    "      --no-check    do not verify first what the allocators do with "
    "blocks\n"
    "      --budget 'METRIC<=RATIO,...'  exit status 4 if an allocator is "
    "shown\n"
    "                    to take more than so much of the baseline's, 3 if "
    "that\n"
    "                    cannot be judged\n"
    "      --budget-strict  exit status 4 also if it is not shown to take "
    "less\n"
    "      --sweep VARIABLE=VALUE,...  every allocator with each value; "
    "several\n"
    "                    sweeps make all combinations\n"
    "      --sweep-known NAME  settings of a known allocator that are worth a\n"
    "                    try; 'list' prints them\n"
    "      --budget-runs N  no more runs than this: the worse half of a sweep\n"
    "                    is left out again and again\n"
    "      --save-baseline FILE  write counts that no machine or load "
    "changes:\n"
    "                    calls by size, peak of live bytes, the allocator's\n"
    "                    slow paths; nothing is compared then\n"
    "      --against FILE  hold such counts against saved ones: exit status 4\n"
    "                    if one is larger\n"
    "      --tolerance P%   by more than this (0.5 %)\n"
    "      --plan DIR    write the runs to DIR/jobs.txt, a command a line\n"
    "      --merge DIR...   the verdict from results of plans\n"
    "      --job ID DIR  one run of a plan, as its jobs.txt has it\n"
    "      --json FILE   the verdict as JSON (-: to standard output instead)\n"
    "      --csv FILE    the figures of every run\n"
    "      --html FILE   all of it as a page to look at\n"
    "  -q, --quiet       no table and no progress, but what is wrong\n"
    "  -h, --help        print this text and exit\n"
    "  -V, --version     print the version and exit\n"
    "\n"
    "Exit status: 0; 1 error; 2 usage; 3 a trace lacks something, runs are\n"
    "missing, a budget cannot be judged, or it was interrupted; 4 a budget "
    "was\n"
    "missed.\n";

enum {
    OPT_ALLOCATOR = 1,
    OPT_BASELINE,
    OPT_ROUNDS,
    OPT_UNTIL,
    OPT_THREADS,
    OPT_TOUCH,
    OPT_SPEED,
    OPT_MARGIN,
    OPT_RUN_PROGRAM,
    OPT_NO_CHECK,
    OPT_BUDGET,
    OPT_BUDGET_STRICT,
    OPT_SWEEP,
    OPT_SWEEP_KNOWN,
    OPT_BUDGET_RUNS,
    OPT_SAVE,
    OPT_AGAINST,
    OPT_TOLERANCE,
    OPT_PLAN,
    OPT_MERGE,
    OPT_JOB,
    OPT_JSON,
    OPT_CSV,
    OPT_HTML,
};

static const struct tool_option table[] = {
    {NULL, 'a', true, OPT_ALLOCATOR},
    {"baseline", 0, true, OPT_BASELINE},
    {NULL, 'n', true, OPT_ROUNDS},
    {"until", 0, true, OPT_UNTIL},
    {"threads", 0, true, OPT_THREADS},
    {"touch", 0, true, OPT_TOUCH},
    {"speed", 0, true, OPT_SPEED},
    {"margin", 0, true, OPT_MARGIN},
    {"run-program", 0, false, OPT_RUN_PROGRAM},
    {"no-check", 0, false, OPT_NO_CHECK},
    {"budget", 0, true, OPT_BUDGET},
    {"budget-strict", 0, false, OPT_BUDGET_STRICT},
    {"sweep", 0, true, OPT_SWEEP},
    {"sweep-known", 0, true, OPT_SWEEP_KNOWN},
    {"budget-runs", 0, true, OPT_BUDGET_RUNS},
    {"save-baseline", 0, true, OPT_SAVE},
    {"against", 0, true, OPT_AGAINST},
    {"tolerance", 0, true, OPT_TOLERANCE},
    {"plan", 0, true, OPT_PLAN},
    {"merge", 0, false, OPT_MERGE},
    {"job", 0, true, OPT_JOB},
    {"json", 0, true, OPT_JSON},
    {"csv", 0, true, OPT_CSV},
    {"html", 0, true, OPT_HTML},
    {NULL, 0, false, 0},
};

struct order {
    struct comparison c;
    struct rounds rounds;
    struct budget budget;
    const char *baseline, *plan, *job, *json, *csv, *html;
    const char *save, *against;
    double tolerance;
    const char *sweep[16], *known[16]; /* as they were given */
    int sweeps, knowns;
    bool run_program, no_check, merge, has_budget, budget_strict, has_margin;
    bool is_command;
    char **operand;
    int operands;
    char folder[PATH_MAX];
};

/* --- The command line ----------------------------------------------------- */

static bool parse_percent(const char *text, double *ratio) {
    char *end;
    *ratio = strtod(text, &end);
    if (end == text)
        return false;
    if (strcmp(end, "%") == 0 || strcmp(end, " %") == 0) {
        *ratio /= 100;
        end = (char *)(uintptr_t) "";
    }
    return *end == '\0' && *ratio > 0 && *ratio < 1;
}

static bool parse_one(struct order *o, int id, const char *value) {
    uint64_t n = 0;
    switch (id) {
    case OPT_ALLOCATOR:
        return contestants_add(&o->c.who, value);
    case OPT_BASELINE:
        o->baseline = value;
        return true;
    case OPT_ROUNDS:
        o->rounds.wanted =
            tool_parse_u64(value, COMPARE_MOST_ROUNDS, &n) ? (size_t)n : 0;
        if (n != 0)
            return true;
        break;
    case OPT_UNTIL:
        if (parse_percent(value, &o->rounds.until))
            return true;
        break;
    case OPT_MARGIN:
        if (parse_percent(value, &o->c.margin))
            return o->has_margin = true;
        break;
    case OPT_THREADS:
        o->c.threads = value;
        if (strcmp(value, "none") == 0 || strcmp(value, "real") == 0 ||
            strcmp(value, "switch") == 0)
            return true;
        break;
    case OPT_TOUCH:
        o->c.touch = value;
        return true;
    case OPT_SPEED:
        o->c.speed = value;
        return true;
    case OPT_RUN_PROGRAM:
        return o->run_program = true;
    case OPT_NO_CHECK:
        return o->no_check = true;
    case OPT_BUDGET:
        return o->has_budget = budget_parse(&o->budget, value);
    case OPT_BUDGET_STRICT:
        return o->budget_strict = true;
    case OPT_SWEEP:
        if (o->sweeps == TCM_ARRAY_SIZE(o->sweep))
            break;
        o->sweep[o->sweeps++] = value;
        return true;
    case OPT_SWEEP_KNOWN:
        if (o->knowns == TCM_ARRAY_SIZE(o->known))
            break;
        o->known[o->knowns++] = value;
        return true;
    case OPT_BUDGET_RUNS:
        if (tool_parse_u64(value, 100000000, &n) && n != 0) {
            o->rounds.most_runs = n;
            return true;
        }
        break;
    case OPT_SAVE:
        o->save = value;
        return true;
    case OPT_AGAINST:
        o->against = value;
        return true;
    case OPT_TOLERANCE:
        if (parse_percent(value, &o->tolerance))
            return true;
        break;
    case OPT_PLAN:
        o->plan = value;
        return true;
    case OPT_MERGE:
        return o->merge = true;
    case OPT_JOB:
        o->job = value;
        return true;
    case OPT_JSON:
        o->json = value;
        return true;
    case OPT_CSV:
        o->csv = value;
        return true;
    case OPT_HTML:
        o->html = value;
        return true;
    }
    (void)tool_usage_error("the option's value '%s' makes no sense", value);
    return false;
}

/* Whether "--" stands between options and operands. */
static bool has_dashes(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return true;
    return false;
}

/* The words of the command line, quoted where they must be. */
static char *command_of(int argc, char **argv) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    fputs("malloc-trace", f);
    for (int i = 0; i < argc; i++) {
        fputc(' ', f);
        shell_put_word(f, argv[i]);
    }
    return fclose(f) == 0 ? text : NULL;
}

static bool parse(struct order *o, int argc, char **argv, int *status) {
    struct tool_options options;
    int id;
    o->c.margin = 0.02;
    o->c.confidence = 0.95;
    o->tolerance = 0.005;
    o->c.seed = tcm_clock_ns();
    o->is_command = has_dashes(argc, argv);
    o->c.command = command_of(argc, argv);
    tool_options_init(&options, argc, argv, table, help);
    options.stop_at_operand = o->is_command;
    *status = TOOL_USAGE;
    while ((id = tool_option_next(&options)) > 0)
        if (!parse_one(o, id, options.value))
            return false;
    if (id < 0) {
        *status = options.status;
        return false;
    }
    o->operand = options.operand;
    o->operands = options.operand_count;
    for (int i = 0; i < o->knowns; i++)
        if (strcmp(o->known[i], "list") == 0) {
            settings_print(stdout);
            *status = TOOL_OK;
            return false;
        }
    if (o->operands == 0) {
        (void)tool_usage_error("no FILE and no COMMAND given");
        return false;
    }
    if (o->is_command)
        o->operand[o->operands] = NULL;
    for (int i = 0; i < o->operands && !o->is_command && !o->merge; i++)
        if (strcmp(o->operand[i], "-") == 0) {
            (void)tool_usage_error("standard input cannot be read for every "
                                   "run");
            return false;
        }
    if (o->run_program && !o->is_command) {
        (void)tool_usage_error("--run-program is for a COMMAND");
        return false;
    }
    if (o->budget_strict && !o->has_budget) {
        (void)tool_usage_error("--budget-strict is for a --budget");
        return false;
    }
    if (o->plan != NULL && (o->run_program || o->merge || o->has_budget)) {
        (void)tool_usage_error("--plan goes with none of --run-program, "
                               "--merge and --budget");
        return false;
    }
    const char *outs[3];
    int n = 0;
    if (o->json != NULL)
        outs[n++] = o->json;
    if (o->csv != NULL)
        outs[n++] = o->csv;
    if (o->html != NULL)
        outs[n++] = o->html;
    const char *const none[] = {"-"};
    return n == 0 ||
           !tool_files_collide(outs, n,
                               o->is_command || o->merge
                                   ? none
                                   : (const char *const *)o->operand,
                               o->is_command || o->merge ? 0 : o->operands);
}

/* --- Contestants ---------------------------------------------------------- */

/* The C library is there as the baseline, unless another one is named. */
static bool add_sweeps(struct order *o) {
    struct contestants *who = &o->c.who;
    if (who->count == 0 && o->knowns == 0) {
        (void)tool_usage_error("--sweep needs -a: whose variable is it?");
        return false;
    }
    for (int i = 0; i < o->sweeps; i++)
        if (!contestants_sweep(who, o->sweep[i]))
            return false;
    for (int i = 0; i < o->knowns; i++)
        if (!settings_add(who, o->known[i]))
            return false;
    return o->baseline != NULL || contestants_find(who, "glibc") != SIZE_MAX ||
           contestants_add(who, "glibc");
}

static bool choose_contestants(struct order *o) {
    struct contestants *who = &o->c.who;
    if (o->sweeps + o->knowns != 0 && !add_sweeps(o))
        return false;
    if (who->count == 0 && !contestants_add_known(who))
        return false;
    const char *name = o->baseline;
    if (name == NULL && contestants_find(who, "glibc") != SIZE_MAX)
        name = "glibc";
    o->c.baseline = name == NULL ? 0 : contestants_find(who, name);
    if (o->c.baseline == SIZE_MAX) {
        (void)tool_usage_error("--baseline: no contestant is called %s", name);
        return false;
    }
    if (who->count < 2) {
        (void)tool_usage_error("one contestant alone cannot be compared");
        return false;
    }
    for (size_t i = 0; i < who->count; i++)
        if (o->c.threads != NULL && strcmp(o->c.threads, "switch") == 0 &&
            !contestant_is_own(&who->list[i])) {
            (void)tool_usage_error("--threads=switch: %s cannot switch thread "
                                   "caches",
                                   who->list[i].name);
            return false;
        }
    return true;
}

/* After the check whether they have taken malloc over. */
static bool enough_contestants(const struct comparison *c) {
    if (c->who.list[c->baseline].why != NULL) {
        tool_error("the baseline %s takes no part: %s",
                   c->who.list[c->baseline].name, c->who.list[c->baseline].why);
        return false;
    }
    return true;
}

/* Who takes part, and by that, how many rounds there are at least. */
static bool check_contestants(struct order *o) {
    struct comparison *c = &o->c;
    if (!run_check_contestants(c) || !enough_contestants(c) ||
        (!o->no_check && (!run_check_blocks(c) || !enough_contestants(c))))
        return false;
    if (o->rounds.wanted == 0)
        o->rounds.wanted = verdict_least_rounds(c) + 1;
    return true;
}

/* --- What is done --------------------------------------------------------- */

/* The program's status does not become this one's; but nobody is to miss it. */
static void tell_status(const char *name, int status) {
    if (WIFSIGNALED(status))
        tool_warn("%s was ended by signal %d (%s); what it did until then is "
                  "compared",
                  name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        tool_warn("%s ended with status %d", name, WEXITSTATUS(status));
}

/* Whether a file of results is standard output. */
static bool stdout_is_taken(const struct order *o) {
    return (o->json != NULL && tool_file_is_stdout(o->json)) ||
           (o->csv != NULL && tool_file_is_stdout(o->csv)) ||
           (o->html != NULL && tool_file_is_stdout(o->html));
}

/* Where a program ran its output has stdout, as with time and strace. */
static FILE *text_out(const struct order *o) {
    return o->is_command || stdout_is_taken(o) ? stderr : stdout;
}

static bool gather_traces(struct order *o, const char *folder) {
    int status = 0;
    if (o->is_command) {
        /* what is standard output has results alone in it */
        int out = stdout_is_taken(o) ? STDERR_FILENO : STDOUT_FILENO;
        if (!traces_record(&o->c, o->operand, folder, out, &status))
            return false;
        tell_status(o->operand[0], status);
    } else {
        for (int i = 0; i < o->operands; i++)
            if (tool_stop_requested() ||
                !traces_add(&o->c, o->operand[i], folder))
                return false;
    }
    traces_set_modes(&o->c);
    return true;
}

static int report(struct order *o, int status) {
    struct comparison *c = &o->c;
    FILE *out = text_out(o);
    if (!verdict_settle(c))
        return TOOL_FAILED;
    if (!tool_is_quiet()) {
        if (!compare_print(c, out) ||
            (o->sweeps + o->knowns != 0 && !compare_print_frontier(c, out)) ||
            (o->run_program && !program_print(c, out)))
            return TOOL_FAILED;
    }
    fflush(out);
    if ((o->json != NULL && !compare_json(c, o->json)) ||
        (o->csv != NULL && !compare_csv(c, o->csv)) ||
        (o->html != NULL && !compare_html(c, o->html)))
        return TOOL_FAILED;
    int judged = o->has_budget
                     ? budget_judge(&o->budget, c, o->budget_strict, out)
                     : TOOL_OK;
    return judged == TOOL_OK ? status : judged;
}

/* What a trace lacks was told; the rest of it is compared. */
static int status_of_traces(const struct comparison *c) {
    return c->lacks ? TOOL_DAMAGED : TOOL_OK;
}

static int hold_counts(struct order *o) {
    if (!traces_make_folder(o->folder) || !gather_traces(o, o->folder))
        return TOOL_FAILED;
    int status = gate(&o->c, o->save, o->against, o->tolerance, text_out(o));
    return status == TOOL_OK ? status_of_traces(&o->c) : status;
}

static int compare_now(struct order *o) {
    struct comparison *c = &o->c;
    if (!traces_make_folder(o->folder) || !gather_traces(o, o->folder))
        return TOOL_FAILED;
    if (!check_contestants(o))
        return tool_stop_requested() ? TOOL_DAMAGED : TOOL_FAILED;
    if (o->run_program)
        o->rounds.program = o->operand;
    if (!rounds_make(c, &o->rounds))
        return TOOL_FAILED;
    return report(o, c->interrupted ? TOOL_DAMAGED : status_of_traces(c));
}

static int make_plan(struct order *o) {
    struct comparison *c = &o->c;
    char traces[PATH_MAX];
    if (!plan_make_folder(o->plan, traces) || !gather_traces(o, traces) ||
        !check_contestants(o))
        return TOOL_FAILED;
    c->limit_ns = 3600u * (uint64_t)1000000000;
    if (!comparison_make_room(c, o->rounds.wanted) || !plan_write(c, o->plan))
        return TOOL_FAILED;
    size_t part = 0;
    for (size_t i = 0; i < c->who.count; i++)
        part += c->who.list[i].why == NULL;
    if (!tool_is_quiet())
        printf("%zu jobs are in %s/jobs.txt; afterwards: malloc-trace compare "
               "--merge %s\n",
               (c->rounds + 1) * c->traces * part, tool_text_shown(o->plan),
               tool_text_shown(o->plan));
    return status_of_traces(c);
}

static int merge(struct order *o) {
    size_t missing = 0;
    double margin = o->c.margin;
    const char *command = o->c.command;
    o->c.command = NULL;
    if (!plan_merge(&o->c, o->operand, o->operands, &missing))
        return TOOL_FAILED;
    free((char *)(uintptr_t)command);
    if (o->has_margin)
        o->c.margin = margin;
    if (o->baseline != NULL) {
        o->c.baseline = contestants_find(&o->c.who, o->baseline);
        if (o->c.baseline == SIZE_MAX) {
            o->c.baseline = 0;
            return tool_usage_error("--baseline: no contestant is called %s",
                                    o->baseline);
        }
    }
    return report(o, missing != 0 ? TOOL_DAMAGED : TOOL_OK);
}

int cmd_compare(int argc, char **argv) {
    static struct order o;
    int status;
    if (!parse(&o, argc, argv, &status))
        return status;
    if (!result_can_read())
        return TOOL_FAILED;
    tool_stop_catch();
    if (o.job != NULL)
        return plan_run_job(o.operand[0], o.job);
    bool is_gate = o.save != NULL || o.against != NULL;
    if (is_gate && (o.c.who.count != 0 || o.merge || o.plan != NULL))
        return tool_usage_error("--save-baseline and --against compare no "
                                "allocators");
    if (!o.merge && !is_gate && !choose_contestants(&o))
        return TOOL_USAGE;
    if (o.run_program && !program_can_repeat())
        return TOOL_USAGE;
    status = o.merge          ? merge(&o)
             : is_gate        ? hold_counts(&o)
             : o.plan != NULL ? make_plan(&o)
                              : compare_now(&o);
    traces_remove_folder(o.folder);
    free((char *)(uintptr_t)o.c.command);
    comparison_free(&o.c);
    return status;
}
