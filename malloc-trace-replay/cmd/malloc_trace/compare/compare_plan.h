/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runs of a comparison, round by round in random order: made here, one at a
 * time, or planned as jobs that any engine runs, whose results are merged.
 *
 * A plan is a folder with plan.json, the comparison; jobs.txt, a command for
 * each run; traces/, the sorted forms of raw traces; and results/, one JSON for
 * each run, ROUND.TRACE.CONTESTANT.json.
 *
 * Invariants: a result gets its name when it is complete. A job whose result
 * exists does nothing.
 * Threads: one. Jobs of one plan may run at the same time.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PLAN_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PLAN_H

#include "cmd/malloc_trace/compare/compare_program.h"

/* --- Runs made here ------------------------------------------------------- */

struct compare_rounds {
    uint64_t wanted;
    double until; /* half of the widest interval of time and peak memory, as a
                     ratio; 0: not asked for */
    const struct compare_command *program; /* to run, too; NULL: none */
    bool program_always; /* in each round, however long that takes */
};

/*
 * Makes the rounds, up to a request to stop. c->disturbances gets what
 * disturbed them. false: a message was printed.
 *
 * The program is run under every contestant in as many rounds, spread evenly,
 * as take no longer than the replays or 30 seconds; in none, and
 * c->program_skipped says so, where that would be fewer than three.
 */
bool compare_rounds_make(struct comparison *c, const struct compare_rounds *r);

/* --- Runs made elsewhere -------------------------------------------------- */

/* Makes DIR, which must be empty or missing, and DIR/traces for the traces,
   which the caller puts there before compare_plan_write. TRACES gets the
   absolute path of that folder. false: a message was printed. */
bool compare_plan_make_folder(const char *dir, char traces[PATH_MAX]);
bool compare_plan_write(const struct comparison *c, const char *dir);

/* Runs the job ID, ROUND.TRACE.CONTESTANT, of the plan in DIR. Returns an exit
   status. */
int compare_plan_run_job(const char *dir, const char *id);

/* Reads the plans in DIR[0..N) and their results into C, which is empty.
   MISSING gets the number of runs without a result; messages name the first of
   them. false: a message was printed. */
bool compare_plan_merge(struct comparison *c, char *const *dir, int n,
                        size_t *missing);

#endif
