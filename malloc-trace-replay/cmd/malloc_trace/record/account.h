/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's own account, as malloc-trace record tells it.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_ACCOUNT_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_ACCOUNT_H

#include "trace/raw.h"
#include "traceformat/trace_event.h"

/* Sums over all traces that were read. */
struct record_account {
    struct tool_raw_counts counts; /* as the traces have them */
    uint64_t raw_bytes, segments;
    uint64_t traces;
    uint64_t footers; /* traces that have the recorder's account */
    uint64_t footer[MTF_ACCOUNT_LIMIT];
};

/* Nothing is printed of no traces. */
void record_print_account(const struct record_account *a);

#endif
