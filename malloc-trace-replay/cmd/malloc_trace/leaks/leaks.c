/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace leaks: the user's functions whose blocks are not freed, in
 * traces or in a command that is run and recorded, with an exit status for
 * tests.
 *
 * A command is recorded into a temporary folder by malloc-trace record, a
 * child, which passes on its output, its status and the terminal's signals.
 */
#include "base/check.h"
#include "cmd/malloc_trace/leaks/leaks_find.h"
#include "cmd/malloc_trace/leaks/leaks_growth.h"
#include "cmd/malloc_trace/report/report_print.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/temp_folder.h"
#include "common/text.h"
#include "open/recordings.h"
#include "open/trace_open.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Most stacks of a function; columns of a stack in the text beyond which
   library frames are left out, and columns in front of it. */
#define STACKS_MAX    1000u
#define STACK_COLUMNS 120u
#define STACK_INDENT  6
/* Columns of a stack's share of its row. */
#define SHARE_COLUMNS 8
/* Columns in front of a function, and fewest columns of a place behind it, and
   of a file's name. */
#define FIGURES     23u
#define PLACE_LEAST 26u
#define FILE_LEAST  8u

struct command {
    char **argv;       /* NULL: none */
    const char *sites; /* mode; NULL: that of the program's kind, which
                          record_command stores */
    const char *file;  /* to record to; NULL: a temporary one */
    int status;        /* its exit status, as a shell gives it */
    struct tool_temp_folder folder;
    char trace[PATH_MAX];
    char name[300]; /* of the program that is looked at; "": argv[0] */
};

struct run {
    struct report_input in;
    struct leaks_options find;
    struct command command;
    const char *name; /* of the trace or the command, in the text */
    FILE *out;        /* for the text: stderr beside a command */
    size_t columns;   /* of its lines */
    bool at_end, growing, limits_bytes, limits_blocks, show_suppressed;
    uint64_t max_bytes, max_blocks, top, stacks;
    const char *json;
};

/* --- The command ---------------------------------------------------------- */

/* Makes small blocks of Python calls of malloc, also where the command starts
   Python. */
static bool set_environment(const struct record_facts *facts) {
    return facts->needs_mimalloc || setenv("PYTHONMALLOC", "malloc", 0) == 0;
}

/* Sets C->trace to the trace of the last program that the process became by
   exec, C->file or C->file.N: what its predecessors did not free did not leak.
   false: there is none. */
static bool find_last_trace(struct command *c) {
    char next[PATH_MAX + 16], last[PATH_MAX + 16];
    snprintf(last, sizeof(last), "%s", c->file);
    for (unsigned i = 1;; i++) {
        snprintf(next, sizeof(next), "%s.%u", c->file, i);
        if (access(next, R_OK) != 0)
            break;
        memcpy(last, next, sizeof(last));
    }
    snprintf(c->trace, sizeof(c->trace), "%.*s", PATH_MAX - 1, last);
    return access(c->trace, R_OK) == 0;
}

/* Sets C->trace to the trace with most events of all processes of the command,
   each in its last program, shells last, and names the others. false: there is
   none. */
static bool find_largest_trace(struct command *c) {
    struct open_recordings all = {0};
    bool found = open_recordings_find(&all, c->folder.path, c->argv[0]);
    if (found) {
        open_recordings_keep_last(&all);
        open_recordings_pass_shells(&all);
    }
    found = found && all.count != 0;
    if (found)
        snprintf(c->trace, sizeof(c->trace), "%s", all.list[0].path);
    if (found && all.count > 1) {
        open_recordings_warn(&all, 1, "looked at",
                             "; record them all with record -o NAME.%p");
        snprintf(c->name, sizeof(c->name), "%s", all.list[0].name);
    }
    open_recordings_free(&all);
    return found;
}

/* Runs and records the command. False: it was not recorded, or not found, a
   message was printed, and C->status is set. */
static bool record_command(struct command *c) {
    char self[PATH_MAX], sites[64], text[256];
    char output[OPEN_RECORDINGS_PATTERN];
    char **all;
    struct tool_child_end end;
    size_t count = 0, n = 0;
    struct record_facts facts;
    c->status = record_program_facts(&facts, c->argv[0]);
    if (c->status != TOOL_OK)
        return false;
    c->status = TOOL_FAILED;
    if (c->file != NULL)
        snprintf(output, sizeof(output), "%s", c->file);
    else if (!tool_temp_folder_make(&c->folder))
        return false;
    else
        open_recordings_pattern(c->folder.path, output);
    if (c->sites == NULL)
        c->sites = facts.sites;
    snprintf(sites, sizeof(sites), "--sites=%s", c->sites);
    const char *const words[] = {"malloc-trace", "record", "--quiet", "-o",
                                 output,         sites,    "--"};
    while (c->argv[count] != NULL)
        count++;
    all = calloc(TCM_ARRAY_SIZE(words) + count + 1, sizeof(*all));
    if (all == NULL || !tool_own_program("malloc-trace", self)) {
        free(all);
        return false;
    }
    for (; n < TCM_ARRAY_SIZE(words); n++)
        if ((all[n] = strdup(words[n])) == NULL)
            break;
    bool good = n == TCM_ARRAY_SIZE(words);
    memcpy(all + n, c->argv, (count + 1) * sizeof(*all));
    struct tool_child_spec spec = {
        .argv = all, .file = self, .signals = TOOL_CHILD_FRONT};
    good = good && set_environment(&facts);
    record_program_note(&facts);
    good = good && tool_child_run(&spec, 0, &end);
    for (size_t i = 0; i < n; i++)
        free(all[i]);
    free(all);
    if (!good)
        return false;
    c->status = WIFEXITED(end.status) ? WEXITSTATUS(end.status)
                                      : 128 + WTERMSIG(end.status);
    if (c->status != 0) {
        tool_child_end_text(&end, text, sizeof(text));
        tool_error("%s: %s", c->argv[0], text);
    }
    if (c->file != NULL ? find_last_trace(c) : find_largest_trace(c))
        return true;
    if (c->status == 0)
        c->status = trace_not_seen(c->argv[0], 0, "");
    return false;
}

/* --- Output --------------------------------------------------------------- */

/* "in the second half of allocations" */
static const char *period(const struct leaks *l) {
    return leaks_growth_has_marks(&l->growth)
               ? "between marks"
               : "in the second half of allocations";
}

static void print_head(const struct leaks *l, const struct run *r) {
    struct tool_text text[2];
    const char *plus = l->growing ? "+" : "";
    if (l->interpreter != NULL)
        fprintf(r->out,
                "%s: blocks that live at the end of %s tell little; growth "
                "instead (--at-end)\n",
                tool_text_shown(r->name), tool_text_shown(l->interpreter));
    fprintf(r->out, "%s: ", tool_text_shown(r->name));
    if (l->count == 0)
        fputs(l->growing ? "nothing grows" : "no leaks", r->out);
    else
        fprintf(r->out, "%s%s in %s%s block%s of %zu function%s", plus,
                tool_text_bytes(&text[0], l->bytes), plus,
                tool_text_count(&text[1], l->blocks), l->blocks == 1 ? "" : "s",
                l->count, l->count == 1 ? "" : "s");
    fprintf(r->out, " %s", l->growing ? period(l) : "at the end");
    fputc('\n', r->out);
}

static void put_figures(const struct run *r, uint64_t bytes, uint64_t blocks) {
    struct tool_text text[2];
    fprintf(r->out, "%10s %10s  ", tool_text_bytes(&text[0], bytes),
            tool_text_count(&text[1], blocks));
}

/* "file.c:12", of at most COLUMNS. */
static const char *place_text(struct tool_text_line *line,
                              const struct leaks_place *p, size_t columns) {
    char number[16];
    struct tool_text_line file;
    size_t n = (size_t)snprintf(number, sizeof(number), ":%u", p->line);
    columns = columns < n + FILE_LEAST ? FILE_LEAST : columns - n;
    snprintf(line->s, sizeof(line->s), "%s%s",
             tool_text_middle(&file, tool_text_shown(p->file), columns),
             number);
    return line->s;
}

/* Prints the figures, the function and the line of ROW; if it has several
   lines, each with figures of its own. */
static void print_function(const struct leaks *l, const struct run *r,
                           const struct leaks_row *row) {
    struct tool_text_line line;
    const struct leaks_place *place = &l->place[row->place];
    size_t room = r->columns - FIGURES;
    const char *function = report_stacks_fitting(&line, row->function, room);
    size_t used = tool_text_width(function);
    put_figures(r, row->bytes, row->blocks);
    fputs(function, r->out);
    if (row->places == 1) {
        bool fits = used + PLACE_LEAST <= room;
        size_t left = fits ? room - used - 3 : room - 2;
        if (!fits)
            fprintf(r->out, "\n%*s", (int)FIGURES, "");
        fprintf(r->out, "%s(%s)", fits ? " " : "",
                place_text(&line, place, left));
    }
    fputc('\n', r->out);
    for (size_t i = 0; row->places > 1 && i < row->places; i++) {
        put_figures(r, place[i].bytes, place[i].blocks);
        fprintf(r->out, "  at %s\n", place_text(&line, &place[i], room - 5));
    }
}

/* Prints the largest stacks of ROW, with their shares of it if it has several,
   and how many more there are. */
static void print_stacks(const struct leaks *l, const struct run *r,
                         const struct leaks_row *row) {
    struct tool_text text;
    const struct report_callers_top *top;
    size_t count = l->callers.count[row->row], n = 0;
    int indent = STACK_INDENT + (count > 1 ? SHARE_COLUMNS : 0);
    for (; (top = report_callers_of(&l->callers, row->row, n)) != NULL; n++) {
        char *stack =
            report_callers_text(&l->callers, row->row, n, 0, STACK_COLUMNS);
        if (stack == NULL)
            continue;
        fprintf(r->out, "%*s", STACK_INDENT, "");
        if (count > 1)
            fprintf(r->out, "%5.1f %% ",
                    100 * top->value / fmax((double)row->bytes, 1));
        tool_text_put_chain(r->out, stack, indent, indent, r->columns);
        free(stack);
    }
    TCM_ASSERT(n <= count);
    if (n == 0 || n == count)
        return;
    fprintf(r->out, "%*sand %s more stack%s", indent, "",
            tool_text_count(&text, count - n), count - n == 1 ? "" : "s");
    if (count <= STACKS_MAX)
        fprintf(r->out, "; --stacks=%zu shows all", count);
    fputc('\n', r->out);
}

static void print_rows(const struct leaks *l, const struct run *r) {
    struct tool_text text;
    if (l->count != 0 && r->top != 0)
        fprintf(r->out, "%10s %10s  function\n", "bytes", "blocks");
    for (size_t i = 0; i < l->count && i < r->top; i++) {
        const struct leaks_row *row = &l->row[i];
        print_function(l, r, row);
        print_stacks(l, r, row);
    }
    if (l->count > r->top)
        fprintf(r->out, "%s more; --top=%zu shows all\n",
                tool_text_count(&text, l->count - r->top), l->count);
}

/* Writes BYTES and BLOCKS as "1000 B in 10 blocks". */
static void print_blocks(FILE *f, uint64_t bytes, uint64_t blocks) {
    struct tool_text text[2];
    fprintf(f, "%s in %s block%s", tool_text_bytes(&text[0], bytes),
            tool_text_count(&text[1], blocks), blocks == 1 ? "" : "s");
}

static void print_pattern(const struct run *r, uint64_t bytes, uint64_t blocks,
                          const char *by) {
    struct tool_text text[2];
    if (blocks != 0)
        fprintf(r->out, "%10s %13s  %s\n", tool_text_bytes(&text[0], bytes),
                tool_text_count(&text[1], blocks), tool_text_shown(by));
}

/* Prints the sums of what was left out, and with --show-suppressed those by
   pattern. */
static void print_suppressed(const struct leaks *l, const struct run *r) {
    const struct report_suppressions *const lists[] = {&r->in.suppressions,
                                                       &l->kept};
    uint64_t bytes = l->suppressed_bytes, blocks = l->suppressed_blocks;
    bool kept = l->kept_blocks != 0, own = blocks != l->kept_blocks;
    if (blocks == 0)
        return;
    fputs("suppressed: ", r->out);
    if (kept)
        print_blocks(r->out, l->kept_bytes, l->kept_blocks);
    fprintf(r->out, "%s%s", kept ? " that libraries keep" : "",
            kept && own ? "; " : "");
    if (own) {
        print_blocks(r->out, bytes - l->kept_bytes, blocks - l->kept_blocks);
        fputs(" by --suppressions", r->out);
    }
    fputs(r->show_suppressed ? "\n" : " (see --show-suppressed)\n", r->out);
    if (!r->show_suppressed)
        return;
    fprintf(r->out, "%10s %13s  suppressed by\n", "bytes", "blocks");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(lists); i++)
        for (size_t k = 0; k < lists[i]->count; k++) {
            const struct report_suppression *s = &lists[i]->at[k];
            TCM_ASSERT(s->blocks <= blocks && s->bytes <= bytes);
            print_pattern(r, s->bytes, s->blocks, s->pattern);
            bytes -= s->bytes;
            blocks -= s->blocks;
        }
    print_pattern(r, bytes, blocks, "(no frame of the program)");
}

static void put_suppressions(struct tool_json *j, const char *name,
                             const struct report_suppressions *list) {
    tool_json_begin_array(j, name);
    for (size_t i = 0; i < list->count; i++) {
        const struct report_suppression *s = &list->at[i];
        if (s->blocks == 0)
            continue;
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "pattern", s->pattern);
        tool_json_u64(j, "bytes", s->bytes);
        tool_json_u64(j, "blocks", s->blocks);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_places(struct tool_json *j, const struct leaks *l,
                       const struct leaks_row *row) {
    tool_json_begin_array(j, "places");
    for (size_t i = row->place; i < row->place + row->places; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "file", l->place[i].file);
        tool_json_u64(j, "line", l->place[i].line);
        tool_json_u64(j, "bytes", l->place[i].bytes);
        tool_json_u64(j, "blocks", l->place[i].blocks);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static bool write_json(const struct leaks *l, const struct run *r, bool found) {
    static struct tool_json j;
    if (!tool_json_open(&j, r->json))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "name", r->name);
    tool_json_string(&j, "mode", l->growing ? "growing" : "at_end");
    if (l->interpreter != NULL)
        tool_json_string(&j, "interpreter", l->interpreter);
    if (l->growing) {
        tool_json_string(&j, "period", period(l));
        tool_json_u64(&j, "ended_bytes", l->ended_bytes);
    }
    if (l->reused != NULL)
        tool_json_string(&j, "reused", l->reused);
    if (r->command.argv != NULL)
        tool_json_u64(&j, "command_status", (uint64_t)r->command.status);
    tool_json_bool(&j, "found", found);
    tool_json_bool(&j, "complete", l->status == TOOL_OK);
    tool_json_u64(&j, "wrong_frees", l->t.wrong_frees);
    tool_json_u64(&j, "bytes", l->bytes);
    tool_json_u64(&j, "blocks", l->blocks);
    tool_json_u64(&j, "suppressed_bytes", l->suppressed_bytes);
    tool_json_u64(&j, "suppressed_blocks", l->suppressed_blocks);
    tool_json_u64(&j, "library_bytes", l->kept_bytes);
    tool_json_u64(&j, "library_blocks", l->kept_blocks);
    put_suppressions(&j, "suppressed_by", &r->in.suppressions);
    put_suppressions(&j, "library_suppressed_by", &l->kept);
    tool_json_begin_array(&j, "functions");
    for (size_t i = 0; i < l->count; i++) {
        const struct leaks_row *row = &l->row[i];
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "function", row->function);
        if (row->places != 0) {
            tool_json_string(&j, "file", l->place[row->place].file);
            tool_json_u64(&j, "line", l->place[row->place].line);
        }
        tool_json_u64(&j, "bytes", row->bytes);
        tool_json_u64(&j, "blocks", row->blocks);
        put_places(&j, l, row);
        report_callers_json(&l->callers, row->row, "bytes", &j);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- Options -------------------------------------------------------------- */

/* Moves the command, which stands behind "--", from ARGV to C. Returns ARGC
   without it. */
static int split_command(struct command *c, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            c->argv = argv + i + 1;
            return i;
        }
    return argc;
}

static bool parse_options(struct run *r, struct tool_opts *o, int argc,
                          char **argv) {
    const struct tool_opt opts[] = {
        {.name = "growing",
         .help = "functions whose blocks become more, between marks or in the "
                 "second half of allocations; default for Python, Perl, Ruby, "
                 "node and Java",
         .flag = &r->growing},
        {.name = "at-end",
         .help = "blocks that are live at the end; default for other programs",
         .flag = &r->at_end},
        {.name = "max-bytes",
         .value = "SIZE",
         .help = "allow up to SIZE bytes, such as 64K or 1M (default 0, or any "
                 "with --max-blocks)",
         .bytes = &r->max_bytes,
         .given = &r->limits_bytes},
        {.name = "max-blocks",
         .value = "N",
         .help = "allow up to N blocks (default 0, or any with --max-bytes)",
         .count = &r->max_blocks,
         .given = &r->limits_blocks},
        REPORT_INPUT_OPTIONS(&r->in, false),
        {.name = "all",
         .rare = true,
         .help = "also blocks that libraries keep on purpose",
         .flag = &r->find.all},
        {.name = "show-suppressed",
         .rare = true,
         .help = "print which patterns left out how much",
         .flag = &r->show_suppressed},
        {.name = "top",
         .value = "N",
         .help = "at most N functions in the text (default 20)",
         .count = &r->top},
        {.name = "stacks",
         .rare = true,
         .value = "N",
         .help = "the N largest stacks of each function (default 1)",
         .count = &r->stacks,
         .most = STACKS_MAX},
        {.name = "json",
         .value = "FILE",
         .help = "write all functions as JSON",
         .text = &r->json},
        {.letter = 'o',
         .value = "FILE",
         .help = "record COMMAND to FILE, and keep it",
         .text = &r->command.file},
        {.name = "sites",
         .rare = true,
         .value = "MODE",
         .help = "call sites to record, as in malloc-trace record (default: "
                 "stack:64, for interpreters lang:64)",
         .text = &r->command.sites},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace leaks [OPTION]... TRACE...\n"
                 "malloc-trace leaks [OPTION]... -- COMMAND [ARGUMENT]...",
        .about = "Say which functions leak memory, in traces with call sites "
                 "of stacks, or in COMMAND, which is run and recorded; then on "
                 "standard error.",
        .opts = opts,
        .quiet = "no text",
        .notes = "Exit status: 0 no leaks, or within the limits; 1 system "
                 "error, or TRACE is no trace; 2 usage; 3 TRACE is cut, "
                 "damaged or known to lack events, and has no leaks; 4 leaks. "
                 "If COMMAND fails: its own status."};
    return tool_opts_parse(o, &command, argc, argv);
}

static int check_options(struct run *r, const struct tool_opts *o) {
    const struct command *c = &r->command;
    if (c->argv != NULL && o->operand_count != 0)
        return tool_usage_error("TRACE and COMMAND exclude each other");
    if (c->argv != NULL && (*c->argv == NULL || **c->argv == '\0'))
        return tool_usage_error("no command given");
    if (c->argv == NULL && o->operand_count == 0)
        return tool_usage_error("no trace and no command given");
    if (c->file != NULL && strchr(c->file, '%') != NULL)
        return tool_usage_error(
            "-o: \"%s\": one process is recorded, to a name "
            "without %%",
            c->file);
    if (c->argv == NULL && (c->file != NULL || c->sites != NULL))
        return tool_usage_error("-o and --sites are for a command");
    if (r->growing && r->at_end)
        return tool_usage_error("--growing and --at-end exclude each other");
    if (r->json != NULL &&
        tool_files_collide(&r->json, 1, (const char *const *)o->operand,
                           o->operand_count))
        return TOOL_USAGE;
    int status = report_input_take(&r->in, o);
    if (status == TOOL_OK && r->json != NULL && r->in.count == 1 &&
        tool_files_collide(&r->json, 1, r->in.traces, 1))
        status = TOOL_USAGE;
    for (int i = 0; status == TOOL_OK && i < o->operand_count; i++)
        if (trace_is_program(o->operand[i]))
            status = TOOL_FAILED;
    return status;
}

/* --- The run -------------------------------------------------------------- */

/* True if the leaks exceed the limits of the options. */
static bool exceeds(const struct leaks *l, const struct run *r) {
    bool any = !r->limits_bytes && !r->limits_blocks;
    return ((any || r->limits_bytes) && l->bytes > r->max_bytes) ||
           ((any || r->limits_blocks) && l->blocks > r->max_blocks);
}

/* Tells whether the recording was to have stacks: no more can be asked for. */
static bool wants_stacks(const struct leaks *l, const struct run *r) {
    const char *sites = r->command.sites;
    unsigned mode = l->t.sites.mode.mode;
    return mode == MTF_SITE_MODE_STACK || mode == MTF_SITE_MODE_LANG ||
           (sites != NULL && (strncmp(sites, "stack", 5) == 0 ||
                              strncmp(sites, "lang", 4) == 0));
}

/* Says why rows may be no leaks, or others may be missing. */
static void print_doubts(const struct leaks *l, const struct run *r) {
    if (l->t.sampled)
        fputs("call sites are of samples: figures are estimates, and leaks "
              "between the samples\nare not seen\n",
              r->out);
    if (l->count == 0)
        return;
    if (l->t.sites.mode.mode == MTF_SITE_MODE_CALLER)
        fprintf(r->out,
                "only callers are recorded: libraries' blocks are among "
                "these%s\n",
                wants_stacks(l, r) ? "" : "; use --sites=stack");
    if (!l->growing && l->t.is_part)
        fputs("the recording lacks the program's beginning or end: what it "
              "still uses is\namong these; --growing tells what becomes more\n",
              r->out);
    if (l->growing && l->ended_bytes > l->bytes / 2)
        fputs("most of it is freed when the program ends: what a job keeps "
              "until then looks\nthe same; set marks, or record a longer run\n",
              r->out);
    if (l->reused != NULL)
        fprintf(r->out,
                "floats, lists, tuples and dicts count for the line that made "
                "their block first, as\n%.200s: Python reuses freed ones "
                "without malloc\n",
                tool_text_shown(l->reused));
    if (l->t.drops)
        fputs("events were dropped: a block whose free is among them looks "
              "like a leak\n",
              r->out);
}

/* Finds and prints the leaks. Returns an exit status. */
static int report_leaks(struct run *r) {
    static struct leaks l;
    if (!leaks_find(&l, &r->find)) {
        leaks_fini(&l);
        return l.status;
    }
    bool found = exceeds(&l, r);
    if (l.t.sited == 0 && wants_stacks(&l, r))
        tool_warn("no call of %s has a call site, though stacks were to be "
                  "recorded",
                  r->name);
    else if (l.t.sited == 0)
        tool_warn("%s has no call sites: record with --sites=stack", r->name);
    if (!tool_is_quiet() && (r->command.argv != NULL || r->json == NULL ||
                             !tool_file_is_stdout(r->json))) {
        print_head(&l, r);
        print_rows(&l, r);
        print_suppressed(&l, r);
        print_doubts(&l, r);
        report_print_wrong_frees(r->out, &l.t);
        report_print_bare(r->out, &l.rows);
    }
    int status = found ? TOOL_BUDGET : l.status;
    if (r->json != NULL && !write_json(&l, r, found))
        status = TOOL_FAILED;
    leaks_fini(&l);
    return status;
}

static int run_command(struct run *r) {
    struct command *c = &r->command;
    const char *trace = c->trace;
    int status;
    bool recorded = record_command(c);
    if (recorded) {
        r->in.traces = &trace;
        r->in.count = 1;
        r->name = c->name[0] != '\0' ? c->name : c->argv[0];
        status = report_leaks(r);
    }
    tool_temp_folder_remove(&c->folder);
    return !recorded || c->status != 0 ? c->status : status;
}

int cmd_leaks(int argc, char **argv) {
    static struct run r = {.top = 20, .stacks = 1, .find = {.in = &r.in}};
    struct tool_opts o;
    char several[40];
    report_input_init(&r.in);
    if (!parse_options(&r, &o, split_command(&r.command, argc, argv), argv))
        return o.status;
    int status = check_options(&r, &o);
    r.out = r.command.argv != NULL ? stderr : stdout;
    r.columns = tool_text_columns(fileno(r.out));
    if (status == TOOL_OK) {
        r.find.mode = r.growing  ? LEAKS_GROWING
                      : r.at_end ? LEAKS_AT_END
                                 : LEAKS_AUTO;
        r.find.stacks = r.stacks;
        snprintf(several, sizeof(several), "%zu traces", (size_t)r.in.count);
        r.name = r.in.count > 1    ? several
                 : r.in.count != 0 ? r.in.traces[0]
                                   : NULL;
        status = r.command.argv != NULL ? run_command(&r) : report_leaks(&r);
    }
    report_input_fini(&r.in);
    return status;
}
