/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw trace or spool as lines, in the order of the file.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_DUMP_RAW_H
#define TOOL_CMD_MALLOC_TRACE_DUMP_RAW_H

#include "cmd/malloc_trace/dump/line.h"
#include "common/input.h"

/* Takes IN, and prints until the end or until the lines are over. NAME: as
   given to tool_input_open, NULL for stdin. */
void dump_raw(struct dump *d, struct tool_input *in, const char *name);

#endif
