/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Subcommands of malloc-trace. Each takes its own arguments, ARGV[0] is its
 * name, and returns the exit status. The caller has called tool_begin with
 * "malloc-trace NAME".
 */
#ifndef TOOL_CMD_MALLOC_TRACE_SUBCOMMANDS_H
#define TOOL_CMD_MALLOC_TRACE_SUBCOMMANDS_H

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

/* For other subcommands that record COMMAND: prints the line of `record` about
   a Python whose objects are not recorded, if it is one. Returns the allocator
   whose library its file names, as compare names it; NULL: none. */
const char *record_program_note(const char *command);

#endif
