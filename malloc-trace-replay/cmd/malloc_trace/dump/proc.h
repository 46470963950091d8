/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A processed trace as lines.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_DUMP_PROC_H
#define TOOL_CMD_MALLOC_TRACE_DUMP_PROC_H

#include "cmd/malloc_trace/dump/line.h"
#include "common/input.h"

/* Dumps the processed trace NAME; IN and D as of dump_raw. */
void dump_processed(struct dump *d, struct tool_input *in, const char *name);

#endif
