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

/* --- Why a command may have left no events or no trace (record_why.c) ----- */

/* A text for "COMMAND ...", from what its executable shows. */
const char *record_why_no_events(const char *command);
/* The same of a COMMAND that no trace is of, by the output's PATTERN. A program
   that loads the library has one even if it asks for nothing, but for patterns
   with %p, or else a line said why not. */
const char *record_why_no_trace(const char *command, const char *pattern);
/* The folder of the output's PATTERN if no trace can be made or found there,
   errno saying why. NULL: it can, or the folder depends on the program. */
const char *record_why_no_folder(const char *pattern);

#endif
