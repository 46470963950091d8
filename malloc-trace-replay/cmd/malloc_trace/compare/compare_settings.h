/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of known allocators that are worth a try.
 *
 * Threads: any, nothing changes.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_SETTINGS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_SETTINGS_H

#include "cmd/malloc_trace/compare/contestants.h"

#include <stdio.h>

/* --sweep-known NAME: adds the known allocator NAME if it is not there, and one
   contestant for each value of each of its settings. false: a message is
   out. */
bool compare_settings_add(struct contestants *all, const char *name);

/* Meaning of the setting of a contestant's variable, or NULL. */
const char *compare_settings_meaning(const char *variable);

/* The table of all of them. */
void compare_settings_print(FILE *out);

#endif
