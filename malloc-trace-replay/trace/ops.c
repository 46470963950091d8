/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/ops.h"

#include "base/check.h"
#include "traceformat/varint.h"

#include <stdlib.h>
#include <string.h>

/* --- Recognising a trace -------------------------------------------------- */

/* Tells whether IN, whose header is lost, has a block of a processed trace. */
static bool has_block(struct tool_input *in, uint8_t *memory) {
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    mtf_proc_reader_init(&r, tool_input_source(in), memory);
    mtf_proc_reader_lost_header(&r);
    do {
        mtf_proc_reader_next(&r, &item);
    } while (item.kind == MTF_PROC_ITEM_DAMAGE);
    return item.kind == MTF_PROC_ITEM_OPS || item.kind == MTF_PROC_ITEM_CLOSING;
}

bool tool_ops_is_processed(struct tool_input *in, const char *name) {
    uint8_t first[8];
    if (tool_input_peek(in, first) == sizeof(first))
        return memcmp(first, MTF_PROC_MAGIC, sizeof(first)) == 0;
    if (name == NULL || !tool_input_is_compressed(in) ||
        tool_input_file_size(in) == 0)
        return false;
    struct tool_input *again = tool_input_open(name);
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    bool found = again != NULL && memory != NULL && has_block(again, memory);
    free(memory);
    tool_input_close(again);
    return found;
}

/* --- Begin and end -------------------------------------------------------- */

void tool_ops_init(struct tool_ops *o, struct tool_input *in,
                   tool_check_tell tell, void *ctx) {
    o->in = in;
    o->validates = tell != NULL;
    o->in_block = false;
    o->at_once = TOOL_OPS_AT_ONCE;
    mtf_proc_reader_init(&o->reader, tool_input_source(in), o->memory);
    o->reader.index_too = o->validates;
    if (o->validates)
        tool_check_init(&o->check, tell, ctx);
}

void tool_ops_fini(struct tool_ops *o) {
    if (o->validates)
        tool_check_fini(&o->check);
}

void tool_ops_jump(struct tool_ops *o, struct tool_input *in,
                   const struct mtf_proc_index_entry *entry) {
    TCM_ASSERT(!o->validates && !o->in_block);
    o->in = in;
    mtf_proc_reader_init_at(&o->reader, tool_input_source(in), o->memory,
                            entry);
}

/* --- Blocks --------------------------------------------------------------- */

static void begin_block(struct tool_ops *o, struct tool_ops_item *item) {
    /* A block that cannot be decoded yields no operations. */
    mtf_proc_decode_begin(&o->decoder, item->block);
    if (o->validates)
        tool_check_block(&o->check, item->block, &o->decoder);
    o->in_block = true;
    item->kind = TOOL_OPS_BLOCK;
}

static uint64_t offset_of(const struct mtf_proc_block *b, const uint8_t *p) {
    return b->offset + sizeof(b->head) + (uint64_t)(p - b->payload);
}

/* Finds the record of the next operation: records that only set the call of
   later ones are skipped. */
static const uint8_t *next_record(const struct mtf_proc_decoder *d) {
    const uint8_t *p = d->p;
    uint64_t v;
    unsigned n;
    while (p < d->end && (n = mtf_varint_get(p, d->end, &v)) != 0 &&
           (v & 15) == 0 &&
           ((v >> 4 & 31) == MTF_PROC_ALLOC_CALL ||
            (v >> 4 & 31) == MTF_PROC_FREE_CALL))
        p += n;
    return p;
}

static void next_of_block(struct tool_ops *o, struct tool_ops_item *item) {
    const struct mtf_proc_block *b = &o->item.block;
    TCM_ASSERT(o->at_once != 0 && o->at_once <= TOOL_OPS_AT_ONCE);
    item->offset = offset_of(b, next_record(&o->decoder));
    item->op = o->op;
    item->count = mtf_proc_decode(&o->decoder, o->op, o->at_once);
    item->kind = TOOL_OPS_SOME;
    if (item->count != 0)
        return;
    o->in_block = false;
    if (o->validates)
        tool_check_decoded(&o->check, b, &o->decoder);
    item->kind = TOOL_OPS_BLOCK_END;
    item->problem = o->decoder.problem;
    item->offset = offset_of(b, o->decoder.p);
}

void tool_ops_skip_block(struct tool_ops *o) {
    o->in_block = false;
}

/* --- Items ---------------------------------------------------------------- */

static void say_failure(struct tool_ops *o, struct tool_ops_item *item) {
    item->kind = TOOL_OPS_FAILED;
    if (o->item.status == MTF_SYSTEM)
        item->problem = strerror(o->item.error);
    if (o->item.offset_is_stored)
        item->offset = tool_input_stored_bytes(o->in);
}

void tool_ops_next(struct tool_ops *o, struct tool_ops_item *item) {
    struct mtf_proc_item *from = &o->item;
    item->from = from;
    item->block = &from->block;
    if (o->in_block) {
        next_of_block(o, item);
        return;
    }
    do {
        mtf_proc_reader_next(&o->reader, from);
        if (from->kind == MTF_PROC_ITEM_INDEX)
            tool_check_index(&o->check, &from->block);
    } while (from->kind == MTF_PROC_ITEM_INDEX);
    item->problem = from->problem;
    item->offset = from->file_offset;
    switch (from->kind) {
    case MTF_PROC_ITEM_HEADER:
        item->kind = TOOL_OPS_HEADER;
        break;
    case MTF_PROC_ITEM_OPS:
        begin_block(o, item);
        break;
    case MTF_PROC_ITEM_CLOSING:
        item->kind = TOOL_OPS_CLOSING;
        break;
    case MTF_PROC_ITEM_DAMAGE:
        if (o->validates)
            tool_check_lost(&o->check);
        item->kind = TOOL_OPS_DAMAGE;
        break;
    case MTF_PROC_ITEM_FAILED:
        say_failure(o, item);
        break;
    case MTF_PROC_ITEM_INDEX: /* not handed out */
    case MTF_PROC_ITEM_END:
        item->kind = TOOL_OPS_END;
        if (from->status == MTF_OK)
            item->problem = NULL;
        break;
    }
}
