/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/interval.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

/* Number of differences up to which the distribution of the rank sum is
   computed; above, the normal distribution is close enough. */
enum { EXACT = 50, EXACT_SUMS = EXACT * (EXACT + 1) / 2 + 1 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void sort(double *v, size_t n) {
    qsort(v, n, sizeof(*v), compare);
}

double interval_median(double *v, size_t n) {
    TCM_ASSERT(n > 0);
    sort(v, n);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* Returns the point that a standard normal variable exceeds with probability
   P. */
static double normal_upper(double p) {
    double low = 0, high = 40;
    for (int i = 0; i < 80; i++) {
        double z = (low + high) / 2;
        if (erfc(z / sqrt(2)) / 2 > p)
            low = z;
        else
            high = z;
    }
    return low;
}

/* --- Walsh averages ------------------------------------------------------- */

/* Counts the averages of two of the N sorted values D, or of one with itself,
   that are at most LIMIT. One pass counts them; they are not stored. */
static double walsh_count(const double *d, size_t n, double limit) {
    double count = 0;
    size_t end = n; /* d[i] + d[j] <= 2 limit for j < end */
    for (size_t i = 0; i < n; i++) {
        while (end > i && d[i] + d[end - 1] > 2 * limit)
            end--;
        if (end <= i)
            break;
        count += (double)(end - i);
    }
    return count;
}

/* Returns the RANK-th smallest average, counted from 1: the least value that
   RANK averages do not exceed. */
static double walsh_rank(const double *d, size_t n, double rank) {
    double low = d[0], high = d[n - 1];
    if (walsh_count(d, n, low) >= rank)
        return low;
    for (int i = 0; i < 200 && low < high; i++) {
        double mid = low + (high - low) / 2;
        if (mid <= low || mid >= high)
            break;
        if (walsh_count(d, n, mid) >= rank)
            high = mid;
        else
            low = mid;
    }
    return high;
}

/* --- The rank sum --------------------------------------------------------- */

/* Gets the largest K such that the sum of the ranks of positive differences is
   at most K with probability P or less. False: there is none. */
static bool sum_limit(size_t n, double p, double *limit) {
    double pairs = (double)n * ((double)n + 1) / 2;
    if (n > EXACT) {
        double mean = pairs / 2;
        double deviation = sqrt(pairs * (2 * (double)n + 1) / 12);
        *limit = floor(mean - 0.5 - normal_upper(p) * deviation);
        return *limit >= 0;
    }
    /* chance[s]: probability that the ranks so far sum up to S */
    double chance[EXACT_SUMS] = {1};
    size_t top = 0;
    for (size_t rank = 1; rank <= n; rank++) {
        top += rank;
        for (size_t s = top + 1; s-- > 0;)
            chance[s] = (chance[s] + (s >= rank ? chance[s - rank] : 0)) / 2;
    }
    double sum = 0;
    size_t k = 0;
    while (k <= top && sum + chance[k] <= p)
        sum += chance[k++];
    *limit = (double)k - 1;
    return k > 0;
}

size_t interval_least(double alpha) {
    double p = alpha / 2;
    size_t n = 1;
    for (double chance = 0.5; chance > p; chance /= 2)
        n++;
    return n;
}

struct interval interval_of(double *d, size_t n, double alpha) {
    struct interval v = {0};
    double limit;
    TCM_ASSERT(n > 0 && alpha > 0 && alpha < 1);
    sort(d, n);
    double pairs = (double)n * ((double)n + 1) / 2;
    v.middle = (walsh_rank(d, n, floor((pairs + 1) / 2)) +
                walsh_rank(d, n, floor(pairs / 2) + 1)) /
               2;
    v.known = sum_limit(n, alpha / 2, &limit);
    if (!v.known)
        return v;
    v.low = walsh_rank(d, n, limit + 1);
    v.high = walsh_rank(d, n, pairs - limit);
    /* Noise alone rarely shows a difference of half the interval. To be seen in
       19 of 20 repetitions, a true difference must be larger than that by the
       amount that noise takes away in one of 20. */
    double noise = normal_upper(alpha / 2);
    v.detectable = (v.high - v.low) / 2 * (noise + normal_upper(0.05)) / noise;
    return v;
}

/* --- Few differences ------------------------------------------------------ */

/* The chance that Student's T with DF degrees of freedom is within +-T
   (Abramowitz, Stegun: Handbook of Mathematical Functions, 26.7.3 and 4). */
static double student_within(double t, size_t df) {
    double angle = atan(t / sqrt((double)df)), cosine = cos(angle);
    double term = df % 2 == 0 ? 1 : cosine, sum = 0;
    for (size_t k = df % 2 == 0 ? 2 : 3; k <= df; k += 2) {
        sum += term;
        term *= cosine * cosine * (double)(k - 1) / (double)k;
    }
    sum *= sin(angle);
    return df % 2 == 0 ? sum : (angle + sum) * 2 / M_PI;
}

/* The T that is exceeded to both sides with the chance ALPHA. */
static double student_limit(double alpha, size_t df) {
    double low = 0, high = 1e6;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (1 - student_within(middle, df) > alpha)
            low = middle;
        else
            high = middle;
    }
    return high;
}

struct interval interval_of_few(double *d, size_t n, double alpha) {
    struct interval v = interval_of(d, n, alpha);
    double mean = 0, squares = 0;
    if (v.known || n < 3)
        return v;
    for (size_t i = 0; i < n; i++)
        mean += d[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (d[i] - mean) * (d[i] - mean);
    double deviation = sqrt(squares / (double)(n - 1) / (double)n);
    double half = student_limit(alpha, n - 1) * deviation;
    v.known = true;
    v.low = fmin(mean - half, v.middle);
    v.high = fmax(mean + half, v.middle);
    v.detectable = half + student_limit(0.1, n - 1) * deviation;
    return v;
}
