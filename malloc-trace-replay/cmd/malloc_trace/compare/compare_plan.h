/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comparison whose runs are made by something else: a folder with plan.json,
 * the comparison; jobs.txt, a command for each run; traces/, those that had to
 * be ordered; and results/, one JSON for each run, ROUND.TRACE.CONTESTANT.json.
 *
 * Invariants: a result gets its name when it is whole. A job whose result is
 * there does nothing.
 * Threads: one. Jobs of one plan may run at the same time.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PLAN_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PLAN_H

#include "cmd/malloc_trace/compare/comparison.h"

/* Makes DIR, which must be empty or not there, and DIR/traces for the traces,
   which are put there before compare_plan_write. TRACES gets the absolute path
   of that folder. false: a message is out. */
bool compare_plan_make_folder(const char *dir, char traces[PATH_MAX]);
bool compare_plan_write(const struct comparison *c, const char *dir);

/* The command of a job; ID is ROUND.TRACE.CONTESTANT. Returns an exit
   status. */
int compare_plan_run_job(const char *dir, const char *id);

/* Reads the plans in DIR[0..N) and their results into C, which is empty.
   MISSING gets the number of runs without a result, each of which is named by a
   message as far as these are few. false: a message is out. */
bool compare_plan_merge(struct comparison *c, char *const *dir, int n,
                        size_t *missing);

#endif
