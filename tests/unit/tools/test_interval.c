/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Hodges-Lehmann estimate and its interval: against all Walsh averages and
 * all signs counted one by one, and against what they promise of random
 * differences.
 */
#include "model/interval.h"
#include "tests/lib/prng.h"
#include "tests/lib/rounds.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 14 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* P(sum of positive ranks <= k) from all 2^n choices of signs. */
static double chance_of(size_t n, unsigned k) {
    unsigned count = 0;
    for (unsigned signs = 0; signs < 1u << n; signs++) {
        unsigned sum = 0;
        for (unsigned i = 0; i < n; i++)
            sum += (signs >> i & 1) * (i + 1);
        count += sum <= k;
    }
    return (double)count / (double)(1u << n);
}

static double walsh[MOST * (MOST + 1) / 2];

static size_t walsh_make(const double *d, size_t n) {
    size_t w = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            walsh[w++] = (d[i] + d[j]) / 2;
    qsort(walsh, w, sizeof(*walsh), compare);
    return w;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * (1 + fabs(a));
}

/* Uniform in -0.5 to 0.5. */
static double uniform(struct prng *r) {
    return (double)(prng_next(r) >> 11) / 9007199254740992.0 - 0.5;
}

static void test_counted(void) {
    struct prng r;
    bool good = true;
    prng_seed(&r, 71);
    for (size_t n = 1; n <= MOST; n++)
        for (int alpha = 1; alpha <= 3; alpha++) {
            static const double level[] = {0, 0.2, 0.05, 0.002};
            double d[MOST];
            for (size_t i = 0; i < n; i++)
                d[i] = n % 3 == 0 ? floor(10 * uniform(&r)) : uniform(&r);
            size_t w = walsh_make(d, n);
            struct interval v = interval_of(d, n, level[alpha]);
            unsigned k = 0;
            while (chance_of(n, k) <= level[alpha] / 2)
                k++;
            good = good && v.known == (k > 0) &&
                   v.known == (n >= interval_least(level[alpha])) &&
                   near(v.middle, (walsh[(w - 1) / 2] + walsh[w / 2]) / 2);
            if (v.known)
                good = good && near(v.low, walsh[k - 1]) &&
                       near(v.high, walsh[w - k]) && v.detectable >= 0;
        }
    tap_ok(good, "estimate and interval are those of a count of all cases");
}

static void test_known(void) {
    /* Hollander and Wolfe, table 3.1: Hamilton depression scale factors of nine
       patients; the estimate is -0.46, and the interval of 96.1 % reaches from
       -0.786 to -0.010. */
    double d[] = {-0.952, 0.147,  -1.022, -0.430, -0.620,
                  -0.590, -0.490, 0.080,  -0.010};
    struct interval v = interval_of(d, 9, 0.04);
    tap_ok(near(v.middle, -0.46), "the estimate of a textbook's example");
    tap_ok(v.known && near(v.low, -0.786) && near(v.high, -0.01),
           "and its interval: %g to %g", v.low, v.high);
}

static void test_median(void) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    tap_ok(interval_median(odd, 3) == 2 && interval_median(even, 4) == 2.5 &&
               interval_median(one, 1) == 7,
           "the median of odd and even numbers of values");
}

static void test_even(void) {
    double d[20];
    for (int i = 0; i < 20; i++)
        d[i] = 0.25;
    struct interval v = interval_of(d, 20, 0.01);
    tap_ok(v.known && v.middle == 0.25 && v.low == 0.25 && v.high == 0.25 &&
               v.detectable == 0,
           "equal differences have an interval without width");
}

/* How often the interval misses the middle of differences that are drawn at
   random, in per cent. */
static double missed(size_t n, double alpha, int shape, unsigned rounds) {
    struct prng r;
    unsigned misses = 0;
    double *d = malloc(n * sizeof(*d));
    prng_seed(&r, 1000 * n + (unsigned)shape);
    for (unsigned t = 0; t < rounds; t++) {
        for (size_t i = 0; i < n; i++) {
            double u = uniform(&r);
            d[i] = 3 + (shape == 0   ? u
                        : shape == 1 ? tan(3.14159 * u) /* heavy tails */
                                     : u * u * u);
        }
        struct interval v = interval_of(d, n, alpha);
        misses += v.low > 3 || v.high < 3;
    }
    free(d);
    return 100.0 * misses / rounds;
}

static void test_promise(void) {
    unsigned rounds = rounds_of(4000, 40000);
    static const size_t sizes[] = {12, 40, 60, 200};
    for (size_t s = 0; s < 4; s++) {
        double most = 0;
        for (int shape = 0; shape < 3; shape++)
            most = fmax(most, missed(sizes[s], 0.05, shape, rounds));
        /* four standard deviations of the count */
        double limit = 5 + 400 * sqrt(0.05 * 0.95 / rounds);
        tap_ok(most <= limit, "of %zu differences at most 5 %% miss: %.2f %%",
               sizes[s], most);
    }
}

/* A difference of the size that is called detectable is found in 19 of 20. */
static void test_detectable(void) {
    struct prng r;
    unsigned rounds = rounds_of(2000, 20000), found = 0;
    double d[30], sum = 0;
    prng_seed(&r, 99);
    for (unsigned t = 0; t < rounds; t++) {
        for (int i = 0; i < 30; i++)
            d[i] = uniform(&r) + uniform(&r) + uniform(&r);
        sum += interval_of(d, 30, 0.01).detectable;
    }
    double shift = sum / rounds;
    for (unsigned t = 0; t < rounds; t++) {
        for (int i = 0; i < 30; i++)
            d[i] = shift + uniform(&r) + uniform(&r) + uniform(&r);
        found += interval_of(d, 30, 0.01).low > 0;
    }
    double percent = 100.0 * found / rounds;
    tap_ok(percent > 92 && percent < 99,
           "what is called detectable is found: %.1f %%", percent);
}

/* Three recordings have an interval, which the normal distribution's tails
   would make too narrow. */
static void test_few(void) {
    double d[] = {0.1, 0.2, 0.3}, same[] = {0.1, 0.1, 0.1}, two[] = {0.1, 0.2};
    struct interval v = interval_of_few(d, 3, 0.05);
    /* 4.3027 standard deviations of the mean */
    tap_ok(v.known && fabs(v.low - (0.2 - 0.24842)) < 1e-4 &&
               fabs(v.high - (0.2 + 0.24842)) < 1e-4,
           "three differences have Student's interval: %g to %g", v.low,
           v.high);
    v = interval_of_few(same, 3, 0.05);
    tap_ok(v.known && fabs(v.low - 0.1) < 1e-12 && fabs(v.high - 0.1) < 1e-12,
           "equal ones have none of their own");
    tap_ok(!interval_of_few(two, 2, 0.05).known, "two have no interval");
    struct prng random;
    prng_seed(&random, 7);
    unsigned missed = 0, comparisons = 4000;
    for (unsigned k = 0; k < comparisons; k++) {
        double four[4];
        for (int i = 0; i < 4; i++) { /* about normal */
            four[i] = 0;
            for (int n = 0; n < 12; n++)
                four[i] += uniform(&random);
        }
        v = interval_of_few(four, 4, 0.05);
        missed += v.low > 0 || v.high < 0;
    }
    tap_diag("%u of %u", missed, comparisons);
    tap_ok(missed < comparisons * 7 / 100, "intervals of four hold");
}

int main(void) {
    test_counted();
    test_known();
    test_median();
    test_even();
    test_promise();
    test_detectable();
    test_few();
    return tap_done();
}
