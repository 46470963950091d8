/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace memory: what lies on the resident pages under an allocator, and
 * which blocks hold them.
 *
 * Each allocator replays the trace twice: the first replay finds the moments of
 * most resident memory and of most waste, the second one looks at them.
 */
#include "base/bits.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_traces.h"
#include "cmd/malloc_trace/memory/memory_print.h"
#include "cmd/malloc_trace/report/report_input.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/allocators.h"
#include "common/child.h"
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

/* Most bytes that are read of a replay's document and of its messages. */
#define DOCUMENT_MOST ((size_t)1 << 30)

struct memory_request {
    struct comparison base; /* allocators and the trace */
    struct memory_trace trace;
    struct memory_report report;
    struct report_input in; /* names of sites */
    struct symbol_names *names;
    const char *at[MEMORY_WISHES];
    struct tool_opt_list ats;
    unsigned by, moment;
    bool all;
    struct compare_files files;
    struct tool_temp_folder folder;
};

/* --- The command line ----------------------------------------------------- */

static const char *const moment_name[] = {"peak", "waste", "at",
                                          "mark", "end",   NULL};

/* Options, and the empty row behind them. */
enum { OPTIONS = 24 };

static void add_options(struct memory_request *o, struct tool_opt *opts) {
    static const char *const threads[] = {"none", "switch", "real", NULL};
    const struct tool_opt rows[] = {
        {.letter = 'a',
         .value = "NAME[=LIBRARY][,VARIABLE=VALUE]...",
         .help = "an allocator, as in compare (repeatable). "
                 "Default: " TOOL_ALLOCATOR_C_LIBRARY " and "
                 "this project's library",
         .take = compare_contestants_take,
         .ctx = &o->base.contestants},
        {.name = "all",
         .help = "all known allocators that are installed",
         .flag = &o->all},
        {.name = "at",
         .value = "TIME",
         .help = "also look at TIME since the start, as recorded (repeatable)",
         .list = &o->ats},
        {.name = "by",
         .value = "WHAT",
         .help = "blocks that hold free bytes by site (default), size, age or "
                 "thread",
         .word = &o->by,
         .words = memory_by_name},
        {.name = "held-by",
         .value = "SITE",
         .help = "what the blocks of sites with this text in their name hold, "
                 "by size, age and thread",
         .text = &o->report.held_by},
        {.name = "moment",
         .value = "WHICH",
         .help = "explain the peak, the most waste (default), the first of "
                 "--at, the first mark, or the end",
         .word = &o->moment,
         .words = moment_name},
        {.name = "top",
         .rare = true,
         .value = "N",
         .help = "at most N rows (10)",
         .count = &o->report.top},
        {.name = "sites",
         .rare = true,
         .value = "MODE",
         .help = "for COMMAND: record call sites in this MODE of record "
                 "(lang:64 for Python, Perl and Ruby, else stack:64)",
         .text = &o->files.sites},
        {.letter = 'o',
         .value = "FILE",
         .help = "record COMMAND to FILE, and keep it",
         .text = &o->files.record},
        COMPARE_RESULT_OPTIONS(&o->files),
        {.name = "csv",
         .value = "FILE",
         .help = "write the rows of --by as CSV",
         .text = &o->files.csv},
        {.name = "folded",
         .rare = true,
         .value = "FILE",
         .help = "write free bytes by the stacks of the blocks that hold them, "
                 "for flame graphs; of one allocator",
         .text = &o->files.other},
        {.name = "threads",
         .rare = true,
         .value = "MODE",
         .help = "passed to replay. Default: real for several threads, else "
                 "none",
         .text = &o->base.threads,
         .words = threads},
        COMPARE_REPLAY_OPTIONS(&o->base),
        REPORT_NAME_OPTIONS(&o->in, true),
    };
    TCM_ASSERT(TCM_ARRAY_SIZE(rows) < OPTIONS);
    memcpy(opts, rows, sizeof(rows));
}

/* Makes wishes of the times of --at. */
static bool take_times(struct memory_request *o) {
    for (size_t i = 0; i < o->ats.count; i++) {
        struct memory_wish *w = &o->trace.wish[o->trace.wishes++];
        if (!tool_parse_time(o->at[i], &w->ns)) {
            (void)tool_usage_error("--at: \"%s\" is not a time such as 2.5 or "
                                   "1m30s",
                                   o->at[i]);
            return false;
        }
        snprintf(w->label, sizeof(w->label), "at %.60s", o->at[i]);
    }
    return true;
}

static bool is_usable(struct memory_request *o) {
    const struct compare_files *f = &o->files;
    if (!f->is_command && f->operands > 1) {
        (void)tool_usage_error("%zu traces given: one is explained at a time",
                               f->operands);
        return false;
    }
    if (!f->is_command && (f->sites != NULL || f->record != NULL)) {
        (void)tool_usage_error("%s needs a COMMAND",
                               f->sites != NULL ? "--sites" : "-o");
        return false;
    }
    if (f->other != NULL && o->base.contestants.count != 1) {
        (void)tool_usage_error("--folded is for one allocator: name it with "
                               "-a");
        return false;
    }
    if (1u << o->moment == MEMORY_ASKED && o->ats.count == 0) {
        (void)tool_usage_error("--moment=at needs --at=TIME");
        return false;
    }
    o->files.needs_sites = true;
    return take_times(o);
}

/* false: exit with *STATUS. */
static bool parse_request(struct memory_request *o, int argc, char **argv,
                          int *status) {
    struct tool_opt opts[OPTIONS] = {{0}};
    struct tool_opts options;
    o->files.is_command = tool_opts_has_dashes(argc, argv);
    o->report.top = 10;
    o->moment = 1; /* waste */
    o->ats = (struct tool_opt_list){.at = o->at, .room = MEMORY_WISHES / 2};
    add_options(o, opts);
    const struct tool_command command = {
        .usage = "malloc-trace memory [OPTION]... TRACE\n"
                 "malloc-trace memory [OPTION]... -- COMMAND [ARGUMENT]...",
        .about = "Explain resident memory: replay TRACE under allocators, and "
                 "tell for each page whether it is alive, held by a few "
                 "blocks, empty, or never used; and whose blocks hold it. With "
                 "COMMAND it is recorded first.",
        .opts = opts,
        .quiet = "no text and no progress, only warnings and errors",
        .notes = "Exit status: 0; 1 error; 2 usage; 3 the trace is "
                 "incomplete, or the work was interrupted.",
        .stop_at_operand = o->files.is_command};
    if (!tool_opts_parse(&options, &command, argc, argv)) {
        *status = options.status;
        return false;
    }
    *status = TOOL_USAGE;
    if (!compare_files_take(&o->files, &options) || !is_usable(o))
        return false;
    options.operand_count = 0; /* those are the comparison's */
    *status = report_input_take(&o->in, &options);
    return *status == TOOL_OK;
}

/* --- Allocators and the trace --------------------------------------------- */

static bool choose_allocators(struct memory_request *o) {
    struct compare_contestants *all = &o->base.contestants;
    if (o->all)
        return compare_contestants_add_known(all);
    return all->count != 0 ||
           (compare_contestants_add(all, TOOL_ALLOCATOR_C_LIBRARY) &&
            compare_contestants_add(all, TCM_ALLOCATOR_NAME));
}

static bool gather_trace(struct memory_request *o) {
    struct comparison *c = &o->base;
    struct compare_recorded recorded;
    if (!tool_temp_folder_make(&o->folder) ||
        !compare_traces_gather(c, &o->files, o->folder.path, o->folder.path,
                               &recorded) ||
        !memory_trace_read(&o->trace, c->trace[0].path))
        return false;
    for (size_t i = 0; i < o->ats.count; i++)
        if (o->trace.wish[i].operation == 0)
            tool_warn("--at: \"%s\" is behind the end of the trace", o->at[i]);
    if (o->trace.wishes == MEMORY_WISHES &&
        o->trace.marks + o->ats.count > MEMORY_WISHES)
        tool_warn("the trace has %llu marks; only the first are looked at",
                  (unsigned long long)o->trace.marks);
    o->names = symbol_names_new(&o->trace.sites, o->in.modules);
    return o->names != NULL || tool_out_of_memory();
}

/* --- Replays -------------------------------------------------------------- */

/* Option with the numbers of operations of S, behind HOW. */
static char *stops_text(const char *how, const struct memory_stops *s) {
    size_t size = s->count * 24 + 32, n;
    char *text = malloc(size);
    if (text == NULL)
        return NULL;
    n = (size_t)snprintf(text, size, "--memory-at=%s", how);
    for (size_t i = 0; i < s->count; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%llu", i == 0 ? "" : ",",
                              (unsigned long long)s->operation[i]);
    return text;
}

/* Says why a replay gave no figures. */
static void explain(const struct tool_child_end *end, int messages,
                    struct memory_run *r) {
    char how[120];
    size_t n;
    char *text = tool_child_text(messages, DOCUMENT_MOST, &n);
    tool_child_end_text(end, how, sizeof(how));
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    const char *first = text == NULL                        ? ""
                        : strncmp(text, "replay: ", 8) == 0 ? text + 8
                                                            : text;
    snprintf(r->problem, sizeof(r->problem), "replay: %s%s%.240s", how,
             first[0] == '\0' ? "" : ": ", first);
    r->failure = r->problem;
    free(text);
}

/* Replays under contestant NUMBER, with AT as --memory-at. Returns the document
   and its length in *SIZE. NULL: R->failure says why, or a stop was
   requested, or a message was printed. */
static char *replay(struct memory_request *o, size_t number, char *at,
                    struct memory_run *r, size_t *size) {
    static char program[PATH_MAX];
    const struct compare_trace *t = &o->base.trace[0];
    char memory[64], mode[32], touch[64], *text = NULL, *words[12];
    struct tool_child_end end = {0};
    size_t n = 0;
    int document = tool_child_scratch("memory");
    int messages = tool_child_scratch("messages");
    bool good =
        document >= 0 && messages >= 0 && tool_own_program("replay", program);
    snprintf(memory, sizeof(memory), "--memory=/proc/self/fd/%d", document);
    snprintf(mode, sizeof(mode), "--threads=%s", t->mode);
    static char quiet[] = "-q", clock[] = "--clock=recorded", dashes[] = "--";
    words[n++] = program;
    words[n++] = quiet;
    words[n++] = mode;
    words[n++] = memory;
    if (at != NULL)
        words[n++] = at;
    if (t->clock)
        words[n++] = clock;
    if (o->base.touch != NULL) {
        snprintf(touch, sizeof(touch), "--touch=%.40s", o->base.touch);
        words[n++] = touch;
    }
    words[n++] = dashes;
    words[n++] = t->path;
    words[n] = NULL;
    const struct tool_child_spec spec = {.argv = words,
                                         .in = TOOL_CHILD_NULL,
                                         .out = TOOL_CHILD_NULL,
                                         .err = messages,
                                         .keep = &document,
                                         .keep_count = 1};
    struct compare_contestant *c = &o->base.contestants.list[number];
    good = good && compare_contestant_prepare(c) &&
           compare_contestant_run(c, false, &spec, 0, &end) &&
           !tool_stop_requested();
    int status = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 255;
    if (good &&
        (end.error != 0 || (status != TOOL_OK && status != TOOL_DAMAGED)))
        explain(&end, messages, r);
    else if (good)
        text = tool_child_text(document, DOCUMENT_MOST, size);
    if (document >= 0)
        close(document);
    if (messages >= 0)
        close(messages);
    return text;
}

static void show_progress(const char *name, int number) {
    if (!tool_is_quiet() && isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "%s: %s, replay %d of 2\n", tool_name(), name, number);
}

/* Fills R with the explanation under contestant NUMBER. false: a message was
   printed, or a stop was requested. */
static bool explain_allocator(struct memory_request *o, size_t number,
                              struct memory_run *r) {
    const struct memory_names names = {.trace = &o->trace,
                                       .names = o->names,
                                       .skip = &o->in.skip,
                                       .held_by = o->report.held_by};
    struct compare_contestant *c = &o->base.contestants.list[number];
    struct memory_stops stops = {
        .operation = {tcm_max_u64(o->trace.peak_operation, 1)}, .count = 1};
    size_t size;
    r->name = compare_contestant_shown(c);
    if (c->why != NULL) {
        r->failure = c->why;
        return true;
    }
    show_progress(r->name, 1);
    char *at = stops_text("short:", &stops);
    char *text = replay(o, number, at, r, &size);
    free(at);
    if (text == NULL)
        return r->failure != NULL;
    bool good = memory_model_stops(&o->trace, text, size, &stops);
    free(text);
    if (!good) {
        r->failure = "what replay wrote cannot be read";
        return true;
    }
    at = stops.count == 0 ? NULL : stops_text("", &stops);
    show_progress(r->name, 2);
    text = replay(o, number, at, r, &size);
    free(at);
    if (text == NULL)
        return r->failure != NULL;
    (void)memory_model_read(r, &names, &stops, text, size);
    free(text);
    return r->failure != NULL ||
           memory_print_sentence(r, memory_print_moment(&o->report, r));
}

/* false: a message was printed, or a stop was requested. */
static bool explain_all(struct memory_request *o) {
    struct memory_report *m = &o->report;
    size_t count = o->base.contestants.count;
    m->trace = o->base.trace[0].name;
    m->has_sites = o->trace.has_sites;
    m->has_times = o->base.trace[0].has_times;
    m->by = (enum memory_by)o->by;
    m->moment_role = 1u << o->moment;
    m->duration_ns = o->trace.end_ns - o->trace.start_ns;
    m->operations = o->trace.operations;
    m->run = calloc(count, sizeof(*m->run));
    if (m->run == NULL)
        return tool_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        struct memory_run *r = &m->run[m->runs++];
        if (tool_stop_requested() || !explain_allocator(o, i, r))
            return false;
        if (r->failure == NULL && r->untouched[0] != '\0')
            m->untouched = r->untouched;
    }
    memory_remedies_find(m);
    return true;
}

/* --- Output --------------------------------------------------------------- */

static bool is_any_known(const struct memory_report *m) {
    for (size_t i = 0; i < m->runs; i++)
        if (m->run[i].failure == NULL)
            return true;
    return false;
}

static bool write_folded(struct memory_request *o) {
    const struct memory_run *r = &o->report.run[0];
    const struct memory_names names = {
        .trace = &o->trace, .names = o->names, .skip = &o->in.skip};
    if (r->failure != NULL)
        return false;
    if (!o->report.has_sites)
        tool_warn("%s has no call sites: record with --sites=stack",
                  o->report.trace);
    return memory_model_folded(r, memory_print_moment(&o->report, r), &names,
                               o->files.other);
}

static bool write_reports(struct memory_request *o) {
    const struct memory_report *m = &o->report;
    for (size_t i = 0; i < m->runs; i++)
        if (m->run[i].failure != NULL)
            tool_warn("%s has no figures: %s", m->run[i].name,
                      tool_text_shown(m->run[i].failure));
    if (!is_any_known(m)) {
        tool_error("no allocator has figures");
        return false;
    }
    const struct compare_files *f = &o->files;
    if (!tool_is_quiet() && !compare_files_take_stdout(f))
        memory_print(m, f->is_command ? stderr : stdout);
    return (f->csv == NULL || memory_print_csv(m, f->csv)) &&
           (f->other == NULL || write_folded(o)) &&
           (f->json == NULL || memory_print_json(m, f->json)) &&
           (f->html == NULL || memory_page(m, f->html));
}

static int explain_memory(struct memory_request *o) {
    if (!gather_trace(o) || !compare_run_check_contestants(&o->base) ||
        !explain_all(o))
        return compare_traces_failed(&o->base);
    if (!write_reports(o))
        return TOOL_FAILED;
    return o->base.lacks ? TOOL_DAMAGED : TOOL_OK;
}

int cmd_memory(int argc, char **argv) {
    static struct memory_request o;
    int status;
    report_input_init(&o.in);
    if (!parse_request(&o, argc, argv, &status))
        return status;
    if (!choose_allocators(&o))
        return TOOL_USAGE;
    tool_stop_catch();
    status = explain_memory(&o);
    tool_temp_folder_remove(&o.folder);
    for (size_t i = 0; i < o.report.runs; i++)
        memory_run_free(&o.report.run[i]);
    free(o.report.run);
    symbol_names_free(o.names);
    memory_trace_fini(&o.trace);
    report_input_fini(&o.in);
    comparison_free(&o.base);
    return status;
}
