/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --run-program: the program itself under every contestant, beside what the
 * replays of its trace predict.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "common/json.h"

#include <stdio.h>

/* Tells whether COMMAND can be run again: its input is none, a terminal's or a
   file. false: a message is out. */
bool compare_program_can_repeat(void);

/* Runs COMMAND under contestant CONTESTANT; what it writes is dropped. false: a
   message is out, or a stop was requested. */
bool compare_program_run(struct comparison *c, char **command, size_t round,
                         size_t contestant);

/* The table of prediction and truth. */
bool compare_program_print(const struct comparison *c, FILE *out);
bool compare_program_json(const struct comparison *c, struct tool_json *j);

#endif
