/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens any trace: the one way in for tools that take a trace.
 *
 * NAME may be a processed trace; a raw one, with its spool and parts, also one
 * that is still being recorded; or one of another program. It may be packed,
 * and a pipe. The bytes of a processed trace come out, for tool_ops_init:
 *
 *     if (!trace_open(&t, name, &options))
 *         ... strerror(errno)
 *     tool_ops_init(&ops, t.in, tell, ctx);
 *     ...
 *     status = trace_close(&t, false);
 *
 * A raw trace is sorted on a thread of its own, which runs at most 1 MiB of the
 * processed trace ahead of the reader. What it finds damaged or missing is told
 * on stderr, as postprocess does.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_OPEN_TRACE_OPEN_H
#define TOOL_OPEN_TRACE_OPEN_H

#include "common/input.h"
#include "formats/format_import.h"

struct trace_open_options {
    const struct format_type *format; /* foreign; NULL: found by content */
    bool processed; /* it is a processed trace, says the user */
    bool follow; /* a raw one is followed while it is recorded: where all that
                    is there was given, a block without operations is */
};

struct trace_sorting;

struct trace {
    struct tool_input *in;         /* bytes of a processed trace, or of what is
                                      no trace at all */
    struct format_import *import;  /* of one of another program's, or NULL */
    struct trace_sorting *sorting; /* of a raw one, or NULL */
};

/* NAME NULL or "-": standard input. OPTIONS NULL: all as if 0. False: errno. */
bool trace_open(struct trace *t, const char *name,
                const struct trace_open_options *options);
/* Why a raw trace cannot be read, in a line with its name: TOOL_OPS_FAILED is
   of that. NULL: it is not raw, or can. */
const char *trace_problem(const struct trace *t);
/* Tells of a trace that is followed whether the next read may sleep. */
bool trace_may_sleep(const struct trace *t);
/* Closes the trace. GIVEN_UP: the rest is not wanted. Else the rest of a raw
   one is read, what it lacks is told, and TOOL_DAMAGED returned if that is
   anything; TOOL_FAILED if it cannot be read. In all other cases TOOL_OK. */
int trace_close(struct trace *t, bool given_up);

#endif
