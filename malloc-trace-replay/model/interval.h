/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Estimate of a difference between paired measurements, with a confidence
 * interval: the Hodges-Lehmann estimate of the middle of the differences, and
 * the interval that belongs to Wilcoxon's signed-rank test (Hollander, Wolfe,
 * Chicken: Nonparametric Statistical Methods, section 3.2). The distribution of
 * the differences need only be symmetric about its middle; for pairs of runs in
 * random order it is.
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
    /* Smallest true difference that 19 of 20 repetitions of the whole
       measurement would show. */
    double detectable;
};

/*
 * Returns the interval of the N > 0 differences in D, which are sorted in
 * place. The interval misses the true middle with probability ALPHA at most (0
 * < ALPHA < 1).
 */
struct interval interval_of(double *d, size_t n, double alpha);

/* Like interval_of, for differences that may be too few for ranks: then they
   are taken to be normally distributed, and three or more have Student's
   interval. */
struct interval interval_of_few(double *d, size_t n, double alpha);

/* Returns the least number of differences that make LOW and HIGH known. */
size_t interval_least(double alpha);

/* Returns the median of N > 0 values, which are sorted in place. */
double interval_median(double *v, size_t n);

#endif
