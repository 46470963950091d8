/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sorter in memory: items of a raw trace in, decoded operations out.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_SORT_H
#define TESTS_UNIT_TOOLS_ORDER_SORT_H

#include "malloc-trace-replay/sort/order.h"
#include "tests/lib/memory_sink.h"
#include "tests/lib/memory_source.h"
#include "tests/unit/traceformat/proc_text.h"

/* Output of the sorter. */
struct sorted {
    uint8_t *bytes;
    size_t length, room;
    struct mtf_op *ops;
    struct text *text; /* if set before the end: the operations as lines */
    size_t count, op_room;
    struct tool_ops_counts counts;
    uint64_t conflicts, lost_bytes, bad_places;
    uint64_t peak_live_bytes, live_at_end, held_peak, switches;
    uint64_t untraced, dropped, waited;
    uint64_t disorder[3]; /* of half of the events, of 90 %, of all */
};

struct sorter {
    struct sorted *out;
    struct demux demux;
    struct emit emit;
    struct order order;
    struct mtf_proc_writer writer;
};

static inline bool sorted_take(void *ctx, const void *data, size_t n) {
    struct sorted *out = ctx;
    if (out->length + n > out->room) {
        out->room = (out->length + n) * 2;
        out->bytes = realloc(out->bytes, out->room);
    }
    memcpy(out->bytes + out->length, data, n);
    out->length += n;
    return true;
}

static inline struct sorter *sorter_begin(struct sorted *out) {
    static const uint8_t header[96];
    struct sorter *s = calloc(1, sizeof(*s));
    memset(out, 0, sizeof(*out));
    s->out = out;
    demux_init(&s->demux, &s->emit.slots);
    if (!emit_init(&s->emit, &s->demux, &s->writer))
        tap_bail("out of memory");
    order_init(&s->order, &s->demux, &s->emit);
    mtf_proc_writer_begin(&s->writer, sorted_take, memory_sink_grow, out,
                          header, sizeof(header));
    return s;
}

static inline void sorter_add(struct sorter *s, const struct mtf_item *item) {
    if (item->kind == MTF_ITEM_BARRIER) {
        order_barrier(&s->order, item->time_lo);
    } else if (item->kind == MTF_ITEM_SAMPLE) {
        order_sample(&s->order, item->time_lo, item->data, item->length);
    } else if (item->kind == MTF_ITEM_DATA) {
        struct demux_thread *t = demux_add(&s->demux, item);
        if (t != NULL)
            order_add(&s->order, t);
    }
}

/* Decodes what was written, every block alone. */
static inline void sorted_decode(struct sorted *out) {
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    struct memory_source m;
    struct mtf_proc_decoder *d = malloc(sizeof(*d));
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    size_t n;
    memory_source_init(&m, out->bytes, out->length, 0);
    mtf_proc_reader_init(&r, &m.source, memory);
    for (;;) {
        mtf_proc_reader_next(&r, &item);
        if (item.kind == MTF_PROC_ITEM_OPS) {
            mtf_proc_decode_begin(d, &item.block);
            do {
                if (out->op_room < out->count + 4096) {
                    out->op_room = (out->count + 4096) * 2;
                    out->ops =
                        realloc(out->ops, out->op_room * sizeof(*out->ops));
                }
                n = mtf_proc_decode(d, out->ops + out->count, 4096);
                for (size_t i = 0; out->text != NULL && i < n; i++)
                    text_op(out->text, &item.block, &out->ops[out->count + i]);
                out->count += n;
            } while (n != 0);
            if (d->problem != NULL)
                tap_bail("undecodable: %s", d->problem);
        } else if (item.status != MTF_OK) {
            tap_bail("not readable: %s", item.problem);
        } else if (item.kind == MTF_PROC_ITEM_END) {
            break;
        }
    }
    free(memory);
    free(d);
}

/* Ends it; the operations are not decoded. */
static inline void sorter_close(struct sorter *s) {
    struct sorted *out = s->out;
    order_finish(&s->order, 0);
    if (!mtf_proc_writer_end(&s->writer, NULL, 0) || s->order.failed ||
        s->demux.failed)
        tap_bail("the sorter failed");
    out->counts = s->emit.counts;
    out->conflicts = s->order.conflicts;
    out->lost_bytes = s->demux.gap_bytes + s->demux.undecodable_bytes;
    out->bad_places = s->demux.bad_places + s->demux.hidden_zero;
    out->peak_live_bytes = s->emit.peak_live_bytes;
    out->live_at_end = s->emit.slots.live;
    out->waited = s->order.waited;
    out->disorder[0] = order_quantile_ns(&s->order.disorder, 50);
    out->disorder[1] = order_quantile_ns(&s->order.disorder, 90);
    out->disorder[2] = s->order.disorder.widest_ns;
    out->held_peak = s->demux.held_peak;
    out->switches = s->writer.switches;
    for (size_t i = 0; i < s->demux.ids.count; i++) {
        out->untraced += s->demux.threads[i]->state.untraced_frees;
        out->dropped += s->demux.threads[i]->dropped;
    }
    free(s->writer.stack);
    order_fini(&s->order);
    demux_fini(&s->demux);
    emit_fini(&s->emit);
    free(s);
}

static inline void sorter_end(struct sorter *s) {
    struct sorted *out = s->out;
    sorter_close(s);
    sorted_decode(out);
}

static inline void sorted_free(struct sorted *out) {
    free(out->bytes);
    free(out->ops);
}

#endif
