/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace convert: traces of other programs into processed traces, and
 * processed traces into theirs.
 */
#include "cmd/malloc_trace/malloc_trace.h"
#include "common/files.h"
#include "common/main.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/text.h"
#include "formats/format_export.h"
#include "formats/format_open.h"
#include "trace/ops.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "Usage: malloc-trace convert [OPTION]... [IN [OUT]]\n"
    "Make a processed trace of a trace that another program recorded, or the\n"
    "other way round. IN (a file, or - for standard input) may be plain, LZ4,\n"
    "gzip, zip, zstd or bzip2; OUT is standard output by default, and no\n"
    "recording.\n"
    "\n"
    "  --from FORMAT   the format of IN (found out by its content)\n"
    "  --to FORMAT     the format of OUT (processed, for replay)\n"
    "  --list          print the formats\n"
    "  --strict        stop at the first thing that cannot be kept\n"
    "  --stock         write no more than the format's own tools can read\n"
    "  -z, --compress  write LZ4 frames\n"
    "  -q, --quiet     no summary\n"
    "  -h, --help      print this\n"
    "  -V, --version   print the version\n"
    "\n"
    "Exit status: 0; 1 IN could not be read, OUT not written, or --strict "
    "found\n"
    "something; 2 usage; 3 something of IN is lost: it is cut or damaged, has\n"
    "lines that cannot be read, frees of unknown blocks, or addresses that "
    "are\n"
    "allocated twice.\n";

enum {
    OPTION_FROM = 1,
    OPTION_TO,
    OPTION_LIST,
    OPTION_STRICT,
    OPTION_STOCK,
    OPTION_COMPRESS
};

static const struct tool_option options[] = {
    {"from", 0, true, OPTION_FROM},
    {"to", 0, true, OPTION_TO},
    {"list", 0, false, OPTION_LIST},
    {"strict", 0, false, OPTION_STRICT},
    {"stock", 0, false, OPTION_STOCK},
    {"compress", 'z', false, OPTION_COMPRESS},
    {NULL, 0, false, 0},
};

struct convert {
    const char *in_name, *out_name;
    const struct format *from; /* NULL: found by content, or processed */
    const struct format *to;   /* NULL: a processed trace */
    bool is_processed;         /* says the caller */
    bool strict, stock, compress;
    struct tool_input *in;
    struct format_import *import; /* NULL: IN is processed already */
    struct tool_output *out;
};

/* --- The command line ----------------------------------------------------- */

static void print_formats(void) {
    const struct format *f;
    printf("%-14s  in   out  %s\n", "processed", "processed trace");
    for (size_t i = 0; (f = format_at(i)) != NULL; i++)
        printf("%-14s  %-3s  %-3s  %s\n", f->name,
               f->line != NULL || f->next != NULL ? "in" : "-",
               f->put != NULL ? "out" : "-", f->title);
}

static int take_format(const char *name, bool is_output,
                       const struct format **f) {
    *f = NULL;
    if (strcmp(name, "processed") == 0)
        return TOOL_OK;
    *f = format_by_name(name);
    if (*f == NULL)
        return tool_usage_error("unknown format '%s' (--list prints them)",
                                name);
    if (is_output ? (*f)->put == NULL
                  : (*f)->line == NULL && (*f)->next == NULL)
        return tool_usage_error("traces cannot be %s in format %s",
                                is_output ? "written" : "read", name);
    return TOOL_OK;
}

/* TOOL_OK: go on. */
static int take_option(struct convert *c, int id, const char *value) {
    switch (id) {
    case OPTION_FROM:
        c->is_processed = strcmp(value, "processed") == 0;
        return take_format(value, false, &c->from);
    case OPTION_TO:
        return take_format(value, true, &c->to);
    case OPTION_STRICT:
        c->strict = true;
        return TOOL_OK;
    case OPTION_STOCK:
        c->stock = true;
        return TOOL_OK;
    default:
        c->compress = true;
        if (mtf_compress_available())
            return TOOL_OK;
        return tool_usage_error("this build has no LZ4");
    }
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

/* The bytes of the import as they are. */
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
    if (!format_import_refused(c->import))
        (void)fail(tool_input_name(c->in),
                   status == MTF_SYSTEM
                       ? strerror(tool_input_source(c->in)->error)
                       : mtf_status_text(status));
    return TOOL_FAILED;
}

static int write_format(struct convert *c) {
    struct format_exported done;
    struct tool_text t[2];
    struct format_out *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return fail(tool_name(), "out of memory");
    o->to = c->out;
    o->stock = c->stock;
    format_export(c->in, c->to, o, &done);
    int status = done.failed ? TOOL_FAILED : done.lost ? TOOL_DAMAGED : TOOL_OK;
    if (o->no_memory)
        status = fail(tool_name(), "out of memory");
    else if (tool_output_error(c->out) != 0)
        status = failed_output(c);
    else if (!tool_is_quiet() && !done.failed && o->left_out + o->changed != 0)
        fprintf(stderr,
                "%s: %s records have no place in the format %s, %s sizes are "
                "others\n",
                tool_name(), tool_text_count(&t[0], o->left_out), c->to->name,
                tool_text_count(&t[1], o->changed));
    free(o);
    return status;
}

static void print_count(const char *name, uint64_t n) {
    struct tool_text t;
    if (n != 0)
        fprintf(stderr, "  %-18s %s\n", name, tool_text_count(&t, n));
}

static void print_summary(const struct convert *c) {
    const struct format_counts *n = format_import_counts(c->import);
    struct tool_text t[3];
    uint64_t events =
        n->mallocs + n->memaligns + n->reallocs + n->frees + n->failed;
    fprintf(stderr, "%s event%s of %s thread%s, from %s\n",
            tool_text_count(&t[0], events), events == 1 ? "" : "s",
            tool_text_count(&t[1], n->threads), n->threads == 1 ? "" : "s",
            format_import_format(c->import)->title);
    print_count("mallocs", n->mallocs);
    print_count("memaligns", n->memaligns);
    print_count("reallocs", n->reallocs);
    print_count("frees", n->frees);
    print_count("failed", n->failed);
    print_count("frees of NULL", n->null_frees);
    print_count("late frees", n->late_frees);
    print_count("unknown frees", n->unknown_frees);
    print_count("unknown reallocs", n->unknown_reallocs);
    print_count("addresses twice", n->used_twice);
    print_count("not readable", n->bad);
    print_count("damaged places", n->breaks);
    fprintf(stderr,
            "  %-18s %s requested, at most %s live\n"
            "  %-18s %s block%s\n",
            "bytes", tool_text_bytes(&t[0], n->requested_bytes),
            tool_text_bytes(&t[1], n->peak_live_bytes), "live at the end",
            tool_text_count(&t[2], n->live_blocks),
            n->live_blocks == 1 ? "" : "s");
}

/* Opens IN and finds what it is. */
static int open_input(struct convert *c) {
    struct tool_input *in = tool_input_open(c->in_name);
    if (in == NULL)
        return fail(c->in_name, strerror(errno));
    c->in = c->is_processed ? in : format_open_input(in, c->from, &c->import);
    if (c->in == NULL)
        return fail(c->in_name, "out of memory");
    if (c->import != NULL) {
        format_import_ahead(c->import);
        if (c->strict)
            format_import_strictly(c->import);
        return TOOL_OK;
    }
    uint8_t first[8];
    size_t n = tool_input_peek(c->in, first);
    const char *name = tool_input_name(c->in);
    if (tool_ops_is_processed(c->in, c->in_name))
        return c->to == NULL ? fail(name, "is a processed trace already")
                             : TOOL_OK;
    if (tool_input_is_raw(c->in))
        return fail(name, "byte 0: is a raw trace (postprocess makes a "
                          "processed one)");
    if (n == 0 && tool_input_status(c->in) == MTF_SYSTEM)
        return fail(name, strerror(tool_input_source(c->in)->error));
    const char *text = tool_input_foreign_text(c->in);
    if (n == 0 && tool_input_status(c->in) != MTF_OK)
        return fail(name, mtf_status_text(tool_input_status(c->in)));
    return fail(name, n == 0         ? "is empty"
                      : text != NULL ? text
                                     : "byte 0: is of no format that is known");
}

/* What NAME is, if that is a recording, which nothing here can write again: the
   converters of some formats take OUT before IN. NULL: it is none. */
static const char *recording_at(const char *name) {
    struct stat st;
    const uint8_t *p;
    if (tool_file_is_stdout(name) || stat(name, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return NULL;
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return NULL;
    size_t n = tool_input_look(in, FORMAT_LOOK, &p);
    bool is_raw = tool_input_is_raw(in);
    const struct format *format = format_by_content(p, n, n < FORMAT_LOOK);
    tool_input_close(in);
    return is_raw                                  ? "raw trace"
           : format != NULL && format->put == NULL ? format->title
                                                   : NULL;
}

static int convert(struct convert *c) {
    int status = open_input(c);
    if (status != TOOL_OK)
        return status;
    const char *lost = recording_at(c->out_name);
    if (lost != NULL) {
        tool_error("%s: is there, a recording (%s), and not replaced",
                   c->out_name, lost);
        return TOOL_FAILED;
    }
    c->out = tool_output_open(c->out_name, c->compress ? TOOL_OUTPUT_LZ4
                                                       : TOOL_OUTPUT_PLAIN);
    if (c->out == NULL)
        return fail(c->out_name == NULL ? "standard output" : c->out_name,
                    tool_file_error_text(errno));
    status = c->to == NULL ? copy(c) : write_format(c);
    if (status == TOOL_FAILED) {
        tool_output_drop(c->out);
        return status;
    }
    if (!tool_output_close(c->out))
        return fail(c->out_name == NULL ? "standard output" : c->out_name,
                    tool_file_error_text(errno));
    if (c->import != NULL) {
        if (!tool_is_quiet())
            print_summary(c);
        if (format_import_lost(c->import))
            status = TOOL_DAMAGED;
    }
    return status;
}

int cmd_convert(int argc, char **argv) {
    static struct convert c;
    struct tool_options o;
    int id, status;
    tool_options_init(&o, argc, argv, options, help);
    while ((id = tool_option_next(&o)) > 0) {
        if (id == OPTION_LIST) {
            print_formats();
            return TOOL_OK;
        }
        status = take_option(&c, id, o.value);
        if (status != TOOL_OK)
            return status;
    }
    if (id < 0)
        return o.status;
    if (o.operand_count == 0 && isatty(STDIN_FILENO) == 1)
        return tool_usage_error(
            "no file given, and standard input is a terminal");
    if (o.operand_count > 2)
        return tool_usage_error("more than two files given");
    c.in_name = o.operand_count == 0 ? "-" : o.operand[0];
    c.out_name = o.operand_count == 2 ? o.operand[1] : NULL;
    const char *in = strcmp(c.in_name, "-") == 0 ? NULL : c.in_name;
    if (tool_files_collide(&c.out_name, 1, &c.in_name, 1))
        return TOOL_USAGE;
    c.in_name = in;
    if (c.to == NULL && tool_file_is_stdout(c.out_name) &&
        isatty(STDOUT_FILENO) == 1)
        return tool_usage_error("a trace is not for a terminal");
    tool_stop_catch();
    status = convert(&c);
    tool_input_close(c.in);
    return status;
}
