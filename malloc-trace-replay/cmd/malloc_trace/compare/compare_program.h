/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program itself under every contestant, beside the predictions that the
 * replays of its trace make.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "common/json.h"

#include <stdio.h>

/* Tells whether a command can be run again: its standard input is empty, a
   terminal, or a file. false: a message was printed. */
bool compare_program_can_repeat(void);

/* Runs COMMAND under a contestant and drops its output. false: a message was
   printed, or a stop was requested. */
bool compare_program_run(struct comparison *c, char **command, size_t round,
                         size_t contestant);

/* Tables of predicted and true ratios. */
bool compare_program_print(const struct comparison *c, FILE *out);
bool compare_program_json(const struct comparison *c, struct tool_json *j);

#endif
