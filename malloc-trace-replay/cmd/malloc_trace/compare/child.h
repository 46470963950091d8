/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child process: replay, or the program itself, under a contestant.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_CHILD_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_CHILD_H

#include "cmd/malloc_trace/compare/contestants.h"

#include <sys/resource.h>

struct child {
    char *const *argv;
    const struct contestant *under; /* NULL: as this process */
    bool keep_preload;
    int in, out, err;  /* -1: /dev/null */
    uint64_t limit_ns; /* it is killed then; 0: never */
};

struct child_end {
    int status; /* as from wait */
    int error;  /* errno, if it could not be run */
    bool timed_out;
    uint64_t wall_ns;
    struct rusage usage; /* with that of its children */
};

/* Runs it to its end, passing requests to stop on. false: no process could be
   made, a message is out. */
bool child_run(const struct child *c, struct child_end *end);

/* In words how it ended: "exit status 1", "ended by signal 11 (...)". */
void child_end_text(const struct child_end *end, char *text, size_t size);

/* A file in memory. -1: a message is out. */
int child_scratch(const char *name);
/* All that a file holds, with a null byte behind, to be freed; NULL: out of
   memory, a message is out. */
char *child_file_text(int fd, size_t *size);

#endif
