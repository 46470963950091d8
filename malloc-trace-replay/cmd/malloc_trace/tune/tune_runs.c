/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/tune/tune_runs.h"

#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "model/interval.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_FORMAT "malloc-trace tune state 1"

#define GIB            1073741824.0
#define HOURS_OF_MONTH 730.0
/* Malloc's share of a program's time where it is unknown. */
#define ASSUMED_SHARE 0.1

const char *const tune_goal_name[TUNE_GOALS + 1] = {"memory", "peak", "time",
                                                    "cost", NULL};
const char *const tune_goal_title[TUNE_GOALS] = {"mean memory", "peak memory",
                                                 "time in malloc", "cost"};

/* --- Figures -------------------------------------------------------------- */

double tune_runs_quantity(const struct tune_runs *r, const struct comparison *c,
                          enum tune_goal goal, size_t t,
                          const struct tune_figures *f) {
    /* figures for ratios are never 0, and fmax() does not keep NAN */
    double mean = isnan(f->mean_bytes) ? NAN : fmax(f->mean_bytes, 4096);
    double peak = isnan(f->peak_bytes) ? NAN : fmax(f->peak_bytes, 4096);
    double time = isnan(f->time_ns) ? NAN : fmax(f->time_ns, 0.01);
    if (goal != TUNE_COST)
        return goal == TUNE_MEMORY ? mean : goal == TUNE_PEAK ? peak : time;
    /* known of the traces of the search, in any comparison of them */
    bool has_rest = r->rest_ns != NULL && t < r->base.traces &&
                    strcmp(c->trace[t].path, r->base.trace[t].path) == 0;
    double busy_ns =
        time * (double)c->trace[t].ops + (has_rest ? r->rest_ns[t] : 0);
    return mean / GIB * r->gb_month +
           busy_ns / c->trace[t].recorded_ns * HOURS_OF_MONTH * r->cpu_hour;
}

/* The default's run in the round of RUN. */
static const struct tune_run *default_beside(const struct tune_runs *r,
                                             const struct tune_run *run) {
    const char *name = r->space.allocator[0].name;
    for (size_t i = 0; i < r->count; i++)
        if (r->run[i].round == run->round && strcmp(r->run[i].point, name) == 0)
            return &r->run[i];
    return NULL;
}

/* Mean over the traces of the logarithm of a quantity's ratio; NAN: one is
   unknown. */
static double log_ratio(const struct tune_runs *r, const struct tune_run *run,
                        enum tune_goal goal) {
    const struct tune_run *beside = default_beside(r, run);
    double sum = 0;
    if (run->failed || beside == NULL || beside->failed)
        return NAN;
    for (size_t t = 0; t < r->base.traces; t++)
        sum += log(tune_runs_quantity(r, &r->base, goal, t, &run->trace[t])) -
               log(tune_runs_quantity(r, &r->base, goal, t, &beside->trace[t]));
    return sum / (double)r->base.traces;
}

enum tune_goal tune_runs_guarded(const struct tune_runs *r) {
    return r->goal == TUNE_COST   ? TUNE_GOALS
           : r->goal == TUNE_TIME ? TUNE_MEMORY
                                  : TUNE_TIME;
}

double tune_runs_program_ratio(const struct tune_runs *r, double malloc_ratio) {
    double rest = 0, all = 0;
    for (size_t t = 0; t < r->base.traces; t++) {
        const struct tune_run *first = &r->run[0];
        double calls = first->trace[t].time_ns * (double)r->base.trace[t].ops;
        rest += r->rest_ns[t];
        all += r->rest_ns[t] + calls;
    }
    return all > 0 ? (rest + (all - rest) * malloc_ratio) / all : malloc_ratio;
}

/* Weight of what is lost beyond the bound: a point there does not win. */
#define LOSS_WEIGHT 5

double tune_runs_score(const struct tune_runs *r, const struct tune_run *run) {
    double score = log_ratio(r, run, r->goal);
    enum tune_goal guarded = tune_runs_guarded(r);
    if (guarded == TUNE_GOALS || isnan(score))
        return score;
    double other = exp(log_ratio(r, run, guarded));
    if (guarded == TUNE_TIME)
        other = tune_runs_program_ratio(r, other);
    return other > 1 + r->most_loss
               ? score + LOSS_WEIGHT * log(other / (1 + r->most_loss))
               : score;
}

double tune_runs_ratio(const struct tune_runs *r, const char *name,
                       enum tune_goal goal) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->run[i].point, name) != 0)
            continue;
        double v = log_ratio(r, &r->run[i], goal);
        if (!isnan(v)) {
            sum += v;
            n++;
        }
    }
    return n == 0 ? NAN : exp(sum / n);
}

double tune_runs_loss(const struct tune_runs *r, const char *name) {
    enum tune_goal guarded = tune_runs_guarded(r);
    if (guarded == TUNE_GOALS)
        return NAN;
    double loss = tune_runs_ratio(r, name, guarded);
    return guarded == TUNE_TIME ? tune_runs_program_ratio(r, loss) : loss;
}

bool tune_runs_is_within(const struct tune_runs *r, const char *name) {
    return !(tune_runs_loss(r, name) > 1 + r->most_loss);
}

/* Finds the time of the program besides malloc: that of the recorded run less
   malloc's under this project's library, which it was recorded with. */
static bool find_rest(struct tune_runs *r) {
    const struct tune_run *own = NULL;
    if (r->rest_ns == NULL)
        r->rest_ns = calloc(r->base.traces, sizeof(*r->rest_ns));
    if (r->rest_ns == NULL)
        return tool_out_of_memory();
    for (size_t a = 0; a < r->space.allocators; a++)
        if (compare_contestant_is_own(
                &r->base.contestants.list[r->contestant[a]]))
            for (size_t i = 0; i < r->count && own == NULL; i++)
                if (strcmp(r->run[i].point, r->space.allocator[a].name) == 0 &&
                    !r->run[i].failed)
                    own = &r->run[i];
    r->rest_assumed = false;
    for (size_t t = 0; t < r->base.traces; t++) {
        double ops = (double)r->base.trace[t].ops;
        double recorded = r->base.trace[t].recorded_cpu_ns;
        double rest = NAN;
        if (own != NULL && recorded > 0) /* it may be malloc's all of it */
            rest = fmax(recorded - own->trace[t].time_ns * ops, 0);
        if (isnan(rest)) {
            r->rest_assumed = true;
            rest = fmax(r->run[0].trace[t].time_ns, 0) * ops *
                   (1 / ASSUMED_SHARE - 1);
        }
        r->rest_ns[t] = rest;
    }
    return true;
}

/* --- Comparisons ---------------------------------------------------------- */

static bool add_trace_of(struct comparison *c,
                         const struct compare_trace *from) {
    if (!comparison_add_trace(c, from->path, from->name))
        return false;
    struct compare_trace *t = &c->trace[c->traces - 1];
    t->ops = from->ops;
    t->threads = from->threads;
    t->mode = from->mode;
    t->has_times = from->has_times;
    t->clock = from->clock;
    return true;
}

static bool add_contestant_of(struct comparison *c, const struct tune_runs *r,
                              const struct tune_point *p) {
    char text[TUNE_NAME];
    const struct tune_allocator *a = &r->space.allocator[p->allocator];
    const struct compare_contestant *base =
        &r->base.contestants.list[r->contestant[p->allocator]];
    if (!compare_contestants_add_plain(&c->contestants,
                                       tune_point_name(&r->space, p, text),
                                       base->library))
        return false;
    struct compare_contestant *entry =
        &c->contestants.list[c->contestants.count - 1];
    for (size_t i = 0; i < base->envs; i++)
        if (!compare_contestant_set(entry, base->env[i]))
            return false;
    for (unsigned d = 0; d < a->dimensions; d++)
        if (tune_point_has(p, d) &&
            !compare_contestant_set(entry,
                                    tune_point_setting(&r->space, p, d, text)))
            return false;
    return true;
}

bool tune_runs_compare(const struct tune_runs *r, const struct comparison *from,
                       const struct tune_point *points, size_t n,
                       struct comparison *c) {
    *c = (struct comparison){.margin = from->margin,
                             .confidence = from->confidence,
                             .touch = r->base.touch,
                             .limit_ns = from->limit_ns,
                             .seed = r->seed + r->rounds};
    for (size_t t = 0; t < from->traces; t++)
        if (!add_trace_of(c, &from->trace[t]))
            return false;
    for (size_t i = 0; i < n; i++)
        if (!add_contestant_of(c, r, &points[i]))
            return false;
    return true;
}

/* --- A round -------------------------------------------------------------- */

static bool make_run(struct tune_runs *r, struct comparison *c, size_t trace,
                     size_t contestant) {
    char problem[200];
    size_t n;
    uint64_t start_ns = tcm_clock_ns();
    if (tool_stop_requested())
        return false;
    char *text = compare_run_make(c, 1, trace, contestant, &n);
    if (text == NULL)
        return false;
    bool good = compare_run_take(c, text, n, 1, trace, contestant, problem);
    free(text);
    if (!good)
        tool_error("a run of %s left no result: %s",
                   c->contestants.list[contestant].name, problem);
    r->replays++;
    r->replays_ns += tcm_clock_ns() - start_ns;
    return good;
}

/* Makes all runs of round 1 of C in random order. */
static bool make_all(struct tune_runs *r, struct comparison *c) {
    size_t n = c->traces * c->contestants.count;
    size_t *order = calloc(n, sizeof(*order));
    bool good = order != NULL || tool_out_of_memory();
    uint64_t state = c->seed;
    if (good)
        tool_random_order(order, n, &state);
    for (size_t i = 0; good && i < n; i++)
        good = make_run(r, c, order[i] / c->contestants.count,
                        order[i] % c->contestants.count);
    free(order);
    return good;
}

/* The replayer's share of an operation: the middle of the round. */
static double own_share(const struct comparison *c, size_t trace) {
    double own[TUNE_MOST_DIMENSIONS * 2];
    size_t n = 0;
    for (size_t i = 0; i < c->contestants.count && n < TCM_ARRAY_SIZE(own);
         i++) {
        const struct compare_run *run = comparison_run(c, 1, trace, i);
        if (run->good && !isnan(run->own_ns))
            own[n++] = run->own_ns;
    }
    return n == 0 ? 0 : interval_median(own, n);
}

static struct tune_run *append_run(struct tune_runs *r, const char *point,
                                   uint64_t round) {
    if (!tool_array_reserve(&r->run, &r->room, r->count + 1, sizeof(*r->run))) {
        (void)tool_out_of_memory();
        return NULL;
    }
    struct tune_run *run = &r->run[r->count];
    *run =
        (struct tune_run){.point = strdup(point),
                          .round = round,
                          .trace = calloc(r->base.traces, sizeof(*run->trace))};
    if (run->point == NULL || run->trace == NULL) {
        free(run->point);
        free(run->trace);
        (void)tool_out_of_memory();
        return NULL;
    }
    r->count++;
    return run;
}

/* Notes the first run without a figure. */
static void note_failure(struct tune_runs *r, const char *point,
                         const char *why) {
    if (r->failures++ == 0)
        snprintf(r->failure, sizeof(r->failure), "%.70s: %.80s", point, why);
}

/* Takes the figures of all contestants of C. */
static bool take_round(struct tune_runs *r, const struct comparison *c) {
    for (size_t i = 0; i < c->contestants.count; i++) {
        struct tune_run *run =
            append_run(r, c->contestants.list[i].name, r->rounds);
        if (run == NULL)
            return false;
        for (size_t t = 0; t < c->traces; t++) {
            const struct compare_run *from = comparison_run(c, 1, t, i);
            run->failed = run->failed || !from->good;
            run->trace[t] = (struct tune_figures){
                .time_ns = from->value[METRIC_TIME] - own_share(c, t),
                .mean_bytes = from->value[METRIC_AVG_RSS],
                .peak_bytes = from->value[METRIC_PEAK_RSS]};
        }
        const struct compare_contestant *entry = &c->contestants.list[i];
        if (run->failed)
            note_failure(r, entry->name,
                         entry->failure == NULL ? "no figures"
                                                : entry->failure);
        else if (c->own_clock[i][0] != '\0')
            note_failure(r, entry->name, c->own_clock[i]);
    }
    for (size_t t = 0; t < c->traces; t++) {
        r->base.trace[t].ops = c->trace[t].ops;
        r->base.trace[t].untraced_frees = c->trace[t].untraced_frees;
        memcpy(r->base.trace[t].untouched, c->trace[t].untouched,
               UNTOUCHED_TEXT);
        r->base.trace[t].recorded_ns = c->trace[t].recorded_ns;
        r->base.trace[t].recorded_cpu_ns = c->trace[t].recorded_cpu_ns;
    }
    return true;
}

static bool save(const struct tune_runs *r);

bool tune_runs_round(struct tune_runs *r, const struct tune_point *points,
                     size_t n) {
    struct comparison c;
    r->rounds++;
    bool good = tune_runs_compare(r, &r->base, points, n, &c) &&
                comparison_make_room(&c, 1);
    c.lean = true;
    good = good && make_all(r, &c) && take_round(r, &c) && find_rest(r);
    comparison_free(&c);
    if (!good)
        r->rounds--;
    return good && (r->file == NULL || save(r));
}

struct tune_run *tune_runs_take(struct tune_runs *r, const char *name) {
    for (size_t i = 0; i < r->count; i++)
        if (!r->run[i].taken && strcmp(r->run[i].point, name) == 0) {
            r->run[i].taken = true;
            return &r->run[i];
        }
    return NULL;
}

void tune_runs_free(struct tune_runs *r) {
    for (size_t i = 0; i < r->count; i++) {
        free(r->run[i].point);
        free(r->run[i].trace);
    }
    free(r->run);
    free(r->rest_ns);
    free(r->contestant);
    tune_space_free(&r->space);
    comparison_free(&r->base);
}

/* --- The file ------------------------------------------------------------- */

static void put_figures(struct tool_json *j, const struct tune_run *run,
                        size_t traces) {
    tool_json_begin_array(j, "figures");
    for (size_t t = 0; t < traces; t++) {
        tool_json_begin_object(j, NULL);
        tool_json_double(j, "time_ns", run->trace[t].time_ns);
        tool_json_double(j, "mean_bytes", run->trace[t].mean_bytes);
        tool_json_double(j, "peak_bytes", run->trace[t].peak_bytes);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_state(const struct tune_runs *r, struct tool_json *j) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "format", STATE_FORMAT);
    tool_json_string(j, "default", r->space.allocator[0].name);
    tool_json_begin_array(j, "traces");
    for (size_t t = 0; t < r->base.traces; t++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", r->base.trace[t].name);
        tool_json_u64(j, "ops", r->base.trace[t].ops);
        tool_json_double(j, "recorded_ns", r->base.trace[t].recorded_ns);
        tool_json_double(j, "recorded_cpu_ns",
                         r->base.trace[t].recorded_cpu_ns);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_begin_array(j, "runs");
    tool_json_dense(j, true);
    for (size_t i = 0; i < r->count; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_u64(j, "round", r->run[i].round);
        tool_json_string(j, "point", r->run[i].point);
        tool_json_bool(j, "failed", r->run[i].failed);
        put_figures(j, &r->run[i], r->base.traces);
        tool_json_end_object(j);
    }
    tool_json_dense(j, false);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* Destination of the document. */
struct sink {
    int fd, error;
};

static void write_piece(void *ctx, const char *text, size_t length) {
    struct sink *to = ctx;
    while (length != 0 && to->error == 0) {
        ssize_t n = write(to->fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            to->error = n < 0 ? errno : EIO;
            return;
        }
        text += n;
        length -= (size_t)n;
    }
}

static bool save(const struct tune_runs *r) {
    static struct tool_json j;
    struct tool_file_new file;
    struct sink to = {.fd = tool_file_open_new(&file, r->file)};
    if (to.fd < 0) {
        tool_error("%s: %s", r->file, tool_file_error_text(errno));
        return false;
    }
    tool_json_open_sink(&j, write_piece, &to);
    put_state(r, &j);
    (void)tool_json_close(&j);
    if (close(to.fd) != 0 && to.error == 0)
        to.error = errno;
    if (to.error == 0 && !tool_file_keep(&file))
        to.error = errno;
    if (to.error != 0) {
        tool_file_drop(&file);
        tool_error("%s: %s", r->file, tool_file_error_text(to.error));
    }
    return to.error == 0;
}

/* Tells whether the runs in ROOT are of these traces beside this default. */
static bool is_same_search(struct tune_runs *r,
                           const struct tool_json_value *root) {
    size_t t = 0;
    const struct tool_json_value *traces = tool_json_member(root, "traces");
    const char *name = compare_json_text(root, "default");
    if (strcmp(name, r->space.allocator[0].name) != 0) {
        tool_error("%s: its runs stand beside %s, not beside %s", r->file, name,
                   r->space.allocator[0].name);
        return false;
    }
    bool alike = tool_json_count(traces) == r->base.traces;
    for (const struct tool_json_value *v = tool_json_first(traces);
         alike && v != NULL; v = tool_json_next(v), t++) {
        struct compare_trace *mine = &r->base.trace[t];
        alike = compare_json_whole(v, "ops") == mine->ops;
        mine->recorded_ns = compare_json_number(v, "recorded_ns");
        mine->recorded_cpu_ns = compare_json_number(v, "recorded_cpu_ns");
    }
    if (!alike)
        tool_error("%s: its runs are of other traces", r->file);
    return alike;
}

static bool load_run(struct tune_runs *r, const struct tool_json_value *v) {
    size_t t = 0;
    const struct tool_json_value *figures = tool_json_member(v, "figures");
    struct tune_run *run = append_run(r, compare_json_text(v, "point"),
                                      compare_json_whole(v, "round"));
    if (run == NULL)
        return false;
    run->failed = !tool_json_is_false(tool_json_member(v, "failed")) ||
                  tool_json_count(figures) != r->base.traces;
    for (const struct tool_json_value *f = tool_json_first(figures);
         f != NULL && t < r->base.traces; f = tool_json_next(f), t++)
        run->trace[t] = (struct tune_figures){
            .time_ns = compare_json_number(f, "time_ns"),
            .mean_bytes = compare_json_number(f, "mean_bytes"),
            .peak_bytes = compare_json_number(f, "peak_bytes")};
    if (run->round > r->rounds)
        r->rounds = run->round;
    return true;
}

bool tune_runs_load(struct tune_runs *r) {
    if (r->file == NULL || (access(r->file, F_OK) != 0 && errno == ENOENT))
        return true;
    const struct tool_json_value *root =
        compare_json_file(r->file, STATE_FORMAT);
    if (root == NULL)
        return false;
    bool good = is_same_search(r, root);
    for (const struct tool_json_value *v =
             tool_json_first(tool_json_member(root, "runs"));
         good && v != NULL; v = tool_json_next(v))
        good = load_run(r, v);
    tool_json_read_free(root);
    return good && (r->count == 0 || find_rest(r));
}
