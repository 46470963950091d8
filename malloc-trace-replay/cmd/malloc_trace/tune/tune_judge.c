/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/tune/tune_outcome.h"

#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_plan.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/main.h"
#include "common/stop.h"
#include "model/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- Finalists ------------------------------------------------------------ */

/* Takes the best two candidates; WITHIN: of those that lose at most what
   --most-loss allows, as the best of all may cost too much. */
static void choose_finalists(struct tune_outcome *o, bool within) {
    char name[TUNE_NAME];
    for (size_t i = 0; i < o->ranked && o->finalists < 2; i++) {
        size_t candidate = o->order[i];
        const struct tune_point *p =
            &tune_search_at(o->search, candidate)->point;
        if (candidate != 0 &&
            (!within ||
             tune_runs_is_within(o->runs,
                                 tune_point_name(&o->runs->space, p, name))))
            o->finalist[o->finalists++] = candidate;
    }
}

bool tune_outcome_begin(struct tune_outcome *o) {
    o->order = calloc(tune_search_count(o->search), sizeof(*o->order));
    if (o->order == NULL)
        return tool_out_of_memory();
    o->ranked = tune_search_rank(o->search, o->order);
    o->finalists = 0;
    o->proposed = SIZE_MAX;
    choose_finalists(o, true);
    if (o->finalists == 0) /* then what the best one costs is worth knowing */
        choose_finalists(o, false);
    return true;
}

void tune_outcome_free(struct tune_outcome *o) {
    free(o->order);
}

size_t tune_outcome_shown(const struct tune_outcome *o) {
    return o->proposed != SIZE_MAX ? o->proposed : 0;
}

/* --- Fresh runs ----------------------------------------------------------- */

static struct tune_figures figures_of(const struct comparison *c, size_t round,
                                      size_t trace, size_t contestant) {
    return (struct tune_figures){
        .time_ns =
            compare_verdict_figure(c, round, trace, contestant, METRIC_TIME),
        .mean_bytes =
            compare_verdict_figure(c, round, trace, contestant, METRIC_AVG_RSS),
        .peak_bytes = compare_verdict_figure(c, round, trace, contestant,
                                             METRIC_PEAK_RSS)};
}

/* Mean over the traces of a quantity's logarithm; NAN: a trace has none. */
static double log_quantity(const struct tune_runs *r,
                           const struct comparison *c, enum tune_goal goal,
                           size_t round, size_t contestant) {
    double sum = 0;
    for (size_t t = 0; t < c->traces; t++) {
        struct tune_figures f = figures_of(c, round, t, contestant);
        sum += log(tune_runs_quantity(r, c, goal, t, &f));
    }
    return sum / (double)c->traces;
}

/* Makes a range of N differences of logarithms. */
static struct compare_range range_of(double *difference, size_t n) {
    struct compare_range range = {.known = n != 0};
    if (n == 0)
        return range;
    struct interval d = interval_of(difference, n, TUNE_FRESH_ALPHA);
    range.ratio = exp(d.middle);
    range.has_interval = d.known;
    if (d.known) {
        range.low = exp(d.low);
        range.high = exp(d.high);
    }
    return range;
}

/* Compares contestant A of C with B by the rounds that have figures of both. */
static struct compare_range range_between(const struct tune_runs *r,
                                          const struct comparison *c,
                                          enum tune_goal goal, size_t a,
                                          size_t b) {
    double difference[TUNE_FRESH_ROUNDS];
    size_t n = 0;
    TCM_ASSERT(c->rounds <= TUNE_FRESH_ROUNDS);
    for (size_t k = 1; k <= c->rounds; k++) {
        double v =
            log_quantity(r, c, goal, k, a) - log_quantity(r, c, goal, k, b);
        if (!isnan(v))
            difference[n++] = v;
    }
    return range_of(difference, n);
}

/* Middle of the rounds of a quantity. */
static double typical_of(const struct tune_runs *r, const struct comparison *c,
                         enum tune_goal goal, size_t contestant) {
    double figure[TUNE_FRESH_ROUNDS];
    size_t n = 0;
    for (size_t k = 1; k <= c->rounds; k++) {
        double v = log_quantity(r, c, goal, k, contestant);
        if (!isnan(v))
            figure[n++] = v;
    }
    return n == 0 ? NAN : exp(interval_median(figure, n));
}

static void take_verdict(const struct tune_runs *r, const struct comparison *c,
                         size_t contestant, struct tune_verdict *v) {
    for (int g = 0; g < TUNE_GOALS; g++) {
        enum tune_goal goal = (enum tune_goal)g;
        v->of[g] = range_between(r, c, goal, contestant, 0);
        v->figure[g] = typical_of(r, c, goal, contestant);
        v->baseline[g] = typical_of(r, c, goal, 0);
    }
}

/* Makes the fresh rounds of C. */
static bool make_rounds(struct comparison *c) {
    c->lean = true;
    return compare_rounds_make(
               c, &(struct compare_rounds){.wanted = TUNE_FRESH_ROUNDS}) &&
           compare_verdict_prepare(c);
}

bool tune_verdict_is_worth(const struct tune_runs *r,
                           const struct tune_verdict *v, double margin) {
    const struct compare_range *goal = &v->of[r->goal];
    enum tune_goal guarded = tune_runs_guarded(r);
    if (!goal->known || !goal->has_interval || goal->ratio > 1 - margin ||
        goal->high >= 1)
        return false;
    if (guarded == TUNE_GOALS || !v->of[guarded].has_interval)
        return true;
    double loss = v->of[guarded].ratio;
    if (guarded == TUNE_TIME)
        loss = tune_runs_program_ratio(r, loss);
    return loss <= 1 + r->most_loss;
}

/* Difference that nobody cares for: the text would show it as a ratio of 1.000.
 */
#define LEAST_APART 0.0005

/* Decides between the finalists: the first, unless the second is shown to be
   better, or alone worth a change. */
static void decide(struct tune_outcome *o) {
    bool worth[2] = {false, false};
    for (size_t i = 0; i < o->finalists; i++)
        worth[i] = tune_verdict_is_worth(o->runs, &o->verdict[i], o->margin);
    o->apart_shown =
        o->finalists == 2 && o->apart.has_interval &&
        (o->apart.high < 1 - LEAST_APART || o->apart.low > 1 + LEAST_APART);
    bool second_is_better =
        o->finalists == 2 && o->apart_shown && o->apart.ratio > 1;
    if (worth[0] && !(second_is_better && worth[1]))
        o->proposed = 0;
    else if (worth[1])
        o->proposed = 1;
    TCM_ASSERT(o->proposed == SIZE_MAX || worth[o->proposed]);
}

bool tune_judge(struct tune_outcome *o) {
    struct comparison c;
    struct tune_point points[3] = {tune_search_at(o->search, 0)->point};
    if (o->finalists == 0)
        return true;
    for (size_t i = 0; i < o->finalists; i++)
        points[1 + i] = tune_search_at(o->search, o->finalist[i])->point;
    bool good = tune_runs_compare(o->runs, &o->runs->base, points,
                                  1 + o->finalists, &c) &&
                make_rounds(&c);
    if (good && !c.interrupted) {
        for (size_t i = 0; i < o->finalists; i++)
            take_verdict(o->runs, &c, 1 + i, &o->verdict[i]);
        if (o->finalists == 2)
            o->apart = range_between(o->runs, &c, o->runs->goal, 1, 2);
        o->judged = true;
        o->disturbances = c.disturbances;
        decide(o);
    }
    o->interrupted = o->interrupted || c.interrupted;
    comparison_free(&c);
    return good;
}

bool tune_judge_holdout(struct tune_outcome *o,
                        const struct comparison *holdout) {
    struct comparison c;
    struct tune_point points[2] = {tune_search_at(o->search, 0)->point};
    if (o->finalists == 0)
        return true;
    points[1] =
        tune_search_at(o->search, o->finalist[tune_outcome_shown(o)])->point;
    bool good =
        tune_runs_compare(o->runs, holdout, points, 2, &c) && make_rounds(&c);
    if (good && !c.interrupted) {
        take_verdict(o->runs, &c, 1, &o->holdout);
        o->has_holdout = true;
    }
    o->interrupted = o->interrupted || c.interrupted;
    comparison_free(&c);
    return good;
}

/* --- Runs of the program -------------------------------------------------- */

/* Rounds of the program, enough for an interval. */
enum { PROGRAM_ROUNDS = 8 };
/* Time between two looks at the memory of a program. */
#define LOOK_NS 2000000
/* Looks without which a mean says nothing. */
enum { LEAST_LOOKS = 10 };
/* Depth of a tree of processes that is looked at, and processes of a tree. */
enum { MOST_DEPTH = 4, MOST_SEEN = 64 };

/* A process that was the largest one at some looks. One that executes another
   program, as a shim does, is another one from then on. */
struct seen_process {
    int pid;
    char name[20];
    double bytes, most, sum, ns; /* the last look; all looks */
    uint64_t looks;
};

/* Resident bytes of the process PID; 0: unknown. */
static double resident_bytes(int pid) {
    char path[64];
    unsigned long long size = 0, resident = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    bool known = fscanf(f, "%llu %llu", &size, &resident) == 2;
    fclose(f);
    return known ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

/* Puts the largest process among PID and its children into *MOST. */
static void find_largest(int pid, unsigned depth, struct seen_process *most) {
    char path[80];
    int child;
    double bytes = resident_bytes(pid);
    if (bytes > most->bytes) {
        most->bytes = bytes;
        most->pid = pid;
    }
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    FILE *f = depth < MOST_DEPTH ? fopen(path, "re") : NULL;
    while (f != NULL && fscanf(f, "%d", &child) == 1)
        find_largest(child, depth + 1, most);
    if (f != NULL)
        fclose(f);
}

static void read_name(struct seen_process *p) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
    FILE *f = fopen(path, "re");
    if (f == NULL || fgets(p->name, sizeof(p->name), f) == NULL)
        p->name[0] = '\0';
    if (f != NULL)
        fclose(f);
}

/* Finds P among the COUNT processes that were seen, or adds it. NULL: there is
   no room. */
static struct seen_process *find_seen(struct seen_process *seen, size_t *count,
                                      const struct seen_process *p) {
    for (size_t i = 0; i < *count; i++)
        if (seen[i].pid == p->pid && strcmp(seen[i].name, p->name) == 0)
            return &seen[i];
    if (*count == MOST_SEEN)
        return NULL;
    seen[*count] = *p;
    return &seen[(*count)++];
}

/* Mean of the process that was the largest of all; NAN: it was too short. */
static double mean_of_largest(const struct seen_process *seen, size_t count) {
    const struct seen_process *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (best == NULL || seen[i].most > best->most)
            best = &seen[i];
    return best == NULL || best->looks < LEAST_LOOKS ? NAN
                                                     : best->sum / best->ns;
}

/* Waits for CHILD, and returns the mean resident bytes of its largest process
   while that runs; NAN: it was too short. LIMIT_NS: as of tool_child_wait. */
static double await_and_look(struct tool_child *child, uint64_t limit_ns,
                             struct tool_child_end *end) {
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    struct seen_process seen[MOST_SEEN], *last = NULL;
    uint64_t last_ns = tcm_clock_ns();
    size_t count = 0;
    while (!tool_child_try_wait(child, end)) {
        uint64_t now_ns = tcm_clock_ns();
        struct seen_process now = {.pid = 0};
        find_largest(child->pid, 0, &now);
        read_name(&now);
        if (last != NULL) {
            last->sum += last->bytes * (double)(now_ns - last_ns);
            last->ns += (double)(now_ns - last_ns);
            last->looks++;
        }
        last = now.pid == 0 ? NULL : find_seen(seen, &count, &now);
        if (last != NULL) {
            last->bytes = now.bytes;
            last->most = fmax(last->most, now.bytes);
        }
        last_ns = now_ns;
        if (tool_stop_requested() || now_ns - child->start_ns > limit_ns)
            tool_child_kill(child);
        nanosleep(&pause, NULL);
    }
    return mean_of_largest(seen, count);
}

/* Runs COMMAND once; figures of the program. false: it failed, or a stop was
   requested. */
static bool run_program(struct compare_contestant *entry,
                        const struct compare_command *command,
                        struct tune_figures *f) {
    struct tool_child child;
    struct tool_child_end end;
    struct compare_contestant_environment e = {.of = entry,
                                               .keep_preload = true};
    struct tool_child_spec spec = compare_program_spec(command);
    spec.prepare = compare_contestant_enter;
    spec.ctx = &e;
    spec.signals = TOOL_CHILD_STOPS;
    spec.dies_with_parent = true;
    if (!compare_contestant_prepare(entry))
        return false;
    int error = tool_child_start(&child, &spec);
    if (error != 0) {
        tool_error("%s: %s", command->words[0], strerror(error));
        if (child.pid > 0)
            tool_child_wait(&child, 0, &end);
        return false;
    }
    double mean = await_and_look(
        &child, compare_run_limit_ns(command->recorded_ns), &end);
    if (tool_stop_requested())
        return false;
    if (compare_program_has_failed(command, &end)) {
        char how[120];
        tool_child_end_text(&end, how, sizeof(how));
        tool_error("%s under %s: %s", command->words[0], entry->name, how);
        return false;
    }
    *f = (struct tune_figures){
        .time_ns = compare_program_ns(end.usage.ru_utime) +
                   compare_program_ns(end.usage.ru_stime),
        .mean_bytes = mean,
        .peak_bytes = (double)end.usage.ru_maxrss * 1024};
    return true;
}

static double program_figure(const struct tune_figures *f, int quantity) {
    return quantity == TUNE_MEMORY ? f->mean_bytes
           : quantity == TUNE_PEAK ? f->peak_bytes
                                   : f->time_ns;
}

/* Figure of the default's replays that is a part of the program's: times are
   summed over traces, of memory the largest trace counts. */
static double replay_part(const struct tune_runs *r, int quantity) {
    double sum = 0, most = 0;
    for (size_t t = 0; t < r->base.traces; t++) {
        double v = program_figure(&r->run[0].trace[t], quantity);
        sum += v * (double)r->base.trace[t].ops;
        most = fmax(most, v);
    }
    return quantity == TUNE_TIME ? sum : most;
}

/* Sets the measured ratios beside those that the fresh replays predict. */
static void take_effects(struct tune_outcome *o,
                         struct tune_figures figure[2][PROGRAM_ROUNDS],
                         size_t rounds) {
    const struct tune_verdict *v = &o->verdict[tune_outcome_shown(o)];
    for (int q = 0; q < TUNE_PROGRAM_QUANTITIES; q++) {
        double base[PROGRAM_ROUNDS], difference[PROGRAM_ROUNDS];
        struct compare_effect *e = &o->program[q];
        size_t n = 0;
        *e = (struct compare_effect){.share = NAN, .base = NAN};
        for (size_t k = 0; k < rounds; k++) {
            double x = program_figure(&figure[1][k], q);
            double y = program_figure(&figure[0][k], q);
            if (x > 0 && y > 0) {
                base[n] = y;
                difference[n++] = log(x) - log(y);
            }
        }
        e->measured = range_of(difference, n);
        if (n == 0)
            continue;
        e->base = interval_median(base, n);
        e->share = fmin(replay_part(o->runs, q) / e->base, 1);
        const struct compare_range *p = &v->of[q];
        if (p->known && e->share >= 0)
            e->predicted =
                (struct compare_range){.known = true,
                                       .ratio = 1 + e->share * (p->ratio - 1),
                                       .has_interval = p->has_interval,
                                       .low = 1 + e->share * (p->low - 1),
                                       .high = 1 + e->share * (p->high - 1)};
    }
    o->ran_program = true;
}

bool tune_judge_program(struct tune_outcome *o,
                        const struct compare_command *command) {
    struct comparison c;
    struct tune_figures figure[2][PROGRAM_ROUNDS];
    struct tune_point points[2] = {tune_search_at(o->search, 0)->point};
    if (o->finalists == 0)
        return true;
    points[1] =
        tune_search_at(o->search, o->finalist[tune_outcome_shown(o)])->point;
    bool good = tune_runs_compare(o->runs, &o->runs->base, points, 2, &c);
    size_t rounds = 0;
    /* in turn, each of the two first in every other round */
    for (; good && rounds < PROGRAM_ROUNDS; rounds++)
        for (size_t i = 0; good && i < 2; i++) {
            size_t which = (i + rounds) % 2;
            good = run_program(&c.contestants.list[which], command,
                               &figure[which][rounds]);
        }
    if (good)
        take_effects(o, figure, rounds);
    o->interrupted = o->interrupted || tool_stop_requested();
    comparison_free(&c);
    return good || tool_stop_requested();
}
