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

struct tool_child_spec
compare_program_spec(const struct compare_command *command) {
    /* a terminal's input belongs to the recorded run alone */
    bool is_file = lseek(STDIN_FILENO, 0, SEEK_SET) == 0;
    return (struct tool_child_spec){.argv = command->words,
                                    .in = is_file ? 0 : TOOL_CHILD_NULL,
                                    .out = TOOL_CHILD_NULL,
                                    .err = TOOL_CHILD_NULL,
                                    .launched = true};
}

bool compare_program_has_failed(const struct compare_command *command,
                                const struct tool_child_end *end) {
    return end->error != 0 || end->timed_out || !WIFEXITED(end->status) ||
           WEXITSTATUS(end->status) != command->status;
}

double compare_program_ns(struct timeval t) {
    return (double)t.tv_sec * 1e9 + (double)t.tv_usec * 1e3;
}

/* Longest time of a run. A program that nobody asked to run again, and that has
   not ended by itself yet, gets less than one that hangs: it may be a server
   that somebody ended when it was recorded. */
static uint64_t run_limit_ns(const struct comparison *c,
                             const struct compare_command *command) {
    return command->asked || c->ran_program
               ? compare_run_limit_ns(command->recorded_ns)
               : 10 * (uint64_t)1000000000 + 5 * command->recorded_ns;
}

bool compare_program_run(struct comparison *c,
                         const struct compare_command *command, size_t round,
                         size_t contestant) {
    struct tool_child_end end;
    struct compare_program *p = comparison_program(c, round, contestant);
    struct compare_contestant *entry = &c->contestants.list[contestant];
    struct tool_child_spec spec = compare_program_spec(command);
    if (!compare_contestant_prepare(entry) ||
        !compare_contestant_run(entry, true, &spec, run_limit_ns(c, command),
                                &end) ||
        tool_stop_requested())
        return false;
    if (end.timed_out && !c->ran_program) {
        c->program_skipped = "it did not end by itself, as a server";
        return true;
    }
    p->failed = compare_program_has_failed(command, &end);
    p->good = !p->failed;
    if (p->failed) {
        char how[120], why[200];
        tool_child_end_text(&end, how, sizeof(how));
        snprintf(why, sizeof(why), "the program itself: %s", how);
        compare_contestant_failed(entry, why);
        return true;
    }
    p->system_ns = compare_program_ns(end.usage.ru_stime);
    p->cpu_ns = compare_program_ns(end.usage.ru_utime) + p->system_ns;
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
    struct interval d = interval_of(room, n, c->program_alpha);
    e->measured = (struct compare_range){
        .known = true, .ratio = exp(d.middle), .has_interval = d.known};
    if (d.known) {
        e->measured.low = exp(d.low);
        e->measured.high = exp(d.high);
    }
    TCM_ASSERT(range_is_ordered(&e->measured));
}

/* --- Peaks of different moments ------------------------------------------- */

/* A program's memory beside its heap may be largest at another time than the
   heap is. So the peak of both is the largest sum of what the recorded program
   had beside its heap (from the recorder's samples) and of the replay's memory
   at that moment. */

/* The course of trace 0 under a contestant, to which the samples of OF, the
   baseline's, belong. */
struct peak_course {
    const struct compare_course *of, *replay;
    double shift_bytes; /* that the program has beyond the samples */
};

/* Tells whether a course has what the prediction needs. */
static bool course_is_sampled(const struct compare_course *course) {
    for (size_t i = 0; i < course->count; i++)
        if (!isnan(course->moment[i].program_bytes))
            return true;
    return false;
}

static double course_peak(const struct compare_course *course) {
    double most = 0;
    for (size_t i = 0; i < course->count; i++)
        most = fmax(most, course->moment[i].rss_bytes);
    return most;
}

/* Samples are a tenth of a second apart, and memory may come and go in between:
   moments that are closer to each other than this count as one. */
#define PEAK_TOGETHER_NS 5e8

/* Memory of the program beside its heap around the time NS: the last sample up
   to then, or one near it that is larger; 0 if there is neither. */
static double beside_heap(const struct peak_course *p, double ns) {
    double before = NAN, near = NAN;
    for (size_t k = 0; k < p->of->count; k++) {
        const struct compare_moment *sample = &p->of->moment[k];
        if (isnan(sample->program_bytes))
            continue;
        if (sample->ns > ns + PEAK_TOGETHER_NS)
            break;
        if (sample->ns <= ns)
            before = sample->program_bytes;
        if (sample->ns >= ns - PEAK_TOGETHER_NS)
            near = fmax(near, sample->program_bytes);
    }
    double most = fmax(before, near); /* a number, if one is */
    return fmax((isnan(most) ? 0 : most) + p->shift_bytes, 0);
}

/* The peak of the program where that of the replay is PEAK_BYTES: the moments
   between which a replay is looked at may have missed its peak, so the course
   is scaled to it. Rises with PEAK_BYTES. */
static double peak_of_both(const struct peak_course *p, double peak_bytes) {
    double scale = peak_bytes / course_peak(p->replay);
    double ns = 0, most = 0;
    for (size_t i = 0; i < p->replay->count; i++) {
        const struct compare_moment *at = &p->replay->moment[i];
        /* a time of 0 follows the last one that is known */
        ns = fmax(ns, at->ns);
        most = fmax(most, beside_heap(p, ns) + scale * at->rss_bytes);
    }
    return most;
}

/* Predicts the ratio of peaks from V, that of the replays. false: there are no
   samples of the recorded run. */
static bool predict_peak(const struct comparison *c, size_t contestant,
                         size_t base, const struct compare_verdict *v,
                         struct compare_effect *e) {
    struct compare_course *course = c->course;
    if (c->traces != 1 || course == NULL ||
        !course_is_sampled(&course[c->baseline]) ||
        course_peak(&course[contestant]) <= 0 ||
        course_peak(&course[base]) <= 0)
        return false;
    struct peak_course own = {.of = &course[c->baseline],
                              .replay = &course[contestant]},
                       other = {.of = &course[c->baseline],
                                .replay = &course[base]};
    double peak = v->baseline;
    if (!isnan(e->base)) /* what the samples lack, as pages of files */
        own.shift_bytes = other.shift_bytes =
            e->base - peak_of_both(&other, peak);
    double whole = peak_of_both(&other, peak);
    e->predicted = (struct compare_range){
        .known = true,
        .ratio = peak_of_both(&own, peak * v->ratio) / whole,
        .has_interval = v->has_interval};
    if (v->has_interval) {
        e->predicted.low = peak_of_both(&own, peak * v->low) / whole;
        e->predicted.high = peak_of_both(&own, peak * v->high) / whole;
    }
    /* one course is no measure of how much courses differ */
    if (v->has_interval && v->low <= 1 && v->high >= 1) {
        e->predicted.low = fmin(e->predicted.low, 1);
        e->predicted.high = fmax(e->predicted.high, 1);
    }
    TCM_ASSERT(range_is_ordered(&e->predicted));
    return true;
}

/* --- Predictions ---------------------------------------------------------- */

/* R becomes the ratio V of a part that is SHARE of the whole. */
static void scale_range(struct compare_range *r,
                        const struct compare_verdict *v, double share) {
    *r = (struct compare_range){.known = true,
                                .ratio = 1 + share * (v->ratio - 1),
                                .has_interval = v->has_interval,
                                .low = 1 + share * (v->low - 1),
                                .high = 1 + share * (v->high - 1)};
    TCM_ASSERT(range_is_ordered(r));
}

/* Mean of the samples of the program's memory beside its heap; 0: none. */
static double mean_beside_heap(const struct comparison *c) {
    double sum = 0;
    size_t n = 0;
    if (c->traces != 1 || c->course == NULL)
        return 0;
    const struct compare_course *course = &c->course[c->baseline];
    for (size_t i = 0; i < course->count; i++)
        if (!isnan(course->moment[i].program_bytes)) {
            sum += fmax(course->moment[i].program_bytes, 0);
            n++;
        }
    return n == 0 ? 0 : sum / (double)n;
}

bool compare_effect_over_time(const struct comparison *c, size_t contestant,
                              size_t base, enum compare_metric m,
                              struct compare_range *r) {
    struct compare_verdict v;
    *r = (struct compare_range){.known = false};
    if (!compare_verdict_between(c, contestant, base, m, &v))
        return false;
    if (v.measured && !v.of_none)
        scale_range(r, &v, v.baseline / (v.baseline + mean_beside_heap(c)));
    return true;
}

static bool predict_effect(const struct comparison *c, size_t contestant,
                           size_t base, enum compare_quantity q,
                           struct compare_effect *e) {
    struct compare_verdict v;
    if (!compare_verdict_between(c, contestant, base, metric_of(q), &v))
        return false;
    if (!v.measured || v.of_none || isnan(e->share))
        return true;
    if (q == COMPARE_MEMORY && predict_peak(c, contestant, base, &v, e))
        return true;
    scale_range(&e->predicted, &v, e->share);
    return true;
}

bool compare_effect_of(const struct comparison *c, size_t contestant,
                       size_t base, enum compare_quantity q,
                       struct compare_effect *e) {
    double *room = malloc((2 * c->rounds + 1) * sizeof(*room));
    *e = (struct compare_effect){.share = NAN};
    if (room == NULL)
        return tool_out_of_memory();
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

/* --- User and system time ------------------------------------------------- */

/* Processor time of the program, and its part that is not the system's. */
struct parts {
    double all_ns, user_ns;
};

/* The program's time with the baseline and with a contestant, and the latter
   predicted: with the baseline, plus the difference of the replays. */
struct split {
    bool known; /* all of it */
    struct parts base, predicted, measured;
};

static double parts_system(const struct parts *p) {
    return p->all_ns - p->user_ns;
}

/* Middles of the program's processor time with a contestant, and of its part
   outside the system. ROOM: for twice c->rounds figures. */
static struct parts program_parts(const struct comparison *c, size_t contestant,
                                  double *room) {
    struct parts p = {.all_ns = NAN, .user_ns = NAN};
    size_t n = 0;
    for (size_t r = 1; r <= c->rounds; r++) {
        const struct compare_program *run =
            comparison_program(c, r, contestant);
        if (!run->good)
            continue;
        room[n] = run->cpu_ns;
        room[c->rounds + n++] = run->cpu_ns - run->system_ns;
    }
    if (n != 0) {
        p.all_ns = interval_median(room, n);
        p.user_ns = interval_median(room + c->rounds, n);
    }
    return p;
}

/* Sets *S. false: out of memory, a message was printed. */
static bool find_split(const struct comparison *c, size_t contestant,
                       struct split *s) {
    struct compare_time_parts own, base;
    double *room = malloc((2 * c->rounds + 1) * sizeof(*room));
    *s = (struct split){.known = false};
    if (room == NULL)
        return tool_out_of_memory();
    s->base = program_parts(c, c->baseline, room);
    s->measured = program_parts(c, contestant, room);
    free(room);
    if (!compare_verdict_parts(c, contestant, &own) ||
        !compare_verdict_parts(c, c->baseline, &base))
        return false;
    s->known = own.known && base.known && !isnan(s->base.all_ns) &&
               !isnan(s->measured.all_ns);
    if (!s->known)
        return true;
    double all_ns = (own.time - base.time) * own.ops;
    double system_ns = (own.system - base.system) * own.ops;
    s->predicted.all_ns = s->base.all_ns + all_ns;
    s->predicted.user_ns = s->base.user_ns + all_ns - system_ns;
    return true;
}

/* --- Output --------------------------------------------------------------- */

/* Tells whether half of the distance from predicted to true time, or more, is
   system time. */
static bool misses_system_time(const struct split *s) {
    double all = s->predicted.all_ns - s->measured.all_ns;
    double system = parts_system(&s->predicted) - parts_system(&s->measured);
    return s->known && all != 0 && system / all >= 0.5;
}

/* Says whether prediction and measurement agree, and why they may not. */
static const char *agreement_text(const struct compare_effect *e,
                                  enum compare_quantity q,
                                  const struct split *s, double margin) {
    const struct compare_range *true_range = &e->measured;
    double even = 2 * margin + 0.05;
    bool sure = true_range->has_interval &&
                (true_range->low > 1 || true_range->high < 1);
    if (!e->predicted.known)
        return "not predicted";
    if (!true_range->has_interval)
        return "not known: too few rounds";
    if (!sure ||
        fabs(true_range->ratio - 1) < (q == COMPARE_CPU ? margin : 0.05)) {
        bool narrow = true_range->low > 1 - even && true_range->high < 1 + even;
        if (!narrow)
            return "not sure";
        if (fabs(e->predicted.ratio - 1) < even)
            return "both about even";
    } else if ((e->predicted.ratio > 1) == (true_range->ratio > 1)) {
        return fabs(e->predicted.ratio - true_range->ratio) < 0.05
                   ? "agree"
                   : "same direction";
    }
    if (q == COMPARE_CPU)
        return misses_system_time(s) ? "differ: system time"
                                     : "differ: the program's own cache misses";
    return "differ: memory written later, or other threads' times";
}

/* Prints the system's part of a difference in time, where that is not small in
   prediction or truth. */
static void print_split(const struct split *s, double margin, FILE *out) {
    double base = parts_system(&s->base);
    double predicted = parts_system(&s->predicted) - base;
    double truth = parts_system(&s->measured) - base;
    if (!s->known ||
        fmax(fabs(predicted), fabs(truth)) < fmax(margin * s->base.all_ns, 2e7))
        return;
    fprintf(out, "  %-18s%+10.3f%+10.3f   of it by system time\n", "",
            predicted / s->base.all_ns, truth / s->base.all_ns);
}

bool compare_program_print(const struct comparison *c, FILE *out) {
    for (int q = 0; q < COMPARE_QUANTITIES; q++) {
        fprintf(out, "\nThe program itself, %s beside %s\n%-20s%10s%10s   %s\n",
                quantity_title[q],
                compare_contestant_shown(&c->contestants.list[c->baseline]), "",
                "predicted", "measured", "interval (all hold 19 of 20 times)");
        for (size_t i = 0; i < c->contestants.count; i++) {
            struct compare_effect e;
            struct split s;
            if (i == c->baseline)
                continue;
            if (!compare_effect_of(c, i, c->baseline, (enum compare_quantity)q,
                                   &e) ||
                !find_split(c, i, &s))
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
            fprintf(
                out, "%s\n",
                agreement_text(&e, (enum compare_quantity)q, &s, c->margin));
            if (q == COMPARE_CPU)
                print_split(&s, c->margin, out);
        }
    }
    fputs("The recommendation goes by what is predicted; by what is measured "
          "where that\ninterval and the prediction's are disjoint, or the "
          "prediction has none.\n",
          out);
    return true;
}

static void put_split(const struct split *s, struct tool_json *j) {
    if (!s->known)
        return;
    tool_json_double(j, "baseline_user_ns", s->base.user_ns);
    tool_json_double(j, "baseline_system_ns", parts_system(&s->base));
    tool_json_double(j, "predicted_user_ns", s->predicted.user_ns);
    tool_json_double(j, "predicted_system_ns", parts_system(&s->predicted));
    tool_json_double(j, "true_user_ns", s->measured.user_ns);
    tool_json_double(j, "true_system_ns", parts_system(&s->measured));
}

bool compare_program_json(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "program");
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int q = 0; i != c->baseline && q < COMPARE_QUANTITIES; q++) {
            struct compare_effect e;
            struct split s;
            if (!compare_effect_of(c, i, c->baseline, (enum compare_quantity)q,
                                   &e) ||
                !find_split(c, i, &s))
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
            if (q == COMPARE_CPU)
                put_split(&s, j);
            tool_json_string(
                j, "opinion",
                agreement_text(&e, (enum compare_quantity)q, &s, c->margin));
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
    return true;
}
