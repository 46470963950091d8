/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a command may have left no events, or no trace.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_WHY_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_WHY_H

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
