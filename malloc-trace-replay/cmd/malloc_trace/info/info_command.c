/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace info: facts of raw traces, spools and processed traces.
 */
#include "cmd/malloc_trace/info/info_print.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "formats/format_import.h"
#include "model/info.h"
#include "trace/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_file(struct info_file *f, const char *name) {
    memset(f, 0, sizeof(*f));
    bool is_stdin = strcmp(name, "-") == 0;
    f->name = is_stdin ? "standard input" : name;
    f->want_live = true;
    struct tool_input *in = format_open(name);
    if (in == NULL && errno != ENOENT) {
        info_problem(f, TOOL_FAILED, "%s: %s", name, strerror(errno));
        return;
    }
    if (in != NULL && tool_ops_is_processed(in, is_stdin ? NULL : name))
        info_read_processed(f, in);
    else
        info_read_raw(f, in, is_stdin ? NULL : name);
    info_live_forget(&f->live);
}

static void print_problems(const struct info_file *f) {
    for (uint64_t i = 0; i < f->problem_count && i < INFO_TEXTS; i++)
        if (f->problems[i] != NULL)
            tool_error("%s", f->problems[i]);
    if (f->problem_count > INFO_TEXTS)
        tool_error("%s: %llu more problems", f->name,
                   (unsigned long long)(f->problem_count - INFO_TEXTS));
}

static bool write_json(const char *path, const struct info_file *files,
                       int count) {
    struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_begin_array(&j, "files");
    for (int i = 0; i < count; i++)
        info_json(&j, &files[i]);
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

int cmd_info(int argc, char **argv) {
    const char *json = NULL;
    bool all = false;
    const struct tool_opt opts[] = {
        {.value = "FILE",
         .help = "a raw or processed trace, or one of a format that "
                 "malloc-trace convert reads, plain or compressed; a spool; "
                 "NAME if only NAME.spool exists. '-': standard input"},
        {.name = "json",
         .value = "FILE",
         .help = "write all facts as JSON ('-': to standard output, instead "
                 "of the text)",
         .text = &json},
        {.letter = 'v',
         .name = "verbose",
         .help = "print all facts",
         .flag = &all},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace info [-v] [--json=FILE] FILE...",
        .about = "Prints a summary of each trace: program, calls, sizes, peak "
                 "of live bytes, completeness. With several files, first "
                 "prints which process started which.",
        .opts = opts,
        .quiet = "print errors only",
        .notes = "Exit status: 0 success; 1 a FILE cannot be read or is no "
                 "trace; 2 wrong command line; 3 a trace is cut, damaged, "
                 "inconsistent, incomplete, or still being recorded."};
    struct tool_opts o;
    if (!tool_opts_parse(&o, &command, argc, argv))
        return o.status;
    if (o.operand_count == 0)
        return tool_usage_error("no FILE given");
    if (tool_files_collide_text(json, (const char *const *)o.operand,
                                o.operand_count))
        return TOOL_USAGE;
    struct info_file *files = calloc((size_t)o.operand_count, sizeof(*files));
    if (files == NULL) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    int status = TOOL_OK;
    bool text =
        !tool_is_quiet() && (json == NULL || !tool_file_is_stdout(json));
    for (int i = 0; i < o.operand_count; i++)
        read_file(&files[i], o.operand[i]);
    if (text && o.operand_count > 1)
        info_print_tree(files, o.operand_count);
    for (int i = 0; i < o.operand_count; i++) {
        struct info_file *f = &files[i];
        if (text && f->kind != INFO_UNREADABLE)
            info_print(f, all);
        tool_flush();
        print_problems(f);
        if (f->status == TOOL_FAILED || status == TOOL_OK)
            status = f->status;
    }
    if (json != NULL && !write_json(json, files, o.operand_count))
        status = TOOL_FAILED;
    for (int i = 0; i < o.operand_count; i++)
        info_free(&files[i]);
    free(files);
    return status;
}
