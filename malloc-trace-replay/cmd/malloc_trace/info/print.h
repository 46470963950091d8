/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of `malloc-trace info`.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_INFO_PRINT_H

#include "model/info.h"

/* A few lines, and ALL that is known behind them. */
void info_print(const struct info_file *f, bool all);
void info_print_tree(const struct info_file *files, int count);

#endif
