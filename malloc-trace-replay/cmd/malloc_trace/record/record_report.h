/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a recorded command left behind: the traces, what they hold, why they
 * hold nothing, and what to do with them.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_REPORT_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_REPORT_H

struct record_report;

/* Remembers what exists under PATTERN (as in TCMALLOC_TRACE_OUTPUT, absolute)
   before the command runs. PATTERN must live on. NULL: out of memory. */
struct record_report *record_report_before(const char *pattern);

/* Prints the summary on stderr. COMMAND is the word that was run. */
void record_report_after(struct record_report *r, const char *command);

void record_report_free(struct record_report *r);

#endif
