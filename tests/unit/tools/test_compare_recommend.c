/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recommendation of a comparison, and what it stands on: figures made up
 * with a known truth, for each rule, and random ones for what always holds.
 */
#include "cmd/malloc_trace/compare/compare_recommend.h"

#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "tests/lib/prng.h"
#include "tests/lib/tap.h"

#include <math.h>

enum { OPS = 1000 };
#define TIME_NS    100.0 /* an operation with the baseline */
#define PEAK_BYTES 1e8

static struct comparison c;
static struct prng rng;

/* A factor near 1 that differs from it by up to NOISE. */
static double jitter(double noise) {
    return 1 + noise * ((double)prng_below(&rng, 2001) / 1000 - 1);
}

/* A comparison of COUNT contestants "a", "b", ... over ROUNDS rounds, in place
   of the last one; "a" is the baseline. */
static void begin(size_t count, size_t rounds) {
    comparison_free(&c);
    c.margin = 0.02;
    c.confidence = 0.95;
    for (size_t i = 0; i < count; i++) {
        char name[] = {(char)('a' + i), '\0'};
        (void)compare_contestants_add_plain(&c.contestants, name, "/l.so");
    }
    (void)comparison_add_trace(&c, "t", "t");
    c.trace[0].ops = OPS;
    (void)comparison_make_room(&c, rounds);
    c.made = rounds;
}

/* Figures of contestant I, as ratios to TIME_NS and PEAK_BYTES. */
static void put(size_t i, double time, double memory, double noise) {
    for (size_t r = 1; r <= c.rounds; r++) {
        struct compare_run *run = comparison_run(&c, r, 0, i);
        run->there = run->good = true;
        for (int m = 0; m < METRICS; m++)
            run->value[m] = NAN;
        run->value[METRIC_TIME] = TIME_NS * time * jitter(noise);
        run->value[METRIC_PEAK_RSS] = PEAK_BYTES * memory * jitter(noise / 10);
        run->own_ns = 0;
    }
}

/* Runs of the program under contestant I, as ratios to a program of which the
   baseline's malloc is SHARE. */
static void put_program(size_t i, double share, double time, double memory,
                        double noise) {
    c.ran_program = true;
    for (size_t r = 1; r <= c.rounds; r++) {
        struct compare_program *p = comparison_program(&c, r, i);
        p->good = true;
        p->cpu_ns = TIME_NS * (double)OPS / share * time * jitter(noise);
        p->peak_rss_bytes = PEAK_BYTES * memory * jitter(noise / 10);
    }
}

/* Makes malloc SHARE of the program's time with the baseline, as a recording
   tells: contestant I has the library that records. */
static void put_share(size_t i, double share, double time) {
    snprintf(c.version[i], sizeof(c.version[i]), "l.so (tcmalloc-mt 1)");
    c.trace[0].recorded_cpu_ns =
        TIME_NS * (double)OPS * ((1 - share) / share + time);
}

static struct compare_recommendation r;

static bool ask(void) {
    bool good = compare_verdict_prepare(&c) && compare_recommend(&c, &r);
    tap_diag("%s", r.text);
    return good;
}

static bool says(const char *text) {
    return strcmp(r.text, text) == 0;
}

/* --- Rules ---------------------------------------------------------------- */

static void test_take(void) {
    begin(3, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 1.03, 0.01);
    put(2, 1, 1, 0.01);
    put_share(2, 0.24, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE && r.contestant == 1,
           "a gain is recommended");
    tap_ok(says("Take b: the program takes about 12 % less time than with a, "
                "about 3.0 % more memory at its peak."),
           "with what it is of the program");
    tap_is_str(r.basis,
               "Time and memory are predicted from the replays. Beside "
               "programs such times missed by 3 % of the program's time in the "
               "median, by 9 % at most.",
               "and where the figures come from");
    tap_ok(!r.by_program && r.runner_up == SIZE_MAX, "by the replays");

    begin(4, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 0.8, 0.01);
    put(2, 0.5, 1, 0.01);
    put(3, 0.5, 0.8, 0.01);
    put_share(2, 0.24, 0.5);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE && r.contestant != 2,
           "of two that are as fast the smaller one is recommended");
    tap_ok(r.runner_up != SIZE_MAX && r.runner_up != 2 &&
               strstr(r.text, " is as fast, with ") != NULL,
           "and its equal is the runner-up");

    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 1, 0.8, 0.01);
    put_share(0, 0.2, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE &&
               strstr(r.text, "as much time as with a, about 20 % less "
                              "memory at its peak.") != NULL,
           "memory alone is a reason, too");
}

static void test_stay(void) {
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.8, 1, 0.01);
    put_share(0, 0.02, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY && r.contestant == 0,
           "20 %% of the 2 %% that malloc has is no reason");
    tap_ok(says("Stay with a: nothing is shown to gain 1 % of the program's "
                "time or 5 % of its memory."),
           "which is said");

    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.9, 1.5, 0.01);
    put_share(0, 0.2, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY &&
               strstr(r.text, "which loses more than it gains") != NULL,
           "nor is 2 %% of time for half as much memory again");

    begin(2, 12);
    put(0, 1, 1, 0.5);
    put(1, 0.9, 1, 0.5);
    put_share(0, 0.9, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY,
           "nor what noise may have made");
}

static void test_unknown_share(void) {
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.8, 1, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE &&
               r.prospect.share_assumed &&
               says("Take b: malloc takes about 20 % less time than with a, as "
                    "much memory at its peak."),
           "20 %% of malloc's time where its share is unknown");
    tap_ok(strstr(r.basis, "the time is malloc's own") != NULL,
           "which is said");
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.95, 1, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY &&
               strstr(r.text, "10 % of malloc's time") != NULL,
           "but not 5 %%");
}

static void test_program(void) {
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 1, 0.01);
    put_program(0, 0.2, 1, 10, 0.01);
    put_program(1, 0.2, 0.9, 10, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE && !r.by_program,
           "replays are believed where runs of the program agree");
    tap_ok(fabs(r.prospect.time.ratio - 0.9) < 0.01,
           "whose time says how much malloc has of it");
    tap_is_str(r.basis,
               "Time and memory are predicted from the replays, and runs of "
               "the program agree.",
               "which is said");

    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 1, 0.01);
    put_program(0, 0.2, 1, 10, 0.01);
    put_program(1, 0.2, 1.2, 10, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY && r.by_program,
           "the program is believed where it is slower instead");
    tap_is_str(r.basis,
               "With b the replays predict about 10 % less time; runs of the "
               "program show about 20 % more.",
               "which is said of the one that it is true of");

    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 1, 1, 0.01);
    put_program(0, 0.2, 1, 10, 0.01);
    put_program(1, 0.2, 0.8, 10, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE && r.by_program &&
               strstr(r.text, "20 % less time") != NULL,
           "and where it is faster");
    tap_is_str(r.basis,
               "The time is that of runs of the program; the replays predict "
               "as much time. The memory is predicted from the replays, and "
               "runs of the program agree.",
               "beside which the prediction is told");
}

/* A head: of the baseline "a" and two others, what the replays and what runs of
   the program have, as ratios; malloc is half of the program's time. */
static const struct {
    const char *what;
    struct {
        double time, program, noise, memory, program_memory;
    } of[2]; /* PROGRAM 0: it was not run */
    const char *text, *basis;
} heads[] = {
    {"all agree",
     {{0.6, 0.8, 0.01, 1, 1}, {1, 1, 0.01, 1, 1}},
     "Take b: the program takes about 20 % less time than with a, as much "
     "memory at its peak.",
     "Time and memory are predicted from the replays, and runs of the program "
     "agree."},
    {"another contestant is contradicted",
     {{0.6, 0.8, 0.01, 1, 1}, {1, 1.5, 0.01, 1, 1}},
     "Take b: the program takes about 20 % less time than with a, as much "
     "memory at its peak.",
     "Time and memory are predicted from the replays, and runs of the program "
     "agree."},
    {"nobody is worth it by the replays, one is contradicted",
     {{1, 1, 0.01, 1, 1}, {1, 1.5, 0.01, 1, 1}},
     "Stay with a: nothing is shown to gain 1 % of the program's time or 5 % "
     "of its memory.",
     ""},
    {"runs of the program refute the gain of one",
     {{1, 1, 0.01, 1, 1}, {0.6, 1, 0.01, 1, 1}},
     "Stay with a: nothing is shown to gain 1 % of the program's time or 5 % "
     "of its memory.",
     "With c the replays predict about 20 % less time; runs of the program "
     "show as much."},
    {"intervals that meet, far apart",
     {{0.6, 0.7, 0.4, 1, 1}, {1, 1, 0.01, 1, 1}},
     "Take b: the program takes about 20 % less time than with a, as much "
     "memory at its peak.",
     "The time is predicted from the replays; runs of the program show about "
     "30 % less time. The memory is predicted from the replays, and runs of "
     "the program agree."},
    {"the time is contradicted, memory agrees",
     {{0.6, 0.6, 0.01, 0.8, 0.8}, {1, 1, 0.01, 1, 1}},
     "Take b: the program takes about 40 % less time than with a, about 20 % "
     "less memory at its peak.",
     "The time is that of runs of the program; the replays predict about 20 % "
     "less time. The memory is predicted from the replays, and runs of the "
     "program agree."},
    {"the program was not run",
     {{0.6, 0, 0.01, 1, 1}, {1, 0, 0.01, 1, 1}},
     "Take b: malloc takes about 40 % less time than with a, as much memory at "
     "its peak.",
     "What part of the program's time malloc takes is unknown: the time is "
     "malloc's own, in the replays."},
    {"an equal",
     {{0.6, 0.8, 0.01, 0.9, 0.9}, {0.6, 0.8, 0.01, 0.9, 0.9}},
     NULL,
     "Time and memory are predicted from the replays, and runs of the program "
     "agree."},
    {"more is lost than gained",
     {{0.9, 0.95, 0.01, 1.5, 1.5}, {1, 1, 0.01, 1, 1}},
     "Stay with a: with b the program takes about 5.0 % less time, about 50 % "
     "more memory at its peak, which loses more than it gains.",
     "Time and memory are predicted from the replays, and runs of the program "
     "agree."},
};

/* Ratios that are exact in the middle, so that sentences have round figures. */
static void put_head(size_t i, double time, double program, double noise,
                     double memory, double program_memory) {
    for (size_t k = 1; k <= c.rounds; k++) {
        double off =
            k % 2 == 0 ? noise * (double)k / 12 : -noise * (double)(k + 1) / 12;
        struct compare_run *run = comparison_run(&c, k, 0, i);
        struct compare_program *p = comparison_program(&c, k, i);
        put(i, time, memory, 0);
        run->value[METRIC_TIME] = TIME_NS * time;
        if (program == 0)
            continue;
        c.ran_program = p->good = true;
        p->cpu_ns = TIME_NS * (double)OPS / 0.5 * program * exp(off);
        p->peak_rss_bytes = PEAK_BYTES * program_memory;
    }
}

static void test_heads(void) {
    for (size_t h = 0; h < TCM_ARRAY_SIZE(heads); h++) {
        begin(3, 12);
        c.ran_program = false;
        bool ran = heads[h].of[0].program != 0;
        put_head(0, 1, ran, 0.001, 1, 1);
        for (size_t i = 0; i < 2; i++)
            put_head(i + 1, heads[h].of[i].time, heads[h].of[i].program,
                     heads[h].of[i].noise, heads[h].of[i].memory,
                     heads[h].of[i].program_memory);
        bool good = ask();
        tap_ok(good && (heads[h].text == NULL || says(heads[h].text)),
               "%s: the answer", heads[h].what);
        tap_diag("%s", r.basis);
        tap_ok(good && strcmp(r.basis, heads[h].basis) == 0,
               "%s: what it stands on", heads[h].what);
    }
}

/* --- Memory that the program feels ---------------------------------------- */

/* Each replay of a recording has the same memory: recordings are the samples,
   of which round R replays number R modulo their number. */
static void test_recordings(void) {
    static const double ratio[] = {0.782, 1.03, 0.789, 0.978};
    struct compare_verdict one, all;
    for (size_t recordings = 1; recordings <= 4; recordings += 3) {
        begin(2, 12);
        c.trace[0].clock = true;
        c.trace[0].agains = recordings - 1;
        for (size_t k = 1; k <= 12; k++) {
            put(0, 1, 1, 0);
            comparison_run(&c, k, 0, 0)->value[METRIC_PEAK_RSS] = PEAK_BYTES;
        }
        put(1, 1, 1, 0);
        for (size_t k = 1; k <= 12; k++)
            comparison_run(&c, k, 0, 1)->value[METRIC_PEAK_RSS] =
                PEAK_BYTES * ratio[recordings == 1 ? 0 : k % 4];
        bool good = compare_verdict_prepare(&c) &&
                    compare_verdict_of(&c, 1, METRIC_PEAK_RSS,
                                       recordings == 1 ? &one : &all);
        tap_ok(good &&
                   (comparison_few_recordings(&c) != NULL) == (recordings == 1),
               "memory of %zu recording%s", recordings,
               recordings == 1 ? "" : "s");
        c.trace[0].agains = 0;
    }
    tap_ok(one.has_interval && one.high < 0.8, "one repeats to the byte");
    tap_ok(all.samples == 4 && all.has_interval && all.low < 0.782 &&
               all.high > 1.03 && all.kind == VERDICT_NOT_SHOWN,
           "four that differ show nothing: %.3f to %.3f", all.low, all.high);
}

/* The granularity of what is counted is no difference. */
static void test_slack(void) {
    struct compare_verdict v;
    begin(2, 12);
    put(0, 1, 1, 0);
    put(1, 1, 1 + 65536 / PEAK_BYTES, 0);
    tap_ok(compare_verdict_prepare(&c) &&
               compare_verdict_of(&c, 1, METRIC_PEAK_RSS, &v) && v.low <= 1 &&
               v.high >= 1,
           "some pages more are as much memory: %.5f to %.5f", v.low, v.high);
    put(1, 1, 1 + 1048576 / PEAK_BYTES, 0);
    tap_ok(compare_verdict_of(&c, 1, METRIC_PEAK_RSS, &v) && v.low > 1,
           "a mebibyte is not");
}

/* Recorded time passes: mean memory and that after the peak, as ratios to
   PEAK_BYTES. */
static void put_over_time(size_t i, double peak, double mean, double after) {
    put(i, 1, peak, 0.001);
    c.trace[0].clock = c.trace[0].has_times = true;
    for (size_t k = 1; k <= c.rounds; k++) {
        struct compare_run *run = comparison_run(&c, k, 0, i);
        run->value[METRIC_AVG_RSS] = PEAK_BYTES * mean;
        run->value[METRIC_AFTER] = PEAK_BYTES * after;
    }
}

static void test_felt_memory(void) {
    static const struct {
        double peak, mean, after;
        enum compare_metric figure;
        const char *what;
    } cases[] = {
        {1.033, 0.6 * 1.19, 0.5 * 1.35, METRIC_AFTER,
         "memory after the peak that grows most is felt"},
        {1.02, 0.6 * 1.3, 0.5 * 1.1, METRIC_AVG_RSS,
         "and the mean, where that grows most"},
        {1.4, 0.6 * 1.1, 0.5, METRIC_PEAK_RSS,
         "and the peak, where that grows most"},
        {0.9, 0.6 * 0.5, 0.5 * 1.06, METRIC_AVG_RSS,
         "the mean is felt where nothing grows much"},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(cases); i++) {
        begin(2, 12);
        put_over_time(0, 1, 0.6, 0.5);
        put_over_time(1, cases[i].peak, cases[i].mean, cases[i].after);
        for (size_t k = 1; k <= 12; k++)
            comparison_run(&c, k, 0, 1)->value[METRIC_TIME] /= 4;
        put_share(0, 0.4, 1);
        tap_ok(ask() && r.advice == COMPARE_ADVICE_TAKE &&
                   r.prospect.figure == cases[i].figure,
               "%s", cases[i].what);
    }
    tap_ok(says("Take b: the program takes about 30 % less time than with a, "
                "about 50 % less memory on average."),
           "which the answer names");

    begin(2, 12);
    put_over_time(0, 1, 0.6, 0.5);
    put_over_time(1, 1, 0.6 * 1.1, 0.5 * 1.5);
    for (size_t k = 1; k <= 12; k++)
        comparison_run(&c, k, 0, 1)->value[METRIC_TIME] /= 1.2;
    put_share(0, 0.4, 1);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_STAY &&
               strstr(r.text, "about 50 % more memory after its peak, which "
                              "loses more than it gains") != NULL,
           "and which is weighed, though the peak is the same");
}

static void test_none(void) {
    begin(2, 3);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 1, 0.01);
    tap_ok(ask() && r.advice == COMPARE_ADVICE_NONE &&
               r.contestant == SIZE_MAX &&
               strstr(r.text, "too few rounds") != NULL,
           "three rounds are too few");

    begin(3, 12);
    put(0, 1, 1, 0.01);
    put(1, 0.5, 1, 0.01);
    put(2, 0.6, 1, 0.01);
    compare_contestant_failed(&c.contestants.list[1], "it crashed");
    tap_ok(ask() && r.contestant == 2, "one that crashed is not recommended");
}

/* --- Peaks of different moments ------------------------------------------- */

enum { MOMENTS = 3 };

/* The course of contestant I: its replay's memory, and in the first one that of
   the program beside it, as ratios to PEAK_BYTES. */
static void put_course(size_t i, const double rss[MOMENTS],
                       const double program[MOMENTS]) {
    struct compare_course *course = &c.course[i];
    course->count = MOMENTS;
    course->moment = calloc(MOMENTS, sizeof(*course->moment));
    for (size_t k = 0; course->moment != NULL && k < MOMENTS; k++)
        course->moment[k] = (struct compare_moment){
            .ns = 1e9 * (double)(k + 1),
            .rss_bytes = PEAK_BYTES * rss[k],
            .program_bytes = program == NULL ? NAN : PEAK_BYTES * program[k]};
}

/* The heap is largest first, the program's other memory last: a heap that has
   shrunk by then makes a smaller program, although both peaks are equal. */
static void test_peaks(bool with_program) {
    const double stays[] = {1, 1, 1}, shrinks[] = {1, 0.6, 0.2},
                 program[] = {0.1, NAN, 1};
    struct compare_effect e;
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 1, 1, 0.01);
    if (with_program) { /* it has 0.5 that no sample shows */
        put_program(0, 0.2, 1, 2.5, 0.01);
        put_program(1, 0.2, 1, 1.7, 0.01);
    }
    put_course(0, stays, program);
    put_course(1, shrinks, NULL);
    double want = with_program ? 1.7 / 2.5 : 1.2 / 2;
    bool good = compare_verdict_prepare(&c) &&
                compare_effect_of(&c, 1, 0, COMPARE_MEMORY, &e);
    tap_diag("%g", e.predicted.ratio);
    tap_ok(good && fabs(e.predicted.ratio - want) < 0.01,
           "the peak of heap and program is predicted%s",
           with_program ? ", with what samples lack" : "");
    tap_ok(e.predicted.has_interval && e.predicted.low <= e.predicted.ratio &&
               e.predicted.high >= e.predicted.ratio,
           "with an interval");
}

static void test_peaks_unsampled(void) {
    const double rss[] = {1, 0.5, 0.2};
    struct compare_effect e;
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 1, 0.5, 0.01);
    put_program(0, 0.2, 1, 2, 0.01);
    put_program(1, 0.2, 1, 1.5, 0.01);
    put_course(0, rss, NULL);
    put_course(1, rss, NULL);
    tap_ok(compare_verdict_prepare(&c) &&
               compare_effect_of(&c, 1, 0, COMPARE_MEMORY, &e) &&
               fabs(e.predicted.ratio - 0.75) < 0.01,
           "without samples the program's other memory is the same always");
}

/* --- System time ---------------------------------------------------------- */

/* Makes SYSTEM ns of the time of an operation of contestant I system time, in
   ROUND, or in all (0). */
static void put_system(size_t i, size_t round, double system) {
    for (size_t k = 1; k <= c.rounds; k++)
        if (round == 0 || k == round)
            comparison_run(&c, k, 0, i)->system_ns = system;
}

static bool is_cause(bool of_difference, bool of_spread) {
    struct compare_system_cause why;
    return compare_verdict_prepare(&c) &&
           compare_verdict_system_cause(&c, 1, &why) &&
           why.of_difference == of_difference && why.of_spread == of_spread;
}

static void test_system_time(void) {
    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 3, 1, 0.01);
    put_system(0, 0, 0.1 * TIME_NS);
    put_system(1, 0, 1.9 * TIME_NS);
    c.trace[0].ops = 1000000;
    tap_ok(is_cause(true, false), "a difference that is system time");
    put_system(1, 0, 0.5 * TIME_NS);
    tap_ok(is_cause(false, false), "and one that is not");
    put_system(1, 0, 1.9 * TIME_NS);
    c.trace[0].ops = 1000;
    tap_ok(is_cause(false, false), "nor one that no sample shows");
    c.trace[0].ops = 1000000;
    put_system(1, 0, NAN);
    tap_ok(is_cause(false, false), "or that is unknown");

    begin(2, 12);
    put(0, 1, 1, 0.01);
    put(1, 1, 1, 0.01);
    c.trace[0].ops = 1000000;
    comparison_run(&c, 5, 0, 1)->value[METRIC_TIME] = 20 * TIME_NS;
    put_system(1, 5, 19 * TIME_NS);
    tap_ok(is_cause(false, true), "a round that took long by system time");
    put_system(1, 5, 2 * TIME_NS);
    tap_ok(is_cause(false, false), "and one by time of its own");
}

/* --- Chance --------------------------------------------------------------- */

/* All intervals of runs of the program hold together, of however many
   contestants. */
static void test_program_intervals(void) {
    unsigned wrong = 0, comparisons = 300;
    size_t n = 7;
    for (unsigned k = 0; k < comparisons; k++) {
        bool good = true;
        begin(n, 12);
        for (size_t i = 0; i < n; i++) {
            put(i, 1, 1, 0.1);
            put_program(i, 0.9, 1, 10, 0.1);
        }
        good = compare_verdict_prepare(&c);
        for (size_t i = 1; i < n; i++)
            for (int q = 0; good && q < COMPARE_QUANTITIES; q++) {
                struct compare_effect e;
                good =
                    compare_effect_of(&c, i, 0, (enum compare_quantity)q, &e) &&
                    e.measured.has_interval && e.measured.low <= 1 &&
                    e.measured.high >= 1;
            }
        wrong += !good;
    }
    tap_diag("%u of %u", wrong, comparisons);
    tap_ok(wrong <= comparisons / 20,
           "intervals of runs of the program hold together");
}

/* Equals under three names: at most one in 20 comparisons may recommend one. */
static void test_equals(bool with_program) {
    unsigned taken = 0, comparisons = 200;
    for (unsigned k = 0; k < comparisons; k++) {
        begin(3, 12);
        for (size_t i = 0; i < 3; i++) {
            put(i, 1, 1, 0.1);
            if (with_program)
                put_program(i, 0.9, 1, 10, 0.1);
        }
        put_share(0, 0.9, 1);
        if (compare_verdict_prepare(&c) && compare_recommend(&c, &r))
            taken += r.advice != COMPARE_ADVICE_STAY;
        else
            taken = comparisons;
    }
    tap_diag("%u of %u", taken, comparisons);
    tap_ok(taken <= comparisons / 20, "equals are told to be equal%s",
           with_program ? ", with runs of the program" : "");
}

static bool holds(void) {
    const struct compare_prospect *p = &r.prospect;
    if (r.advice != COMPARE_ADVICE_TAKE)
        return (r.advice == COMPARE_ADVICE_STAY) == (r.contestant == 0);
    double scale = p->share_assumed ? COMPARE_ASSUMED_SHARE : 1;
    return r.contestant != 0 && r.contestant != r.runner_up && p->known &&
           p->safe_gain >= COMPARE_WORTH_TIME && p->gain >= p->safe_gain &&
           fabs(p->safe_gain - scale * (1 - p->time.high) -
                (1 - p->memory.high) / 5) < 1e-9;
}

static void test_random(void) {
    bool good = true;
    for (unsigned k = 0; k < 300; k++) {
        size_t n = 2 + prng_below(&rng, 4);
        begin(n, 5 + prng_below(&rng, 12));
        for (size_t i = 0; i < n; i++) {
            double time = (double)prng_below(&rng, 200) / 100 + 0.1;
            double memory = (double)prng_below(&rng, 200) / 100 + 0.1;
            put(i, time, memory, 0.1);
            if (k % 3 == 0)
                put_program(i, 0.5, time, memory, 0.1);
        }
        if (k % 3 == 1)
            put_share(0, 0.3, 1);
        good = good && compare_verdict_prepare(&c) &&
               compare_recommend(&c, &r) && holds();
    }
    tap_ok(good, "what is recommended is worth it, of any figures");
}

int main(void) {
    prng_seed(&rng, 20261125);
    test_take();
    test_stay();
    test_unknown_share();
    test_program();
    test_heads();
    test_felt_memory();
    test_recordings();
    test_slack();
    test_none();
    test_peaks(false);
    test_peaks(true);
    test_peaks_unsampled();
    test_system_time();
    test_program_intervals();
    test_equals(false);
    test_equals(true);
    test_random();
    comparison_free(&c);
    return tap_done();
}
