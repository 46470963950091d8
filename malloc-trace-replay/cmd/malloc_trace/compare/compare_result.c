/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_result.h"

#include "base/check.h"
#include "common/json.h"
#include "common/main.h"
#include "model/interval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Members -------------------------------------------------------------- */

static double number(const struct tool_json_value *object, const char *key) {
    return tool_json_number(tool_json_member(object, key));
}

/* Works as number(); PROBLEM tells of a figure that no run can have. */
static double figure(const struct tool_json_value *object, const char *key,
                     char problem[200]) {
    double v = number(object, key);
    if (isnan(v) || (v >= 0 && v <= COMPARE_MOST_FIGURE))
        return v;
    snprintf(problem, 200, "its %s is %g, which no run has", key, v);
    return NAN;
}

static uint64_t whole(const struct tool_json_value *object, const char *key) {
    double v = number(object, key);
    return v >= 0 && v < 1.8e19 ? (uint64_t)v : 0;
}

/* The text at KEY, or "". */
static const char *text_of(const struct tool_json_value *object,
                           const char *key) {
    const char *s = tool_json_text(tool_json_member(object, key));
    return s == NULL ? "" : s;
}

static void copy(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text);
}

/* --- A run ---------------------------------------------------------------- */

static void take_figures(struct compare_run *run,
                         const struct tool_json_value *replay,
                         char problem[200]) {
    static const char *const key[METRICS] = {
        [METRIC_TIME] = "cpu_ns_per_op",
        [METRIC_WALL] = "ns_per_op",
        [METRIC_P999] = "p999_ns",
        [METRIC_PEAK_RSS] = "peak_rss_bytes",
        [METRIC_AVG_RSS] = "avg_rss_bytes",
        [METRIC_FRAG] = "rss_over_live",
        [METRIC_FAULTS] = "minor_faults",
        [METRIC_HUGE] = "huge_bytes",
    };
    for (int m = 0; m < METRICS; m++)
        run->value[m] = figure(replay, key[m], problem);
    if (tool_json_is_false(tool_json_member(replay, "peak_rss_known")))
        run->value[METRIC_PEAK_RSS] = NAN;
    double ops =
        figure(replay, "ops", problem) - figure(replay, "apart_ops", problem);
    double own_ns = figure(replay, "replayer_cpu_ns", problem);
    run->own_ns = ops >= 1 ? own_ns / ops : NAN;
}

static void take_trace(struct compare_trace *t,
                       const struct tool_json_value *replay) {
    if (t->ops != 0)
        return;
    t->ops = whole(replay, "ops");
    t->threads = whole(replay, "threads");
}

/* Reads a moment; false: it lacks a figure, or PROBLEM tells of one. */
static bool moment_of(const struct tool_json_value *at,
                      struct compare_moment *m, char problem[200]) {
    m->ns = figure(at, "recorded_ns", problem);
    m->live_bytes = figure(at, "live_bytes", problem);
    m->rss_bytes = figure(at, "rss_bytes", problem);
    return !isnan(m->ns) && !isnan(m->live_bytes) && !isnan(m->rss_bytes);
}

static void take_course(struct compare_course *course,
                        const struct tool_json_value *list) {
    size_t n = tool_json_count(list);
    char problem[200];
    if (n == 0 || course->moment != NULL)
        return;
    course->moment = calloc(n, sizeof(*course->moment));
    if (course->moment == NULL)
        return;
    for (const struct tool_json_value *v = tool_json_first(list); v != NULL;
         v = tool_json_next(v))
        course->count += moment_of(v, &course->moment[course->count], problem);
    TCM_ASSERT(course->count <= n);
}

static void take_machine(struct comparison *c,
                         const struct tool_json_value *m) {
    struct compare_machine machine = {.cpus = whole(m, "cpus"),
                                      .memory_bytes = whole(m, "memory_bytes")};
    copy(machine.host, sizeof(machine.host), text_of(m, "host"));
    copy(machine.processor, sizeof(machine.processor), text_of(m, "processor"));
    copy(machine.kernel, sizeof(machine.kernel), text_of(m, "kernel"));
    copy(machine.c_library, sizeof(machine.c_library), text_of(m, "c_library"));
    copy(machine.huge_pages, sizeof(machine.huge_pages),
         text_of(m, "huge_pages"));
    copy(machine.governor, sizeof(machine.governor), text_of(m, "governor"));
    if (c->machine.cpus == 0)
        c->machine = machine;
    else if (!compare_machine_is_alike(&c->machine, &machine))
        c->unlike++;
}

/* An allocator that says no has less to do than the others. */
static bool is_usable(const struct tool_json_value *replay, char why[200]) {
    double refused = number(replay, "failed_allocations");
    if (!tool_json_is_object(replay))
        snprintf(why, 200, "it ended the replay before there was a result");
    else if (refused > 0)
        snprintf(why, 200, "it refused %.0f of %.0f requests", refused,
                 number(replay, "ops"));
    return tool_json_is_object(replay) && !(refused > 0);
}

static const struct tool_json_value *
latency_of(const struct tool_json_value *replay) {
    return tool_json_member(tool_json_member(replay, "latency"), "all");
}

static const struct tool_json_value *
course_of(const struct tool_json_value *root) {
    return tool_json_member(tool_json_member(root, "timeline"), "timeline");
}

/* Tells whether all figures are such as runs have: what is drawn and written of
   them does not look again. */
static bool is_sensible(const struct tool_json_value *root, char problem[200]) {
    const struct tool_json_value *replay = tool_json_member(root, "replay");
    struct compare_run run;
    struct compare_moment moment;
    problem[0] = '\0';
    take_figures(&run, replay, problem);
    (void)figure(replay, "failed_allocations", problem);
    (void)figure(replay, "recorded_cpu_ns", problem);
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        (void)figure(latency_of(replay), compare_quantile_key[q], problem);
    for (const struct tool_json_value *v = tool_json_first(course_of(root));
         v != NULL; v = tool_json_next(v))
        (void)moment_of(v, &moment, problem);
    return problem[0] == '\0';
}

/* The result of a run, as of compare_result_take; NULL: it is none. */
static const struct tool_json_value *result_of(const struct comparison *c,
                                               const char *text, size_t n,
                                               size_t round, size_t trace,
                                               size_t who, char problem[200]) {
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return NULL;
    bool good =
        strcmp(text_of(root, "format"), COMPARE_RUN_FORMAT) == 0 &&
        strcmp(text_of(root, "contestant"), c->who.list[who].name) == 0 &&
        whole(root, "round") == round &&
        whole(root, "trace_number") == c->trace[trace].number;
    if (!good)
        snprintf(problem, 200, "it is not the result of this run");
    if (good && is_sensible(root, problem))
        return root;
    tool_json_read_free(root);
    return NULL;
}

bool compare_result_is(const struct comparison *c, const char *text, size_t n,
                       size_t round, size_t trace, size_t who,
                       char problem[200]) {
    const struct tool_json_value *root =
        result_of(c, text, n, round, trace, who, problem);
    tool_json_read_free(root);
    return root != NULL;
}

/* Quantiles count if a run has all of them. */
static void take_latency(struct comparison *c, size_t who,
                         const struct tool_json_value *all) {
    double v[COMPARE_QUANTILES];
    for (int q = 0; q < COMPARE_QUANTILES; q++) {
        v[q] = number(all, compare_quantile_key[q]);
        if (isnan(v[q]))
            return;
    }
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        c->latency[who][q] += v[q];
    c->latencies[who]++;
}

bool compare_result_take(struct comparison *c, const char *text, size_t n,
                         size_t round, size_t trace, size_t who,
                         char problem[200]) {
    struct compare_run *run = comparison_run(c, round, trace, who);
    struct contestant *contestant = &c->who.list[who];
    const struct tool_json_value *root =
        result_of(c, text, n, round, trace, who, problem);
    if (root == NULL)
        return false;
    const struct tool_json_value *replay = tool_json_member(root, "replay");
    run->there = true;
    take_machine(c, tool_json_member(root, "machine"));
    if (!tool_json_is_true(tool_json_member(root, "ok"))) {
        contestant_failed(contestant, text_of(root, "why"));
        run->failed = true;
        tool_json_read_free(root);
        return true;
    }
    if (!is_usable(replay, problem)) {
        contestant_failed(contestant, problem);
        run->failed = true;
        tool_json_read_free(root);
        return true;
    }
    run->good = round != 0;
    take_figures(run, replay, problem);
    take_trace(&c->trace[trace], replay);
    double recorded = number(replay, "recorded_cpu_ns");
    if (recorded > 0)
        c->trace[trace].recorded_cpu_ns = recorded;
    const char *version = text_of(replay, "allocator");
    if (c->version[who][0] == '\0')
        copy(c->version[who], sizeof(c->version[who]), version);
    else if (strncmp(c->version[who], version, sizeof(c->version[who]) - 1) !=
             0)
        c->other_versions++;
    if (trace == 0) {
        if (round != 0)
            take_latency(c, who, latency_of(replay));
        take_course(&c->course[who], course_of(root));
    }
    tool_json_read_free(root);
    return true;
}

bool compare_result_read_allocator(const char *text, size_t n, bool *took_over,
                                   bool *wraps, char library[PATH_MAX],
                                   char why[256]) {
    char problem[200];
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return false;
    *took_over = tool_json_is_true(tool_json_member(root, "took_over"));
    *wraps = tool_json_is_true(tool_json_member(root, "wraps_c_library"));
    copy(library, PATH_MAX, text_of(root, "library"));
    copy(why, 256, text_of(root, "why"));
    tool_json_read_free(root);
    return library[0] != '\0';
}

/* --- A plan --------------------------------------------------------------- */

static char *strdup_of(const struct tool_json_value *object, const char *key) {
    return strdup(text_of(object, key));
}

static bool take_contestant(struct comparison *c,
                            const struct tool_json_value *j) {
    struct contestants *all = &c->who;
    if (!contestants_add_plain(all, text_of(j, "name"), text_of(j, "library")))
        return false;
    struct contestant *own = &all->list[all->count - 1];
    for (const struct tool_json_value *v =
             tool_json_first(tool_json_member(j, "environment"));
         v != NULL; v = tool_json_next(v)) {
        const char *set = tool_json_text(v);
        if (set == NULL || !contestant_set(own, set))
            return false;
    }
    const char *why = text_of(j, "why");
    if (why[0] != '\0')
        contestant_out(own, "%s", why);
    return true;
}

static bool take_plan(struct comparison *c, const struct tool_json_value *root,
                      size_t *rounds) {
    const struct tool_json_value *who =
        tool_json_first(tool_json_member(root, "contestants"));
    for (; who != NULL; who = tool_json_next(who))
        if (!take_contestant(c, who))
            return false;
    const struct tool_json_value *t =
        tool_json_first(tool_json_member(root, "traces"));
    for (size_t i = 0; t != NULL; t = tool_json_next(t), i++) {
        if (!comparison_add_trace(c, text_of(t, "path"), text_of(t, "name")))
            return false;
        const char *mode = text_of(t, "mode");
        c->trace[i].mode = strcmp(mode, "real") == 0     ? "real"
                           : strcmp(mode, "switch") == 0 ? "switch"
                                                         : "none";
    }
    c->baseline = contestants_find(&c->who, text_of(root, "baseline"));
    c->margin = number(root, "margin");
    c->confidence = number(root, "confidence");
    c->limit_ns = whole(root, "limit_ns");
    c->touch =
        *text_of(root, "touch") == '\0' ? NULL : strdup_of(root, "touch");
    c->speed =
        *text_of(root, "speed") == '\0' ? NULL : strdup_of(root, "speed");
    c->command = strdup_of(root, "command");
    uint64_t n = whole(root, "rounds");
    *rounds = (size_t)n;
    return c->who.count != 0 && c->traces != 0 && c->baseline != SIZE_MAX &&
           c->margin >= 0 && c->margin < 1 && c->confidence > 0 &&
           c->confidence < 1 && n != 0 && n <= COMPARE_MOST_ROUNDS;
}

static const struct tool_json_value *file_of(const char *path,
                                             const char *format) {
    const struct tool_json_value *root = tool_json_read_file(path);
    if (root != NULL && strcmp(text_of(root, "format"), format) != 0) {
        tool_error("%s: it is no '%s'", path, format);
        tool_json_read_free(root);
        root = NULL;
    }
    return root;
}

bool compare_result_read_plan(struct comparison *c, const char *path,
                              size_t *rounds) {
    const struct tool_json_value *root = file_of(path, COMPARE_PLAN_FORMAT);
    if (root == NULL)
        return false;
    bool good = take_plan(c, root, rounds);
    if (!good)
        tool_error("%s: the plan is not whole, or of more than %d rounds", path,
                   COMPARE_MOST_ROUNDS);
    tool_json_read_free(root);
    return good;
}

/* --- Numbers -------------------------------------------------------------- */

static bool walk(const char *where, const struct tool_json_value *object,
                 bool (*call)(void *ctx, const char *name, double value),
                 void *ctx) {
    for (const struct tool_json_value *v = tool_json_first(object); v != NULL;
         v = tool_json_next(v)) {
        double n = tool_json_number(v);
        if (isnan(n))
            continue;
        if (!(n >= 0 && n <= COMPARE_MOST_FIGURE)) {
            tool_error("%s: %s is %g, which is no count", where,
                       tool_json_key(v), n);
            return false;
        }
        if (!call(ctx, tool_json_key(v), n))
            return false;
    }
    return true;
}

bool compare_result_read_numbers(
    const char *path, const char *format, const char *key,
    bool (*call)(void *ctx, const char *name, double value), void *ctx) {
    const struct tool_json_value *root = file_of(path, format);
    if (root == NULL)
        return false;
    bool good = walk(path, tool_json_member(root, key), call, ctx);
    tool_json_read_free(root);
    return good;
}

bool compare_result_text_numbers(const char *text, size_t n, const char *key,
                                 bool (*call)(void *ctx, const char *name,
                                              double value),
                                 void *ctx) {
    char problem[200];
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return false;
    bool good = walk("the replay",
                     tool_json_member(tool_json_member(root, "replay"), key),
                     call, ctx);
    tool_json_read_free(root);
    return good;
}
