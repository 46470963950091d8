/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report's CSV with a line for each block.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_OBJECTS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_OBJECTS_H

#include "cmd/malloc_trace/report/names.h"
#include "cmd/malloc_trace/report/tally.h"

/* Writes FILE. T and NAMES: of the COUNT TRACES, which are read again: what
   defines a site may stand behind its use. False: a message is out. */
bool objects_write(const char *file, const char *const *traces, size_t count,
                   const struct tallies *t, struct names *names);

#endif
