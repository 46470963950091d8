/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record/account.h"

#include "common/text.h"
#include "traceformat/trace_event.h"

#include <stdio.h>

/* The events are counted in the traces themselves, so that they are the sum
   that the summary begins with, whatever has no footer. */
void record_print_account(const struct record_account *a) {
    struct tool_text t[5];
    const struct tool_raw_counts *c = &a->counts;
    const uint64_t *f = a->footer;
    if (a->traces == 0)
        return;
    fprintf(stderr,
            "  mallocs %s, memaligns %s, reallocs %s, frees %s, failed %s\n",
            tool_text_count(&t[0], c->mallocs),
            tool_text_count(&t[1], c->memaligns),
            tool_text_count(&t[2], c->reallocs),
            tool_text_count(&t[3], c->frees),
            tool_text_count(&t[4], c->failed));
    fprintf(stderr, "  %s before compression, %s segments\n",
            tool_text_bytes(&t[0], a->raw_bytes),
            tool_text_count(&t[1], a->segments));
    if (a->footers == 0)
        return;
    fprintf(stderr,
            "  saving took %s of processor time; threads waited %s time%s, %s\n"
            "  times read: %s\n",
            tool_text_ns(&t[0], f[MTF_ACCOUNT_SAVER_CPU_NS]),
            tool_text_count(&t[1], f[MTF_ACCOUNT_WAITS]),
            f[MTF_ACCOUNT_WAITS] == 1 ? "" : "s",
            tool_text_ns(&t[2], f[MTF_ACCOUNT_WAIT_NS]),
            tool_text_count(&t[3], f[MTF_ACCOUNT_SLOW_TIMES]));
    if (a->footers != a->traces)
        fprintf(stderr, "  (known of %s of %s traces)\n",
                tool_text_count(&t[0], a->footers),
                tool_text_count(&t[1], a->traces));
}
