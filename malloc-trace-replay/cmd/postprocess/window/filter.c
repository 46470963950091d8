/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/window/filter.h"

#include "cmd/postprocess/sort/order.h"
#include "cmd/postprocess/window/blocks.h"
#include "common/main.h"
#include "common/text.h"
#include "traceformat/raw_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Beginning ------------------------------------------------------------ */

struct filter *filter_new(const struct filter_options *options,
                          struct mtf_proc_writer *out) {
    struct filter *f = malloc(sizeof(*f));
    if (f == NULL)
        return NULL;
    memset(f, 0, offsetof(struct filter, decoder));
    f->options = options;
    f->out = out;
    if (options->from_ns == 0 && options->from_mark == NULL)
        f->phase = FILTER_WITHIN;
    return f;
}

void filter_free(struct filter *f) {
    if (f == NULL)
        return;
    filter_threads_free(&f->threads);
    for (unsigned i = 0; i < f->marks; i++)
        free(f->mark[i]);
    free(f->block);
    free(f);
}

size_t filter_header(const struct filter *f, const void *raw, size_t length,
                     void *room) {
    struct mtf_raw_info info;
    if (!f->options->strip) {
        memcpy(room, raw, length);
        return length;
    }
    if (mtf_raw_parse_header(raw, length, &info) != MTF_OK)
        return 0;
    struct mtf_raw_header h = info.fixed;
    h.pid = h.parent_pid = 0;
    h.process_start = h.random = h.parent_start = h.parent_random = 0;
    h.wall_ns = 0;
    return mtf_raw_build_header(room, &h, NULL, info.library);
}

/* --- The rest ------------------------------------------------------------- */

static void take_time(struct filter *f, uint64_t time_ns) {
    const struct filter_options *o = f->options;
    if (!f->have_base) { /* the header was lost */
        f->have_base = true;
        f->base_ns = time_ns;
    }
    f->time_ns = time_ns;
    uint64_t since = time_ns - f->base_ns;
    if (f->phase == FILTER_BEFORE && o->from_mark == NULL &&
        since >= o->from_ns)
        filter_begin_window(f);
    if (f->phase != FILTER_WITHIN)
        return;
    if (since >= o->to_ns) {
        f->phase = FILTER_AFTER;
        return;
    }
    if (f->start_ns == 0)
        f->start_ns = time_ns;
    f->end_ns = time_ns;
    if (time_ns - f->out->time_ns >= ORDER_TIME_NS)
        mtf_proc_put_time(f->out, time_ns);
}

static bool is_text(const char *text, const uint8_t *bytes, size_t length) {
    return text != NULL && strlen(text) == length &&
           memcmp(text, bytes, length) == 0;
}

/* For the message that a mark was not found. */
static void note_mark(struct filter *f, const uint8_t *text, size_t length) {
    for (unsigned i = 0; i < f->marks; i++)
        if (is_text(f->mark[i], text, length))
            return;
    if (f->marks == FILTER_MARKS)
        return;
    f->mark[f->marks] = strndup((const char *)text, length);
    if (f->mark[f->marks] != NULL)
        f->marks++;
}

static void take_mark(struct filter *f, const uint8_t *text, size_t length) {
    const struct filter_options *o = f->options;
    bool begins = false;
    if (o->from_mark != NULL || o->to_mark != NULL)
        note_mark(f, text, length);
    if (f->phase == FILTER_BEFORE && is_text(o->from_mark, text, length)) {
        begins = true;
        filter_begin_window(f);
    }
    if (f->phase != FILTER_WITHIN)
        return;
    if (!o->strip && (begins || filter_asked_for(f, f->thread) ||
                      is_text(o->to_mark, text, length))) {
        filter_enter(f, f->thread, false);
        mtf_proc_put_mark(f->out, text, length);
    }
    if (!begins && is_text(o->to_mark, text, length))
        f->phase = FILTER_AFTER;
}

static void take_thread_end(struct filter *f, uint32_t id, const uint8_t *name,
                            size_t length) {
    struct filter_thread *t = filter_thread_of(f, id);
    if (t == NULL)
        return;
    t->ended = true;
    if (f->phase == FILTER_WITHIN) {
        if (!t->start_written && !filter_asked_for(f, id))
            return;
        filter_enter(f, f->thread, false);
        filter_end_thread(f, filter_thread_of(f, id), name, length);
    } else if (!f->options->strip && t->name == NULL &&
               filter_asked_for(f, id)) {
        t->name = malloc(length + 1);
        if (t->name == NULL) {
            f->failed = true;
            return;
        }
        memcpy(t->name, name, length);
        t->name_length = (uint16_t)length;
    }
}

static void take_thread_start(struct filter *f, uint32_t id, uint32_t kernel) {
    struct filter_thread *t = filter_thread_of(f, id);
    if (t == NULL)
        return;
    t->has_start = true;
    t->kernel_id = kernel;
    if (f->phase == FILTER_WITHIN && filter_asked_for(f, id))
        filter_enter(f, id, false);
}

/* Records that are no operation on a block, within the window. */
static void pass_on(struct filter *f, const struct mtf_op *op,
                    const uint8_t *bytes, size_t length) {
    switch (op->kind) {
    case MTF_OP_FAILED:
        if (!filter_asked_for(f, f->thread)) {
            f->left_out++;
            return;
        }
        filter_enter(f, f->thread, true);
        f->counts.failed++;
        mtf_proc_put_failed(f->out, op->call, op->align_log2, op->flags,
                            op->size);
        return;
    case MTF_OP_EXTENSION:
        if (!filter_asked_for(f, f->thread))
            return;
        filter_enter(f, f->thread, false);
        mtf_proc_put_extension(f->out, op->slot, op->size);
        return;
    case MTF_OP_SAMPLE:
        if (length >= 8)
            mtf_proc_put_sample(f->out, mtf_load_le64(bytes), bytes + 8,
                                length - 8);
        return;
    case MTF_OP_LOSS:
        if (length >= 24 && filter_asked_for(f, op->slot))
            mtf_proc_put_loss(f->out, op->slot, mtf_load_le64(bytes),
                              mtf_load_le64(bytes + 8),
                              mtf_load_le64(bytes + 16));
        return;
    default:
        return;
    }
}

static void take_op(struct filter *f, const struct mtf_proc_block *block,
                    const struct mtf_op *op) {
    const uint8_t *bytes = NULL;
    size_t length = 0;
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
    case MTF_OP_REALLOC_NEW:
        filter_alloc(f, op);
        return;
    case MTF_OP_FREE:
    case MTF_OP_REALLOC_END:
    case MTF_OP_FREE_SIZE:
        filter_free_op(f, op);
        return;
    case MTF_OP_REALLOC:
        filter_realloc(f, op);
        return;
    case MTF_OP_SWITCH:
        f->thread = op->slot;
        return;
    case MTF_OP_TIME:
        take_time(f, op->size);
        return;
    case MTF_OP_THREAD_START:
        take_thread_start(f, op->slot, (uint32_t)op->size);
        return;
    case MTF_OP_THREAD_END:
        bytes = mtf_proc_bytes(block, op, &length);
        take_thread_end(f, op->slot, bytes, length);
        return;
    case MTF_OP_MARK:
        bytes = mtf_proc_bytes(block, op, &length);
        take_mark(f, bytes, length);
        return;
    case MTF_OP_SAMPLE:
    case MTF_OP_LOSS:
        bytes = mtf_proc_bytes(block, op, &length);
        break;
    default:
        break;
    }
    if (f->phase == FILTER_WITHIN)
        pass_on(f, op, bytes, length);
}

/* --- The stream ----------------------------------------------------------- */

/* False: the block contradicts itself, which ours do not. */
static bool take_block(struct filter *f, const struct mtf_proc_block *block) {
    struct mtf_op ops[256];
    size_t n;
    if (f->phase == FILTER_AFTER)
        return true;
    if (!mtf_proc_decode_begin(&f->decoder, block))
        return false;
    while ((n = mtf_proc_decode(&f->decoder, ops, TCM_ARRAY_SIZE(ops))) != 0)
        for (size_t i = 0; i < n && f->phase != FILTER_AFTER; i++)
            take_op(f, block, &ops[i]);
    return f->decoder.problem == NULL;
}

static bool take_header(struct filter *f) {
    struct mtf_proc_header h;
    struct mtf_raw_header raw = {0};
    memcpy(&h, f->memory, sizeof(h));
    memcpy(&raw, f->memory + sizeof(h),
           h.raw_length < sizeof(raw) ? h.raw_length : sizeof(raw));
    f->have_header = true;
    f->have_base = h.raw_length != 0;
    f->base_ns = f->time_ns = raw.start_ns;
    return true;
}

static bool take_whole_block(struct filter *f) {
    struct mtf_proc_block block = {.payload = f->memory + sizeof(block.head)};
    memcpy(&block.head, f->memory, sizeof(block.head));
    return block.head.kind == MTF_PROC_BLOCK_OPS && take_block(f, &block);
}

/* How many bytes the header or block in work has, as far as its first ones
   tell. 0: it is none that our own writer makes. */
static size_t length_in_work(const struct filter *f) {
    struct mtf_proc_block_head head;
    struct mtf_proc_header h;
    if (!f->have_header) {
        if (f->length < sizeof(h))
            return sizeof(h);
        memcpy(&h, f->memory, sizeof(h));
        return h.length > MTF_PROC_HEADER_MAX ||
                       h.length < sizeof(h) + h.raw_length
                   ? 0
                   : h.length;
    }
    if (f->length < sizeof(head))
        return sizeof(head);
    memcpy(&head, f->memory, sizeof(head));
    return head.length > MTF_PROC_PAYLOAD_MAX ? 0 : sizeof(head) + head.length;
}

bool filter_take(struct filter *f, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n != 0) {
        size_t whole = length_in_work(f);
        if (whole < f->length)
            return false;
        size_t piece = n < whole - f->length ? n : whole - f->length;
        memcpy(f->memory + f->length, p, piece);
        f->length += piece;
        p += piece;
        n -= piece;
        if (f->length != length_in_work(f))
            continue;
        f->length = 0;
        if (!(f->have_header ? take_whole_block(f) : take_header(f)))
            return false;
    }
    return !f->failed && !f->out->failed;
}

bool filter_end(struct filter *f) {
    if (f->options->free_at_end && f->phase != FILTER_BEFORE)
        filter_free_all(f);
    return !f->failed && !f->out->failed;
}

/* "a", "b" and so on, as far as they fit. */
static void list_marks(const struct filter *f, char *text, size_t size) {
    size_t at = 0;
    for (unsigned i = 0; i < f->marks && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\"%s\"",
                               i == 0 ? "" : ", ", f->mark[i]);
}

bool filter_found(const struct filter *f, const char *name) {
    const struct filter_options *o = f->options;
    const char *mark = f->phase == FILTER_BEFORE ? o->from_mark : o->to_mark;
    char text[512];
    struct tool_text t[2];
    if (f->phase == FILTER_BEFORE && o->from_mark == NULL) {
        tool_error("%s: --from %s is behind the end of the recording, %s", name,
                   tool_text_ns(&t[0], o->from_ns),
                   tool_text_ns(&t[1], f->time_ns - f->base_ns));
        return false;
    }
    if (f->phase == FILTER_AFTER || mark == NULL)
        return true;
    list_marks(f, text, sizeof(text));
    if (f->marks == 0)
        tool_error("%s: no mark \"%s\", nor any other", name, mark);
    else
        tool_error("%s: no mark \"%s\"%s; there are %s", name, mark,
                   f->phase == FILTER_WITHIN && o->from_mark != NULL
                       ? " behind the first"
                       : "",
                   text);
    return false;
}
