/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs of `malloc-trace info`: text, JSON and timelines.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H

#include "common/json.h"
#include "model/info.h"

/* Prints the summary of F on stdout, memory over time if TIMELINE (F has a
   course then), and all other facts if ALL. */
void info_print(const struct info_file *f, bool timeline, bool all);
/* Prints which process of the COUNT files started which. */
void info_print_tree(const struct info_file *files, int count);

/* Prints the course of F as lines of blocks; times count from SINCE_NS. */
void info_timeline_print(const struct info_file *f, uint64_t since_ns);
/* Writes the course of F to the file NAME, as JSON if it ends in .json, else as
   CSV. false: a message was printed. */
bool info_timeline_write(const struct info_file *f, const char *name);

/* Writes all facts of F as one object. */
void info_json(struct tool_json *j, const struct info_file *f);

#endif
