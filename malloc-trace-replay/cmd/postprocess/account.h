/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What postprocess says about a trace: summary, JSON, the closing block, and
 * progress on a terminal.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_ACCOUNT_H
#define TOOL_CMD_POSTPROCESS_ACCOUNT_H

#include "cmd/postprocess/sort/emit.h"
#include "cmd/postprocess/sort/order.h"
#include "cmd/postprocess/window/filter.h"
#include "common/json.h"
#include "trace/raw.h"

/* Own accounts and those of the recorder's footer. */
#define ACCOUNT_VALUES_MAX (MTF_PROC_ACCOUNT_LIMIT + MTF_ACCOUNT_LIMIT)

struct account {
    struct emit_counts counts;
    uint64_t ops, events;
    uint64_t peak_live_bytes, live_at_end;
    uint64_t untraced_frees, dropped_events;
    uint64_t order_conflicts, switches;
    uint64_t widest_ns, median_ns, p90_ns; /* intervals of events */
    uint64_t most_late_ns, median_late_ns, p90_late_ns;
    uint64_t start_ns, end_ns;
    uint64_t waited, peak_error_bytes;
    uint64_t damaged_places; /* segments or frames */
    uint64_t lost_bytes; /* of streams: gaps and what could not be decoded */
    uint64_t bad_places;
    uint64_t raw_bytes, file_bytes, out_bytes;
    uint64_t prologue_ops, epilogue_ops, left_out_events; /* of a filter */
    uint64_t present_blocks;
    uint64_t held_peak;
    bool complete, clean_end, growing, begins_late, has_spool, forced_stop;
    bool is_part;     /* operations were left out or added on purpose */
    bool interrupted; /* by the user: set before account_finish */
    const char *footer_problem; /* it contradicts the streams; or NULL */
    const struct tool_raw *raw; /* has the footer */
};

void account_notice(struct account *a, const struct mtf_item *item, bool quiet);
/* Gathers everything; RAW has yielded its end, and lives on. */
void account_finish(struct account *a, struct tool_raw *raw,
                    const struct order *o);
/* Then, if there is a filter: what it left. */
void account_filter(struct account *a, const struct filter *f);
/* For the closing block; VALUES has room for ACCOUNT_VALUES_MAX. */
size_t account_values(const struct account *a,
                      struct mtf_account_value *values);
/* The summary, on stderr. */
void account_print(const struct account *a);
/* What is missing, on stderr, if anything. */
void account_tell_losses(const struct account *a);
/* A program that the process became by exec, or a recording that was started
   again, has the trace OUTPUT.1, OUTPUT.2 and so on: says so on stderr if there
   is one behind the trace NAME, whose header is OWN. */
void account_tell_later(const char *name, const struct mtf_raw_header *own);
void account_json(const struct account *a, struct tool_json *j);

/* A line on the terminal that stderr is. */
#endif
