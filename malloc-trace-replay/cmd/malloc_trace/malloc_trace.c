/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace: finds the subcommand.
 */
#include "cmd/malloc_trace/malloc_trace.h"

#include "common/main.h"

#include <string.h>

static const struct {
    const char *name;
    const char *full_name; /* in messages */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"record", "malloc-trace record", cmd_record},
    {"compare", "malloc-trace compare", cmd_compare},
    {"info", "malloc-trace info", cmd_info},
    {"report", "malloc-trace report", cmd_report},
    {"dump", "malloc-trace dump", cmd_dump},
    {"annotate", "malloc-trace annotate", cmd_annotate},
    {"convert", "malloc-trace convert", cmd_convert},
    {"ctl", "malloc-trace ctl", cmd_ctl},
    {"allocator", "malloc-trace allocator", cmd_allocator},
};

static const char help[] =
    "Usage: malloc-trace COMMAND [OPTION]... [ARGUMENT]...\n"
    "Record the memory requests of programs and look at what was recorded.\n"
    "\n"
    "Commands:\n"
    "  record     run a program and record what it asks of malloc\n"
    "  compare    say which allocator serves a program or its traces best\n"
    "  info       say what traces hold\n"
    "  report     say who allocates\n"
    "  dump       print a trace, one line an event\n"
    "  convert    read and write the traces of other programs\n"
    "  annotate   say how long blocks live, and what lies beside them\n"
    "  ctl        start, stop and ask a running recording\n"
    "  allocator  say which library serves malloc here\n"
    "\n"
    "  -q, --quiet    before or after COMMAND: say only what is wrong\n"
    "  -h, --help     print this text and exit\n"
    "  -V, --version  print the version and exit\n"
    "\n"
    "'malloc-trace COMMAND --help' tells more about each.\n";

int main(int argc, char **argv) {
    static const struct tool_option table[] = {{NULL, 0, false, 0}};
    struct tool_options o;
    tool_begin("malloc-trace");
    tool_options_init(&o, argc, argv, table, help);
    o.stop_at_operand = true;
    if (tool_option_next(&o) != 0)
        return tool_end(o.status);
    if (o.operand_count == 0)
        return tool_usage_error("no command given");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(commands); i++) {
        if (strcmp(o.operand[0], commands[i].name) == 0) {
            tool_begin(commands[i].full_name);
            return tool_end(commands[i].run(o.operand_count, o.operand));
        }
    }
    return tool_usage_error("unknown command '%s'", o.operand[0]);
}
