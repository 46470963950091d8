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
#include "model/untouched.h"

/* --- Metrics -------------------------------------------------------------- */

enum compare_metric {
    METRIC_TIME,
    METRIC_WALL,
    METRIC_P999,
    METRIC_PEAK_RSS,
    METRIC_AVG_RSS,
    METRIC_FRAG,
    METRIC_WASTE,
    METRIC_AFTER,
    METRIC_FAULTS,
    METRIC_HUGE,
    METRICS
};

struct compare_metric_info {
    const char *name; /* on command lines */
    const char *key;  /* in JSON and CSV, with the unit */
    const char *title;
    const char *less, *more; /* words of a verdict */
    double least; /* stands for figures below it, so that ratios exist */
};
extern const struct compare_metric_info compare_metric[METRICS];
/* The metric with the command line name NAME; METRICS: none has it. */
enum compare_metric compare_metric_find(const char *name, size_t length);

/* Largest number of rounds, for -n and in a plan. */
enum { COMPARE_MOST_ROUNDS = 100000 };

/* Largest figure that a run may have: more than 2^64 ns or bytes. */
#define COMPARE_MOST_FIGURE 2e19

/* --- Runs ----------------------------------------------------------------- */

/* Figures of one run; NAN: the run has none. */
struct compare_run {
    bool there;  /* the run was made */
    bool failed; /* it was made and gave no figures */
    bool good;   /* its figures count: it is not of round 0 */
    double value[METRICS];
    double own_ns;    /* the replayer's own share of METRIC_TIME */
    double system_ns; /* part of METRIC_TIME that is system time */
};

enum { COMPARE_QUANTILES = 6 }; /* p50 p90 p99 p99.9 p99.99 max */
extern const char *const compare_quantile_key[COMPARE_QUANTILES];

/* Memory in the course of a run. */
struct compare_moment {
    double ns; /* recorded time */
    double live_bytes, rss_bytes;
    /* of the recorded program, beside its heap; below 0 where more of the heap
       was not resident; NAN: no sample was taken here */
    double program_bytes;
};
struct compare_course {
    struct compare_moment *moment;
    size_t count;
};

struct compare_trace {
    char *path;    /* the file that replay reads */
    char *name;    /* as the user knows it */
    size_t number; /* in its plan */
    /* the program's own, as in MTF_TAG_ALLOCATOR: "linked jemalloc"; "": the C
       library's, or not known */
    char allocator[64];
    uint64_t ops, threads;
    const char *mode;       /* of replay --threads */
    bool has_times;         /* operations have times */
    bool clock;             /* replayed with --clock=recorded */
    double recorded_ns;     /* time of the recorded run; NAN: unknown */
    double recorded_cpu_ns; /* processor time of the recorded program, under
                               this project's library; NAN: unknown */
    /* how the samples of the recorded process contradict replays; "": not */
    char untouched[UNTOUCHED_TEXT];
    uint64_t untraced_frees; /* of blocks from before the recording */
    double own_ns; /* the replayer's own share of the time an operation takes */
    /* Paths of further recordings of the same command. Round R replays number R
       modulo AGAINS + 1, where 0 is PATH. */
    char **again;
    size_t agains;
};

/* Figures of the program itself that are compared. */
enum compare_quantity {
    COMPARE_CPU,    /* processor time */
    COMPARE_MEMORY, /* peak of resident memory */
    COMPARE_QUANTITIES
};

/* Figures of one run of the program itself. */
struct compare_program {
    bool failed; /* the run was made and gave no figures */
    bool good;   /* it has figures */
    double cpu_ns, peak_rss_bytes;
    double system_ns; /* part of cpu_ns */
};

/* --- The comparison ------------------------------------------------------- */

struct comparison {
    struct compare_contestants contestants;
    size_t baseline;
    struct compare_trace *trace;
    size_t traces, trace_room;
    size_t rounds; /* that run[] has places for, without round 0 */
    size_t made;   /* complete rounds so far, without round 0 */
    struct compare_run *run;
    char (*version)[96]; /* of each contestant's library */
    /* of each contestant: which other clock than the recorded one it reads; "":
       none */
    char (*own_clock)[128];
    /* of each contestant: sums over its runs of trace 0, and their number */
    double (*latency)[COMPARE_QUANTILES];
    uint64_t *latencies;
    struct compare_course *course;   /* of each contestant, of trace 0 */
    struct compare_program *program; /* [round * contestants + contestant] */
    double margin;                   /* 0.02: differences below are small */
    double confidence;               /* of all intervals together */
    /* chances that one interval misses, of the replays and of runs of the
       program, from compare_verdict_prepare */
    double alpha, program_alpha;
    const char *threads, *touch, *speed; /* for replay; NULL: its default */
    const char *clock; /* "real" or "recorded"; NULL: recorded where that can
                          be */
    uint64_t seed;
    uint64_t limit_ns;   /* of one run; 0: none */
    bool counts_returns; /* replays count what allocators give back */
    bool clock_unknown;  /* a replay with the recorded clock could not find out
                            whether its allocator reads another one */
    bool lean; /* replays measure no latency, and no memory over time */
    bool interrupted, ran_program;
    const char *program_skipped; /* why the program was not run; NULL: it was,
                                    or was not to be */
    bool lacks;                  /* a trace is cut, damaged or incomplete */
    bool unseen; /* a trace has none of the program's blocks, and a message
                    says so: nothing can be judged */
    bool baseline_failed; /* another one stands for the one chosen */
    struct compare_machine machine;
    /* merged runs that were made on other machines than the first one, and with
       other versions of a contestant's library */
    size_t unlike, other_versions;
    struct compare_machine_notes disturbances;
    const char *command; /* that repeats the comparison, as the user gave it */
};

static inline struct compare_run *comparison_run(const struct comparison *c,
                                                 size_t round, size_t trace,
                                                 size_t contestant) {
    TCM_ASSERT(round <= c->rounds && trace < c->traces &&
               contestant < c->contestants.count);
    return &c->run[(round * c->traces + trace) * c->contestants.count +
                   contestant];
}

static inline struct compare_program *
comparison_program(const struct comparison *c, size_t round,
                   size_t contestant) {
    TCM_ASSERT(round <= c->rounds && contestant < c->contestants.count);
    return &c->program[round * c->contestants.count + contestant];
}

/* Number of recordings of trace T that ROUNDS rounds have replayed. */
static inline size_t comparison_recordings(const struct comparison *c,
                                           size_t t) {
    size_t n = c->trace[t].agains + 1;
    return n < c->rounds ? n : c->rounds;
}

/* Tells whether recordings, not rounds, are the samples of memory, which each
   replay of one recording has the same. */
bool comparison_samples_recordings(const struct comparison *c);
/* "this recording", or "these recordings", if these are too few to be samples:
   intervals of memory say nothing of other runs of the program. Else NULL. */
const char *comparison_few_recordings(const struct comparison *c);

/* Tells whether all traces are replayed with the recorded clock. */
bool comparison_is_clocked(const struct comparison *c);

/* Title of a metric in C: means are over recorded time, or over that of the
   replay. */
const char *comparison_metric_title(const struct comparison *c,
                                    enum compare_metric m);

/* Makes room for ROUNDS rounds, once contestants and traces are complete; may
   be called again with more. false: out of memory, a message was printed. */
bool comparison_make_room(struct comparison *c, size_t rounds);
bool comparison_add_trace(struct comparison *c, const char *path,
                          const char *name);
/* Removes the trace that was added last. */
void comparison_remove_trace(struct comparison *c);
void comparison_free(struct comparison *c);

/*
 * For assertions. Each run that was made either failed or has figures that
 * count (in round 0 figures do not count); no other run has either; a
 * contestant has no fewer failures than failed runs; all figures are in their
 * bounds.
 */
bool comparison_is_consistent(const struct comparison *c);

#endif
