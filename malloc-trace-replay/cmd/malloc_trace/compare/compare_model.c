/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_model.h"

#include "common/collections.h"
#include "common/main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct compare_metric_info compare_metric[METRICS] = {
    [METRIC_TIME] = {"time", "cpu_ns_per_op", "processor time an operation",
                     "faster", "slower", 0.01},
    [METRIC_WALL] = {"wall", "wall_ns_per_op", "wall time an operation",
                     "faster", "slower", 0.01},
    [METRIC_P999] = {"p999", "p999_ns", "99.9 % of calls take at most",
                     "faster", "slower", 1},
    [METRIC_PEAK_RSS] = {"peak_rss", "peak_rss_bytes", "peak resident memory",
                         "smaller", "larger", 4096},
    [METRIC_AVG_RSS] = {"avg_rss", "avg_rss_bytes", "average resident memory",
                        "smaller", "larger", 4096},
    [METRIC_FRAG] = {"frag", "rss_over_live",
                     "resident bytes a live one, at the peak", "smaller",
                     "larger", 0.01},
    [METRIC_WASTE] = {"peak_waste", "peak_waste_bytes",
                      "resident memory that is not live, at the peak", "less",
                      "more", 4096},
    [METRIC_AFTER] = {"after_peak", "after_peak_rss_bytes",
                      "average resident memory after the peak", "smaller",
                      "larger", 4096},
    [METRIC_FAULTS] = {"faults", "minor_faults", "page faults", "fewer", "more",
                       1},
    [METRIC_HUGE] = {"huge", "huge_bytes", "memory in huge pages", "less",
                     "more", 4096},
};

const char *const compare_quantile_key[COMPARE_QUANTILES] = {
    "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"};

enum compare_metric compare_metric_find(const char *name, size_t length) {
    for (int m = 0; m < METRICS; m++)
        if (strlen(compare_metric[m].name) == length &&
            memcmp(compare_metric[m].name, name, length) == 0)
            return (enum compare_metric)m;
    return METRICS;
}

bool comparison_is_clocked(const struct comparison *c) {
    for (size_t t = 0; t < c->traces; t++)
        if (!c->trace[t].clock)
            return false;
    return c->traces != 0;
}

const char *comparison_metric_title(const struct comparison *c,
                                    enum compare_metric m) {
    return m == METRIC_AVG_RSS && comparison_is_clocked(c)
               ? "mean resident memory over recorded time"
               : compare_metric[m].title;
}

/* Number of recordings, in whichever traces. */
static size_t count_recordings(const struct comparison *c) {
    return c->traces == 1 ? comparison_recordings(c, 0) : c->traces;
}

bool comparison_samples_recordings(const struct comparison *c) {
    return comparison_is_clocked(c) && count_recordings(c) >= 3;
}

const char *comparison_few_recordings(const struct comparison *c) {
    return !comparison_is_clocked(c) || comparison_samples_recordings(c) ? NULL
           : count_recordings(c) < 2 ? "this recording"
                                     : "these recordings";
}

bool comparison_make_room(struct comparison *c, size_t rounds) {
    size_t n = c->contestants.count, a_round = n * c->traces;
    if (c->version == NULL) {
        c->version = calloc(n, sizeof(*c->version));
        c->own_clock = calloc(n, sizeof(*c->own_clock));
        c->latency = calloc(n, sizeof(*c->latency));
        c->latencies = calloc(n, sizeof(*c->latencies));
        c->course = calloc(n, sizeof(*c->course));
        if (c->version == NULL || c->own_clock == NULL || c->latency == NULL ||
            c->latencies == NULL || c->course == NULL)
            return tool_out_of_memory();
    }
    size_t before = c->run == NULL ? 0 : c->rounds + 1;
    if (rounds + 1 <= before)
        return true;
    if ((rounds + 1) > SIZE_MAX / sizeof(*c->run) / (a_round + 1))
        return tool_out_of_memory();
    struct compare_run *run =
        realloc(c->run, (rounds + 1) * a_round * sizeof(*run));
    if (run == NULL)
        return tool_out_of_memory();
    c->run = run;
    struct compare_program *program =
        realloc(c->program, (rounds + 1) * n * sizeof(*program));
    if (program == NULL)
        return tool_out_of_memory();
    c->program = program;
    memset(run + before * a_round, 0,
           (rounds + 1 - before) * a_round * sizeof(*run));
    memset(program + before * n, 0,
           (rounds + 1 - before) * n * sizeof(*program));
    c->rounds = rounds;
    return true;
}

bool comparison_add_trace(struct comparison *c, const char *path,
                          const char *name) {
    if (!tool_array_reserve(&c->trace, &c->trace_room, c->traces + 1,
                            sizeof(*c->trace)))
        return tool_out_of_memory();
    struct compare_trace *t = &c->trace[c->traces];
    memset(t, 0, sizeof(*t));
    t->recorded_cpu_ns = t->recorded_ns = NAN;
    t->path = strdup(path);
    t->name = strdup(name);
    t->number = c->traces;
    if (t->path == NULL || t->name == NULL) {
        free(t->path);
        free(t->name);
        return tool_out_of_memory();
    }
    c->traces++;
    return true;
}

void comparison_remove_trace(struct comparison *c) {
    TCM_ASSERT(c->traces != 0);
    c->traces--;
    while (c->trace[c->traces].agains != 0)
        free(c->trace[c->traces].again[--c->trace[c->traces].agains]);
    free(c->trace[c->traces].again);
    free(c->trace[c->traces].path);
    free(c->trace[c->traces].name);
}

void comparison_free(struct comparison *c) {
    while (c->traces != 0)
        comparison_remove_trace(c);
    for (size_t i = 0; c->course != NULL && i < c->contestants.count; i++)
        free(c->course[i].moment);
    free(c->trace);
    free(c->run);
    free(c->version);
    free(c->own_clock);
    free(c->latency);
    free(c->latencies);
    free(c->course);
    free(c->program);
    compare_contestants_free(&c->contestants);
    memset(c, 0, sizeof(*c));
}

static bool run_is_consistent(const struct compare_run *run, bool warms_up) {
    if (!run->there || run->failed)
        return !run->good && (run->there || !run->failed);
    if (run->good == warms_up)
        return false;
    for (int m = 0; m < METRICS; m++)
        if (!isnan(run->value[m]) &&
            !(run->value[m] >= 0 && run->value[m] <= COMPARE_MOST_FIGURE))
            return false;
    return (isnan(run->own_ns) || run->own_ns >= 0) &&
           (isnan(run->system_ns) || run->system_ns >= 0);
}

bool comparison_is_consistent(const struct comparison *c) {
    for (size_t i = 0; i < c->contestants.count; i++) {
        uint64_t failed = 0;
        for (size_t r = 0; r <= c->rounds; r++)
            for (size_t t = 0; t < c->traces; t++) {
                const struct compare_run *run = comparison_run(c, r, t, i);
                if (!run_is_consistent(run, r == 0))
                    return false;
                failed += run->failed;
            }
        if (failed > c->contestants.list[i].failures)
            return false;
    }
    return c->baseline < c->contestants.count;
}
