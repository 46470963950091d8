/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both outputs of `malloc-trace info`: text and JSON.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_INFO_INFO_PRINT_H

#include "common/json.h"
#include "model/info.h"

/* A few lines, and ALL that is known behind them. */
void info_print(const struct info_file *f, bool all);
void info_print_tree(const struct info_file *files, int count);

void info_json(struct tool_json *j, const struct info_file *f);

#endif
