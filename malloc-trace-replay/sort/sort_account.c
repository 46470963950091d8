/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/sort_account.h"

#include "base/check.h"
#include "common/main.h"
#include "common/text.h"

#include <string.h>

/* --- Gathering ------------------------------------------------------------ */

void sort_account_notice(const struct mtf_item *item) {
    if (item->length < 2)
        return;
    tool_warn("the recorder noticed: %.*s", (int)(item->length - 2),
              (const char *)item->data + 2);
}

static void finish_losses(struct sort_account *a, struct tool_raw *raw,
                          const struct order *o) {
    const struct demux *d = o->demux;
    const struct tool_ops_counts *c = &a->counts;
    for (size_t i = 0; i < d->ids.count; i++) {
        const struct demux_thread *t = d->threads[i];
        a->untraced_frees += t->state.untraced_frees;
        /* a GAP may be lost, and one may follow the last buffer's start */
        a->dropped_events += tcm_max_u64(t->dropped, t->state.dropped);
    }
    const struct tool_raw_counts found = {
        c->mallocs, c->memaligns,      c->reallocs,       c->frees,
        c->failed,  a->untraced_frees, a->dropped_events,
    };
    if (a->lost_bytes + a->bad_places == 0 && !a->interrupted)
        a->footer_problem = tool_raw_footer_problem(raw, &found);
    a->untraced_frees =
        c->untraced_frees +
        tool_raw_in_all(raw, MTF_ACCOUNT_UNTRACED_FREES, a->untraced_frees);
    a->dropped_events =
        tool_raw_in_all(raw, MTF_ACCOUNT_DROPPED_EVENTS, a->dropped_events);
    a->bad_places += a->footer_problem != NULL;
}

void sort_account_finish(struct sort_account *a, struct tool_raw *raw,
                         const struct order *o) {
    const struct demux *d = o->demux;
    const struct emit *e = o->emit;
    const struct tool_ops_counts *c = &e->counts;
    a->raw = raw;
    a->counts = *c;
    a->events = c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
    a->ops = a->events - c->failed - c->unmatched_frees;
    a->peak_live_bytes = e->peak_live_bytes;
    a->live_at_end = e->slots.live;
    a->order_conflicts = o->conflicts;
    a->widest_ns = o->intervals.widest_ns;
    a->median_ns = order_quantile_ns(&o->intervals, 50);
    a->p90_ns = order_quantile_ns(&o->intervals, 90);
    a->most_late_ns = o->disorder.widest_ns;
    a->median_late_ns = order_quantile_ns(&o->disorder, 50);
    a->p90_late_ns = order_quantile_ns(&o->disorder, 90);
    a->waited = o->waited;
    a->start_ns = o->first_ns == UINT64_MAX ? 0 : o->first_ns;
    a->end_ns = o->last_ns;
    a->lost_bytes = d->gap_bytes + d->undecodable_bytes;
    a->bad_places = d->bad_places + d->hidden_zero;
    finish_losses(a, raw, o);
    a->raw_bytes = tool_raw_bytes(raw);
    a->file_bytes = tool_raw_stored_bytes(raw);
    a->held_peak = d->held_peak;
    a->growing = tool_raw_is_growing(raw);
    a->begins_late = tool_raw_begins_late(raw);
    a->has_spool = tool_raw_has_spool(raw);
    a->clean_end = tool_raw_clean_end(raw);
    a->forced_stop = tool_raw_forced_stop(raw);
    a->complete = tool_raw_complete(raw) && a->damaged_places == 0 &&
                  a->lost_bytes == 0 && a->bad_places == 0 &&
                  a->dropped_events == 0 && !a->interrupted;
}

/* VALUES: of the closing block, with room for SORT_ACCOUNT_VALUES_MAX. */
static size_t account_values(const struct sort_account *a,
                             struct mtf_account_value *values) {
    const struct tool_ops_counts *c = &a->counts;
    const struct mtf_account_value own[] = {
        {MTF_PROC_ACCOUNT_LIVE_AT_END, a->live_at_end},
        {MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES, a->peak_live_bytes},
        {MTF_PROC_ACCOUNT_THREADS, c->threads},
        {MTF_PROC_ACCOUNT_EVENTS, a->events},
        {MTF_PROC_ACCOUNT_MALLOCS, c->mallocs},
        {MTF_PROC_ACCOUNT_MEMALIGNS, c->memaligns},
        {MTF_PROC_ACCOUNT_REALLOCS, c->reallocs},
        {MTF_PROC_ACCOUNT_FREES, c->frees},
        {MTF_PROC_ACCOUNT_FAILED_ALLOCATIONS, c->failed},
        {MTF_PROC_ACCOUNT_REQUESTED_BYTES, c->requested_bytes},
        {MTF_PROC_ACCOUNT_UNMATCHED_FREES, c->unmatched_frees},
        {MTF_PROC_ACCOUNT_UNMATCHED_REALLOCS, c->unmatched_reallocs},
        {MTF_PROC_ACCOUNT_UNTRACED_FREES, a->untraced_frees},
        {MTF_PROC_ACCOUNT_DROPPED_EVENTS, a->dropped_events},
        {MTF_PROC_ACCOUNT_ORDER_CONFLICTS, a->order_conflicts},
        {MTF_PROC_ACCOUNT_COMPLETE, a->complete},
        {MTF_PROC_ACCOUNT_CLEAN_END, a->clean_end},
        {MTF_PROC_ACCOUNT_GROWING, a->growing},
        {MTF_PROC_ACCOUNT_WIDEST_INTERVAL_NS, a->widest_ns},
        {MTF_PROC_ACCOUNT_MEDIAN_INTERVAL_NS, a->median_ns},
        {MTF_PROC_ACCOUNT_DAMAGED_PLACES, a->damaged_places + a->bad_places},
        {MTF_PROC_ACCOUNT_LOST_STREAM_BYTES, a->lost_bytes},
        {MTF_PROC_ACCOUNT_START_NS, a->start_ns},
        {MTF_PROC_ACCOUNT_END_NS, a->end_ns},
        {MTF_PROC_ACCOUNT_RAW_BYTES, a->raw_bytes},
    };
    const struct mtf_account_value filtered[] = {
        {MTF_PROC_ACCOUNT_PROLOGUE_OPS, a->prologue_ops},
        {MTF_PROC_ACCOUNT_EPILOGUE_OPS, a->epilogue_ops},
        {MTF_PROC_ACCOUNT_LEFT_OUT_EVENTS, a->left_out_events},
    };
    size_t n = TCM_ARRAY_SIZE(own);
    memcpy(values, own, sizeof(own));
    if (a->is_part) {
        memcpy(values + n, filtered, sizeof(filtered));
        n += TCM_ARRAY_SIZE(filtered);
    }
    if (a->begins_late)
        values[n++] =
            (struct mtf_account_value){MTF_PROC_ACCOUNT_BEGINS_LATE, 1};
    uint64_t v;
    for (unsigned f = 0; f < MTF_ACCOUNT_LIMIT; f++)
        if (tool_raw_account(a->raw, f, &v))
            values[n++] = (struct mtf_account_value){
                (uint16_t)(MTF_PROC_ACCOUNT_RECORDER + f), v};
    return n;
}

void sort_account_end(struct sort_account *a, struct mtf_proc_writer *w) {
    struct mtf_account_value value[SORT_ACCOUNT_VALUES_MAX];
    size_t n = account_values(a, value);
    TCM_ASSERT(n <= SORT_ACCOUNT_VALUES_MAX);
    mtf_proc_writer_end(w, value, n);
    a->ops = w->total_ops;
    a->switches = w->switches;
    a->present_blocks = w->present_blocks;
    a->out_bytes = w->bytes;
}

/* --- Telling -------------------------------------------------------------- */

void sort_account_tell_losses(const struct sort_account *a) {
    struct tool_text t[3];
    if (a->complete)
        return;
    if (a->interrupted) {
        tool_warn("interrupted: what was read until then is written");
    } else if (a->growing) {
        tool_warn("still being recorded: read up to the last barrier");
    } else if (a->forced_stop) {
        tool_warn("incomplete: the recorder had to stop");
    } else if (a->dropped_events != 0) {
        tool_warn("incomplete: %s events were dropped while recording",
                  tool_text_count(&t[0], a->dropped_events));
    } else if (a->lost_bytes + a->damaged_places + a->bad_places == 0) {
        tool_warn("incomplete: the end of the trace is missing");
    }
    if (a->footer_problem != NULL)
        tool_warn("%s", a->footer_problem);
    else if (a->lost_bytes != 0)
        tool_warn("incomplete: damaged places: %s; bytes of the streams "
                  "missing: %s",
                  tool_text_count(&t[1], a->damaged_places + a->bad_places),
                  tool_text_count(&t[0], a->lost_bytes));
    else if (a->damaged_places + a->bad_places != 0)
        tool_warn("incomplete: damaged places: %s",
                  tool_text_count(&t[1], a->damaged_places + a->bad_places));
}
