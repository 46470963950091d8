/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large a difference is, and how sure: the Hodges-Lehmann estimate of the
 * middle of paired differences, with the interval that goes with Wilcoxon's
 * signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical
 * Methods, section 3.2). Their distribution need only be symmetric about its
 * middle; that of two runs made in random order is.
 *
 * Threads: any, nothing is shared.
 */
#ifndef TOOL_MODEL_INTERVAL_H
#define TOOL_MODEL_INTERVAL_H

#include "base/compiler.h"

struct interval {
    double middle;
    bool known; /* there are enough differences for LOW and HIGH */
    double low, high;
    /* The difference that a repetition of the whole would show in 19 of 20
       cases, if it existed. */
    double detectable;
};

/*
 * The interval of the N > 0 differences in D, which are sorted in place. It
 * misses the middle with probability ALPHA at most (0 < ALPHA < 1).
 */
struct interval interval_of(double *d, size_t n, double alpha);

/* The least number of differences with which an interval is known. */
size_t interval_least(double alpha);

/* The middle of N > 0 values, which are sorted in place. */
double interval_median(double *v, size_t n);

#endif
