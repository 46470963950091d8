/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens any trace; every tool that takes a trace opens it through this file.
 *
 * NAME may be a processed trace, a raw trace with its spool and parts, also one
 * that is still being recorded, or a trace of another program. It may be
 * compressed, and a pipe. Reading yields the bytes of a processed trace, for
 * tool_ops_init:
 *
 *     if (!trace_open(&t, name, &options))
 *         ... strerror(errno)
 *     tool_ops_init(&ops, t.in, tell, ctx);
 *     ...
 *     status = trace_close(&t, false);
 *
 * A raw trace is sorted on a thread of its own, which runs at most 1 MiB of the
 * processed trace ahead of the reader. Damaged and missing places are reported
 * on stderr, with the messages of postprocess.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_OPEN_TRACE_OPEN_H
#define TOOL_OPEN_TRACE_OPEN_H

#include "common/input.h"
#include "formats/format_import.h"

struct trace_open_options {
    const struct format_type *format; /* of another program's trace; NULL:
                                         detected by content */
    bool processed; /* the user says that it is a processed trace */
    bool follow;    /* read a raw trace on while it is recorded; a block without
                    operations tells that all recorded so far was read */
};

struct trace_sorting;

struct trace {
    struct tool_input *in;         /* bytes of a processed trace; or those of
                                      the file, if it is no trace */
    struct format_import *import;  /* of another program's trace, or NULL */
    struct trace_sorting *sorting; /* of a raw trace, or NULL */
};

/* NAME NULL or "-": standard input. OPTIONS NULL: all 0. False: see errno. */
bool trace_open(struct trace *t, const char *name,
                const struct trace_open_options *options);
/* After TOOL_OPS_FAILED: a line that says why a raw trace cannot be read, with
   its name. NULL: the trace is not raw, or it can be read. */
const char *trace_problem(const struct trace *t);
/* Tells whether the next read of a trace that is followed may sleep. */
bool trace_may_sleep(const struct trace *t);
/*
 * Closes the trace. GIVEN_UP: the caller does not want the rest. Otherwise the
 * rest of a raw trace is read, and what it lacks is reported. Returns
 *
 *   TOOL_DAMAGED   a raw trace lacks something
 *   TOOL_FAILED    a raw trace cannot be read
 *   TOOL_OK        else
 */
int trace_close(struct trace *t, bool given_up);
/* Tells whether NAME is the file of a program; then a message says how to run
   it. */
bool trace_is_program(const char *name);
/* Tells whether NAME is a trace of any kind. */
bool trace_is_one(const char *name);
/* Tells whether the recording NAME, a trace or a command, of CALLS has the
   program's blocks, for which ALLOCATOR is as in MTF_TAG_ALLOCATOR. Returns
   TOOL_OK, or TOOL_DAMAGED after a message that nothing can be judged. */
int trace_not_seen(const char *name, uint64_t calls, const char *allocator);

#endif
