/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_verdict.h"

#include "base/check.h"
#include "common/main.h"
#include "model/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Figures -------------------------------------------------------------- */

double compare_verdict_figure(const struct comparison *c, size_t round,
                              size_t trace, size_t contestant,
                              enum compare_metric m) {
    const struct compare_run *run = comparison_run(c, round, trace, contestant);
    if (!run->good || isnan(run->value[m]))
        return NAN;
    return run->value[m] - (m == METRIC_TIME ? c->trace[trace].own_ns : 0);
}

/* A figure for a ratio: never 0. */
static double ratio_side(const struct comparison *c, size_t round, size_t trace,
                         size_t contestant, enum compare_metric m) {
    double v = compare_verdict_figure(c, round, trace, contestant, m);
    return isnan(v) || v > compare_metric[m].least ? v
                                                   : compare_metric[m].least;
}

double compare_verdict_middle(const struct comparison *c, size_t trace,
                              size_t contestant, enum compare_metric m,
                              double *room) {
    size_t n = 0;
    for (size_t r = 1; r <= c->rounds; r++) {
        double v = compare_verdict_figure(c, r, trace, contestant, m);
        if (!isnan(v))
            room[n++] = v;
    }
    return n == 0 ? NAN : interval_median(room, n);
}

double compare_verdict_gb_hours(const struct comparison *c, size_t contestant) {
    double *room = malloc((c->rounds + 1) * sizeof(*room));
    double sum = 0;
    if (!comparison_is_clocked(c) || room == NULL)
        sum = NAN;
    for (size_t t = 0; t < c->traces && room != NULL; t++)
        sum += compare_verdict_middle(c, t, contestant, METRIC_AVG_RSS, room) *
               c->trace[t].recorded_ns / 1e9 / 3600e9;
    free(room);
    return sum;
}

/* The contestant whose library records programs; SIZE_MAX: none. Its version
   identifies it, in results of older versions by the project's name: the user
   chooses its own name, and on a machine that merges results its path may not
   exist. */
static size_t recording_library(const struct comparison *c) {
    for (size_t i = 0; i < c->contestants.count; i++)
        if (c->contestants.list[i].envs == 0 &&
            (strstr(c->version[i], "(" TCM_ALLOCATOR_NAME " ") != NULL ||
             strstr(c->version[i], "(malloc-trace ") != NULL))
            return i;
    return SIZE_MAX;
}

double compare_verdict_malloc_percent(const struct comparison *c,
                                      size_t trace) {
    const struct compare_trace *t = &c->trace[trace];
    size_t library = recording_library(c);
    if (library == SIZE_MAX || isnan(t->recorded_cpu_ns))
        return NAN;
    double *room = malloc((c->rounds + 1) * sizeof(*room));
    if (room == NULL)
        return NAN;
    double ops = (double)t->ops;
    double there =
        compare_verdict_middle(c, trace, library, METRIC_TIME, room) * ops;
    double here =
        compare_verdict_middle(c, trace, c->baseline, METRIC_TIME, room) * ops;
    free(room);
    double rest = t->recorded_cpu_ns - there;
    return rest > 0 && here > 0 ? 100 * here / (rest + here) : NAN;
}

static size_t count_measured_metrics(const struct comparison *c) {
    size_t count = 0;
    for (int m = 0; m < METRICS; m++) {
        bool any = false;
        for (size_t i = 0;
             i < (c->rounds + 1) * c->traces * c->contestants.count; i++)
            any = any || (c->run[i].good && !isnan(c->run[i].value[m]));
        count += any;
    }
    return count == 0 ? 1 : count;
}

/* Number of contestants that are compared with the baseline, at least 1. */
static double count_others(const struct comparison *c) {
    size_t others = 0;
    for (size_t i = 0; i < c->contestants.count; i++)
        others += i != c->baseline && c->contestants.list[i].why == NULL;
    return others == 0 ? 1 : (double)others;
}

bool compare_verdict_prepare(struct comparison *c) {
    TCM_ASSERT_SLOW(comparison_is_consistent(c));
    double *own = malloc((c->rounds * c->contestants.count + 1) * sizeof(*own));
    if (own == NULL)
        return tool_out_of_memory();
    for (size_t t = 0; t < c->traces; t++) {
        size_t n = 0;
        for (size_t r = 1; r <= c->rounds; r++)
            for (size_t i = 0; i < c->contestants.count; i++) {
                const struct compare_run *run = comparison_run(c, r, t, i);
                if (run->good && !isnan(run->own_ns))
                    own[n++] = run->own_ns;
            }
        TCM_ASSERT(n <= c->rounds * c->contestants.count);
        c->trace[t].own_ns = n == 0 ? 0 : interval_median(own, n);
    }
    free(own);
    c->alpha = (1 - c->confidence) / count_others(c) /
               (double)count_measured_metrics(c);
    c->program_alpha =
        (1 - c->confidence) / count_others(c) / (double)COMPARE_QUANTITIES;
    TCM_ASSERT(c->alpha > 0 && c->alpha < 1);
    TCM_ASSERT(c->program_alpha > 0 && c->program_alpha < 1);
    return true;
}

size_t compare_verdict_least_rounds(const struct comparison *c) {
    return interval_least((1 - c->confidence) / count_others(c) /
                          (double)METRICS);
}

/* --- Differences ---------------------------------------------------------- */

struct pairs {
    double *difference; /* [trace * rounds + round - 1], NAN: none */
    double *figure; /* of the contestant, followed by those of the baseline */
    double *by_trace;
    double *room;
    double *spare; /* for the rounds of one recording */
    bool *counts;  /* of each trace: it has differences */
};

static bool pairs_make(const struct comparison *c, size_t contestant,
                       size_t base, enum compare_metric m, struct pairs *p) {
    size_t n = c->traces * c->rounds;
    size_t room = c->traces > c->rounds ? c->traces : c->rounds;
    p->difference = malloc((4 * n + c->traces + room + 1) * sizeof(double));
    p->counts = calloc(c->traces + 1, sizeof(bool));
    if (p->difference == NULL || p->counts == NULL) {
        free(p->difference);
        free(p->counts);
        return tool_out_of_memory();
    }
    p->figure = p->difference + n;
    p->by_trace = p->figure + 2 * n;
    p->room = p->by_trace + c->traces;
    p->spare = p->room + room;
    for (size_t t = 0; t < c->traces; t++) {
        for (size_t r = 1; r <= c->rounds; r++) {
            size_t i = t * c->rounds + r - 1;
            double x = ratio_side(c, r, t, contestant, m);
            double y = ratio_side(c, r, t, base, m);
            p->figure[i] = x;
            p->figure[n + i] = y;
            p->difference[i] = log(x) - log(y);
            p->counts[t] = p->counts[t] || !isnan(p->difference[i]);
        }
    }
    return true;
}

static void pairs_free(struct pairs *p) {
    free(p->difference);
    free(p->counts);
}

/* The geometric mean over traces of the middle of the rounds. FROM: the figures
   of one contestant in P. */
static double typical_of(const struct comparison *c, const struct pairs *p,
                         const double *from) {
    double sum = 0;
    size_t traces = 0;
    for (size_t t = 0; t < c->traces; t++) {
        size_t n = 0;
        for (size_t r = 0; p->counts[t] && r < c->rounds; r++)
            if (!isnan(from[t * c->rounds + r]))
                p->room[n++] = from[t * c->rounds + r];
        if (n == 0)
            continue;
        sum += log(interval_median(p->room, n));
        traces++;
    }
    return traces == 0 ? NAN : exp(sum / (double)traces);
}

/* Puts one difference for each round in which all traces that count have one
   into P->room: their mean. Returns the number of differences. */
static size_t differences_by_round(const struct comparison *c,
                                   struct pairs *p) {
    size_t n = 0;
    for (size_t r = 0; r < c->rounds; r++) {
        double sum = 0;
        size_t traces = 0;
        for (size_t t = 0; t < c->traces; t++)
            if (p->counts[t]) {
                sum += p->difference[t * c->rounds + r];
                traces++;
            }
        if (traces != 0 && !isnan(sum))
            p->room[n++] = sum / (double)traces;
    }
    return n;
}

/* Puts one difference for each trace into P->by_trace: the middle of its
   rounds. Returns the number of differences. */
static size_t differences_by_trace(const struct comparison *c,
                                   struct pairs *p) {
    size_t n = 0;
    for (size_t t = 0; t < c->traces; t++) {
        size_t have = 0;
        for (size_t r = 0; r < c->rounds; r++)
            if (!isnan(p->difference[t * c->rounds + r]))
                p->room[have++] = p->difference[t * c->rounds + r];
        if (have != 0)
            p->by_trace[n++] = interval_median(p->room, have);
    }
    return n;
}

/* Figures of memory repeat from replay to replay of one recording. */
static bool is_of_memory(enum compare_metric m) {
    return m != METRIC_TIME && m != METRIC_WALL && m != METRIC_P999;
}

/* Puts one difference for each recording into P->room: the middle of the rounds
   that replayed it. Returns the number of differences; 0: recordings are not
   the samples of M. */
static size_t differences_by_recording(const struct comparison *c,
                                       enum compare_metric m, struct pairs *p) {
    size_t n = 0;
    if (!is_of_memory(m) || !comparison_samples_recordings(c))
        return 0;
    if (c->traces > 1) {
        n = differences_by_trace(c, p);
        memcpy(p->room, p->by_trace, n * sizeof(*p->room));
        return n;
    }
    for (size_t k = 0; k <= c->trace[0].agains; k++) {
        size_t have = 0;
        for (size_t r = 1; r <= c->rounds; r++)
            if (r % (c->trace[0].agains + 1) == k &&
                !isnan(p->difference[r - 1]))
                p->spare[have++] = p->difference[r - 1];
        if (have != 0)
            p->room[n++] = interval_median(p->spare, have);
    }
    return n;
}

/* Part of the baseline's figure BASE of M by which figures differ with no cause
   but the granularity of what is counted; 0 where the baseline has none. */
static double slack_of(enum compare_metric m, double base) {
    static const double slack[METRICS] = {
        [METRIC_PEAK_RSS] = 128 << 10, [METRIC_AVG_RSS] = 128 << 10,
        [METRIC_WASTE] = 128 << 10,    [METRIC_AFTER] = 128 << 10,
        [METRIC_FAULTS] = 32,          [METRIC_HUGE] = 2 << 20};
    return base > compare_metric[m].least ? slack[m] / base : 0;
}

/* --- The verdict ---------------------------------------------------------- */

static enum compare_verdict_kind
kind_of_interval(const struct compare_verdict *v, double margin) {
    if (!v->has_interval)
        return VERDICT_NOT_SHOWN;
    if (v->low > 1 && v->high > 1 + margin)
        return VERDICT_MORE;
    if (v->high < 1 && v->low < 1 - margin)
        return VERDICT_LESS;
    return v->high <= 1 + margin ? VERDICT_NO_WORSE : VERDICT_NOT_SHOWN;
}

bool compare_verdict_of(const struct comparison *c, size_t contestant,
                        enum compare_metric m, struct compare_verdict *v) {
    return compare_verdict_between(c, contestant, c->baseline, m, v);
}

bool compare_verdict_between(const struct comparison *c, size_t contestant,
                             size_t base, enum compare_metric m,
                             struct compare_verdict *v) {
    struct pairs p;
    *v = (struct compare_verdict){0};
    if (!pairs_make(c, contestant, base, m, &p))
        return false;
    size_t cells = c->traces * c->rounds;
    size_t n = differences_by_recording(c, m, &p);
    bool of_recordings = n != 0;
    if (!of_recordings)
        n = differences_by_round(c, &p);
    if (!of_recordings && n < interval_least(c->alpha) && c->traces > n) {
        size_t traces = differences_by_trace(c, &p);
        if (traces >= interval_least(c->alpha) || n == 0) {
            for (size_t i = 0; i < traces; i++)
                p.room[i] = p.by_trace[i];
            n = traces;
        }
    }
    if (n == 0) {
        pairs_free(&p);
        return true;
    }
    TCM_ASSERT(n <= (c->rounds > c->traces ? c->rounds : c->traces));
    struct interval d = of_recordings ? interval_of_few(p.room, n, c->alpha)
                                      : interval_of(p.room, n, c->alpha);
    TCM_ASSERT(!d.known || (d.low <= d.middle && d.middle <= d.high));
    v->typical = typical_of(c, &p, p.figure);
    v->baseline = typical_of(c, &p, p.figure + cells);
    v->measured = true;
    v->samples = n;
    v->ratio = exp(d.middle);
    v->has_interval = d.known;
    if (d.known) {
        double slack = 1 + slack_of(m, v->baseline);
        v->low = exp(d.low) / slack;
        v->high = exp(d.high) * slack;
        v->smallest = exp(d.detectable) * slack - 1;
    }
    v->of_none = v->baseline <= compare_metric[m].least &&
                 v->typical > compare_metric[m].least;
    v->kind = kind_of_interval(v, c->margin);
    TCM_ASSERT(contestant != base || v->kind == VERDICT_NO_WORSE ||
               v->kind == VERDICT_NOT_SHOWN);
    pairs_free(&p);
    return true;
}

const char *compare_verdict_text(const struct compare_verdict *v,
                                 enum compare_metric m) {
    switch (v->kind) {
    case VERDICT_LESS:
        return compare_metric[m].less;
    case VERDICT_MORE:
        return compare_metric[m].more;
    case VERDICT_NO_WORSE:
        return "no worse";
    case VERDICT_NOT_SHOWN:
        break;
    }
    return "no difference shown";
}

/* --- System time ---------------------------------------------------------- */

/* Part of the time of an operation, as compare_verdict_figure has it, that is
   system time. NAN: unknown. */
static double system_figure(const struct comparison *c, size_t round,
                            size_t trace, size_t contestant) {
    double time =
        compare_verdict_figure(c, round, trace, contestant, METRIC_TIME);
    double system = comparison_run(c, round, trace, contestant)->system_ns;
    if (isnan(time) || isnan(system))
        return NAN;
    /* growing tables of the replayer are in it, but not in the time */
    return fmin(system, fmax(time, 0));
}

/* Time of an operation in a round, and its part that is system time, over all
   traces. false: not known of all. */
static bool parts_of_round(const struct comparison *c, size_t round,
                           size_t contestant, double *time, double *system) {
    double ops = 0;
    *time = *system = 0;
    for (size_t t = 0; t < c->traces; t++) {
        double n = (double)c->trace[t].ops;
        *time +=
            n * compare_verdict_figure(c, round, t, contestant, METRIC_TIME);
        *system += n * system_figure(c, round, t, contestant);
        ops += n;
    }
    *time /= ops;
    *system /= ops;
    return ops > 0 && !isnan(*time) && !isnan(*system);
}

bool compare_verdict_parts(const struct comparison *c, size_t contestant,
                           struct compare_time_parts *p) {
    double *room = malloc((2 * c->rounds + 1) * sizeof(*room));
    double time, system;
    size_t n = 0;
    *p = (struct compare_time_parts){.least = INFINITY, .most = -INFINITY};
    if (room == NULL)
        return tool_out_of_memory();
    for (size_t t = 0; t < c->traces; t++)
        p->ops += (double)c->trace[t].ops;
    for (size_t r = 1; r <= c->rounds; r++) {
        if (!parts_of_round(c, r, contestant, &time, &system))
            continue;
        room[n] = time;
        room[c->rounds + n++] = system;
        if (time < p->least) {
            p->least = time;
            p->least_system = system;
        }
        if (time > p->most) {
            p->most = time;
            p->most_system = system;
        }
    }
    p->known = n != 0;
    if (p->known) {
        p->time = interval_median(room, n);
        p->system = interval_median(room + c->rounds, n);
        TCM_ASSERT(p->least <= p->time && p->time <= p->most);
    }
    free(room);
    return true;
}

/* Least differences that have a cause: in all of a round, ns, far above a tick
   of the clock by which the kernel tells the parts; and as a part of the time,
   for those between rounds. */
#define SYSTEM_LEAST_NS 2e7
#define SPREAD_LEAST    0.25

/* Tells whether half of the difference TIME, or more, is SYSTEM. */
static bool is_system_time(double time, double system, double ops) {
    return fabs(time) * ops >= SYSTEM_LEAST_NS && system / time >= 0.5;
}

bool compare_verdict_system_cause(const struct comparison *c, size_t contestant,
                                  struct compare_system_cause *cause) {
    struct compare_verdict v;
    struct compare_time_parts *own = &cause->own, *base = &cause->base;
    *cause = (struct compare_system_cause){.of_difference = false};
    if (!compare_verdict_parts(c, contestant, own) ||
        !compare_verdict_parts(c, c->baseline, base) ||
        !compare_verdict_of(c, contestant, METRIC_TIME, &v))
        return false;
    if (!own->known || !base->known)
        return true;
    cause->of_difference = (v.kind == VERDICT_LESS || v.kind == VERDICT_MORE) &&
                           is_system_time(own->time - base->time,
                                          own->system - base->system, own->ops);
    cause->of_spread =
        own->most - own->least >= SPREAD_LEAST * own->time &&
        is_system_time(own->most - own->least,
                       own->most_system - own->least_system, own->ops);
    return true;
}

/* --- Ranks ---------------------------------------------------------------- */

struct rank {
    size_t contestant;
    double ratio;
};

static int rank_compare(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    return x->contestant < y->contestant ? -1 : x->contestant > y->contestant;
}

/* Puts the contestants with figures into ORDER, the least time first. Returns
   their number. */
static size_t rank_contestants(const struct comparison *c, size_t *order) {
    size_t n = 0;
    struct rank *rank = calloc(c->contestants.count, sizeof(*rank));
    if (rank == NULL) {
        tool_out_of_memory();
        return 0;
    }
    for (size_t i = 0; i < c->contestants.count; i++) {
        struct compare_verdict v;
        if (!compare_verdict_of(c, i, METRIC_TIME, &v) || !v.measured)
            continue;
        rank[n].contestant = i;
        rank[n++].ratio = v.ratio;
    }
    qsort(rank, n, sizeof(*rank), rank_compare);
    for (size_t i = 0; i < n; i++) {
        TCM_ASSERT(i == 0 || rank[i - 1].ratio <= rank[i].ratio);
        order[i] = rank[i].contestant;
    }
    free(rank);
    return n;
}

static bool any_true(const bool *on, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (on[i])
            return true;
    return false;
}

void compare_verdict_frontier(const struct comparison *c, bool *on) {
    size_t n = c->contestants.count;
    double *ratio = calloc(2 * n, sizeof(*ratio));
    for (size_t i = 0; i < n; i++) {
        struct compare_verdict time, memory;
        on[i] = ratio != NULL && compare_verdict_of(c, i, METRIC_TIME, &time) &&
                compare_verdict_of(c, i, METRIC_PEAK_RSS, &memory) &&
                time.measured && memory.measured;
        if (on[i]) {
            ratio[2 * i] = time.ratio;
            ratio[2 * i + 1] = memory.ratio;
        }
    }
    bool some = any_true(on, n);
    for (size_t i = 0; ratio != NULL && i < n; i++)
        for (size_t k = 0; k < n && on[i]; k++)
            on[i] = ratio[2 * k] == 0 || ratio[2 * k] >= ratio[2 * i] ||
                    ratio[2 * k + 1] >= ratio[2 * i + 1];
    TCM_ASSERT(ratio == NULL || any_true(on, n) == some);
    free(ratio);
}

void compare_sheet_free(struct compare_sheet *s) {
    free(s->verdict);
    free(s->order);
}

bool compare_sheet_make(const struct comparison *c, struct compare_sheet *s) {
    s->verdict = calloc(c->contestants.count, sizeof(*s->verdict));
    s->order = calloc(c->contestants.count, sizeof(*s->order));
    if (s->verdict == NULL || s->order == NULL) {
        compare_sheet_free(s);
        return tool_out_of_memory();
    }
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int m = 0; m < METRICS; m++)
            if (!compare_verdict_of(c, i, (enum compare_metric)m,
                                    &s->verdict[i][m])) {
                compare_sheet_free(s);
                return false;
            }
    s->ranked = rank_contestants(c, s->order);
    return true;
}

size_t compare_sheet_best(const struct compare_sheet *s,
                          enum compare_metric m) {
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < s->ranked; k++) {
        const struct compare_verdict *v = &s->verdict[s->order[k]][m];
        if (v->measured && v->kind == VERDICT_LESS &&
            (best == SIZE_MAX || v->ratio < s->verdict[best][m].ratio))
            best = s->order[k];
    }
    return best;
}
