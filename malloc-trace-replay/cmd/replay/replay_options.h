/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay's command line.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_REPLAY_OPTIONS_H
#define TOOL_CMD_REPLAY_REPLAY_OPTIONS_H

#include "cmd/replay/run/exec.h"
#include "cmd/replay/feed/translate.h"

enum replay_threads_mode {
    THREADS_DEFAULT,
    THREADS_SWITCH,
    THREADS_NONE,
    THREADS_REAL
};

struct replay_options {
    const char *json;
    enum replay_threads_mode threads;
    enum replay_touch touch;
    struct replay_order order;
    bool has_skew, has_think, has_max_idle; /* given */
    uint64_t most_hosts;                    /* 0: no limit */
    bool check, latency;
    bool trace_run; /* the summary has trace_run's form */
    const char *timeline;
    uint64_t timeline_step;
    bool timeline_is_time;
    const char *log; /* file for the calls with their addresses, or NULL */
    uint64_t latency_stride;
    bool statistics;
    const char *statistics_file; /* NULL: standard error */
    uint64_t hold_ns;   /* after the report; UINT64_MAX: until a signal */
    uint64_t repeat;    /* 0: this is the only run */
    const char *is_run; /* a run of several: its JSON goes here */
    bool decodes;       /* this is the decoding process, */
    uint64_t ring_fd;   /* for this ring */
    char *const *file;
    int files;
};

/* The option of the decoding process, without the dashes. */
#define REPLAY_DECODE "decode-to-ring"

/* False: exit with *STATUS. */
bool replay_options_parse(int argc, char **argv, struct replay_options *out,
                          int *status);

#endif
