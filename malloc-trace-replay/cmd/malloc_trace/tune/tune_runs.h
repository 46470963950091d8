/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of a search: rounds of replays of points, each beside the default; their
 * figures; and the file that keeps them, from which a search goes on.
 *
 * A figure of a run counts as its ratio to that of the default in the same
 * round; with several traces each weighs the same.
 *
 * Invariants: the file is whole at any time. Each round has a run of the
 * default.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_RUNS_H
#define TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_RUNS_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "cmd/malloc_trace/tune/tune_space.h"

/* Quantities, of which one is the goal. */
enum tune_goal {
    TUNE_MEMORY, /* mean resident bytes */
    TUNE_PEAK,   /* most resident bytes */
    TUNE_TIME,   /* processor time an operation, in ns */
    TUNE_COST,   /* of a month of such running */
    TUNE_GOALS
};
extern const char *const tune_goal_name[TUNE_GOALS + 1]; /* up to NULL */
extern const char *const tune_goal_title[TUNE_GOALS];

/* Figures of one replay of a trace, without the replayer's share; NAN: there is
   none. */
struct tune_figures {
    double time_ns, mean_bytes, peak_bytes;
};

/* Run of a point: one replay of each trace. */
struct tune_run {
    char *point; /* its name */
    uint64_t round;
    bool failed;
    bool taken; /* by tune_runs_take */
    struct tune_figures *trace;
};

struct tune_runs {
    struct comparison base; /* traces, and allocators without settings */
    struct tune_space space;
    size_t *contestant; /* of each allocator of the space, in base */
    enum tune_goal goal;
    double most_loss; /* in the other quantity that a user would mind */
    double gb_month, cpu_hour; /* prices; 0: unknown */
    uint64_t seed;
    const char *file; /* that keeps the runs; NULL: none */
    /* of each trace: processor time of the program besides malloc */
    double *rest_ns;
    bool rest_assumed; /* malloc was taken for a tenth of the program */
    struct tune_run *run;
    size_t count, room;
    uint64_t rounds;
    uint64_t replays, replays_ns; /* made by this process */
    uint64_t failures;            /* runs without a figure */
    char failure[TUNE_TEXT];      /* the first of them, and why */
};

/* --- Figures -------------------------------------------------------------- */

/* One quantity of trace T of the comparison C; NAN: it is unknown. */
double tune_runs_quantity(const struct tune_runs *r, const struct comparison *c,
                          enum tune_goal goal, size_t t,
                          const struct tune_figures *f);

/* Quantity that must not be more than `most_loss` worse: time where the goal is
   memory, and the reverse; TUNE_GOALS: none, the goal has all. */
enum tune_goal tune_runs_guarded(const struct tune_runs *r);
/* Ratio of the program's time, from that of malloc's time. */
double tune_runs_program_ratio(const struct tune_runs *r, double malloc_ratio);

/* Score of a run for tune_search_tell: the logarithm of the goal's ratio, and
   more for what is lost beyond `most_loss`; NAN: it failed. */
double tune_runs_score(const struct tune_runs *r, const struct tune_run *run);

/* Ratio of a quantity of the point NAME to the default, over all its runs; NAN:
   it has none. */
double tune_runs_ratio(const struct tune_runs *r, const char *name,
                       enum tune_goal goal);

/* Ratio of the guarded quantity of the point NAME over its runs, of time the
   program's; NAN: nothing is guarded, or it is unknown. */
double tune_runs_loss(const struct tune_runs *r, const char *name);
/* Tells whether the point NAME loses at most `most_loss`. */
bool tune_runs_is_within(const struct tune_runs *r, const char *name);

/* --- Runs ----------------------------------------------------------------- */

/* Makes C a comparison of POINTS, N of them, the default first, over the traces
   of FROM. false: a message was printed. */
bool tune_runs_compare(const struct tune_runs *r, const struct comparison *from,
                       const struct tune_point *points, size_t n,
                       struct comparison *c);

/* Makes a round of POINTS, N of them, the default first, and saves it. false: a
   message was printed, or a stop was requested. */
bool tune_runs_round(struct tune_runs *r, const struct tune_point *points,
                     size_t n);

/* The next run of the point NAME that was not taken; NULL: there is none. */
struct tune_run *tune_runs_take(struct tune_runs *r, const char *name);

/* Reads the runs in the file, if it exists. false: a message was printed. */
bool tune_runs_load(struct tune_runs *r);
void tune_runs_free(struct tune_runs *r);

#endif
