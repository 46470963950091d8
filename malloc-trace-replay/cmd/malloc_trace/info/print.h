/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `malloc-trace info` says of traces, for people and as JSON.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_INFO_PRINT_H

#include "common/json.h"
#include "model/info.h"

/* A few lines, and ALL that is known behind them. */
void info_print(const struct info_file *f, bool all);
void info_summary(const struct info_file *f);
/* Prints TEXT, which comes from a file, with ? for control bytes. */
void info_put_clean(const char *text);
void info_print_tree(const struct info_file *files, int count);
void info_json(struct tool_json *j, const struct info_file *f);

#endif
