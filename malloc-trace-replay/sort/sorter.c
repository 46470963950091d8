/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/sorter.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"
#include "sort/order.h"

#include <stdlib.h>
#include <string.h>

struct sorter {
    struct sorter_options options;
    struct tool_raw *raw;
    struct demux demux;
    struct emit emit;
    struct order order;
    struct sort_account account;
    bool begun; /* the header is written */
    bool fresh; /* something was read since the last wait */
    bool have_header;
    struct mtf_raw_header header; /* of the raw trace, if have_header */
    const char *problem;
    /* The recording went on until then at least: a program that rests at its
       end has no event that tells so. */
    uint64_t end_ns;
    struct mtf_proc_writer writer;
};

/* --- The account ---------------------------------------------------------- */

/* Own accounts and those of the recorder's footer. */
#define ACCOUNT_VALUES_MAX ((size_t)MTF_PROC_ACCOUNT_LIMIT + MTF_ACCOUNT_LIMIT)

/* Prints a notice of the recorder on stderr. */
static void account_notice(const struct mtf_item *item) {
    if (item->length < 2)
        return;
    tool_warn("the recorder noticed: %.*s", (int)(item->length - 2),
              (const char *)item->data + 2);
}

static void finish_losses(struct sort_account *a, struct tool_raw *raw,
                          const struct order *o, const struct inherited *in) {
    const struct demux *d = o->demux;
    const struct tool_ops_counts *c = &a->counts;
    uint64_t inherited_mallocs = 0;
    for (size_t i = 0; i < a->prologue_ops; i++)
        inherited_mallocs += in->block[i].align_log2 == 0;
    for (size_t i = 0; i < d->ids.count; i++) {
        const struct demux_thread *t = d->threads[i];
        a->untraced_frees += t->state.untraced_frees;
        /* A GAP may be lost, and one may follow the last buffer's start. */
        a->dropped_events += tcm_max_u64(t->dropped, t->state.dropped);
    }
    const struct tool_raw_counts found = {
        c->mallocs - inherited_mallocs,
        c->memaligns - (a->prologue_ops - inherited_mallocs),
        c->reallocs,
        c->frees - d->inherited_frees,
        c->failed,
        a->untraced_frees,
        a->dropped_events,
    };
    if (a->lost_bytes + a->bad_places == 0 && !a->interrupted)
        a->footer_problem = tool_raw_footer_problem(raw, &found);
    a->untraced_frees =
        c->untraced_frees +
        tool_raw_in_all(raw, MTF_ACCOUNT_UNTRACED_FREES, a->untraced_frees);
    a->untraced_frees -= tcm_min_u64(d->inherited_frees, a->untraced_frees);
    a->dropped_events =
        tool_raw_in_all(raw, MTF_ACCOUNT_DROPPED_EVENTS, a->dropped_events);
    a->bad_places += a->footer_problem != NULL;
}

/* Fills A; RAW has yielded its end, and lives as long as A. */
static void account_finish(struct sort_account *a, struct tool_raw *raw,
                           const struct order *o, const struct inherited *in) {
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
    a->wrong_frees = d->wrong_frees;
    a->prologue_ops = in == NULL ? 0 : in->count;
    finish_losses(a, raw, o, in);
    a->raw_bytes = tool_raw_bytes(raw);
    a->file_bytes = tool_raw_stored_bytes(raw);
    a->growing = tool_raw_is_growing(raw);
    a->begins_late = tool_raw_begins_late(raw);
    a->clean_end = tool_raw_clean_end(raw);
    a->forced_stop = tool_raw_forced_stop(raw);
    a->complete = tool_raw_complete(raw) && a->damaged_places == 0 &&
                  a->lost_bytes == 0 && a->bad_places == 0 &&
                  a->dropped_events == 0 && !a->interrupted;
}

/* Writes the values of the closing block to VALUES, which has room for
   ACCOUNT_VALUES_MAX, and returns their number. */
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
    if (a->is_part || a->prologue_ops != 0) {
        memcpy(values + n, filtered, sizeof(filtered));
        n += TCM_ARRAY_SIZE(filtered);
    }
    if (a->begins_late)
        values[n++] =
            (struct mtf_account_value){MTF_PROC_ACCOUNT_BEGINS_LATE, 1};
    if (a->wrong_frees != 0)
        values[n++] = (struct mtf_account_value){MTF_PROC_ACCOUNT_WRONG_FREES,
                                                 a->wrong_frees};
    uint64_t v;
    for (unsigned f = 0; f < MTF_ACCOUNT_LIMIT; f++)
        if (tool_raw_account(a->raw, f, &v))
            values[n++] = (struct mtf_account_value){
                (uint16_t)(MTF_PROC_ACCOUNT_RECORDER + f), v};
    return n;
}

void sort_account_end(struct sort_account *a, struct mtf_proc_writer *w) {
    struct mtf_account_value value[ACCOUNT_VALUES_MAX];
    size_t n = account_values(a, value);
    TCM_ASSERT(n <= ACCOUNT_VALUES_MAX);
    mtf_proc_writer_end(w, value, n);
    TCM_ASSERT(a->is_part || w->failed || a->ops == w->total_ops);
    a->ops = w->total_ops;
    a->switches = w->switches;
    a->present_blocks = w->present_blocks;
    a->out_bytes = w->bytes;
}

/* Reports on stderr what is missing. */
static void account_tell_losses(const struct sort_account *a) {
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

/* --- Callbacks ------------------------------------------------------------ */

static bool write_bytes(void *ctx, const void *data, size_t n) {
    const struct sorter *s = ctx;
    return s->options.write(s->options.ctx, data, n);
}

static bool grow_stack(void *ctx, uint32_t **stack, size_t *capacity) {
    struct sorter *s = ctx;
    if (tool_array_reserve(stack, capacity, *capacity + 1, sizeof(**stack)))
        return true;
    s->problem = "out of memory";
    return false;
}

static bool wait_for_input(void *ctx) {
    struct sorter *s = ctx;
    if (tool_stop_requested())
        return false;
    if (s->begun && s->fresh) {
        emit_site_defs(&s->emit);
        if (s->options.is_part)
            mtf_proc_flush(&s->writer);
        else
            mtf_proc_pause(&s->writer);
    }
    bool fresh = s->begun && s->fresh;
    s->fresh = false;
    return !s->writer.failed && s->options.wait(s->options.ctx, fresh) &&
           !s->writer.failed;
}

/* --- Begin and end -------------------------------------------------------- */

static struct tool_raw *open_raw(struct sorter *s) {
    const struct sorter_options *o = &s->options;
    if (o->wait != NULL)
        return tool_raw_follow(o->in, o->name, wait_for_input, s);
    return o->in != NULL ? tool_raw_from_input(o->in, o->name)
                         : tool_raw_open(o->name);
}

struct sorter *sorter_new(const struct sorter_options *options) {
    struct sorter *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        tool_input_close(options->in);
        return NULL;
    }
    s->options = *options;
    s->raw = open_raw(s);
    demux_init(&s->demux, &s->emit.slots);
    order_init(&s->order, &s->demux, &s->emit);
    if (!emit_init(&s->emit, &s->demux, &s->writer) || s->raw == NULL) {
        sorter_free(s);
        return NULL;
    }
    tool_raw_read_ahead(s->raw);
    if (tool_raw_is_file(s->options.name))
        s->emit.present.name = s->options.name;
    s->demux.no_sites = s->options.no_sites;
    s->demux.begins_late = tool_raw_begins_late(s->raw);
    if (s->options.fine_times)
        s->order.time_step = ORDER_TIME_FINE_NS;
    return s;
}

void sorter_free(struct sorter *s) {
    if (s == NULL)
        return;
    tool_raw_close(s->raw);
    if (s->begun)
        free(s->writer.stack);
    order_fini(&s->order);
    demux_fini(&s->demux);
    emit_fini(&s->emit);
    free(s);
}

/* --- Steps ---------------------------------------------------------------- */

static bool good_so_far(struct sorter *s) {
    if (s->demux.failed || s->emit.slots.failed || s->order.failed)
        s->problem = "out of memory";
    return s->problem == NULL && !s->writer.failed;
}

/* Begins the output. HEADER: of the raw trace, LENGTH bytes; 0: none. */
static bool begin(struct sorter *s, const void *header, uint32_t length) {
    const struct sorter_options *o = &s->options;
    if (o->begin != NULL && !o->begin(o->ctx, header, length))
        return false;
    s->begun = true;
    mtf_proc_writer_begin(&s->writer, write_bytes, grow_stack, s, header,
                          length);
    if (o->inherited != NULL && o->inherited->count != 0)
        emit_inherited(&s->emit, o->inherited);
    return good_so_far(s);
}

static void take_header(struct sorter *s, const struct mtf_item *item) {
    s->have_header = true;
    s->header = item->info->fixed;
    s->emit.present.random = s->header.random;
    s->emit.present.is_sample = (s->header.settings & MTF_SETTING_LOOKS) != 0;
    s->emit.free_sites = (s->header.settings & MTF_SETTING_FREE_SITES) != 0;
}

static void take_site_defs(struct sorter *s, const struct mtf_item *item) {
    struct mtf_event e;
    uint32_t at = 0;
    while (mtf_item_site_def(item, &at, &e))
        demux_site_def(&s->demux, &e);
}

static bool take_item(struct sorter *s, const struct mtf_item *item) {
    struct demux_thread *t;
    bool is_header = item->kind == MTF_ITEM_HEADER;
    if (item->kind == MTF_ITEM_FAILED) {
        s->problem = tool_raw_item_text(s->raw, item);
        return false;
    }
    if (!s->begun &&
        !begin(s, is_header ? item->data : NULL, is_header ? item->length : 0))
        return false;
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        take_header(s, item);
        break;
    case MTF_ITEM_DATA:
        t = demux_add(&s->demux, item);
        if (t != NULL)
            order_add(&s->order, t);
        break;
    case MTF_ITEM_BARRIER:
        s->end_ns = tcm_max_u64(s->end_ns, item->time_lo);
        order_barrier(&s->order, item->time_lo);
        break;
    case MTF_ITEM_FOOTER:
        s->end_ns = tcm_max_u64(s->end_ns, item->time_lo);
        break;
    case MTF_ITEM_SAMPLE:
        order_sample(&s->order, item->time_lo, item->data, item->length);
        break;
    case MTF_ITEM_PRESENT:
        s->demux.present_events += item->length / sizeof(struct mtf_present);
        break;
    case MTF_ITEM_SITES:
        take_site_defs(s, item);
        break;
    case MTF_ITEM_NOTICE:
        if (!s->options.quiet)
            account_notice(item);
        break;
    case MTF_ITEM_DAMAGE:
        s->account.damaged_places++;
        tool_warn("%s", tool_raw_item_text(s->raw, item));
        break;
    default:
        break;
    }
    return good_so_far(s);
}

enum sorter_step sorter_step(struct sorter *s) {
    struct mtf_item item;
    tool_raw_next(s->raw, &item);
    s->fresh = true;
    if (tool_stop_requested()) {
        s->account.interrupted = true;
        return s->begun || begin(s, NULL, 0) ? SORTER_END : SORTER_FAILED;
    }
    if (!take_item(s, &item))
        return SORTER_FAILED;
    if (item.kind != MTF_ITEM_END)
        return SORTER_MORE;
    /* The place of events behind a growing trace's last barrier is not known
       yet. */
    if (!tool_raw_is_growing(s->raw))
        order_finish(&s->order, s->end_ns);
    emit_site_defs(&s->emit);
    return good_so_far(s) ? SORTER_END : SORTER_FAILED;
}

const char *sorter_problem(const struct sorter *s) {
    return s->problem;
}

/* --- The end -------------------------------------------------------------- */

bool sorter_end_part(struct sorter *s) {
    TCM_ASSERT(s->begun && s->options.is_part);
    mtf_proc_flush(&s->writer);
    account_finish(&s->account, s->raw, &s->order, s->options.inherited);
    return good_so_far(s);
}

bool sorter_end(struct sorter *s) {
    TCM_ASSERT(s->begun && !s->options.is_part);
    account_finish(&s->account, s->raw, &s->order, s->options.inherited);
    sort_account_end(&s->account, &s->writer);
    return good_so_far(s);
}

int sorter_tell(const struct sorter *s) {
    if (!s->options.quiet && s->emit.present.name == NULL &&
        s->demux.present_events != 0)
        tool_warn("%s: no file, which could be read twice: its present bytes "
                  "are left out, and replay writes all of each large block",
                  s->options.name);
    account_tell_losses(&s->account);
    return s->account.complete ? TOOL_OK : TOOL_DAMAGED;
}

struct sort_account *sorter_account(struct sorter *s) {
    return &s->account;
}

bool sorter_has_thread(const struct sorter *s, uint32_t id) {
    return demux_find(&s->demux, id) != NULL;
}

const struct mtf_raw_header *sorter_header(const struct sorter *s) {
    return s->have_header ? &s->header : NULL;
}

uint64_t sorter_events(const struct sorter *s) {
    const struct tool_ops_counts *c = &s->emit.counts;
    return c->mallocs + c->frees + c->reallocs + c->memaligns;
}

uint64_t sorter_stored_bytes(const struct sorter *s) {
    return tool_raw_stored_bytes(s->raw);
}

uint64_t sorter_total_bytes(const struct sorter *s) {
    return tool_raw_total_bytes(s->raw);
}
