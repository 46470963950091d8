/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_export.h"

#include "common/collections.h"
#include "common/main.h"
#include "common/stop.h"
#include "trace/ops.h"

#include <inttypes.h>
#include <stdlib.h>

struct export_slot {
    uint64_t tag; /* 0: the slot is empty */
    uint64_t size, born_op;
    uint32_t maker; /* thread */
};

struct export {
    struct tool_input *in;
    const struct format_type *format;
    void *state;
    struct format_out *out;
    struct format_exported *done;
    struct export_slot *slot;
    size_t slots, slot_room;
    uint64_t tags;
    uint64_t skipped; /* operations on slots that damage emptied or filled */
    uint32_t thread;  /* of the current record */
    uint64_t time_ns; /* of the current record */
    const char *lacks;
    struct tool_ops ops;
};

/* --- Bytes ---------------------------------------------------------------- */

const char format_pairs[201] = "00010203040506070809101112131415161718192021222"
                               "32425262728293031323334353637383940414243444546"
                               "47484950515253545556575859606162636465666768697"
                               "07172737475767778798081828384858687888990919293"
                               "949596979899";

void format_out_flush(struct format_out *o) {
    (void)tool_output_write(o->to, o->bytes, o->used);
    o->used = 0;
}

void format_out_bytes(struct format_out *o, const void *data, size_t n) {
    const char *p = data;
    while (n != 0) {
        format_out_room(o, 1);
        size_t piece = FORMAT_OUT_BYTES - o->used;
        piece = n < piece ? n : piece;
        memcpy(o->bytes + o->used, p, piece);
        o->used += piece;
        p += piece;
        n -= piece;
    }
}

void format_out_left(struct format_out *o, const struct format_event *e) {
    enum format_left kind = FORMAT_LEFT_OTHER;
    switch (e->kind) {
    case FORMAT_SWITCH:
    case FORMAT_TIME:
    case FORMAT_THREAD_START:
    case FORMAT_THREAD_END:
        return;
    case FORMAT_SAMPLE:
        kind = FORMAT_LEFT_SAMPLES;
        break;
    case FORMAT_PRESENT:
        kind = FORMAT_LEFT_PRESENT;
        break;
    case FORMAT_PLAIN:
        kind = FORMAT_LEFT_NOTES;
        break;
    default:
        if ((e->flags & FORMAT_FAILED) != 0)
            kind = FORMAT_LEFT_FAILED;
        break;
    }
    o->left[kind]++;
}

/* --- Operations ----------------------------------------------------------- */

/* Slot number SLOT; NULL: out of memory. */
static struct export_slot *slot_at(struct export *x, uint32_t slot) {
    if (slot >= x->slots &&
        !tool_array_extend(&x->slot, &x->slot_room, &x->slots, (size_t)slot + 1,
                           sizeof(*x->slot))) {
        x->out->no_memory = true;
        return NULL;
    }
    return &x->slot[slot];
}

static void end_slot(struct export *x, struct format_put *p,
                     struct export_slot *s) {
    p->e.old = s->tag;
    p->old_size = s->size;
    p->born_op = s->born_op;
    p->maker = s->maker;
    s->tag = 0;
    TCM_ASSERT(x->out->live != 0);
    x->out->live--;
}

static void begin_slot(struct export *x, struct format_put *p,
                       struct export_slot *s) {
    *s = (struct export_slot){++x->tags, p->e.size, p->op, p->thread};
    p->e.id = s->tag;
    x->out->live++;
}

/* Form of each operation in a foreign trace, by enum mtf_op_kind. */
static const struct operation_form {
    uint8_t kind;
    uint16_t flags;
    bool ends, makes; /* does it end a block, make a block? */
} operation_forms[MTF_OP_LAST_OPERATION + 1] = {
    [MTF_OP_ALLOC] = {FORMAT_ALLOC, 0, false, true},
    [MTF_OP_ALIGNED] = {FORMAT_ALLOC, 0, false, true},
    [MTF_OP_FREE] = {FORMAT_FREE, 0, true, false},
    [MTF_OP_FREE_SIZE] = {FORMAT_FREE, FORMAT_SIZED, true, false},
    [MTF_OP_REALLOC] = {FORMAT_REALLOC, 0, true, true},
    [MTF_OP_REALLOC_NEW] = {FORMAT_REALLOC, 0, false, true},
    [MTF_OP_REALLOC_END] = {FORMAT_REALLOC, 0, true, false},
};

/* Fills *P, which init_put initialized. False: damage removed the operation
   that made the block of OP, or that freed an earlier block in its slot. */
static TCM_ALWAYS_INLINE bool make_operation(struct export *x,
                                             const struct mtf_op *op,
                                             struct format_put *p) {
    const struct operation_form *form = &operation_forms[op->kind];
    struct export_slot *s = slot_at(x, op->slot);
    TCM_ASSERT(form->kind != 0);
    if (TCM_UNLIKELY(s == NULL || form->ends != (s->tag != 0)))
        return false;
    p->slot = op->slot;
    p->e.kind = form->kind;
    p->e.call = op->call;
    p->e.align_log2 = op->align_log2;
    p->e.size = op->kind == MTF_OP_REALLOC_END ? 0 : op->size;
    p->e.flags = form->flags;
    if ((op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0)
        p->e.flags |= FORMAT_OLD_UNKNOWN;
    if ((op->flags & MTF_PROC_FLAG_MOVED) != 0)
        p->e.flags |= FORMAT_MOVED;
    p->e.id = p->e.old = p->old_size = p->born_op = p->maker = 0;
    if (form->ends)
        end_slot(x, p, s);
    if (form->makes)
        begin_slot(x, p, s);
    x->out->ops++;
    return true;
}

/* Fills *P for a record that has bytes, N at BYTES. */
static void make_bytes_record(struct export *x, const struct mtf_op *op,
                              const uint8_t *bytes, size_t n,
                              struct format_put *p) {
    struct format_event *e = &p->e;
    e->text = bytes;
    e->length = n;
    switch (op->kind) {
    case MTF_OP_THREAD_END:
        e->kind = FORMAT_THREAD_END;
        return;
    case MTF_OP_SAMPLE:
        e->kind = FORMAT_SAMPLE;
        e->time_ns = mtf_load_le64(bytes);
        e->text = bytes + 8;
        e->length = n - 8;
        return;
    case MTF_OP_LOSS:
        e->kind = FORMAT_LOSS;
        e->size = mtf_load_le64(bytes);
        e->id = mtf_load_le64(bytes + 8);
        e->old = mtf_load_le64(bytes + 16);
        return;
    default:
        if (mtf_plain_of_op(op->kind) != NULL) {
            e->kind = FORMAT_PLAIN;
            e->op = op->kind;
        } else {
            bool site = op->kind == MTF_OP_SITE || op->kind == MTF_OP_SITE_DEF;
            x->out->left[site ? FORMAT_LEFT_SITES : FORMAT_LEFT_OTHER]++;
        }
        return;
    }
}

/* Fills *P, which init_put initialized, for a record that is no operation. */
static void make_record(struct export *x, const struct mtf_proc_block *b,
                        const struct mtf_op *op, struct format_put *p) {
    struct format_event *e = &p->e;
    e->number = op->slot;
    e->thread = op->slot;
    switch (op->kind) {
    case MTF_OP_SWITCH:
        e->kind = FORMAT_SWITCH;
        return;
    case MTF_OP_TIME:
        e->kind = FORMAT_TIME;
        e->time_ns = op->size;
        return;
    case MTF_OP_THREAD_START:
        e->kind = FORMAT_THREAD_START;
        e->number = op->size;
        return;
    case MTF_OP_FAILED:
        e->kind = mtf_call_is_realloc(op->call) ? FORMAT_REALLOC : FORMAT_ALLOC;
        e->call = op->call;
        e->align_log2 = op->align_log2;
        e->size = op->size;
        e->flags = FORMAT_FAILED;
        if ((op->flags & MTF_PROC_FLAG_HAD_OLD) != 0)
            e->flags |= FORMAT_OLD_UNKNOWN;
        x->done->events++;
        return;
    case MTF_OP_PHASE:
        e->kind = FORMAT_PHASE;
        return;
    case MTF_OP_PRESENT:
        e->kind = FORMAT_PRESENT;
        e->size = op->size;
        return;
    default:
        break;
    }
    const struct mtf_kind *plain = mtf_plain_of_op(op->kind);
    if (plain != NULL && plain->form == MTF_FORM_PAIR) {
        e->kind = FORMAT_PLAIN;
        e->op = op->kind;
        e->size = op->size;
        return;
    }
    size_t n = 0;
    const uint8_t *bytes = mtf_proc_bytes(b, op, &n);
    make_bytes_record(x, op, bytes, n, p);
}

static void init_put(const struct export *x, struct format_put *p) {
    memset(p, 0, sizeof(*p));
    p->thread = x->thread;
    p->time_ns = x->time_ns;
    p->op = x->out->ops;
}

/* Distance, in operations, at which slots are fetched into the processor's
   cache. */
#define AHEAD 8u
TCM_STATIC_ASSERT(AHEAD <= TOOL_OPS_AHEAD, "operations ahead may be read");

static void put_ops(struct export *x, const struct tool_ops_item *item) {
    struct format_put p;
    uint64_t before = x->out->ops;
    init_put(x, &p);
    for (size_t i = 0; i < item->count && !x->out->no_memory; i++) {
        const struct mtf_op *op = &item->op[i];
        p.op = x->out->ops;
        if (TCM_LIKELY(op->kind <= MTF_OP_LAST_OPERATION)) {
            if (op[AHEAD].slot < x->slots)
                __builtin_prefetch(&x->slot[op[AHEAD].slot], 1);
            if (TCM_LIKELY(make_operation(x, op, &p)))
                x->format->put(x->state, x->out, &p);
            else
                x->skipped++;
            continue;
        }
        if (op->kind == MTF_OP_SWITCH)
            x->thread = op->slot;
        if (op->kind == MTF_OP_TIME)
            x->time_ns = op->size;
        init_put(x, &p);
        make_record(x, item->block, op, &p);
        if (p.e.kind != 0)
            x->format->put(x->state, x->out, &p);
        init_put(x, &p);
    }
    x->done->ops = x->out->ops;
    x->done->events += x->out->ops - before;
}

/* --- Items of the trace --------------------------------------------------- */

static void export_damage(void *ctx, uint64_t offset, const char *text) {
    struct export *x = ctx;
    x->done->lost = true;
    tool_warn("%s: byte %" PRIu64 ": %s", tool_input_name(x->in), offset, text);
}

/* Puts the records of ITEM. False: it was the last item. */
static bool put_item(struct export *x, const struct tool_ops_item *item) {
    switch (item->kind) {
    case TOOL_OPS_SOME:
        put_ops(x, item);
        return true;
    case TOOL_OPS_BLOCK:
        x->thread = x->ops.decoder.thread;
        x->time_ns = x->ops.decoder.time_ns;
        return true;
    case TOOL_OPS_BLOCK_END:
        if (item->problem != NULL)
            export_damage(x, item->offset, item->problem);
        return true;
    case TOOL_OPS_CLOSING:
        x->lacks = tool_check_lacks(item->block);
        return true;
    case TOOL_OPS_DAMAGE:
        export_damage(x, item->offset, item->problem);
        return true;
    case TOOL_OPS_FAILED:
        x->done->failed = true;
        if (!x->out->caller_reports)
            tool_error("%s: byte %" PRIu64 ": %s", tool_input_name(x->in),
                       item->offset, item->problem);
        return false;
    case TOOL_OPS_END:
        if (item->problem != NULL && !x->done->lost)
            export_damage(x, item->offset, item->problem);
        return false;
    default:
        return true;
    }
}

/* Puts the blocks that are alive at the end, in the order of slots. */
static void put_live(struct export *x) {
    uint64_t live = 0;
    for (size_t i = 0; i < x->slots; i++) {
        struct export_slot *s = &x->slot[i];
        struct format_put p;
        if (s->tag == 0)
            continue;
        memset(&p, 0, sizeof(p));
        live++;
        p.op = x->out->ops;
        p.slot = (uint32_t)i;
        p.e.kind = FORMAT_LIVE;
        p.e.old = s->tag;
        p.old_size = s->size;
        p.born_op = s->born_op;
        p.maker = s->maker;
        x->format->put(x->state, x->out, &p);
    }
    TCM_ASSERT(live == x->out->live);
}

static void put_all(struct export *x) {
    struct tool_ops_item item;
    if (x->format->put_begin != NULL)
        x->format->put_begin(x->state, x->out);
    do {
        tool_ops_next(&x->ops, &item);
        if (tool_stop_requested()) {
            export_damage(x, item.offset, "interrupted");
            break;
        }
    } while (put_item(x, &item) && !x->out->no_memory &&
             tool_output_error(x->out->to) == 0);
    if (x->done->failed)
        return;
    if (x->format->wants_live)
        put_live(x);
    if (x->format->put_end != NULL)
        x->format->put_end(x->state, x->out);
    format_out_flush(x->out);
    if (x->skipped != 0)
        export_damage(x, 0,
                      "operations on slots that damage emptied or filled are "
                      "left out");
    if (x->lacks != NULL) {
        x->done->lost = true;
        if (!x->out->caller_reports)
            tool_warn("%s: %s", tool_input_name(x->in), x->lacks);
    }
}

void format_export(struct tool_input *in, const struct format_type *format,
                   struct format_out *out, struct format_exported *done) {
    struct export *x = calloc(1, sizeof(*x));
    memset(done, 0, sizeof(*done));
    if (x != NULL)
        x->state = calloc(1, format->put_state_bytes + 1);
    if (x == NULL || x->state == NULL) {
        out->no_memory = true;
        free(x);
        return;
    }
    x->in = in;
    x->format = format;
    x->out = out;
    x->done = done;
    tool_ops_init(&x->ops, in, export_damage, x);
    put_all(x);
    tool_ops_fini(&x->ops);
    if (format->put_fini != NULL)
        format->put_fini(x->state);
    free(x->state);
    free(x->slot);
    free(x);
}
