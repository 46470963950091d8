/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong frees of raw traces: what the recorder knew to be no block that is in
 * use, and calls that do not belong to the one that made the block.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_ERRORS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_ERRORS_H

#include "base/compiler.h"

/* Exit status: there are some. */
#define ERRORS_FOUND 4

struct errors_options {
    const char *const *traces;
    size_t trace_count;
    const char *modules; /* folder, or NULL */
    size_t top;          /* rows of the text at most */
    bool text;           /* to standard output */
    const char *json;    /* file, or NULL */
};

/* An exit status; of a failure a message is out. */
int errors_report(const struct errors_options *o);

#endif
