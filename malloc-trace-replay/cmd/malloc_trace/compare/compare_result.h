/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The JSON that a run leaves: read into a comparison.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RESULT_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RESULT_H

#include "cmd/malloc_trace/compare/comparison.h"

/* Names of the formats of a run's JSON and a plan's. */
#define COMPARE_RUN_FORMAT  "malloc-trace run 1"
#define COMPARE_PLAN_FORMAT "malloc-trace plan 1"

/*
 * Takes the run in TEXT, N bytes, as that of ROUND, TRACE and WHO. false: it is
 * none, or another one; PROBLEM says why.
 */
bool compare_result_take(struct comparison *c, const char *text, size_t n,
                         size_t round, size_t trace, size_t who,
                         char problem[200]);
/* Tells whether compare_result_take would take it; C needs no room for it. */
bool compare_result_is(const struct comparison *c, const char *text, size_t n,
                       size_t round, size_t trace, size_t who,
                       char problem[200]);

/* Sets up C, which is empty, from the plan in the file PATH: contestants,
   traces, baseline and options; but no room for its ROUNDS. false: a message is
   out. */
bool compare_result_read_plan(struct comparison *c, const char *path,
                              size_t *rounds);

/* Tells whether TEXT is the answer of `malloc-trace allocator`; then whether
   malloc was taken over, whether by a wrapper around the C library's, the
   library, and why not. */
bool compare_result_read_allocator(const char *text, size_t n, bool *took_over,
                                   bool *wraps, char library[PATH_MAX],
                                   char why[256]);

/* Named numbers of a JSON object, for the gate. CALL is called with each; false
   ends it. false: not read, a message is out. */
bool compare_result_read_numbers(
    const char *path, const char *format, const char *key,
    bool (*call)(void *ctx, const char *name, double value), void *ctx);
/* The same of a run's text: the numbers of the object at "replay", KEY. */
bool compare_result_text_numbers(const char *text, size_t n, const char *key,
                                 bool (*call)(void *ctx, const char *name,
                                              double value),
                                 void *ctx);

#endif
