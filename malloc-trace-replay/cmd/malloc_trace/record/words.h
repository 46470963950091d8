/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of files and programs, as a user can copy them from the summary.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_WORDS_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_WORDS_H

#include "base/compiler.h"

#include <limits.h>

/* Folder of the running program. false: unknown. */
bool record_own_folder(char folder[PATH_MAX]);

/* All on stderr. S as one word of a shell. */
void record_print_word(const char *s);
/* The program NAME beside this one: its bare name if a shell finds it by
   that. */
void record_print_program(const char *name);

/* NAME as seen from the current folder if it is below that. */
const char *record_short_name(const char *name);

#endif
