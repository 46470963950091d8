/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verdicts: how a contestant differs from the baseline, and how sure that is.
 *
 * With N differences of logarithms the interval is Wilcoxon's (model/interval).
 * The differences are those of the rounds, each the mean over all traces; or,
 * where rounds are too few, those of the traces, each the middle of its rounds:
 * then the verdict is about traces like these.
 *
 * Multiple comparisons are corrected for by Bonferroni: all intervals of all
 * contestants and measured metrics hold together with `confidence`. So do all
 * those of runs of the program, of all contestants and of time and memory.
 *
 * Threads: any, the comparison is only read.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_VERDICT_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_VERDICT_H

#include "cmd/malloc_trace/compare/compare_model.h"

/* To be called after runs were added, before all functions below. Finds each
   interval's share of the chance to be wrong, of the replays and of runs of the
   program, and the replayer's own share of
   each trace's time: the middle of all its runs, as a single run's is less sure
   than the time it is taken from. false: out of memory, a message was
   printed. */
bool compare_verdict_prepare(struct comparison *c);

/* --- Figures -------------------------------------------------------------- */

/* Figure of a run, without the replayer's own share; NAN: it has none. */
double compare_verdict_figure(const struct comparison *c, size_t round,
                              size_t trace, size_t contestant,
                              enum compare_metric m);

/* The middle of the rounds of a trace; NAN: no round has a figure. ROOM is
   scratch for c->rounds figures. */
double compare_verdict_middle(const struct comparison *c, size_t trace,
                              size_t contestant, enum compare_metric m,
                              double *room);

/* Time of an operation over all traces, ns. */
struct compare_time_parts {
    bool known;          /* false: nothing else is set */
    double time, system; /* the middle of the rounds */
    /* of the round with least time, and of that with most */
    double least, least_system, most, most_system;
    double ops; /* of a round */
};
/* false: out of memory, a message was printed. */
bool compare_verdict_parts(const struct comparison *c, size_t contestant,
                           struct compare_time_parts *p);

/* Why times differ. The kernel's samples of short times tell nothing, so both
   are false of small differences. */
struct compare_system_cause {
    bool of_difference; /* half of the difference to the baseline, or more, is
                           system time */
    bool of_spread;     /* so is that of the difference between rounds */
    struct compare_time_parts own, base;
};
/* false: out of memory, a message was printed. */
bool compare_verdict_system_cause(const struct comparison *c, size_t contestant,
                                  struct compare_system_cause *cause);

/* Mean memory over recorded time, times that time, of all traces: gigabytes
   (10^9 bytes) times hours. NAN: recorded time did not pass, or a figure is
   missing. */
double compare_verdict_gb_hours(const struct comparison *c, size_t contestant);

/*
 * Share of malloc in the processor time that the program of TRACE would take
 * with the baseline, in per cent. Its time was recorded under this project's
 * library; so the total is that time, less the replay under that library, plus
 * the replay under the baseline. NAN: no contestant is that library as it was
 * recorded, or the trace has no recorded time, or one that is shorter than
 * malloc alone took in the replay and hence no measure of it.
 */
double compare_verdict_malloc_percent(const struct comparison *c, size_t trace);

/* --- One verdict ---------------------------------------------------------- */

enum compare_verdict_kind {
    VERDICT_NOT_SHOWN, /* the interval holds 1, and reaches beyond the margin */
    VERDICT_LESS,      /* it is below 1, and reaches beyond the margin */
    VERDICT_MORE,      /* it is above 1, and reaches beyond the margin */
    VERDICT_NO_WORSE   /* it ends below 1 and the margin */
};

struct compare_verdict {
    bool measured;   /* false: nothing else is set */
    double typical;  /* the contestant's figure, in the metric's unit */
    double baseline; /* the baseline's figure */
    double ratio;
    bool of_none; /* the baseline's figure is 0: the ratio means nothing */
    bool has_interval;
    double low, high;
    double smallest; /* difference that would have been shown, 0.01: 1 % */
    size_t samples;  /* differences that the interval is made of */
    enum compare_verdict_kind kind;
};

/* CONTESTANT may be the baseline, whose ratio is 1. false: out of memory, a
   message was printed. */
bool compare_verdict_of(const struct comparison *c, size_t contestant,
                        enum compare_metric m, struct compare_verdict *v);
/* Compares CONTESTANT with BASE in place of the baseline. */
bool compare_verdict_between(const struct comparison *c, size_t contestant,
                             size_t base, enum compare_metric m,
                             struct compare_verdict *v);
/* The verdict in words: "faster", "no worse", ... */
const char *compare_verdict_text(const struct compare_verdict *v,
                                 enum compare_metric m);
/* Least number of rounds with which intervals are known. */
size_t compare_verdict_least_rounds(const struct comparison *c);

/* --- All verdicts --------------------------------------------------------- */

struct compare_sheet {
    struct compare_verdict (*verdict)[METRICS]; /* of each contestant */
    size_t *order; /* contestants with figures, the fastest first */
    size_t ranked; /* number of those */
};

/* false: out of memory, a message was printed. */
bool compare_sheet_make(const struct comparison *c, struct compare_sheet *s);
void compare_sheet_free(struct compare_sheet *s);

/* The contestant with the least ratio of those shown to take less than the
   baseline; SIZE_MAX: none is. */
size_t compare_sheet_best(const struct compare_sheet *s, enum compare_metric m);

/* ON[i]: contestant i has figures, and no other one takes both less time and
   less memory at the peak. */
void compare_verdict_frontier(const struct comparison *c, bool *on);

#endif
