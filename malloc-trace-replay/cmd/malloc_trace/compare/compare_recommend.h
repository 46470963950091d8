/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One answer: which contestant to take, or to stay with the baseline.
 *
 * A change is worth its effort if the program gains 1 % of its time, 5 % of its
 * memory, or a mixture of both in which 5 % of memory count as much as 1 % of
 * time and a loss in one is subtracted from the gain in the other; judged at
 * the unfavourable ends of both intervals. Of the contestants that are worth a
 * change the one with the largest gain is recommended. One that gains less than
 * that over another contestant, at the same ends, is not told apart from it.
 *
 * Memory is the figure that the program feels: over recorded time the mean,
 * else the peak; but where one of peak, mean and memory after the peak grows by
 * 5 % of the baseline's peak or more, the one that grows by most bytes.
 *
 * Effects are those that the replays predict. Where the program was run and its
 * interval is disjoint from the prediction's, or nothing is predicted, the
 * effect is that on the program. Where malloc's share of the program's time is
 * unknown, it is assumed to be a tenth, and gains are given of malloc's time.
 *
 * Threads: any, the comparison is only read.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RECOMMEND_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_RECOMMEND_H

#include "cmd/malloc_trace/compare/compare_program.h"

/* Least gains that are worth a change, as parts of the program's time and of
   its memory. */
#define COMPARE_WORTH_TIME   0.01
#define COMPARE_WORTH_MEMORY 0.05
/* Malloc's share of the program's time where it is unknown. */
#define COMPARE_ASSUMED_SHARE 0.1
/* Part of a program's time by which the predicted time missed that of the
   program's own runs, of 14 programs under 4 allocators (doc/fidelity.md). */
#define COMPARE_MISS_MEDIAN 0.028
#define COMPARE_MISS_MOST   0.086

enum compare_advice {
    COMPARE_ADVICE_NONE, /* there are too few figures */
    COMPARE_ADVICE_STAY,
    COMPARE_ADVICE_TAKE
};

/* Effects of a contestant beside another one. */
struct compare_prospect {
    bool known; /* false: nothing else is set */
    /* ratios of the program's time and memory; of malloc's time if the share is
       assumed */
    struct compare_range time, memory;
    enum compare_metric figure; /* of memory: peak, mean, or after the peak */
    bool share_assumed;
    struct compare_effect effect[COMPARE_QUANTITIES]; /* that these are from */
    bool by_program;       /* a ratio is of runs of the program */
    bool contradicted;     /* these differ from what replays predict */
    double gain;           /* of time; 5 % of memory count as 1 % of time */
    double safe_gain;      /* at the unfavourable ends of the intervals */
    double predicted_gain; /* safe_gain by the predictions alone */
};

struct compare_recommendation {
    enum compare_advice advice;
    size_t contestant;                /* the baseline's: stay; SIZE_MAX: none */
    size_t runner_up;                 /* it is not told apart; SIZE_MAX: none */
    struct compare_prospect prospect; /* of the contestant */
    bool by_program; /* it was decided by runs of the program */
    char reason[256];
    char text[512];  /* the answer, one line without its end */
    char basis[512]; /* where its figures come from, such a line; may be "" */
};

/* false: out of memory, a message was printed. */
bool compare_recommend(const struct comparison *c,
                       struct compare_recommendation *r);

bool compare_recommend_json(const struct comparison *c, struct tool_json *j);

#endif
