/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record_account.h"

#include "common/tool_text.h"
#include "traceformat/trace_event.h"

#include <stdio.h>

static const char *count_of(const uint64_t *account, unsigned field,
                            struct tool_text *text) {
    return tool_text_count(text, account[field]);
}

void record_print_account(const uint64_t *sum) {
    struct tool_text t[5];
    if (sum[MTF_ACCOUNT_SEGMENTS] == 0)
        return;
    fprintf(stderr,
            "  mallocs %s, memaligns %s, reallocs %s, frees %s, failed %s\n",
            count_of(sum, MTF_ACCOUNT_MALLOCS, &t[0]),
            count_of(sum, MTF_ACCOUNT_MEMALIGNS, &t[1]),
            count_of(sum, MTF_ACCOUNT_REALLOCS, &t[2]),
            count_of(sum, MTF_ACCOUNT_FREES, &t[3]),
            count_of(sum, MTF_ACCOUNT_FAILED_ALLOCATIONS, &t[4]));
    fprintf(stderr, "  %s before compression, %s segments; times read: %s\n",
            tool_text_bytes(&t[0], sum[MTF_ACCOUNT_RAW_BYTES]),
            count_of(sum, MTF_ACCOUNT_SEGMENTS, &t[1]),
            count_of(sum, MTF_ACCOUNT_SLOW_TIMES, &t[2]));
    fprintf(stderr,
            "  saving took %s of processor time; threads waited %s time%s, "
            "%s\n",
            tool_text_ns(&t[0], sum[MTF_ACCOUNT_SAVER_CPU_NS]),
            count_of(sum, MTF_ACCOUNT_WAITS, &t[1]),
            sum[MTF_ACCOUNT_WAITS] == 1 ? "" : "s",
            tool_text_ns(&t[2], sum[MTF_ACCOUNT_WAIT_NS]));
}
