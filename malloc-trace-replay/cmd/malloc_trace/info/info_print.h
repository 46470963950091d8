/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs of `malloc-trace info`: text and JSON.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H

#include "common/json.h"
#include "model/info.h"

/* Prints the summary of F on stdout, and all other facts if ALL. */
void info_print(const struct info_file *f, bool all);
/* Prints which process of the COUNT files started which. */
void info_print_tree(const struct info_file *files, int count);

/* Writes all facts of F as one object. */
void info_json(struct tool_json *j, const struct info_file *f);

#endif
