/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Summary of a recorded command: its traces, their contents, why they may have
 * none, and the commands to go on with.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_REPORT_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_REPORT_H

#include "cmd/malloc_trace/record/record_program.h"

struct record_report;

/* Notes the files that match PATTERN (as in TCMALLOC_TRACE_OUTPUT, absolute)
   before the command runs. PATTERN must stay valid. NULL: out of memory. */
struct record_report *record_report_before(const char *pattern);

/* Returns the file or folder for which no trace can be made under PATTERN;
   errno tells why. NULL: it can, or that depends on the process. */
const char *record_report_bad_output(const char *pattern);

/* Prints the summary on stderr, for the PROGRAM that ran. */
void record_report_after(struct record_report *r,
                         const struct record_program *program);

void record_report_free(struct record_report *r);

#endif
