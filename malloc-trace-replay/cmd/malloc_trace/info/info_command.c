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
#include "open/recordings.h"
#include "trace/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command line. */
struct request {
    const char *json;
    bool all;
    bool course;          /* memory over time is wanted */
    const char *timeline; /* as a file; NULL: as lines */
    const char *chosen;   /* of the recordings under a single name; or NULL */
    char chosen_room[PATH_MAX];
};

static void read_file(struct info_file *f, const char *name, bool course) {
    memset(f, 0, sizeof(*f));
    bool is_stdin = strcmp(name, "-") == 0;
    f->name = is_stdin ? "standard input" : name;
    f->want_live = true;
    f->course = course ? calloc(1, sizeof(*f->course)) : NULL;
    if (course && f->course == NULL) {
        info_problem(f, TOOL_FAILED, "out of memory");
        return;
    }
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

static bool replaces_text(const char *name) {
    return name != NULL && tool_file_is_stdout(name);
}

/* Checks what is to be written. TOOL_OK, or a message was printed. */
static int check_outputs(const struct request *r, const struct tool_opts *o) {
    bool text = !replaces_text(r->json) && !replaces_text(r->timeline);
    const char *outs[3];
    int n = 0;
    if (text)
        outs[n++] = NULL;
    if (r->json != NULL)
        outs[n++] = r->json;
    if (r->timeline != NULL)
        outs[n++] = r->timeline;
    if (r->timeline != NULL && o->operand_count > 1)
        return tool_usage_error("--timeline=%s takes one FILE, not %d",
                                r->timeline, o->operand_count);
    if (r->timeline != NULL && tool_file_is_trace(r->timeline))
        return tool_usage_error("--timeline=%s: it is a trace, which is not "
                                "replaced",
                                r->timeline);
    bool collides = tool_files_collide(outs, n, (const char *const *)o->operand,
                                       o->operand_count);
    if (!collides && r->chosen != NULL)
        collides = tool_files_collide(outs, n, &r->chosen, 1);
    return collides ? TOOL_USAGE : TOOL_OK;
}

/* Writes and prints what R asks for of the COUNT files. Returns the exit
   status. */
static int tell(const struct request *r, struct info_file *files, int count) {
    int status = TOOL_OK;
    bool text = !tool_is_quiet() && !replaces_text(r->json) &&
                !replaces_text(r->timeline);
    if (text && count > 1)
        info_print_tree(files, count);
    for (int i = 0; i < count; i++) {
        struct info_file *f = &files[i];
        if (text && f->kind != INFO_UNREADABLE)
            info_print(f, r->course && r->timeline == NULL, r->all);
        tool_flush();
        print_problems(f);
        if (f->status == TOOL_FAILED || status == TOOL_OK)
            status = f->status;
    }
    if (r->timeline != NULL && files[0].kind != INFO_UNREADABLE &&
        !info_timeline_write(&files[0], r->timeline))
        status = TOOL_FAILED;
    if (r->json != NULL && !write_json(r->json, files, count))
        status = TOOL_FAILED;
    return status;
}

int cmd_info(int argc, char **argv) {
    static struct request r;
    const struct tool_opt opts[] = {
        {.value = "FILE",
         .help = "a raw or processed trace, or one of a format that "
                 "malloc-trace convert reads, plain or compressed; a spool; "
                 "NAME if only NAME.spool exists. '-': standard input"},
        {.name = "timeline",
         .value = "FILE",
         .value_optional = true,
         .help = "live heap and resident memory over time, as lines; or as "
                 "CSV in FILE, as JSON if its name ends in .json ('-': CSV to "
                 "standard output, instead of the text)",
         .text = &r.timeline,
         .given = &r.course},
        {.name = "json",
         .value = "FILE",
         .help = "write all facts as JSON ('-': to standard output, instead "
                 "of the text)",
         .text = &r.json},
        {.letter = 'v',
         .name = "verbose",
         .help = "print all facts",
         .flag = &r.all},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace info [-v] [--timeline[=FILE]] [--json=FILE] "
                 "FILE...",
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
    o.operand_count = open_recordings_join_spools(o.operand, o.operand_count);
    if (o.operand_count == 1)
        r.chosen = open_recordings_choose(o.operand[0], r.chosen_room);
    int status = check_outputs(&r, &o);
    if (status != TOOL_OK)
        return status;
    struct info_file *files = calloc((size_t)o.operand_count, sizeof(*files));
    if (files == NULL) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    for (int i = 0; i < o.operand_count; i++)
        read_file(&files[i], r.chosen != NULL ? r.chosen : o.operand[i],
                  r.course);
    status = tell(&r, files, o.operand_count);
    for (int i = 0; i < o.operand_count; i++) {
        free(files[i].course);
        info_free(&files[i]);
    }
    free(files);
    return status;
}
