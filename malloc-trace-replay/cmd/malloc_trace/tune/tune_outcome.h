/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The outcome of a search: its best points judged by fresh runs, on traces that
 * it did not see, and by runs of the program; and the outcome as text, JSON and
 * page.
 *
 * Why fresh runs: of many points the best one was chosen for its figures, so
 * these are too good. Only figures that took no part in the choice tell how
 * good it is.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_OUTCOME_H
#define TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_OUTCOME_H

#include "cmd/malloc_trace/compare/compare_machine.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/tune/tune_runs.h"
#include "cmd/malloc_trace/tune/tune_search.h"

#include <stdio.h>

/* A point beside the default. */
struct tune_verdict {
    struct compare_range of[TUNE_GOALS];
    double figure[TUNE_GOALS];   /* of the point; NAN: unknown */
    double baseline[TUNE_GOALS]; /* of the default */
};

enum { TUNE_PROGRAM_QUANTITIES = 3 }; /* mean, peak, time */

struct tune_outcome {
    const struct tune_runs *runs;
    const struct tune_search *search;
    size_t *order; /* candidates, the best first */
    size_t ranked;
    double margin;
    bool interrupted;
    uint64_t elapsed_ns;
    /* the best candidates that are not the default and lose no more than
       --most-loss allows, if there are such, and their verdicts from fresh
       runs */
    size_t finalist[2];
    size_t finalists;
    bool judged;
    struct tune_verdict verdict[2];
    struct compare_range apart; /* first finalist beside the second: the goal */
    size_t proposed;            /* a finalist's index; SIZE_MAX: none */
    bool apart_shown;           /* the two are told apart */
    bool has_holdout;
    struct tune_verdict holdout; /* of the proposed one, or the best */
    bool ran_program;
    struct compare_effect program[TUNE_PROGRAM_QUANTITIES];
    struct compare_machine_notes disturbances;
};

/* --- Judgement (tune_judge.c) --------------------------------------------- */

/* Fresh runs of each contestant, for an interval. */
enum { TUNE_FRESH_ROUNDS = 9 };
/* Chance that an interval misses: those beside the default and beside the
   runner-up hold together with 95 %. */
#define TUNE_FRESH_ALPHA 0.025

/* Tells whether V is worth a change: the goal is met by more than MARGIN, its
   interval lies below 1, and the guarded quantity is at most `most_loss` worse,
   as far as the fresh runs tell: a loss is guarded against without proof. */
bool tune_verdict_is_worth(const struct tune_runs *r,
                           const struct tune_verdict *v, double margin);

/* Ranks the candidates and chooses the finalists. false: out of memory. */
bool tune_outcome_begin(struct tune_outcome *o);
/* Makes the fresh runs and decides what is proposed. false: a message was
   printed. An interruption leaves `judged` false, as do no finalists. */
bool tune_judge(struct tune_outcome *o);
/* Judges the finalist that is proposed, or else the best, on the traces of
   HOLDOUT. */
bool tune_judge_holdout(struct tune_outcome *o,
                        const struct comparison *holdout);
/* Runs COMMAND under the default and under that finalist. */
bool tune_judge_program(struct tune_outcome *o,
                        const struct compare_command *command);
/* The finalist that holdout and program judge. */
size_t tune_outcome_shown(const struct tune_outcome *o);

/* --- Output (tune_print.c) ------------------------------------------------ */

void tune_print(const struct tune_outcome *o, FILE *out);
bool tune_json(const struct tune_outcome *o, const char *path);
bool tune_page(const struct tune_outcome *o, const char *path,
               const char *command);

void tune_outcome_free(struct tune_outcome *o);

#endif
