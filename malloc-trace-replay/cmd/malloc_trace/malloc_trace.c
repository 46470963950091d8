/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace: runs a subcommand.
 */
#include "cmd/malloc_trace/malloc_trace.h"

#include "common/main.h"
#include "common/opts.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Executes malloc-trace-allocator, which must not allocate before main, as
   libraries of this program may. */
static int cmd_allocator(int argc, char **argv) {
    static char path[PATH_MAX], quiet[] = "-q", *words[64];
    int n = 0;
    if (!tool_own_program("malloc-trace-allocator", path))
        return TOOL_FAILED;
    words[n++] = path;
    if (tool_is_quiet())
        words[n++] = quiet;
    if (argc > (int)TCM_ARRAY_SIZE(words) - n)
        return tool_usage_error("too many arguments");
    for (int i = 1; i < argc; i++)
        words[n++] = argv[i];
    tool_before_exec();
    execv(path, words);
    tool_error("cannot run %s: %s", path, strerror(errno));
    return TOOL_FAILED;
}

static const struct {
    const char *name;
    const char *full_name; /* in messages */
    const char *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"record", "malloc-trace record",
     "run a program and record its memory requests", cmd_record},
    {"compare", "malloc-trace compare",
     "find the allocator that serves a program or traces best", cmd_compare},
    {"info", "malloc-trace info", "print summaries of traces", cmd_info},
    {"report", "malloc-trace report", "tell which code allocates", cmd_report},
    {"dump", "malloc-trace dump", "print a trace, one line for each event",
     cmd_dump},
    {"convert", "malloc-trace convert",
     "read and write traces of other programs", cmd_convert},
    {"annotate", "malloc-trace annotate",
     "tell how long blocks live, and their neighbours", cmd_annotate},
    {"ctl", "malloc-trace ctl",
     "start, stop and query recordings of a running program", cmd_ctl},
    {"allocator", "malloc-trace allocator", "tell which library serves malloc",
     cmd_allocator},
};

enum { COMMANDS = TCM_ARRAY_SIZE(commands) };

int main(int argc, char **argv) {
    struct tool_opt opts[COMMANDS + 2] = {{.help = "Commands:"}};
    const struct tool_command command = {
        .usage = "malloc-trace COMMAND [OPTION]... [ARGUMENT]...",
        .about = "Record the memory requests of programs, and analyse the "
                 "traces.",
        .opts = opts,
        .quiet = "before or after COMMAND: print errors and warnings only",
        .notes = "'malloc-trace COMMAND --help' describes a command.",
        .stop_at_operand = true};
    struct tool_opts o;
    for (size_t i = 0; i < COMMANDS; i++) {
        opts[i + 1].value = commands[i].name;
        opts[i + 1].help = commands[i].help;
    }
    tool_begin("malloc-trace");
    if (!tool_opts_parse(&o, &command, argc, argv))
        return tool_end(o.status);
    if (o.operand_count == 0)
        return tool_usage_error("no command given");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(o.operand[0], commands[i].name) == 0) {
            tool_begin(commands[i].full_name);
            return tool_end(commands[i].run(o.operand_count, o.operand));
        }
    }
    return tool_usage_error("unknown command '%s'", o.operand[0]);
}
