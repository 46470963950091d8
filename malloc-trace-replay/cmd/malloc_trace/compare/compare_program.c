/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_program.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_run.h"
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
    return fstat(STDIN_FILENO, &st) != 0 || S_ISREG(st.st_mode) ||
           S_ISCHR(st.st_mode);
}

static double timeval_ns(struct timeval t) {
    return (double)t.tv_sec * 1e9 + (double)t.tv_usec * 1e3;
}

bool compare_program_run(struct comparison *c,
                         const struct compare_command *command, size_t round,
                         size_t contestant) {
    struct tool_child_end end;
    struct compare_program *p = comparison_program(c, round, contestant);
    struct compare_contestant *entry = &c->contestants.list[contestant];
    /* a terminal's input belongs to the recorded run alone */
    bool is_file = lseek(STDIN_FILENO, 0, SEEK_SET) == 0;
    struct tool_child_spec spec = {.argv = command->words,
                                   .in = is_file ? 0 : TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = TOOL_CHILD_NULL};
    if (!compare_contestant_prepare(entry) ||
        !compare_contestant_run(entry, true, &spec,
                                compare_run_limit_ns(command->recorded_ns),
                                &end) ||
        tool_stop_requested())
        return false;
    p->failed = end.error != 0 || end.timed_out || !WIFEXITED(end.status) ||
                WEXITSTATUS(end.status) != command->status;
    p->good = !p->failed;
    if (p->failed) {
        char how[120], why[200];
        tool_child_end_text(&end, how, sizeof(how));
        snprintf(why, sizeof(why), "the program itself: %s", how);
        compare_contestant_failed(entry, why);
        return true;
    }
    p->cpu_ns = timeval_ns(end.usage.ru_utime) + timeval_ns(end.usage.ru_stime);
    p->peak_rss_bytes = (double)end.usage.ru_maxrss * 1024;
    return true;
}

/* --- Effects -------------------------------------------------------------- */

static const char *const quantity_title[COMPARE_QUANTITIES] = {"processor time",
                                                               "peak memory"};
static const char *const quantity_key[COMPARE_QUANTITIES] = {"cpu_ns",
                                                             "peak_rss_bytes"};

static enum compare_metric metric_of(enum compare_quantity q) {
    return q == COMPARE_CPU ? METRIC_TIME : METRIC_PEAK_RSS;
}

static double figure_of(const struct compare_program *p,
                        enum compare_quantity q) {
    return q == COMPARE_CPU ? p->cpu_ns : p->peak_rss_bytes;
}

static bool range_is_ordered(const struct compare_range *r) {
    return !r->has_interval || (r->low <= r->ratio && r->ratio <= r->high);
}

/* The replay's figure under a contestant that is comparable with the program's:
   the sum of all traces' times, or the peak of the largest one. NAN: none. */
static double replay_figure(const struct comparison *c, size_t contestant,
                            enum compare_quantity q, double *room) {
    double sum = 0, largest = 0;
    for (size_t t = 0; t < c->traces; t++) {
        double v = compare_verdict_middle(c, t, contestant, metric_of(q), room);
        sum += v * (double)c->trace[t].ops;
        largest = fmax(v, largest);
    }
    return q == COMPARE_CPU || isnan(sum) ? sum : largest;
}

/* Malloc's share of the program's time with the baseline, from the recorded
   times of all traces; NAN: one is unknown. */
static double recorded_share(const struct comparison *c, double *room) {
    double all = 0, calls = 0;
    for (size_t t = 0; t < c->traces; t++) {
        double v = (double)c->trace[t].ops *
                   compare_verdict_middle(c, t, c->baseline, METRIC_TIME, room);
        all += v * 100 / compare_verdict_malloc_percent(c, t);
        calls += v;
    }
    return calls / all;
}

/* Share with BASE, from the share S with the baseline. */
static bool share_with(const struct comparison *c, size_t base, double *s) {
    struct compare_verdict v;
    if (base == c->baseline || isnan(*s))
        return true;
    if (!compare_verdict_of(c, base, METRIC_TIME, &v))
        return false;
    *s = v.measured ? *s * v.ratio / (1 + *s * (v.ratio - 1)) : NAN;
    return true;
}

/* Finds the middle of the program's figures with BASE, and the ratios of the
   rounds in which it ran under both. ROOM: for twice c->rounds figures. */
static void measure_effect(const struct comparison *c, size_t contestant,
                           size_t base, enum compare_quantity q, double *room,
                           struct compare_effect *e) {
    double *figure = room + c->rounds;
    size_t n = 0, figures = 0;
    for (size_t r = 1; r <= c->rounds; r++) {
        const struct compare_program *x = comparison_program(c, r, contestant);
        const struct compare_program *y = comparison_program(c, r, base);
        if (y->good)
            figure[figures++] = figure_of(y, q);
        /* the clock of processor time advances in steps */
        if (x->good && y->good)
            room[n++] = log(fmax(figure_of(x, q), 1e4)) -
                        log(fmax(figure_of(y, q), 1e4));
    }
    TCM_ASSERT(n <= figures && figures <= c->rounds);
    e->base = figures == 0 ? NAN : interval_median(figure, figures);
    if (n == 0)
        return;
    struct interval d = interval_of(room, n, 0.05);
    e->measured = (struct compare_range){
        .known = true, .ratio = exp(d.middle), .has_interval = d.known};
    if (d.known) {
        e->measured.low = exp(d.low);
        e->measured.high = exp(d.high);
    }
    TCM_ASSERT(range_is_ordered(&e->measured));
}

static bool predict_effect(const struct comparison *c, size_t contestant,
                           size_t base, enum compare_quantity q,
                           struct compare_effect *e) {
    struct compare_verdict v;
    if (!compare_verdict_between(c, contestant, base, metric_of(q), &v))
        return false;
    if (!v.measured || v.of_none || isnan(e->share))
        return true;
    double s = e->share;
    e->predicted = (struct compare_range){.known = true,
                                          .ratio = 1 + s * (v.ratio - 1),
                                          .has_interval = v.has_interval,
                                          .low = 1 + s * (v.low - 1),
                                          .high = 1 + s * (v.high - 1)};
    TCM_ASSERT(range_is_ordered(&e->predicted));
    return true;
}

bool compare_effect_of(const struct comparison *c, size_t contestant,
                       size_t base, enum compare_quantity q,
                       struct compare_effect *e) {
    double *room = malloc((2 * c->rounds + 1) * sizeof(*room));
    *e = (struct compare_effect){.share = NAN};
    if (room == NULL) {
        tool_error("out of memory");
        return false;
    }
    bool good = true;
    measure_effect(c, contestant, base, q, room, e);
    if (!isnan(e->base)) {
        e->share = replay_figure(c, base, q, room) / e->base;
    } else if (q == COMPARE_CPU) {
        e->share = recorded_share(c, room);
        good = share_with(c, base, &e->share);
    } else {
        e->share = 1;
    }
    free(room);
    if (e->share > 1) /* replays that take more than the program */
        e->share = 1;
    TCM_ASSERT(isnan(e->share) || (e->share >= 0 && e->share <= 1));
    return good && predict_effect(c, contestant, base, q, e);
}

bool compare_effect_is_contradicted(const struct compare_effect *e) {
    return e->predicted.has_interval && e->measured.has_interval &&
           (e->measured.low > e->predicted.high ||
            e->measured.high < e->predicted.low);
}

/* --- Output --------------------------------------------------------------- */

/* Says whether prediction and measurement agree, and why they may not. */
static const char *agreement_text(const struct compare_effect *e,
                                  enum compare_quantity q, double margin) {
    const struct compare_range *true_range = &e->measured;
    double even = 2 * margin + 0.05;
    bool sure = true_range->has_interval &&
                (true_range->low > 1 || true_range->high < 1);
    if (!e->predicted.known)
        return "not predicted";
    if (!true_range->has_interval)
        return "truth not known: too few rounds";
    if (!sure ||
        fabs(true_range->ratio - 1) < (q == COMPARE_CPU ? margin : 0.05)) {
        bool narrow = true_range->low > 1 - even && true_range->high < 1 + even;
        return narrow && fabs(e->predicted.ratio - 1) < even ? "both about even"
                                                             : "truth not sure";
    }
    if ((e->predicted.ratio > 1) == (true_range->ratio > 1))
        return fabs(e->predicted.ratio - true_range->ratio) < 0.05
                   ? "agree"
                   : "same sign";
    return q == COMPARE_CPU
               ? "differ: the program's own cache misses"
               : "differ: memory written later, or other threads' times";
}

bool compare_program_print(const struct comparison *c, FILE *out) {
    for (int q = 0; q < COMPARE_QUANTITIES; q++) {
        fprintf(out, "\nThe program itself, %s beside %s\n%-20s%10s%10s   %s\n",
                quantity_title[q],
                compare_contestant_shown(&c->contestants.list[c->baseline]), "",
                "predicted", "truth", "19 of 20 times");
        for (size_t i = 0; i < c->contestants.count; i++) {
            struct compare_effect e;
            if (i == c->baseline)
                continue;
            if (!compare_effect_of(c, i, c->baseline, (enum compare_quantity)q,
                                   &e))
                return false;
            if (!e.measured.known)
                continue;
            fprintf(out, "  %-18.18s",
                    compare_contestant_shown(&c->contestants.list[i]));
            if (e.predicted.known)
                fprintf(out, "%10.3f", e.predicted.ratio);
            else
                fprintf(out, "%10s", "-");
            fprintf(out, "%10.3f   ", e.measured.ratio);
            if (e.measured.has_interval)
                fprintf(out, "%.3f to %.3f  ", e.measured.low, e.measured.high);
            fprintf(out, "%s\n",
                    agreement_text(&e, (enum compare_quantity)q, c->margin));
        }
    }
    return true;
}

bool compare_program_json(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "program");
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int q = 0; i != c->baseline && q < COMPARE_QUANTITIES; q++) {
            struct compare_effect e;
            if (!compare_effect_of(c, i, c->baseline, (enum compare_quantity)q,
                                   &e))
                return false;
            if (!e.measured.known)
                continue;
            tool_json_begin_object(j, NULL);
            tool_json_string(j, "contestant", c->contestants.list[i].name);
            tool_json_string(j, "figure", quantity_key[q]);
            tool_json_double(j, "baseline", e.base);
            if (e.predicted.known)
                tool_json_double(j, "predicted_ratio", e.predicted.ratio);
            else
                tool_json_null(j, "predicted_ratio");
            tool_json_double(j, "true_ratio", e.measured.ratio);
            if (e.measured.has_interval) {
                tool_json_double(j, "lo", e.measured.low);
                tool_json_double(j, "hi", e.measured.high);
            }
            tool_json_string(
                j, "opinion",
                agreement_text(&e, (enum compare_quantity)q, c->margin));
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
    return true;
}
