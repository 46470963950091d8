/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's own time and memory under every contestant: predicted from the
 * replays of its trace, and measured by running the program itself.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PROGRAM_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "common/child.h"
#include "common/json.h"

#include <stdio.h>

/* --- Runs ----------------------------------------------------------------- */

/* A command that is run under every contestant. */
struct compare_command {
    char **words;         /* up to NULL */
    int status;           /* exit status of a run that succeeds */
    uint64_t recorded_ns; /* time of the recorded run */
    bool asked;           /* the user wants it to run, however long it takes */
};

/* Tells whether a command can be run again: its standard input is empty, a
   terminal, or a file. */
bool compare_program_can_repeat(void);

/* Returns the child that runs COMMAND and drops its output. */
struct tool_child_spec
compare_program_spec(const struct compare_command *command);
/* Tells whether a run of COMMAND that ended with END did not succeed. */
bool compare_program_has_failed(const struct compare_command *command,
                                const struct tool_child_end *end);
/* Returns a processor time, in ns. */
double compare_program_ns(struct timeval t);

/* Runs COMMAND under a contestant and drops its output. false: a message was
   printed, or a stop was requested. */
bool compare_program_run(struct comparison *c,
                         const struct compare_command *command, size_t round,
                         size_t contestant);

/* --- Effects -------------------------------------------------------------- */

/* A ratio with its interval. */
struct compare_range {
    bool known; /* false: nothing else is set */
    double ratio;
    bool has_interval;
    double low, high;
};

/* Effect of a contestant on the program, as ratios to another contestant. */
struct compare_effect {
    double share; /* of malloc in the other contestant's figure; NAN: unknown */
    double base;  /* middle of the program's figures with the other contestant;
                     NAN: the program was not run */
    struct compare_range predicted; /* from the replays */
    struct compare_range measured;  /* from runs of the program */
};

/*
 * Finds the effect of CONTESTANT beside BASE. A replay's ratio R becomes the
 * program's by malloc's share S: 1 + S * (R - 1). The share is that of the
 * replay under BASE in the program's own figure, where the program was run.
 * Else the share of time is that of compare_verdict_malloc_percent, and effects
 * on memory are those on the heap's, whose share is 1. Where the recorded run
 * was sampled, the program's peak is predicted instead as the largest sum of
 * its memory beside the heap and that of the replay, moment by moment. All
 * intervals of measured effects hold together with c->confidence. false: out of
 * memory, a message was printed.
 */
bool compare_effect_of(const struct comparison *c, size_t contestant,
                       size_t base, enum compare_quantity q,
                       struct compare_effect *e);

/* Predicts the ratio of the program's memory over time, M, from that of the
   heap in the replays and the program's mean memory beside its heap, where the
   recorded run was sampled. false: out of memory, a message was printed. */
bool compare_effect_over_time(const struct comparison *c, size_t contestant,
                              size_t base, enum compare_metric m,
                              struct compare_range *r);

/* Tells whether the intervals of prediction and measurement are disjoint. */
bool compare_effect_is_contradicted(const struct compare_effect *e);

/* --- Output --------------------------------------------------------------- */

/* Tables of predicted and measured ratios. */
bool compare_program_print(const struct comparison *c, FILE *out);
bool compare_program_json(const struct comparison *c, struct tool_json *j);

#endif
