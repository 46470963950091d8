/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comparison: contestants, traces, rounds, and the figures of each run. A
 * round has one run of each trace under each contestant, in random order; round
 * 0 warms up, and its times do not count.
 *
 * Invariants: run[] has a place for each run of the rounds 0 to `rounds`.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_MODEL_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_MODEL_H

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_contestants.h"
#include "cmd/malloc_trace/compare/compare_machine.h"

enum compare_metric {
    METRIC_TIME,
    METRIC_WALL,
    METRIC_P999,
    METRIC_PEAK_RSS,
    METRIC_AVG_RSS,
    METRIC_FRAG,
    METRIC_FAULTS,
    METRIC_HUGE,
    METRICS
};

struct compare_metric_info {
    const char *name; /* on command lines */
    const char *key;  /* in JSON and CSV, with the unit */
    const char *title;
    const char *less, *more; /* the words of a verdict */
    /* Figures below are taken for this one, so that there are ratios. */
    double least;
};
extern const struct compare_metric_info compare_metric[METRICS];
/* METRICS: there is none of that name. */
enum compare_metric compare_metric_find(const char *name, size_t length);

/* Largest number of rounds, for -n and in a plan. */
enum { COMPARE_MOST_ROUNDS = 100000 };

/* No figure of a run is larger: 30 years in ns, an exabyte. */
#define COMPARE_MOST_FIGURE 1e18

/* The figures of one run; NAN: the run has none. */
struct compare_run {
    bool there;  /* the run was made */
    bool failed; /* and gave no figures */
    bool good;   /* or such that count: not those of round 0 */
    double value[METRICS];
    double own_ns; /* of METRIC_TIME, the replayer's own share */
};

enum { COMPARE_QUANTILES = 6 }; /* p50 p90 p99 p99.9 p99.99 max */
extern const char *const compare_quantile_key[COMPARE_QUANTILES];

/* Memory in the course of a run. */
struct compare_moment {
    double ns; /* recorded time */
    double live_bytes, rss_bytes;
};
struct compare_course {
    struct compare_moment *moment;
    size_t count;
};

struct compare_trace {
    char *path;    /* processed, what replay gets */
    char *name;    /* as the user knows it */
    size_t number; /* in its plan */
    uint64_t ops, threads;
    const char *mode;       /* of replay --threads */
    double recorded_cpu_ns; /* of the program, recorded under this project's
                               library; NAN */
    double own_ns; /* of the time an operation, the replayer's own share */
};

/* Figures of the program itself, for --run-program. */
struct compare_program {
    bool good;
    double cpu_ns, peak_rss_bytes;
};

struct comparison {
    struct compare_contestants contestants;
    size_t baseline;
    struct compare_trace *trace;
    size_t traces, trace_room;
    size_t rounds; /* that there is room for, without round 0 */
    size_t made;   /* whole ones so far */
    struct compare_run *run;
    char (*version)[96]; /* of each contestant */
    /* of each contestant, sums of its runs of trace 0, and how many */
    double (*latency)[COMPARE_QUANTILES];
    uint64_t *latencies;
    struct compare_course *course;   /* of each contestant, of trace 0 */
    struct compare_program *program; /* [round * contestants + contestant] */
    double margin;                   /* 0.02: differences below are small */
    double confidence;               /* of all intervals together */
    double
        alpha; /* chance that one interval misses, by compare_verdict_prepare */
    const char *threads, *touch, *speed; /* for replay; NULL: default */
    uint64_t seed;
    uint64_t limit_ns; /* of one run; 0: none */
    bool interrupted, ran_program;
    bool lacks; /* a trace is cut, damaged or not complete */
    struct compare_machine machine;
    /* runs among those merged that were made on other machines, and with other
       versions of a contestant's library */
    size_t unlike, other_versions;
    struct compare_machine_notes disturbances;
    const char *command; /* to repeat it, as the user gave it */
};

static inline struct compare_run *comparison_run(const struct comparison *c,
                                                 size_t round, size_t trace,
                                                 size_t contestant) {
    TCM_ASSERT(round <= c->rounds && trace < c->traces &&
               contestant < c->contestants.count);
    return &c->run[(round * c->traces + trace) * c->contestants.count +
                   contestant];
}

/* Contestants and traces are complete. Makes room for ROUNDS; can be called
   again with more. false: out of memory, a message is out. */
bool comparison_make_room(struct comparison *c, size_t rounds);
bool comparison_add_trace(struct comparison *c, const char *path,
                          const char *name);
void comparison_free(struct comparison *c);

/*
 * For assertions. Each run that was made either failed or has figures that
 * count (in round 0 it may have others); no other run has either; a contestant
 * has no fewer failures than failed runs; all figures are in their bounds.
 */
bool comparison_is_consistent(const struct comparison *c);

#endif
