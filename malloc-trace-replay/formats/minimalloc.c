/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MiniMalloc's input, a row for each block: the operation that made it, the one
 * that ended it, and its size. A realloc ends a block and makes another.
 * Written only, in the order in which blocks end.
 */
#include "formats/format_export.h"
#include "formats/formats.h"

static void put_begin(void *state, struct format_out *out) {
    (void)state;
    format_out_str(out, "id,lower,upper,size\n");
}

static void put(void *state, struct format_out *out,
                const struct format_put *p) {
    const struct format_event *e = &p->e;
    (void)state;
    if (e->kind > FORMAT_REALLOC && e->kind != FORMAT_LIVE) {
        format_out_left(out, e);
        return;
    }
    if ((e->flags & FORMAT_FAILED) != 0) {
        format_out_left(out, e);
        return;
    }
    if (e->old == 0)
        return;
    if (p->old_size == 0) {
        out->left_out++; /* an empty block takes no room */
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

const struct format format_minimalloc = {
    .name = "minimalloc",
    .title = "MiniMalloc input, a row a block",
    .put = put,
    .put_begin = put_begin,
};
