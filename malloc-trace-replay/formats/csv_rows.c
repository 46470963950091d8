/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csv and minimalloc: rows of numbers for other programs. Both are only
 * written.
 *
 * `csv` has a row for each event, for spreadsheets and scripts:
 *
 *     event,time_ns,thread,call,block,size,alignment,old_block,old_size,age,
 *     maker,result
 *
 * Blocks are numbers from 1: each malloc and realloc makes a new one. Age
 * counts the operations since the old block was made or resized.
 *
 * `minimalloc` is MiniMalloc's input, a row for each block: the operation that
 * made it, the one that ended it, and its size. A realloc ends a block and
 * makes another. Rows stand in the order in which blocks end.
 */
#include "formats/format_export.h"

/* --- csv ------------------------------------------------------------------ */

struct put_state {
    uint64_t events;
};

static void csv_put_begin(void *state, struct format_out *out) {
    (void)state;
    format_out_str(out, "event,time_ns,thread,call,block,size,alignment,"
                        "old_block,old_size,age,maker,result\n");
}

/* Writes a comma, and V unless the cell is empty. */
static void put_cell(struct format_out *out, bool filled, uint64_t v) {
    format_out_char(out, ',');
    if (filled)
        format_out_u64(out, v);
}

static const char *result_of(const struct format_event *e) {
    if ((e->flags & FORMAT_FAILED) != 0)
        return "failed";
    if (e->kind != FORMAT_REALLOC || e->old == 0)
        return "";
    if (e->id == 0)
        return "freed";
    return (e->flags & FORMAT_MOVED) != 0 ? "moved" : "";
}

static void csv_put(void *state, struct format_out *out,
                    const struct format_put *p) {
    struct put_state *s = state;
    const struct format_event *e = &p->e;
    if (e->kind > FORMAT_REALLOC) {
        format_out_left(out, e);
        return;
    }
    bool sized = (e->kind != FORMAT_FREE && e->id != 0) ||
                 (e->flags & (FORMAT_SIZED | FORMAT_FAILED)) != 0;
    format_out_u64(out, ++s->events);
    put_cell(out, true, p->time_ns);
    put_cell(out, true, p->thread);
    format_out_char(out, ',');
    format_out_char(out, '"'); /* names of some operators have a comma */
    format_out_str(out, mtf_call_name(e->call));
    format_out_char(out, '"');
    put_cell(out, e->id != 0, e->id);
    put_cell(out, sized, e->size);
    put_cell(out, mtf_call_is_aligned_alloc(e->call) && e->align_log2 < 64,
             (uint64_t)1 << (e->align_log2 & 63));
    put_cell(out, e->old != 0, e->old);
    put_cell(out, e->old != 0, p->old_size);
    put_cell(out, e->old != 0, p->op - p->born_op);
    put_cell(out, e->old != 0, p->maker);
    format_out_char(out, ',');
    format_out_str(out, result_of(e));
    format_out_char(out, '\n');
}

const struct format_type format_csv = {
    .name = "csv",
    .title = "a row an event",
    .put = csv_put,
    .put_begin = csv_put_begin,
    .put_state_bytes = sizeof(struct put_state),
};

/* --- minimalloc ----------------------------------------------------------- */

static void minimalloc_put_begin(void *state, struct format_out *out) {
    (void)state;
    format_out_str(out, "id,lower,upper,size\n");
}

static void minimalloc_put(void *state, struct format_out *out,
                           const struct format_put *p) {
    const struct format_event *e = &p->e;
    (void)state;
    if ((e->kind > FORMAT_REALLOC && e->kind != FORMAT_LIVE) ||
        (e->flags & FORMAT_FAILED) != 0) {
        format_out_left(out, e);
        return;
    }
    if (e->old == 0)
        return;
    if (p->old_size == 0) {
        out->left[FORMAT_LEFT_EMPTY]++; /* MiniMalloc takes none */
        return;
    }
    format_out_u64(out, e->old);
    format_out_char(out, ',');
    format_out_u64(out, p->born_op);
    format_out_char(out, ',');
    format_out_u64(out, p->op);
    format_out_char(out, ',');
    format_out_u64(out, p->old_size);
    format_out_char(out, '\n');
}

const struct format_type format_minimalloc = {
    .name = "minimalloc",
    .title = "MiniMalloc input, a row a block",
    .put = minimalloc_put,
    .wants_live = true,
    .put_begin = minimalloc_put_begin,
};
