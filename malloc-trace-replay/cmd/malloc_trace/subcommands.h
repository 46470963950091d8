/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Subcommands of malloc-trace. Each takes its own arguments, ARGV[0] is its
 * name, and returns the exit status. The caller has called tool_begin with
 * "malloc-trace NAME".
 */
#ifndef TOOL_CMD_MALLOC_TRACE_SUBCOMMANDS_H
#define TOOL_CMD_MALLOC_TRACE_SUBCOMMANDS_H

#include <stdbool.h>

int cmd_compare(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_memory(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_tune(int argc, char **argv);

/* --- For subcommands that record a COMMAND -------------------------------- */

/* Facts from the file of a COMMAND's program. */
struct record_facts {
    const char *command;
    const struct record_runtime *runtime; /* NULL: none that is known */
    /* Mode of call sites: lines for interpreters, else stacks. */
    const char *sites;
    /* A free-threaded Python, which does not start with PYTHONMALLOC=malloc. */
    bool needs_mimalloc;
};

/* Tells whether TEXT is a mode of call sites that the library knows
   (sites/site_settings.h). */
bool record_is_mode(const char *text);

/* Examines the program of COMMAND. Returns TOOL_OK; or, after a message,
   TOOL_FAILED, or TOOL_DAMAGED: a recording would have none of its blocks, so
   that nothing of it could be judged. */
int record_program_facts(struct record_facts *facts, const char *command);

/* Prints the line of `record` about objects that the program's runtime, if it
   has one, keeps from the trace; nothing where the environment has the setting
   that the line is about. */
void record_program_note(const struct record_facts *f);

#endif
