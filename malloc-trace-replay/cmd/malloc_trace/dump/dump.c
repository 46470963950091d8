/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace dump: one line for each event of a trace, for people and grep.
 */
#include "cmd/malloc_trace/dump/proc.h"
#include "cmd/malloc_trace/dump/raw.h"
#include "cmd/malloc_trace/malloc_trace.h"
#include "common/files.h"
#include "common/main.h"
#include "formats/format_open.h"
#include "trace/ops.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: malloc-trace dump [OPTION]... [FILE]\n"
    "Prints a raw trace, a spool or a processed trace, one line an event: "
    "byte\n"
    "offset, thread, time, and what was asked for. Damaged places are lines "
    "as\n"
    "well.\n"
    "\n"
    "  FILE           a trace, plain or compressed, also one of those that\n"
    "                 malloc-trace convert reads; a spool; a name of which "
    "only\n"
    "                 NAME.spool or the parts of a flight recording exist.\n"
    "                 '-', or none, is standard input\n"
    "  --from OFFSET  leave out what stands before this byte offset of FILE\n"
    "  --count N      print so many lines at most\n"
    "  -q, --quiet    print no lines; say what is wrong\n"
    "  -h, --help     print this\n"
    "  -V, --version  print the version\n"
    "\n"
    "Exit status: 0; 1 a file could not be read or is no trace, or standard\n"
    "output could not be written; 2 usage; 3 the trace is cut, damaged, still\n"
    "being recorded, or known to lack something.\n";

enum { OPTION_FROM = 1, OPTION_COUNT };

static const struct tool_option options[] = {
    {"from", 0, true, OPTION_FROM},
    {"count", 0, true, OPTION_COUNT},
    {NULL, 0, false, 0},
};

static void dump_file(struct dump *d, const char *name) {
    struct tool_input *in = format_open(name);
    if (in == NULL && errno != ENOENT) {
        tool_error("%s: %s", name, strerror(errno));
        d->status = TOOL_FAILED;
        return;
    }
    if (in != NULL && tool_ops_is_processed(in, name))
        dump_processed(d, in, name);
    else
        dump_raw(d, in, name);
    if (d->damages != 0 && d->status != TOOL_FAILED) {
        d->status = TOOL_DAMAGED;
        tool_error("%s: %llu damaged places", d->name,
                   (unsigned long long)d->damages);
    }
}

/* False: the option's value is wrong, and a message is out. */
static bool take_option(struct dump *d, int id, const char *value) {
    uint64_t *to = id == OPTION_FROM ? &d->lines.from : &d->lines.count;
    if (tool_parse_u64(value, UINT64_MAX - 1, to))
        return true;
    (void)tool_usage_error("--%s: not a number: '%s'",
                           id == OPTION_FROM ? "from" : "count", value);
    return false;
}

int cmd_dump(int argc, char **argv) {
    static struct dump d = {.lines.count = UINT64_MAX};
    struct tool_options o;
    int id;
    tool_options_init(&o, argc, argv, options, help);
    while ((id = tool_option_next(&o)) > 0)
        if (!take_option(&d, id, o.value))
            return TOOL_USAGE;
    if (id < 0)
        return o.status;
    if (o.operand_count > 1)
        return tool_usage_error("more than one file given");
    const char *name = o.operand_count == 0 || strcmp(o.operand[0], "-") == 0
                           ? NULL
                           : o.operand[0];
    if (o.operand_count == 0 && isatty(STDIN_FILENO) == 1)
        return tool_usage_error(
            "no FILE given, and standard input is a terminal");
    d.lines.quiet = tool_is_quiet();
    if (tool_files_collide_text(NULL, &name, 1))
        return TOOL_USAGE;
    d.name = name == NULL ? "standard input" : name;
    if (!dump_lines_open(&d.lines)) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    if (!d.lines.over)
        dump_file(&d, name);
    if (!dump_lines_close(&d.lines)) {
        tool_error("cannot write to standard output: %s", strerror(errno));
        return TOOL_FAILED;
    }
    return d.status;
}
