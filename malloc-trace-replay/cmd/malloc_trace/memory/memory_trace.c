/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/memory/memory_trace.h"

#include "base/bits.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info.h"
#include "open/trace_open.h"
#include "trace/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets the operations of wishes whose time has come. */
static void note_time(struct memory_trace *t, uint64_t ns) {
    if (t->start_ns == 0)
        t->start_ns = ns;
    t->end_ns = tcm_max_u64(t->end_ns, ns);
    for (size_t i = 0; i < t->wishes; i++) {
        struct memory_wish *w = &t->wish[i];
        if (!w->is_mark && w->operation == 0 && ns - t->start_ns >= w->ns)
            w->operation = tcm_max_u64(t->operations, 1);
    }
}

static void note_mark(struct memory_trace *t, const uint8_t *bytes, size_t n) {
    t->marks++;
    if (t->wishes == MEMORY_WISHES)
        return;
    struct memory_wish *w = &t->wish[t->wishes++];
    *w = (struct memory_wish){.operation = tcm_max_u64(t->operations, 1),
                              .is_mark = true};
    snprintf(w->label, sizeof(w->label), "%.*s", (int)tcm_min_u64(n, 79),
             (const char *)bytes);
}

static bool note_thread(struct memory_trace *t, uint32_t id,
                        const uint8_t *name, size_t n) {
    if (!tool_array_reserve(&t->thread, &t->thread_room, t->threads + 1,
                            sizeof(*t->thread)))
        return tool_out_of_memory();
    struct report_thread *thread = &t->thread[t->threads++];
    *thread = (struct report_thread){.id = id};
    snprintf(thread->name, sizeof(thread->name), "%.*s",
             (int)tcm_min_u64(n, 31), (const char *)name);
    return true;
}

static bool take_record(struct memory_trace *t,
                        const struct mtf_proc_block *block,
                        const struct mtf_op *op) {
    const uint8_t *bytes;
    size_t n;
    switch (op->kind) {
    case MTF_OP_TIME:
        note_time(t, op->size);
        return true;
    case MTF_OP_SITE:
        t->has_sites |= op->slot != MTF_SITE_NONE;
        return true;
    case MTF_OP_SITE_DEF:
        bytes = mtf_proc_bytes(block, op, &n);
        return tool_sites_take(&t->sites, bytes, n) || tool_out_of_memory();
    case MTF_OP_MARK:
        bytes = mtf_proc_bytes(block, op, &n);
        note_mark(t, bytes, n);
        return true;
    case MTF_OP_THREAD_END:
        bytes = mtf_proc_bytes(block, op, &n);
        return note_thread(t, op->slot, bytes, n);
    default:
        return true;
    }
}

/* Adds an operation to the live blocks. */
static bool take_operation(struct memory_trace *t, struct info_live *live,
                           uint64_t most_slots, const struct mtf_op *op) {
    uint64_t peak = live->peak_bytes;
    if (mtf_op_makes(op->kind))
        (void)info_live_slot(live, op->slot, most_slots, op->size, 0);
    else
        info_live_slot_freed(live, op->slot);
    t->operations++;
    if (live->peak_bytes > peak)
        t->peak_operation = t->operations;
    return !live->failed || tool_out_of_memory();
}

static bool take_some(struct memory_trace *t, struct info_live *live,
                      const struct tool_ops *ops,
                      const struct tool_ops_item *item) {
    bool good = true;
    for (size_t i = 0; i < item->count && good; i++)
        good = item->op[i].kind <= MTF_OP_LAST_OPERATION
                   ? take_operation(t, live, tool_ops_most_slots(ops),
                                    &item->op[i])
                   : take_record(t, item->block, &item->op[i]);
    return good;
}

/* Damaged places are told by the replays. */
static bool read_items(struct memory_trace *t, struct info_live *live,
                       struct tool_ops *ops, const char *path) {
    struct tool_ops_item item;
    for (;;) {
        tool_ops_next(ops, &item);
        switch (item.kind) {
        case TOOL_OPS_HEADER:
            break;
        case TOOL_OPS_BLOCK:
            note_time(t, item.block->head.time_ns);
            break;
        case TOOL_OPS_SOME:
            if (!take_some(t, live, ops, &item))
                return false;
            break;
        case TOOL_OPS_END:
            return true;
        case TOOL_OPS_FAILED:
            tool_error("%s: byte %" PRIu64 ": %s", path, item.offset,
                       item.problem);
            return false;
        default:
            break;
        }
    }
}

bool memory_trace_read(struct memory_trace *t, const char *path) {
    static struct tool_ops ops;
    struct trace in;
    if (!trace_open(&in, path, NULL)) {
        tool_error("%s: %s", path, strerror(errno));
        return false;
    }
    struct info_live live = {.bytes = 0};
    tool_ops_init(&ops, in.in, NULL, NULL);
    bool good = read_items(t, &live, &ops, path);
    info_live_free(&live);
    tool_ops_fini(&ops);
    (void)trace_close(&in, true);
    return good;
}

const char *memory_trace_thread(const struct memory_trace *t, uint32_t id) {
    for (size_t i = 0; i < t->threads; i++)
        if (t->thread[i].id == id)
            return t->thread[i].name;
    return "";
}

void memory_trace_fini(struct memory_trace *t) {
    tool_sites_fini(&t->sites);
    free(t->thread);
    memset(t, 0, sizeof(*t));
}
