/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_program.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"
#include "model/interval.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool compare_program_can_repeat(void) {
    struct stat st;
    if (fstat(STDIN_FILENO, &st) != 0 || S_ISREG(st.st_mode) ||
        S_ISCHR(st.st_mode))
        return true;
    (void)tool_usage_error("--run-program: standard input cannot be read "
                           "again; redirect it from a file");
    return false;
}

static double timeval_ns(struct timeval t) {
    return (double)t.tv_sec * 1e9 + (double)t.tv_usec * 1e3;
}

bool compare_program_run(struct comparison *c, char **command, size_t round,
                         size_t contestant) {
    struct tool_child_end end;
    struct compare_program *p = comparison_program(c, round, contestant);
    /* a terminal's input belongs to the recorded run alone */
    bool is_file = lseek(STDIN_FILENO, 0, SEEK_SET) == 0;
    struct tool_child_spec what = {.argv = command,
                                   .in = is_file ? 0 : TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = TOOL_CHILD_NULL};
    if (!compare_contestant_run(&c->contestants.list[contestant], true, &what,
                                0, &end) ||
        tool_stop_requested())
        return false;
    if (end.error != 0 || !WIFEXITED(end.status)) {
        char how[120], why[200];
        tool_child_end_text(&end, how, sizeof(how));
        snprintf(why, sizeof(why), "the program under it: %s", how);
        compare_contestant_failed(&c->contestants.list[contestant], why);
        return true;
    }
    p->good = round != 0;
    p->cpu_ns = timeval_ns(end.usage.ru_utime) + timeval_ns(end.usage.ru_stime);
    p->peak_rss_bytes = (double)end.usage.ru_maxrss * 1024;
    return true;
}

/* --- Prediction and truth ------------------------------------------------- */

enum quantity { QUANTITY_CPU, QUANTITY_PEAK, QUANTITIES };

static const char *const quantity_title[QUANTITIES] = {"processor time",
                                                       "peak memory"};
static const char *const quantity_key[QUANTITIES] = {"cpu_ns",
                                                     "peak_rss_bytes"};

static double value_of(const struct compare_program *p, enum quantity w) {
    return w == QUANTITY_CPU ? p->cpu_ns : p->peak_rss_bytes;
}

/* Figures of the program, from the rounds in which it ran under both
   contestants. */
struct truth {
    bool known;
    double baseline;       /* middle of the baseline's figures */
    struct interval ratio; /* of logarithms */
    double predicted;      /* ratio */
};

/* Ratio of the program as the replays predict it: the program's BASELINE figure
   plus the difference of two replays, beside that figure. Of several traces
   times add up; memory is that of the largest. ROOM: as of
   compare_verdict_middle. */
static double predicted_ratio(const struct comparison *c, size_t contestant,
                              enum quantity w, double baseline, double *room) {
    double sum = 0, largest = 0;
    for (size_t t = 0; t < c->traces; t++) {
        enum compare_metric m =
            w == QUANTITY_CPU ? METRIC_TIME : METRIC_PEAK_RSS;
        double x = compare_verdict_middle(c, t, contestant, m, room);
        double y = compare_verdict_middle(c, t, c->baseline, m, room);
        if (w == QUANTITY_CPU)
            sum += (x - y) * (double)c->trace[t].ops;
        else if (!(y <= largest)) {
            largest = y;
            sum = x - y;
        }
    }
    return (baseline + sum) / baseline;
}

static bool truth_of(const struct comparison *c, size_t contestant,
                     enum quantity w, struct truth *t) {
    size_t n = 0;
    double *d = calloc(2 * c->rounds + 1, sizeof(*d));
    *t = (struct truth){.known = false};
    if (d == NULL) {
        tool_error("out of memory");
        return false;
    }
    double *base = d + c->rounds;
    for (size_t r = 1; r <= c->rounds; r++) {
        const struct compare_program *x = comparison_program(c, r, contestant);
        const struct compare_program *y = comparison_program(c, r, c->baseline);
        if (!x->good || !y->good)
            continue;
        double a = value_of(x, w), b = value_of(y, w);
        base[n] = b;
        /* the clock of processor time advances in steps */
        d[n++] = log(fmax(a, 1e4)) - log(fmax(b, 1e4));
    }
    TCM_ASSERT(n <= c->rounds);
    if (n != 0) {
        t->known = true;
        t->ratio = interval_of(d, n, 0.05);
        t->baseline = interval_median(base, n);
        t->predicted = predicted_ratio(c, contestant, w, t->baseline, d);
    }
    free(d);
    return true;
}

/* Says whether prediction and truth agree, and why they may not. */
static const char *agreement_text(const struct truth *t, enum quantity w,
                                  double margin) {
    double true_ratio = exp(t->ratio.middle), even = 2 * margin + 0.05;
    bool sure = t->ratio.known && (t->ratio.low > 0 || t->ratio.high < 0);
    if (isnan(t->predicted))
        return "not predicted";
    if (!t->ratio.known)
        return "truth not known: too few rounds";
    if (!sure || fabs(true_ratio - 1) < (w == QUANTITY_CPU ? margin : 0.05)) {
        bool narrow =
            exp(t->ratio.low) > 1 - even && exp(t->ratio.high) < 1 + even;
        return narrow && fabs(t->predicted - 1) < even ? "both about even"
                                                       : "truth not sure";
    }
    if ((t->predicted > 1) == (true_ratio > 1))
        return fabs(t->predicted - true_ratio) < 0.05 ? "agree" : "same sign";
    return w == QUANTITY_CPU
               ? "differ: the program's own cache misses"
               : "differ: memory written later, or other threads' times";
}

bool compare_program_print(const struct comparison *c, FILE *out) {
    for (int w = 0; w < QUANTITIES; w++) {
        fprintf(out, "\nThe program itself, %s beside %s\n%-20s%10s%10s   %s\n",
                quantity_title[w],
                compare_contestant_shown(&c->contestants.list[c->baseline]), "",
                "predicted", "truth", "19 of 20 times");
        for (size_t i = 0; i < c->contestants.count; i++) {
            struct truth t;
            if (i == c->baseline)
                continue;
            if (!truth_of(c, i, (enum quantity)w, &t))
                return false;
            if (!t.known)
                continue;
            fprintf(out, "  %-18.18s%10.3f%10.3f   ",
                    compare_contestant_shown(&c->contestants.list[i]),
                    t.predicted, exp(t.ratio.middle));
            if (t.ratio.known)
                fprintf(out, "%.3f to %.3f  ", exp(t.ratio.low),
                        exp(t.ratio.high));
            fprintf(out, "%s\n",
                    agreement_text(&t, (enum quantity)w, c->margin));
        }
    }
    return true;
}

bool compare_program_json(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "program");
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int w = 0; i != c->baseline && w < QUANTITIES; w++) {
            struct truth t;
            if (!truth_of(c, i, (enum quantity)w, &t))
                return false;
            if (!t.known)
                continue;
            tool_json_begin_object(j, NULL);
            tool_json_string(j, "contestant", c->contestants.list[i].name);
            tool_json_string(j, "figure", quantity_key[w]);
            tool_json_double(j, "baseline", t.baseline);
            tool_json_double(j, "predicted_ratio", t.predicted);
            tool_json_double(j, "true_ratio", exp(t.ratio.middle));
            if (t.ratio.known) {
                tool_json_double(j, "lo", exp(t.ratio.low));
                tool_json_double(j, "hi", exp(t.ratio.high));
            }
            tool_json_string(j, "opinion",
                             agreement_text(&t, (enum quantity)w, c->margin));
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
    return true;
}
