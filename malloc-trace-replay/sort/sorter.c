/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/sorter.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/stop.h"

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
    struct mtf_raw_header header; /* of the raw trace */
    const char *problem;
    struct mtf_proc_writer writer;
};

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

/* Begins the output with the header, LENGTH bytes. */
static bool begin(struct sorter *s, const void *header, uint32_t length) {
    const struct sorter_options *o = &s->options;
    if (o->begin != NULL && !o->begin(o->ctx, header, length))
        return false;
    s->begun = true;
    mtf_proc_writer_begin(&s->writer, write_bytes, grow_stack, s, header,
                          length);
    return good_so_far(s);
}

static void take_header(struct sorter *s, const struct mtf_item *item) {
    s->have_header = true;
    s->header = item->info->fixed;
    s->emit.present.random = s->header.random;
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
        order_barrier(&s->order, item->time_lo);
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
            sort_account_notice(item);
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
    /* Events behind the last barrier of a growing trace have no place yet. */
    if (!tool_raw_is_growing(s->raw))
        order_finish(&s->order);
    emit_site_defs(&s->emit);
    return good_so_far(s) ? SORTER_END : SORTER_FAILED;
}

const char *sorter_problem(const struct sorter *s) {
    return s->problem;
}

/* --- The account ---------------------------------------------------------- */

bool sorter_end_part(struct sorter *s) {
    TCM_ASSERT(s->begun && s->options.is_part);
    mtf_proc_flush(&s->writer);
    sort_account_finish(&s->account, s->raw, &s->order);
    return good_so_far(s);
}

bool sorter_end(struct sorter *s) {
    TCM_ASSERT(s->begun && !s->options.is_part);
    sort_account_finish(&s->account, s->raw, &s->order);
    sort_account_end(&s->account, &s->writer);
    return good_so_far(s);
}

int sorter_tell(const struct sorter *s) {
    if (!s->options.quiet && s->emit.present.name == NULL &&
        s->demux.present_events != 0)
        tool_warn("%s: no file, which could be read twice: its present bytes "
                  "are left out, and replay writes all of each large block",
                  s->options.name);
    sort_account_tell_losses(&s->account);
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
