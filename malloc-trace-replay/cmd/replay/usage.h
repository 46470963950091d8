/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the run used of the processor and the system, from mark to mark.
 *
 * Invariants: nothing here allocates.
 *
 * Threads: one; the threads that it makes are counted with it.
 */
#ifndef TOOL_CMD_REPLAY_USAGE_H
#define TOOL_CMD_REPLAY_USAGE_H

#include "base/compiler.h"
#include "base/os_perf.h"
#include "common/json.h"

#include <stdio.h>
#include <sys/resource.h>

/* Processor time of the machine. */
struct replay_machine {
    uint64_t at_ns;
    uint64_t busy_ns; /* of all processors, with all that runs; 0: unknown */
    uint64_t own_ns;  /* of these the replayer's, in both processes */
};

struct replay_usage {
    struct replay_machine from, to;
    struct rusage first, last;
    int fd[TCM_OS_PERF_EVENTS]; /* -1: none */
    uint64_t count[TCM_OS_PERF_EVENTS];
    bool counted[TCM_OS_PERF_EVENTS];
    int error; /* why there is no counter of cycles or instructions */
};

/* Before threads are made. */
void replay_usage_open(struct replay_usage *u);
/* At the marks; the decoding process has used DECODER_NS so far. */
void replay_usage_start(struct replay_usage *u, uint64_t decoder_ns);
void replay_usage_end(struct replay_usage *u, uint64_t decoder_ns);

void replay_usage_print(const struct replay_usage *u, FILE *out);
void replay_usage_json(const struct replay_usage *u, struct tool_json *j);

#endif
