/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sorter's account of a trace: counts, how exact the order is, and what is
 * missing. It goes into the closing block; what is missing is told on stderr.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SORT_SORT_ACCOUNT_H
#define TOOL_SORT_SORT_ACCOUNT_H

#include "sort/order.h"
#include "trace/ops.h"
#include "trace/raw.h"

/* Own accounts and those of the recorder's footer. */
#define SORT_ACCOUNT_VALUES_MAX (MTF_PROC_ACCOUNT_LIMIT + MTF_ACCOUNT_LIMIT)

struct sort_account {
    struct tool_ops_counts counts;
    uint64_t ops, events;
    uint64_t peak_live_bytes, live_at_end;
    uint64_t untraced_frees, dropped_events;
    uint64_t order_conflicts, switches;
    uint64_t widest_ns, median_ns, p90_ns; /* intervals of events */
    uint64_t most_late_ns, median_late_ns, p90_late_ns;
    uint64_t start_ns, end_ns;
    uint64_t waited;
    uint64_t damaged_places; /* segments or frames */
    uint64_t lost_bytes; /* of streams: gaps and what could not be decoded */
    uint64_t bad_places;
    uint64_t raw_bytes, file_bytes, out_bytes;
    uint64_t prologue_ops, epilogue_ops, left_out_events; /* of a window */
    uint64_t present_blocks;
    uint64_t held_peak;
    bool complete, clean_end, growing, begins_late, has_spool, forced_stop;
    bool is_part;     /* operations were left out or added on purpose */
    bool interrupted; /* by the user: set before sort_account_finish */
    const char *footer_problem; /* it contradicts the streams; or NULL */
    const struct tool_raw *raw; /* has the footer */
};

/* Prints a notice of the recorder on stderr. */
void sort_account_notice(const struct mtf_item *item);
/* Gathers everything; RAW has yielded its end, and lives on. */
void sort_account_finish(struct sort_account *a, struct tool_raw *raw,
                         const struct order *o);
/* Ends the trace that W writes by a closing block with the account, which then
   has the writer's sums, too. */
void sort_account_end(struct sort_account *a, struct mtf_proc_writer *w);
/* Says on stderr what is missing, if anything. */
void sort_account_tell_losses(const struct sort_account *a);

#endif
