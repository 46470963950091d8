/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace dump: one line for each event of a trace, for people and grep.
 */
#include "cmd/malloc_trace/dump/dump_lines.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "formats/format_import.h"
#include "trace/ops.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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

int cmd_dump(int argc, char **argv) {
    static struct dump d = {.lines.count = UINT64_MAX};
    const struct tool_opt opts[] = {
        {.value = "FILE",
         .help = "a raw or processed trace, or one of a format that "
                 "malloc-trace convert reads, plain or compressed; a spool; "
                 "NAME if only NAME.spool or the parts of a flight recording "
                 "exist. '-' or no FILE: standard input"},
        {.name = "from",
         .value = "OFFSET",
         .help = "leave out events before this byte offset of FILE",
         .bytes = &d.lines.from,
         .most = UINT64_MAX - 1},
        {.name = "count",
         .value = "N",
         .help = "print at most N lines",
         .count = &d.lines.count,
         .most = UINT64_MAX - 1},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace dump [OPTION]... [FILE]",
        .about = "Prints a trace, a line for each event: byte offset, thread, "
                 "time, and the call or record. A damaged place is a line as "
                 "well.",
        .opts = opts,
        .quiet = "print errors only",
        .notes = "Exit status: 0 success; 1 FILE cannot be read or is no "
                 "trace, or standard output cannot be written; 2 wrong command "
                 "line; 3 the trace is cut, damaged, incomplete, or still "
                 "being recorded."};
    struct tool_opts o;
    if (!tool_opts_parse(&o, &command, argc, argv))
        return o.status;
    if (o.operand_count > 1)
        return tool_usage_error("more than one FILE given");
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
        tool_out_of_memory();
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
