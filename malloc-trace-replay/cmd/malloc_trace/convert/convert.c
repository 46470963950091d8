/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace convert: makes processed traces of recordings and of traces of
 * other programs, and traces of other programs of either.
 */
#include "base/check.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/text.h"
#include "formats/format_export.h"
#include "open/trace_open.h"
#include "trace/ops.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct convert {
    const char *in_name, *out_name;
    const struct format_type *from; /* --from; NULL: by content, or processed */
    const struct format_type *to;   /* --to; NULL: processed */
    bool is_processed;              /* --from=processed */
    bool strict, stock, compress;
    struct trace trace;
    struct tool_input *in; /* of TRACE */
    struct tool_output *out;
};

/* --- The command line ----------------------------------------------------- */

static void print_formats(void) {
    const struct format_type *f;
    printf("%-14s  in   out  -         %s\n", "processed", "processed trace");
    for (size_t i = 0; (f = format_at(i)) != NULL; i++)
        printf("%-14s  %-3s  %-3s  %-8s  %s\n", f->name,
               f->line != NULL || f->next != NULL ? "in" : "-",
               f->put != NULL ? "out" : "-",
               f->has_addresses ? "annotate" : "-", f->title);
}

/* Finds the format NAME; NULL: processed. false: there is none that can be
   written (IS_OUTPUT) or read. */
static bool take_format(const char *name, bool is_output,
                        const struct format_type **f) {
    *f = NULL;
    if (strcmp(name, "processed") == 0)
        return true;
    *f = format_by_name(name);
    return *f != NULL && (is_output ? (*f)->put != NULL
                                    : (*f)->line != NULL || (*f)->next != NULL);
}

static bool take_from(void *ctx, const char *name) {
    struct convert *c = ctx;
    c->is_processed = strcmp(name, "processed") == 0;
    return take_format(name, false, &c->from);
}

static bool take_to(void *ctx, const char *name) {
    struct convert *c = ctx;
    return take_format(name, true, &c->to);
}

/* --- Converting ----------------------------------------------------------- */

static int fail(const char *name, const char *problem) {
    tool_error("%s: %s", name, problem);
    return TOOL_FAILED;
}

static int failed_output(struct convert *c) {
    return fail(tool_output_name(c->out),
                tool_file_error_text(tool_output_error(c->out)));
}

/* Copies the bytes of the processed trace. */
static int copy(struct convert *c) {
    static uint8_t buffer[1 << 16];
    size_t got;
    enum mtf_source_result r;
    while ((r = tool_input_read(c->in, buffer, sizeof(buffer), &got)) ==
           MTF_SOURCE_DATA)
        if (!tool_output_write(c->out, buffer, got))
            return failed_output(c);
    if (r != MTF_SOURCE_ERROR)
        return TOOL_OK;
    enum mtf_status status = tool_input_status(c->in);
    if (trace_problem(&c->trace) != NULL)
        tool_error("%s", trace_problem(&c->trace));
    else if (!format_import_refused(c->trace.import))
        (void)fail(tool_input_name(c->in),
                   status == MTF_SYSTEM
                       ? strerror(tool_input_source(c->in)->error)
                       : mtf_status_text(status));
    return TOOL_FAILED;
}

/* Writes "3 marks, 1 failed call", the records of LEFT. */
static void list_left(char *text, size_t size,
                      const uint64_t left[FORMAT_LEFT_KINDS]) {
    static const char *const names[FORMAT_LEFT_KINDS][2] = {
        [FORMAT_LEFT_FAILED] = {"failed call", "failed calls"},
        [FORMAT_LEFT_EMPTY] = {"block of 0 bytes", "blocks of 0 bytes"},
        [FORMAT_LEFT_SITES] = {"record of call sites", "records of call sites"},
        [FORMAT_LEFT_SAMPLES] = {"sample of the process's memory",
                                 "samples of the process's memory"},
        [FORMAT_LEFT_PRESENT] = {"large block's memory in use",
                                 "large blocks' memory in use"},
        [FORMAT_LEFT_NOTES] = {"mark or note", "marks and notes"},
        [FORMAT_LEFT_OTHER] = {"other record", "other records"},
    };
    struct tool_text t;
    size_t used = 0;
    *text = '\0';
    for (unsigned i = 0; i < FORMAT_LEFT_KINDS; i++)
        if (left[i] != 0)
            used += (size_t)snprintf(
                text + used, size - used, "%s%s %s", used == 0 ? "" : ", ",
                tool_text_count(&t, left[i]), names[i][left[i] != 1]);
    TCM_ASSERT(used < size);
}

/* Says in one line what was lost, if something was. */
static void tell_losses(const struct convert *c, const struct format_out *o) {
    struct tool_text t;
    char left[512];
    list_left(left, sizeof(left), o->left);
    if (*left == '\0' && o->changed == 0)
        return;
    fprintf(stderr, "%s: %s", tool_name(),
            o->left[FORMAT_LEFT_FAILED] + o->left[FORMAT_LEFT_EMPTY] == 0
                ? "no call is lost"
                : "calls are left out");
    if (*left != '\0')
        fprintf(stderr, "; %s has no place for %s", c->to->name, left);
    if (o->changed != 0)
        fprintf(stderr, "; the size of %s block%s is changed to what %s holds",
                tool_text_count(&t, o->changed), o->changed == 1 ? "" : "s",
                c->to->name);
    fputc('\n', stderr);
}

static int write_format(struct convert *c) {
    struct format_exported done;
    struct format_out *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return fail(c->in_name, "out of memory");
    o->to = c->out;
    o->stock = c->stock;
    o->caller_reports = c->trace.sorting != NULL;
    format_export(c->in, c->to, o, &done);
    int status = done.failed ? TOOL_FAILED : done.lost ? TOOL_DAMAGED : TOOL_OK;
    if (o->no_memory)
        status = fail(c->in_name, "out of memory");
    else if (trace_problem(&c->trace) != NULL)
        tool_error("%s", trace_problem(&c->trace));
    else if (tool_output_error(c->out) != 0)
        status = failed_output(c);
    else if (!tool_is_quiet() && !done.failed)
        tell_losses(c, o);
    free(o);
    return status;
}

static void print_summary(const struct convert *c) {
    const struct format_counts *n = format_import_counts(c->trace.import);
    struct tool_text t[3];
    uint64_t events =
        n->mallocs + n->memaligns + n->reallocs + n->frees + n->failed;
    fprintf(stderr, "%s event%s of %s thread%s, from %s\n",
            tool_text_count(&t[0], events), events == 1 ? "" : "s",
            tool_text_count(&t[1], n->threads), n->threads == 1 ? "" : "s",
            format_import_format(c->trace.import)->title);
    tool_text_print_row("mallocs", n->mallocs);
    tool_text_print_row("memaligns", n->memaligns);
    tool_text_print_row("reallocs", n->reallocs);
    tool_text_print_row("frees", n->frees);
    tool_text_print_row("failed", n->failed);
    tool_text_print_row("frees of NULL", n->null_frees);
    tool_text_print_row("late frees", n->late_frees);
    tool_text_print_row("unknown frees", n->unknown_frees);
    tool_text_print_row("unknown reallocs", n->unknown_reallocs);
    tool_text_print_row("live twice", n->used_twice);
    tool_text_print_row("unreadable lines", n->bad);
    tool_text_print_row("damaged places", n->breaks);
    fprintf(stderr,
            "  %-18s %s requested, at most %s live\n"
            "  %-18s %s block%s\n",
            "bytes", tool_text_bytes(&t[0], n->requested_bytes),
            tool_text_bytes(&t[1], n->peak_live_bytes), "live at the end",
            tool_text_count(&t[2], n->live_blocks),
            n->live_blocks == 1 ? "" : "s");
}

/* Returns why the input, neither raw nor foreign, cannot be converted; NULL: it
   can. */
static const char *input_problem(struct convert *c) {
    uint8_t first[8];
    size_t n = tool_input_peek(c->in, first);
    enum mtf_status status = tool_input_status(c->in);
    if (tool_ops_is_processed(c->in, c->in_name))
        return c->to == NULL ? "is a processed trace already" : NULL;
    if (n == 0 && status == MTF_SYSTEM)
        return strerror(tool_input_source(c->in)->error);
    const char *text = tool_input_foreign_text(c->in);
    if (n == 0 && status != MTF_OK)
        return mtf_status_text(status);
    return n == 0         ? MTF_EMPTY_TEXT
           : text != NULL ? text
                          : "byte 0: is not of a known format";
}

/* Opens IN and finds its format. */
static int open_input(struct convert *c) {
    const struct trace_open_options options = {.format = c->from,
                                               .processed = c->is_processed};
    if (!trace_open(&c->trace, c->in_name, &options))
        return fail(c->in_name == NULL ? "standard input" : c->in_name,
                    strerror(errno));
    c->in = c->trace.in;
    TCM_ASSERT(c->trace.import == NULL || c->trace.sorting == NULL);
    if (c->trace.import != NULL) {
        format_import_ahead(c->trace.import);
        if (c->strict)
            format_import_strictly(c->trace.import);
        return TOOL_OK;
    }
    const char *problem = c->trace.sorting != NULL ? NULL : input_problem(c);
    return problem == NULL ? TOOL_OK : fail(tool_input_name(c->in), problem);
}

/* Returns the title of the file NAME if it is a recording, which no tool here
   can make again; else NULL. Why: converters of some formats take OUT before
   IN, so that a user may swap the names. */
static const char *recording_at(const char *name) {
    struct stat st;
    const uint8_t *p;
    if (tool_file_is_stdout(name) || stat(name, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return NULL;
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return NULL;
    size_t n = tool_input_peek_bytes(in, FORMAT_SNIFF_BYTES, &p);
    bool is_raw = tool_input_is_raw(in);
    const struct format_type *format =
        format_by_content(p, n, n < FORMAT_SNIFF_BYTES);
    tool_input_close(in);
    return is_raw                                  ? "raw trace"
           : format != NULL && format->put == NULL ? format->title
                                                   : NULL;
}

/* Closes a raw trace and reports what it lacks. STATUS: the exit status so far;
   returns the new one. */
static int close_raw(struct convert *c, int status) {
    int lacks = trace_close(&c->trace, status == TOOL_FAILED);
    if (status == TOOL_OK)
        status = lacks;
    return status == TOOL_DAMAGED && c->strict ? TOOL_FAILED : status;
}

static int convert(struct convert *c) {
    int status = open_input(c);
    if (status != TOOL_OK)
        return status;
    const char *lost = recording_at(c->out_name);
    if (lost != NULL) {
        tool_error("%s: is a recording (%s), and is not replaced", c->out_name,
                   lost);
        return TOOL_FAILED;
    }
    c->out = tool_output_open(c->out_name, c->compress ? TOOL_OUTPUT_LZ4
                                                       : TOOL_OUTPUT_PLAIN);
    if (c->out == NULL)
        return fail(c->out_name == NULL ? "standard output" : c->out_name,
                    tool_file_error_text(errno));
    status = c->to == NULL ? copy(c) : write_format(c);
    if (c->trace.sorting != NULL)
        status = close_raw(c, status);
    if (status == TOOL_FAILED) {
        tool_output_drop(c->out);
        return status;
    }
    if (!tool_output_close(c->out))
        return fail(c->out_name == NULL ? "standard output" : c->out_name,
                    tool_file_error_text(errno));
    if (c->trace.import != NULL) {
        if (!tool_is_quiet())
            print_summary(c);
        if (format_import_lost(c->trace.import))
            status = TOOL_DAMAGED;
    }
    return status;
}

/* Parses the options into C and *LIST. false: the status is O's. */
static bool parse_options(struct convert *c, bool *list, struct tool_opts *o,
                          int argc, char **argv) {
    const struct tool_opt opts[] = {
        {.name = "from",
         .value = "FORMAT",
         .help = "the format of IN (default: found by its content)",
         .take = take_from,
         .ctx = c,
         .expects = "a format that can be read (--list prints them)"},
        {.name = "to",
         .value = "FORMAT",
         .help = "the format of OUT (default: processed, for replay)",
         .take = take_to,
         .ctx = c,
         .expects =
             "a format that can be written (--list prints them; profiles "
             "such as pprof and folded are written by report --to)"},
        {.letter = 'o',
         .value = "FILE",
         .help = "write to FILE, as to OUT",
         .text = &c->out_name},
        {.name = "list",
         .help = "print the formats: which can be read, be written, and be "
                 "read by malloc-trace annotate",
         .flag = list},
        {.name = "strict",
         .help = "stop at the first thing that cannot be kept",
         .flag = &c->strict},
        {.name = "stock",
         .help = "write only what the format's own tools can read",
         .flag = &c->stock},
        {.letter = 'z',
         .name = "compress",
         .help = "write LZ4 frames",
         .flag = &c->compress},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace convert [OPTION]... [IN [OUT]]",
        .about = "Convert a recording or a trace of another program to a "
                 "processed trace, or to a format of another program. IN (a "
                 "file, or - for standard input) may be plain, LZ4, gzip, zip, "
                 "zstd or bzip2. OUT (default: standard output) must not be a "
                 "recording.",
        .opts = opts,
        .quiet = "no summary",
        .notes = "Exit status: 0; 1 IN could not be read, OUT could not be "
                 "written, or --strict found a fault; 2 wrong command line; 3 "
                 "part of IN is lost: it is cut or damaged, has lines that "
                 "cannot be read, frees of unknown blocks, or addresses that "
                 "are allocated twice."};
    return tool_opts_parse(o, &command, argc, argv);
}

int cmd_convert(int argc, char **argv) {
    static struct convert c;
    bool list = false;
    struct tool_opts o;
    if (!parse_options(&c, &list, &o, argc, argv))
        return o.status;
    if (list) {
        print_formats();
        return TOOL_OK;
    }
    if (c.compress && !mtf_compress_available())
        return tool_usage_error("this build has no LZ4");
    if (o.operand_count == 0 && isatty(STDIN_FILENO) == 1)
        return tool_usage_error(
            "no file given, and standard input is a terminal");
    if (o.operand_count > 2)
        return tool_usage_error("more than two files given");
    c.in_name = o.operand_count == 0 ? "-" : o.operand[0];
    if (o.operand_count == 2 && c.out_name != NULL)
        return tool_usage_error("-o and OUT exclude each other");
    if (o.operand_count == 2)
        c.out_name = o.operand[1];
    const char *in = strcmp(c.in_name, "-") == 0 ? NULL : c.in_name;
    if (tool_files_collide(&c.out_name, 1, &c.in_name, 1))
        return TOOL_USAGE;
    c.in_name = in;
    if (c.to == NULL && tool_file_is_stdout(c.out_name) &&
        isatty(STDOUT_FILENO) == 1)
        return tool_usage_error(
            "standard output is a terminal: a trace is not written to it");
    tool_stop_catch();
    int status = convert(&c);
    (void)trace_close(&c.trace, true);
    return status;
}
