/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run: replay, in a process of its own, of one trace under one contestant;
 * its JSON, written and read; and checks of contestants before the first run.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RUN_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RUN_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "common/json.h"

/* --- JSON ----------------------------------------------------------------- */

/* Values of the member KEY of OBJECT: a number, or NAN; a whole number below
   2^64, or 0; a text, or "". */
double compare_json_number(const struct tool_json_value *object,
                           const char *key);
uint64_t compare_json_whole(const struct tool_json_value *object,
                            const char *key);
const char *compare_json_text(const struct tool_json_value *object,
                              const char *key);
/* Reads the file PATH, whose member "format" is FORMAT. NULL: a message was
   printed. */
const struct tool_json_value *compare_json_file(const char *path,
                                                const char *format);

/* --- A run ---------------------------------------------------------------- */

/*
 * Makes the run and returns its JSON, to be freed, with *SIZE bytes; a failure
 * of the contestant is a result, too. NULL: there is none, since the run was
 * interrupted, or a message was printed.
 */
char *compare_run_make(struct comparison *c, size_t round, size_t trace,
                       size_t contestant, size_t *size);

/* Time after which a run hangs, where the baseline's takes BASELINE_NS. */
uint64_t compare_run_limit_ns(uint64_t baseline_ns);

/*
 * Takes the run in TEXT, N bytes, as that of ROUND, TRACE and CONTESTANT.
 * false: TEXT is no run, or another one; PROBLEM says why.
 */
bool compare_run_take(struct comparison *c, const char *text, size_t n,
                      size_t round, size_t trace, size_t contestant,
                      char problem[200]);
/* Takes from the JSON of a replay of T how the samples contradict it. */
void compare_run_take_untouched(struct compare_trace *t,
                                const struct tool_json_value *replay);
/* Tells whether compare_run_take would take it; C needs no room for it. */
bool compare_run_is(const struct comparison *c, const char *text, size_t n,
                    size_t round, size_t trace, size_t contestant,
                    char problem[200]);

/* Tells whether the allocator of a replay with --clock=recorded takes its time
   from another clock; TEXT says from which, or is empty. REPLAY: the JSON of
   replay. */
bool compare_run_own_clock(const struct tool_json_value *replay,
                           char text[128]);

/* Finds out whether replay has a recorded clock, which builds with sanitizers
   lack. false: a message was printed, or a stop was requested. */
bool compare_run_has_clock(bool *has);

/* --- Checks of contestants ------------------------------------------------ */

/* Asks every contestant that takes part whether it has taken malloc over, and
   excludes those that have not. false: a message was printed, or a stop was
   requested. */
bool compare_run_check_contestants(struct comparison *c);

/* Replays the largest trace once under every contestant with replay --check,
   for a while, and excludes those at fault. If the baseline is, the first other
   one becomes the baseline where LEAST or more take part. false: none could, a
   message was printed, or a stop was requested. */
bool compare_run_check_blocks(struct comparison *c, size_t least);

#endif
