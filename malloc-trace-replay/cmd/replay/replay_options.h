/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of replay.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_REPLAY_OPTIONS_H
#define TOOL_CMD_REPLAY_REPLAY_OPTIONS_H

#include "cmd/replay/feed/translate.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/watch/memory_pages.h"

enum replay_threads_mode {
    REPLAY_THREADS_DEFAULT,
    REPLAY_THREADS_SWITCH,
    REPLAY_THREADS_NONE,
    REPLAY_THREADS_REAL
};

struct replay_options {
    const char *library; /* path of -a; "": the C library; NULL: not given */
    const char *under;   /* in a process that runs under it: what LD_PRELOAD
                            names */
    const char *json;
    enum replay_threads_mode threads;
    enum replay_touch touch;
    struct replay_order order;
    bool has_skew, has_think, has_max_idle; /* option was given */
    uint64_t most_hosts;                    /* 0: no limit */
    bool check, latency, count_returns;
    bool trace_run; /* the summary has the form of trace_run */
    const char *timeline;
    uint64_t timeline_step;
    bool timeline_is_time;
    const char *log;      /* file for calls with their addresses; NULL: none */
    const char *memory;   /* file for what lies on resident pages; NULL: none */
    bool memory_in_short; /* it gets the times of peaks only */
    unsigned residency;   /* enum memory_residency: the best way to use */
    uint64_t latency_stride;
    bool statistics;
    const char *statistics_file; /* NULL: standard error */
    uint64_t hold_ns;   /* stay after the report; UINT64_MAX: until a signal */
    uint64_t repeat;    /* 0: this is the only run */
    const char *is_run; /* this is a run of several: number and file of its JSON
                           */
    bool decodes;       /* this is the decoding process */
    uint64_t ring_fd;   /* ring of the decoding process */
    bool probes;        /* this process looks for the allocator's clock */
    uint64_t probe_fd;  /* for what it finds */
    char *const *file;
    int files;
};

/* Option of the decoding process, without the dashes. */
#define REPLAY_DECODE "decode-to-ring"

/* False: exit with *STATUS. */
bool replay_options_parse(int argc, char **argv, struct replay_options *out,
                          int *status);

#endif
