/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace report: places of a program that allocate, how much, for how
 * long, and what is still live.
 */
#include "cmd/malloc_trace/report/report_errors.h"
#include "cmd/malloc_trace/report/report_export.h"
#include "cmd/malloc_trace/report/report_page.h"
#include "cmd/malloc_trace/report/report_print.h"
#include "cmd/malloc_trace/report/report_serve.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/text.h"
#include "open/recordings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const by_names[] = {
    [REPORT_BY_SITE] = "site",     [REPORT_BY_FUNCTION] = "function",
    [REPORT_BY_LINE] = "line",     [REPORT_BY_FILE] = "file",
    [REPORT_BY_MODULE] = "module", [REPORT_BY_LANGUAGE] = "lang",
    [REPORT_BY_STACK] = "stack",   [REPORT_BY_SIZE] = "size",
    [REPORT_BY_THREAD] = "thread", NULL,
};

static const char *const sort_names[] = {
    [REPORT_SORT_BYTES] = "bytes",
    [REPORT_SORT_CALLS] = "calls",
    [REPORT_SORT_LIVE] = "live",
    [REPORT_SORT_PEAK] = "peak",
    [REPORT_SORT_AGE] = "age",
    [REPORT_SORT_TEMPORARY] = "temporary",
    NULL,
};

/* Labels of frames in the tree of calls. */
static const enum report_stacks_label frame_labels[] = {
    [REPORT_BY_SITE] = REPORT_STACKS_SITE,
    [REPORT_BY_FUNCTION] = REPORT_STACKS_FUNCTION,
    [REPORT_BY_LINE] = REPORT_STACKS_LINE,
    [REPORT_BY_FILE] = REPORT_STACKS_FILE,
    [REPORT_BY_MODULE] = REPORT_STACKS_MODULE,
    [REPORT_BY_LANGUAGE] = REPORT_STACKS_LANGUAGE,
};

/* Formats of --to; profiles, which have stacks, are the last ones. */
enum to_format {
    TO_CSV,
    TO_JSON,
    TO_HTML,
    TO_OBJECTS,
    TO_FOLDED,
    TO_PPROF,
    TO_SPEEDSCOPE,
    TO_DHAT,
    TO_HEAP_PROFILE,
    FORMATS
};

static const char *const format_names[FORMATS + 1] = {
    [TO_CSV] = "csv",
    [TO_JSON] = "json",
    [TO_HTML] = "html",
    [TO_OBJECTS] = "objects",
    [TO_FOLDED] = "folded",
    [TO_PPROF] = "pprof",
    [TO_SPEEDSCOPE] = "speedscope",
    [TO_DHAT] = "dhat",
    [TO_HEAP_PROFILE] = "heap-profile",
};

/* Stacks below a row: most, and the default of the text. */
#define STACKS_OF_ROW_MAX 1000u
#define STACKS_OF_ROW     2u

struct report {
    struct report_input in;
    const char *name; /* of the first trace */
    unsigned by;      /* enum report_by */
    unsigned sort;    /* enum report_sort */
    bool columns, has_match, has_top, has_by, has_stacks, tree, errors;
    uint64_t top, stacks;
    double share; /* smallest part of all of a branch that the tree shows */
    regex_t match;
    struct report_filter filter;
    struct report_tally_options tally;
    char when[160];
    const char *diff, *serve;
    const char *diff_named; /* as DIFF was given */
    char diff_room[PATH_MAX];
    FILE *page; /* of --serve, in the reader */
    /* values of --to and of -o */
    const char *format[FORMATS], *file[FORMATS];
    struct tool_opt_list formats, files;
    const char *out[FORMATS]; /* file by format; NULL: not wanted */
    bool anyone, no_token;
    struct tool_json json_out;
    int status;
};

/* --- Options -------------------------------------------------------------- */

static bool take_live_at(void *ctx, const char *value) {
    struct report *r = ctx;
    struct report_tally_options *o = &r->tally;
    if (strcmp(value, "end") == 0) {
        o->moment = REPORT_AT_END;
        return true;
    }
    if (strcmp(value, "peak") == 0) {
        o->moment = REPORT_AT_PEAK;
        snprintf(r->when, sizeof(r->when), "at the peak");
        return true;
    }
    o->moment =
        tool_parse_time(value, &o->moment_ns) ? REPORT_AT_TIME : REPORT_AT_MARK;
    o->mark = value;
    snprintf(r->when, sizeof(r->when), "at %.140s", value);
    return true;
}

static bool take_filter(void *ctx, const char *value) {
    struct report *r = ctx;
    if (r->has_match)
        regfree(&r->match);
    r->has_match =
        report_input_compile("--filter", value, &r->match) == TOOL_OK;
    r->filter.match = &r->match;
    return r->has_match;
}

/* Reads the options. False: exit with the status in O. */
static bool parse_options(struct report *r, struct tool_opts *o, int argc,
                          char **argv) {
    double share = 1;
    const struct tool_opt opts[] = {
        {.name = "by",
         .value = "WHAT",
         .help = "a row for each site (default), function, line, file, "
                 "module, language (lang), stack, size or thread",
         .word = &r->by,
         .words = by_names,
         .given = &r->has_by},
        {.name = "sort",
         .rare = true,
         .value = "WHAT",
         .help = "order by bytes (default), calls, live, peak, age or "
                 "temporary, largest first",
         .word = &r->sort,
         .words = sort_names},
        {.name = "top",
         .value = "N",
         .help = "at most N rows (default of the text: 20)",
         .count = &r->top,
         .given = &r->has_top},
        {.name = "filter",
         .value = "REGEX",
         .help = "only what has a match in its row or anywhere in its whole "
                 "stack",
         .take = take_filter,
         .ctx = r},
        {.name = "live-at",
         .rare = true,
         .value = "WHEN",
         .help = "moment of live blocks: a time since the start, peak, end "
                 "(default), or else the text of a mark",
         .take = take_live_at,
         .ctx = r},
        {.name = "diff",
         .value = "OTHER",
         .help = "changes since the trace OTHER",
         .text = &r->diff},
        {.name = "stacks",
         .value = "N",
         .help = "the N largest stacks below each row (default of the text: "
                 "2)",
         .count = &r->stacks,
         .most = STACKS_OF_ROW_MAX,
         .given = &r->has_stacks},
        {.name = "tree",
         .help = "a tree of calls in place of rows: what each frame and all "
                 "that it called allocated, outermost frames first",
         .flag = &r->tree},
        {.name = "share",
         .rare = true,
         .value = "PERCENT",
         .help = "leave out branches of the tree with less (default 1)",
         .number = &share,
         .high = 100},
        {.name = "threads",
         .rare = true,
         .help = "the largest threads below each row",
         .flag = &r->tally.threads},
        {.name = "freed",
         .rare = true,
         .help = "by sites that freed blocks, not by those that allocated",
         .flag = &r->tally.freed},
        {.name = "errors",
         .rare = true,
         .help = "wrong frees in TRACE, a raw trace, and nothing else",
         .flag = &r->errors},
        {.name = "columns",
         .rare = true,
         .help = "bytes, calls and place, for sort(1)",
         .flag = &r->columns},
        {.name = "to",
         .value = "FORMAT",
         .help = "write csv, json, html (a page: memory over time, flame "
                 "graph, table), objects (CSV of all blocks), or a profile: "
                 "folded (flame graphs), pprof, speedscope, dhat, "
                 "heap-profile (gperftools)",
         .list = &r->formats,
         .words = format_names},
        {.letter = 'o',
         .value = "FILE",
         .help = "file of --to (default: standard output, in place of the "
                 "text); --to and -o may be repeated, in the same order",
         .list = &r->files},
        {.name = "serve",
         .value = "WHERE",
         .help = "serve that page at ADDRESS:PORT or at a UNIX socket, and "
                 "follow the recording; TRACE may be a process id",
         .text = &r->serve},
        {.name = "anyone",
         .rare = true,
         .help = "let other machines reach the page",
         .flag = &r->anyone},
        {.name = "no-token",
         .rare = true,
         .help = "let all who reach the page read it",
         .flag = &r->no_token},
        REPORT_INPUT_OPTIONS(&r->in, true),
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace report [OPTION]... TRACE...\n"
                 "malloc-trace report [OPTION]... --to=FORMAT [-o FILE] "
                 "TRACE...",
        .about = "Say who allocates: sums over the allocations of TRACE, raw "
                 "or processed, by call site (recorded with "
                 "TCMALLOC_TRACE_SITES). Several traces are summed up.",
        .opts = opts,
        .quiet = "no text",
        .notes = "Exit status: 0 success; 1 system error, or TRACE is no "
                 "trace; 2 usage; 3 TRACE is cut, damaged or known to lack "
                 "events; 4 --errors found wrong frees."};
    bool good = tool_opts_parse(o, &command, argc, argv);
    r->share = share / 100;
    return good;
}

/* Gives each format of --to the file of the -o in the same place. Returns an
   enum tool_status. */
static int pair_files(struct report *r) {
    size_t formats = r->formats.count, files = r->files.count;
    if (formats == 0 && files != 0)
        return tool_usage_error("-o: \"%s\": no --to=FORMAT is given",
                                r->file[0]);
    if (formats != files && (formats != 1 || files != 0))
        return tool_usage_error("%zu times --to and %zu times -o: several "
                                "formats need a file each",
                                formats, files);
    for (size_t i = 0; i < formats; i++) {
        size_t to = 0;
        while (strcmp(format_names[to], r->format[i]) != 0)
            to++;
        if (r->out[to] != NULL)
            return tool_usage_error("--to: \"%s\" is given twice",
                                    format_names[to]);
        r->out[to] = files == 0 ? "-" : r->file[i];
    }
    return TOOL_OK;
}

/* True if a profile is wanted. */
static bool needs_sites(const struct report *r) {
    for (size_t i = TO_FOLDED; i < FORMATS; i++)
        if (r->out[i] != NULL)
            return true;
    return false;
}

static bool is_stdout(const char *out) {
    return out != NULL && tool_file_is_stdout(out);
}

/* Checks that all files read and written differ, and that standard output is
   used once. Returns an enum tool_status. */
static int check_outs(struct report *r) {
    const char *ins[TOOL_SITE_TRACES + 3];
    int in_count = (int)r->in.count;
    unsigned to_stdout = r->columns;
    memcpy(ins, r->in.traces, r->in.count * sizeof(*ins));
    if (r->in.named != NULL)
        ins[in_count++] = r->in.named;
    if (r->diff != NULL) {
        ins[in_count++] = r->diff;
        ins[in_count++] = r->diff_named;
    }
    for (size_t i = 0; i < FORMATS; i++) {
        const char *out = r->out[i];
        to_stdout += is_stdout(out);
        for (size_t k = i + 1; out != NULL && k < FORMATS; k++)
            if (r->out[k] != NULL &&
                tool_files_collide((const char *const[]){out, r->out[k]}, 2,
                                   ins, in_count))
                return TOOL_USAGE;
        if (out != NULL && tool_files_collide(&out, 1, ins, in_count))
            return TOOL_USAGE;
    }
    if (to_stdout > 1)
        return tool_usage_error("standard output is used twice");
    if (is_stdout(r->out[TO_PPROF]) && isatty(STDOUT_FILENO) == 1)
        return tool_usage_error(
            "standard output is a terminal: --to=pprof is not written to it");
    return TOOL_OK;
}

static int check_options(struct report *r) {
    if (r->tree && !r->has_by)
        r->by = REPORT_BY_FUNCTION;
    bool sites = report_rows_tally_by(r->by) == REPORT_TALLY_BY_SITE;
    if (!sites && needs_sites(r))
        return tool_usage_error("--by=%s has no stacks", by_names[r->by]);
    if (!sites && r->tally.freed)
        return tool_usage_error("--by=%s excludes --freed", by_names[r->by]);
    if (!sites && r->tally.threads)
        return tool_usage_error("--by=%s excludes --threads", by_names[r->by]);
    if (r->tree && (!sites || r->by == REPORT_BY_STACK))
        return tool_usage_error("--by=%s excludes --tree", by_names[r->by]);
    if (r->tree && (r->columns || r->out[TO_CSV] != NULL))
        return tool_usage_error("--tree is for the text and --to=json");
    if (r->sort == REPORT_SORT_AGE && (r->tree || r->out[TO_FOLDED] != NULL))
        return tool_usage_error("--sort=age has no sums for %s",
                                r->tree ? "--tree" : "--to=folded");
    if (r->diff != NULL && r->out[TO_HTML] != NULL)
        return tool_usage_error("--diff and --to=html exclude each other");
    if (r->diff != NULL && needs_sites(r))
        return tool_usage_error("--diff and profiles exclude each other");
    if (r->diff != NULL && r->tally.threads)
        return tool_usage_error("--diff and --threads exclude each other");
    for (size_t i = 0; i < r->in.count; i++)
        if (r->out[TO_OBJECTS] != NULL && strcmp(r->in.traces[i], "-") == 0)
            return tool_usage_error(
                "--to=objects reads TRACE twice: name a file");
    if ((r->anyone || r->no_token) && r->serve == NULL)
        return tool_usage_error("--anyone and --no-token are for --serve");
    return check_outs(r);
}

/* True if a file goes to standard output, in place of the text. */
static bool stdout_is_taken(const struct report *r) {
    for (size_t i = 0; i < FORMATS; i++)
        if (is_stdout(r->out[i]))
            return true;
    return false;
}

/* --- The report ----------------------------------------------------------- */

static void note_status(struct report *r, int status) {
    if (r->status == TOOL_OK)
        r->status = status;
}

/* False, with a message: --freed needs sites of frees, and T has none. */
static bool has_wanted_sites(struct report *r, const struct report_tallies *t,
                             const char *name) {
    if (!r->tally.freed || t->sites.mode.free_sites)
        return true;
    tool_error("%s has no call sites of frees: record with "
               "TCMALLOC_TRACE_FREE_SITES=1",
               name);
    r->status = TOOL_FAILED;
    return false;
}

/* Adds the tallies of T to the rows. */
static bool add_rows(struct report *r, struct report_rows *rows,
                     const struct report_tallies *t, struct symbol_names *names,
                     bool old) {
    return report_rows_add(rows, t, names, r->by, &r->filter, old) ||
           tool_out_of_memory();
}

/* Adds the tallies that have rows to the tree. */
static bool add_tree(struct report *r, struct report_stacks *tree,
                     const struct report_rows *rows,
                     const struct report_tallies *t, struct symbol_names *names,
                     bool old) {
    return !r->tree ||
           report_stacks_add(tree, t, names, frame_labels[r->by],
                             &(struct report_stacks_part){
                                 .keep = rows->of_tally, .old = old}) ||
           tool_out_of_memory();
}

/* Adds the earlier trace of --diff. */
static bool compare(struct report *r, struct report_rows *rows,
                    struct report_stacks *tree) {
    struct report_tallies t = {.options = r->tally};
    struct symbol_names *names = NULL;
    bool good = report_tally_read(&t, r->diff);
    note_status(r, t.status);
    good = good && has_wanted_sites(r, &t, r->diff);
    if (good)
        good = (names = symbol_names_new(&t.sites, r->in.modules)) != NULL
                   ? add_rows(r, rows, &t, names, true) &&
                         add_tree(r, tree, rows, &t, names, true)
                   : tool_out_of_memory();
    symbol_names_free(names);
    report_tally_fini(&t);
    return good;
}

static bool write_stacks(struct report *r, const struct report_tallies *t,
                         const struct report_stacks *functions,
                         const struct report_stacks *places) {
    return (r->out[TO_FOLDED] == NULL ||
            report_export_folded(functions, r->sort, r->out[TO_FOLDED])) &&
           (r->out[TO_SPEEDSCOPE] == NULL ||
            report_export_speedscope(functions, r->name, r->sort,
                                     r->out[TO_SPEEDSCOPE])) &&
           (r->out[TO_DHAT] == NULL ||
            report_export_dhat(places, t, r->name, r->out[TO_DHAT]));
}

static bool write_html(struct report *r, const struct report_tallies *t,
                       struct symbol_names *names, struct report_rows *rows,
                       const struct report_stacks *functions) {
    bool sites = report_rows_tally_by(r->by) == REPORT_TALLY_BY_SITE;
    struct report_page h = {
        .name = r->name,
        .by = by_names[r->by],
        .when =
            t->running && r->tally.moment == REPORT_AT_END ? "now" : r->when,
        .rows_by = r->by,
        .rows = rows,
        .t = t,
        .names = names,
        .skip = &r->in.skip,
        .stacks = sites ? functions : NULL,
        .history = t->options.history,
        .is_live = r->page != NULL};
    return r->page != NULL ? report_page_write_stream(&h, r->page, "page.js")
                           : report_page_write(&h, r->out[TO_HTML]);
}

static bool wants_page(const struct report *r) {
    return r->out[TO_HTML] != NULL || r->page != NULL;
}

/* Writes the page: its plots have all tallies, its table the rows. */
static bool write_page(struct report *r, const struct report_tallies *t,
                       struct symbol_names *names, struct report_rows *rows) {
    struct report_stacks functions = {0};
    bool good =
        report_rows_tally_by(r->by) != REPORT_TALLY_BY_SITE ||
        report_stacks_make(&functions, t, names, REPORT_STACKS_FUNCTION) ||
        tool_out_of_memory();
    good = good && write_html(r, t, names, rows, &functions);
    report_stacks_fini(&functions);
    return good;
}

/* Makes KEPT a copy of T with only the tallies that have rows; returns their
   array, which the caller frees. NULL: out of memory. */
static struct report_tally *only_of_rows(struct report_tallies *kept,
                                         const struct report_tallies *t,
                                         const struct report_rows *rows) {
    *kept = *t;
    kept->tally = calloc(t->count + 1, sizeof(*kept->tally));
    kept->count = 0;
    for (size_t i = 0; kept->tally != NULL && i < t->count; i++)
        if (rows->of_tally[i] != 0)
            kept->tally[kept->count++] = t->tally[i];
    return kept->tally;
}

static bool write_exports(struct report *r, struct report_tallies *t,
                          struct symbol_names *names) {
    struct report_stacks functions = {0}, places = {0};
    bool sites = report_rows_tally_by(r->by) == REPORT_TALLY_BY_SITE;
    bool good = true;
    if (sites && (r->out[TO_FOLDED] != NULL || r->out[TO_SPEEDSCOPE] != NULL))
        good = report_stacks_make(&functions, t, names, REPORT_STACKS_FUNCTION);
    if (good && r->out[TO_DHAT] != NULL)
        good = report_stacks_make(&places, t, names, REPORT_STACKS_PLACE);
    good =
        good ? write_stacks(r, t, &functions, &places) : tool_out_of_memory();
    report_stacks_fini(&functions);
    report_stacks_fini(&places);
    return good &&
           (r->out[TO_PPROF] == NULL ||
            report_export_pprof(t, names, r->out[TO_PPROF])) &&
           (r->out[TO_HEAP_PROFILE] == NULL ||
            report_export_heap_profile(t, r->out[TO_HEAP_PROFILE]));
}

/* Prints the table or the tree. */
static bool write_text(const struct report *r, const struct report_tallies *t,
                       const struct report_rows *rows,
                       const struct report_stacks *tree,
                       struct report_print_options *o) {
    bool good = true;
    report_print_head(rows, t, o);
    if (r->tree) {
        good = report_tree_print(tree, o, r->share) || tool_out_of_memory();
    } else {
        o->top = r->has_top ? r->top : 20;
        report_print_rows(rows, o);
    }
    report_print_notes(rows, t);
    return good;
}

static bool write_json(struct report *r, const struct report_tallies *t,
                       const struct report_rows *rows,
                       const struct report_stacks *tree,
                       struct report_print_options o) {
    struct tool_json *j = &r->json_out;
    if (!r->has_stacks)
        o.callers = NULL;
    tool_json_begin_object(j, NULL);
    report_print_json(rows, t, &o, j);
    bool good = !r->tree || report_tree_json(tree, &o, r->share, j) ||
                tool_out_of_memory();
    tool_json_end_object(j);
    return good;
}

/* Finds the largest stacks of rows: for the text by default, for JSON with
   --stacks. */
static bool find_callers(const struct report *r, const struct report_tallies *t,
                         struct symbol_names *names,
                         const struct report_rows *rows,
                         struct report_callers *callers) {
    bool text = !r->columns && !tool_is_quiet() && !stdout_is_taken(r);
    size_t per_row = r->has_stacks ? r->stacks : text ? STACKS_OF_ROW : 0;
    size_t shown = r->has_top ? r->top : r->has_stacks ? rows->count : 20;
    if (report_rows_tally_by(r->by) != REPORT_TALLY_BY_SITE ||
        r->by == REPORT_BY_STACK || r->diff != NULL || per_row == 0)
        return true;
    return report_callers_make(callers, rows, t, names, &r->in.skip, r->sort,
                               shown < rows->count ? shown : rows->count,
                               per_row) ||
           tool_out_of_memory();
}

/* KEPT: the tallies of T that have rows, for exports. */
static bool write_all(struct report *r, struct report_tallies *t,
                      struct report_tallies *kept, struct symbol_names *names,
                      struct report_rows *rows, struct report_stacks *tree) {
    struct report_callers callers = {0};
    struct report_print_options o = {
        .name = r->name,
        .by = by_names[r->by],
        .when = r->when,
        .top = r->has_top ? r->top : SIZE_MAX,
        .columns = tool_text_columns(STDOUT_FILENO),
        .sort = r->sort,
        .diff = r->diff != NULL,
        .filtered = !t->sampled && r->has_match,
    };
    bool good = find_callers(r, t, names, rows, &callers);
    if (callers.top != NULL)
        o.callers = &callers;
    good = good &&
           (r->out[TO_CSV] == NULL ||
            report_print_csv(rows, t, &o, r->out[TO_CSV])) &&
           (r->out[TO_JSON] == NULL || write_json(r, t, rows, tree, o)) &&
           write_exports(r, kept, names) &&
           (!wants_page(r) || write_page(r, t, names, rows));
    if (good && r->columns)
        report_print_columns(rows, &o);
    else if (good && !tool_is_quiet() && !stdout_is_taken(r) && r->page == NULL)
        good = write_text(r, t, rows, tree, &o);
    report_callers_fini(&callers);
    return good &&
           (r->out[TO_OBJECTS] == NULL ||
            report_export_objects(r->out[TO_OBJECTS], &r->in, t, names));
}

static bool report_tallies(struct report *r, struct report_tallies *t) {
    struct report_tallies kept = {0};
    struct report_rows rows = {0};
    struct report_stacks tree = {0};
    struct symbol_names *names = NULL;
    bool good = has_wanted_sites(r, t, r->name);
    /* A recording that runs may have saved none yet; its page says so. */
    if (good && t->sited == 0 && !t->running &&
        report_rows_tally_by(r->by) == REPORT_TALLY_BY_SITE)
        tool_warn("%s has no call sites: record with "
                  "TCMALLOC_TRACE_SITES=stack",
                  r->name);
    if (good)
        good = (names = symbol_names_new(&t->sites, r->in.modules)) != NULL
                   ? add_rows(r, &rows, t, names, false) &&
                         add_tree(r, &tree, &rows, t, names, false)
                   : tool_out_of_memory();
    /* Now, as rows of the earlier trace replace those of T. */
    if (good && only_of_rows(&kept, t, &rows) == NULL)
        good = tool_out_of_memory();
    if (good && r->diff != NULL)
        good = compare(r, &rows, &tree);
    if (good) {
        report_rows_sort(&rows, r->sort);
        good = write_all(r, t, &kept, names, &rows, &tree);
    }
    free(kept.tally);
    report_stacks_fini(&tree);
    report_rows_fini(&rows);
    symbol_names_free(names);
    return good;
}

static bool make_report(struct report *r) {
    struct report_tallies t = {.options = r->tally};
    if (wants_page(r) && (t.options.history = report_history_new()) == NULL)
        return tool_out_of_memory();
    bool good = report_input_read(&r->in, &t);
    note_status(r, t.status);
    good = good && report_tallies(r, &t);
    report_history_free(t.options.history);
    report_tally_fini(&t);
    return good;
}

/* --- Serving -------------------------------------------------------------- */

/* Writes the page of T to OUT, in a child of the server. */
static int make_page(void *ctx, struct report_tallies *t, FILE *out) {
    struct report *r = ctx;
    r->page = out;
    note_status(r, t->status);
    return report_tallies(r, t) ? r->status : TOOL_FAILED;
}

#define SPOOL ".spool"

/* The path in a line of /proc/PID/maps, if it is a spool's; or NULL. */
static char *spool_in(char *line) {
    char *path = strchr(line, '/');
    size_t end = sizeof(SPOOL) - 1, n;
    if (path == NULL)
        return NULL;
    n = strcspn(path, "\n");
    path[n] = '\0';
    return n > end && strcmp(path + n - end, SPOOL) == 0 ? path : NULL;
}

/* The path of the trace that process PID is recorded to, from malloc. NULL:
   none can be found, and *PROBLEM says why. The process has mapped the spool of
   the trace, whose name is that of the trace and ".spool". */
static char *find_trace(int pid, const char **problem) {
    char name[40], *line = NULL, *found = NULL;
    size_t room = 0;
    snprintf(name, sizeof(name), "/proc/%d/maps", pid);
    FILE *f = fopen(name, "re");
    *problem = f == NULL ? strerror(errno) : "not being recorded";
    while (f != NULL && found == NULL && getline(&line, &room, f) >= 0) {
        char *path = spool_in(line);
        if (path != NULL) {
            path[strlen(path) - (sizeof(SPOOL) - 1)] = '\0';
            found = strdup(path);
        }
    }
    free(line);
    if (f != NULL)
        fclose(f);
    return found;
}

/* True if NAME is a number, *PID, and no file. */
static bool is_process(const char *name, uint64_t *pid) {
    return access(name, F_OK) != 0 && tool_parse_u64(name, INT32_MAX, pid) &&
           *pid != 0;
}

static int serve(struct report *r) {
    struct report_serve s = {.where = r->serve,
                             .anyone = r->anyone,
                             .no_token = r->no_token,
                             .options = r->tally,
                             .make = make_page,
                             .ctx = r};
    const char *problem;
    char *found = NULL;
    uint64_t pid;
    if (r->columns || r->diff != NULL)
        return tool_usage_error("--serve excludes --columns and --diff");
    for (size_t i = 0; i < FORMATS; i++)
        if (r->out[i] != NULL)
            return tool_usage_error("--serve writes no files");
    if (r->in.count != 1 || strcmp(r->name, "-") == 0)
        return tool_usage_error("--serve reads TRACE several times: name one "
                                "file or process");
    if (is_process(r->name, &pid)) {
        found = find_trace((int)pid, &problem);
        if (found == NULL) {
            tool_error("process %s: %s", r->name, problem);
            return TOOL_FAILED;
        }
        r->name = found;
        r->in.traces = (const char *const *)&r->name;
    }
    s.trace = r->name;
    s.options.history = report_history_new();
    if (s.options.history == NULL)
        tool_out_of_memory();
    int status = s.options.history != NULL ? report_serve_run(&s) : TOOL_FAILED;
    report_history_free(s.options.history);
    free(found);
    return status;
}

static int find_errors(const struct report *r) {
    struct report_errors_options o = {.in = &r->in,
                                      .top = r->has_top ? (size_t)r->top : 20,
                                      .text = !tool_is_quiet() &&
                                              !stdout_is_taken(r),
                                      .json = r->out[TO_JSON]};
    bool more = r->diff != NULL || r->serve != NULL || r->columns || r->tree;
    for (size_t i = 0; i < FORMATS; i++)
        more |= r->out[i] != NULL && i != TO_JSON;
    if (r->out[TO_JSON] != NULL && r->in.named != NULL &&
        tool_files_collide(&r->out[TO_JSON], 1, &r->in.named, 1))
        return TOOL_USAGE;
    return more ? tool_usage_error("--errors is for the text and --to=json")
                : report_errors(&o);
}

static int run(struct report *r) {
    if (r->errors)
        return find_errors(r);
    int status = check_options(r);
    if (status != TOOL_OK)
        return status;
    r->tally.by = report_rows_tally_by(r->by);
    if (r->serve != NULL)
        return serve(r);
    if (r->out[TO_JSON] != NULL &&
        !tool_json_open(&r->json_out, r->out[TO_JSON]))
        return TOOL_FAILED;
    bool good = make_report(r);
    if (r->out[TO_JSON] != NULL) {
        if (!good)
            tool_json_drop(&r->json_out);
        else
            good = tool_json_close(&r->json_out);
    }
    return good ? r->status : TOOL_FAILED;
}

/* Runs with the operands of O. Returns an exit status. */
static int run_operands(struct report *r, const struct tool_opts *o) {
    if (o->operand_count == 0)
        return tool_usage_error("no trace given");
    int status = report_input_take(&r->in, o);
    if (status == TOOL_OK)
        status = pair_files(r);
    if (status != TOOL_OK)
        return status;
    r->name = r->in.traces[0];
    r->diff_named = r->diff;
    if (r->diff != NULL)
        r->diff = open_recordings_choose(r->diff, r->diff_room);
    return run(r);
}

int cmd_report(int argc, char **argv) {
    static struct report r = {
        .when = "at the end",
        .filter = {.suppressed = &r.in.suppressions, .skip = &r.in.skip}};
    struct tool_opts o;
    report_input_init(&r.in);
    r.formats = (struct tool_opt_list){.at = r.format, .room = FORMATS};
    r.files = (struct tool_opt_list){.at = r.file, .room = FORMATS};
    int status =
        parse_options(&r, &o, argc, argv) ? run_operands(&r, &o) : o.status;
    report_input_fini(&r.in);
    if (r.has_match)
        regfree(&r.match);
    return status;
}
