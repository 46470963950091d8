/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong frees in raw traces: frees of addresses that the recorder knew to be no
 * block in use, and frees by a call that does not match the allocating one.
 *
 * Threads: the main thread.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_ERRORS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_ERRORS_H

#include "cmd/malloc_trace/report/report_input.h"

/* Exit status if there are wrong frees. */
#define REPORT_ERRORS_FOUND 4

struct report_errors_options {
    const struct report_input *in;
    size_t top;       /* most rows of the text */
    bool text;        /* to standard output */
    const char *json; /* file, or NULL */
};

/* Returns an exit status; messages of failures were printed. */
int report_errors(const struct report_errors_options *o);

#endif
