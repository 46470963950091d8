/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace: runs a subcommand.
 */
#include "cmd/malloc_trace/subcommands.h"

#include "common/main.h"
#include "common/opts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Executes NAME, a program installed beside this one, with the arguments of the
   command. */
static int run_program(const char *name, int argc, char **argv) {
    static char path[PATH_MAX], quiet[] = "-q";
    if (!tool_own_program(name, path))
        return TOOL_FAILED;
    /* A word for -q, and the NULL at the end. */
    char **words = calloc((size_t)argc + 2, sizeof(*words));
    if (words == NULL) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    int n = 0;
    words[n++] = path;
    if (tool_is_quiet())
        words[n++] = quiet;
    memcpy(words + n, argv + 1, (size_t)(argc - 1) * sizeof(*words));
    tool_before_exec();
    execv(path, words);
    tool_error("cannot run %s: %s", path, strerror(errno));
    free(words);
    return TOOL_FAILED;
}

static int cmd_replay(int argc, char **argv) {
    return run_program("replay", argc, argv);
}

static int cmd_order(int argc, char **argv) {
    return run_program("postprocess", argc, argv);
}

/* A program of its own, since it must not allocate before main, as libraries of
   this program may. */
static int cmd_allocator(int argc, char **argv) {
    return run_program("malloc-trace-allocator", argc, argv);
}

static const struct {
    const char *name;
    const char *full_name; /* in messages */
    const char *help;      /* NULL: not listed */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"record", "malloc-trace record",
     "run a program and record its memory requests", cmd_record},
    {"compare", "malloc-trace compare",
     "find the allocator that serves a program or traces best", cmd_compare},
    {"tune", "malloc-trace tune",
     "find the settings that serve a program or traces best", cmd_tune},
    {"gate", "malloc-trace gate",
     "fail where a program asks for more memory than before", cmd_gate},
    {"info", "malloc-trace info", "print summaries of traces", cmd_info},
    {"leaks", "malloc-trace leaks", "find leaks of a program, or in traces",
     cmd_leaks},
    {"report", "malloc-trace report", "tell which code allocates", cmd_report},
    {"memory", "malloc-trace memory",
     "tell which blocks hold resident memory, under any allocator", cmd_memory},
    {"dump", "malloc-trace dump", "print a trace, one line for each event",
     cmd_dump},
    {"convert", "malloc-trace convert",
     "read and write traces of other programs", cmd_convert},
    {"annotate", "malloc-trace annotate",
     "tell how long blocks live, and their neighbours", cmd_annotate},
    {"ctl", "malloc-trace ctl",
     "start, stop and query recordings of a running program", cmd_ctl},
    {"replay", "replay", "run the requests of traces and measure the allocator",
     cmd_replay},
    {"order", "postprocess", "order a raw trace once, for many replays",
     cmd_order},
    {"allocator", "malloc-trace allocator", NULL, cmd_allocator},
};

enum { COMMANDS = TCM_ARRAY_SIZE(commands) };

/* Returns the index of command NAME, or COMMANDS. */
static size_t find_command(const char *name) {
    size_t i = 0;
    while (i < COMMANDS && strcmp(name, commands[i].name) != 0)
        i++;
    return i;
}

/* Tells whether at most CHANGES letters more, less or other make B of A. */
static bool is_near(const char *a, const char *b, unsigned changes) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    if (*a == *b)
        return true;
    return changes != 0 &&
           ((*a != '\0' && *b != '\0' && is_near(a + 1, b + 1, changes - 1)) ||
            (*a != '\0' && is_near(a + 1, b, changes - 1)) ||
            (*b != '\0' && is_near(a, b + 1, changes - 1)));
}

/* Says that there is no command NAME, and which one may be meant. */
static int refuse(const char *name) {
    for (unsigned changes = 1; changes <= 2 && strlen(name) > changes + 1;
         changes++)
        for (size_t i = 0; i < COMMANDS; i++)
            if (commands[i].help != NULL &&
                is_near(name, commands[i].name, changes))
                return tool_usage_error(
                    "unknown command '%s': did you mean %s?", name,
                    commands[i].name);
    return tool_usage_error("unknown command '%s'", name);
}

int main(int argc, char **argv) {
    struct tool_opt opts[COMMANDS + 2] = {{.help = "Commands:"}};
    const struct tool_command command = {
        .usage = "malloc-trace COMMAND [OPTION]... [ARGUMENT]...",
        .about = "Record the memory requests of programs, and analyse the "
                 "traces.",
        .opts = opts,
        .quiet = "before or after COMMAND: print errors and warnings only",
        .notes = "'malloc-trace help COMMAND' describes a command.",
        .stop_at_operand = true};
    struct tool_opts o;
    struct tool_opt *row = opts;
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i].help != NULL)
            *++row = (struct tool_opt){.value = commands[i].name,
                                       .help = commands[i].help};
    tool_begin("malloc-trace");
    if (!tool_opts_parse(&o, &command, argc, argv))
        return tool_end(o.status);
    if (o.operand_count == 0)
        return tool_usage_error("no command given");
    char all[] = "--help-all", some[] = "--help", program[] = "malloc-trace";
    if (strcmp(o.operand[0], "help") == 0) {
        char *help = some;
        if (strcmp(o.operand[o.operand_count - 1], all) == 0) {
            help = all;
            o.operand_count--;
        }
        if (o.operand_count > 2)
            return tool_usage_error("help: more than one command");
        if (o.operand_count == 1) {
            char *words[] = {program, help, NULL};
            (void)tool_opts_parse(&o, &command, 2, words);
            return tool_end(o.status);
        }
        /* "help COMMAND" is "COMMAND --help". */
        o.operand[0] = o.operand[1];
        o.operand[1] = help;
        o.operand_count = 2;
    }
    size_t found = find_command(o.operand[0]);
    if (found == COMMANDS)
        return refuse(o.operand[0]);
    tool_begin(commands[found].full_name);
    return tool_end(commands[found].run(o.operand_count, o.operand));
}
