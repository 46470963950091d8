/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the runs of a comparison say of a contestant beside the baseline.
 *
 * With N differences of logarithms the interval is Wilcoxon's (model/interval).
 * They are those of the rounds, each the mean over all traces; or, where there
 * are too few rounds, those of the traces, each the middle of its rounds: then
 * the verdict is about traces like these.
 *
 * Multiple comparisons are corrected for by Bonferroni: all intervals of all
 * contestants and measured metrics hold together with `confidence`.
 *
 * Threads: any, the comparison is only read.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_VERDICT_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_VERDICT_H

#include "cmd/malloc_trace/compare/compare_model.h"

enum compare_verdict_kind {
    VERDICT_NOT_SHOWN, /* the interval has no difference in it, and too much */
    VERDICT_LESS,      /* it is below 1, not just within the margin */
    VERDICT_MORE,
    VERDICT_NO_WORSE /* it ends below 1 and the margin */
};

struct compare_verdict {
    bool measured;   /* otherwise nothing else is set */
    double typical;  /* the contestant's figure, in the metric's unit */
    double baseline; /* and the baseline's */
    double ratio;
    bool of_none; /* the baseline has none of it: the ratio says nothing */
    bool has_interval;
    double low, high;
    double smallest; /* difference that would have been shown, 0.01: 1 % */
    size_t samples;  /* differences that the interval is made of */
    enum compare_verdict_kind kind;
};

/* After runs were added, before all that follows: finds the share of the
   chance to be wrong that each interval has, and the replayer's own
   share of each trace's time, the middle of all its runs, since that of a
   single run is less sure than what it is taken from. false: out of memory, a
   message is out. */
bool compare_verdict_prepare(struct comparison *c);

/* Figure of a run, without the replayer's own share; NAN: it has
   nothing. */
double compare_verdict_figure(const struct comparison *c, size_t round,
                              size_t trace, size_t contestant,
                              enum compare_metric m);

/* The middle of the rounds of a trace; NAN: there is none. ROOM for as many as
   there are rounds. */
double compare_verdict_middle(const struct comparison *c, size_t trace,
                              size_t contestant, enum compare_metric m,
                              double *room);

/*
 * Share of malloc in the processor time that the program of TRACE would take
 * with the baseline, in per cent. Its time was recorded under this project's
 * library; so the whole is that time, less the replay under that library, plus
 * the replay under the baseline. NAN: no contestant is that library as it was
 * recorded, or the trace has no recorded time, or less than malloc alone took
 * in the replay, which then is no measure of it.
 */
double compare_verdict_malloc_percent(const struct comparison *c, size_t trace);

/* CONTESTANT may be the baseline, whose ratio is 1. false: out of memory, a message is
   out. */
bool compare_verdict_of(const struct comparison *c, size_t contestant,
                        enum compare_metric m, struct compare_verdict *v);
/* Compares CONTESTANT with another contestant than the baseline. */
bool compare_verdict_between(const struct comparison *c, size_t contestant,
                             size_t base, enum compare_metric m,
                             struct compare_verdict *v);
/* The words for it: "faster", "no worse", ... */
const char *compare_verdict_text(const struct compare_verdict *v,
                                 enum compare_metric m);
/* Rounds from which on intervals are known. */
size_t compare_verdict_least_rounds(const struct comparison *c);

/* The contestants with figures, the one that takes least time first; returns
   how many. ORDER has room for all. */
size_t compare_verdict_rank(const struct comparison *c, size_t *order);

/* ON[i]: contestant i has figures, and no other one takes both less time and
   less memory at the peak. */
void compare_verdict_frontier(const struct comparison *c, bool *on);

struct compare_sheet {
    struct compare_verdict (*verdict)[METRICS]; /* of each contestant */
    size_t *order; /* of those with figures, the fastest first */
    size_t ranked;
};

/* false: out of memory, a message is out. */
bool compare_sheet_make(const struct comparison *c, struct compare_sheet *s);
void compare_sheet_free(struct compare_sheet *s);

/* The one with the least ratio of those shown to be less than the baseline;
   SIZE_MAX: none is. */
size_t compare_sheet_best(const struct compare_sheet *s, enum compare_metric m);

#endif
