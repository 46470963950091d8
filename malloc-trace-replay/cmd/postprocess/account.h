/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The account of a trace as postprocess prints it: summary and JSON, and what a
 * window changes in it.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_ACCOUNT_H
#define TOOL_CMD_POSTPROCESS_ACCOUNT_H

#include "common/json.h"
#include "sort/sort_account.h"
#include "window/filter.h"

/* Counts what the window F left instead of the whole trace. */
void account_filter(struct sort_account *a, const struct filter *f);
/* Prints the summary on stderr. */
void account_print(const struct sort_account *a);
/* A program that the process became by exec, or a recording that was started
   again, has the trace OUTPUT.1, OUTPUT.2 and so on: says so on stderr if there
   is one behind the trace NAME, whose header is OWN. */
void account_tell_later(const char *name, const struct mtf_raw_header *own);
void account_json(const struct sort_account *a, struct tool_json *j);

#endif
