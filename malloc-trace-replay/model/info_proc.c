/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After damage a block is checked against its own head alone.
 */
#include "model/info.h"

#include "base/bits.h"
#include "common/main.h"
#include "trace/check.h"
#include "trace/ops.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No LZ4 block expands more. */
#define LZ4_RATIO 255u

struct work {
    struct info_file *f;
    uint64_t time_ns, most_slots;
    size_t thread;      /* index of the current one; SIZE_MAX: none */
    size_t last_thread; /* of the last operation */
    uint64_t switches;  /* changes of thread between operations */
    uint64_t op;        /* number of the current operation, from 1 */
    uint64_t block_at;  /* offset of the current block */
    unsigned phase;     /* enum mtf_proc_phase, if known */
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];
    uint64_t unknown_reallocs; /* of blocks that are not in the trace */
    const char *lacks;         /* what is missing, as the closing block says */
    struct tool_ops ops;
};

/* --- Contradictions ------------------------------------------------------- */

/* A tool_check_tell. */
static void tell_check(void *ctx, uint64_t offset, const char *text) {
    struct work *w = ctx;
    info_problem(w->f, TOOL_DAMAGED, "%s: byte %" PRIu64 ": %s", w->f->name,
                 offset, text);
}

static void contradicts(struct work *w, const char *fmt, ...) TCM_PRINTF(2, 3);
static void contradicts(struct work *w, const char *fmt, ...) {
    char text[120];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tell_check(w, w->block_at, text);
}

/* OP needs an empty slot if it makes a block, else one that holds a block. */
static void check_slot(struct work *w, const struct mtf_op *op) {
    bool fills = op->kind == MTF_OP_ALLOC || op->kind == MTF_OP_ALIGNED ||
                 op->kind == MTF_OP_REALLOC_NEW;
    if (w->ops.check.lost || w->f->live.failed ||
        info_live_slot_lives(&w->f->live, op->slot) != fills)
        return;
    contradicts(w, "operation %" PRIu64 ": %s slot %" PRIu32 ", which holds %s",
                w->op,
                fills                        ? "an allocation takes"
                : op->kind == MTF_OP_REALLOC ? "a realloc names"
                                             : "a free names",
                op->slot, fills ? "a block" : "nothing");
}

/* --- Counting ------------------------------------------------------------- */

/* A block of SIZE was made, with present bytes if NOTED. */
static void count_large(struct info_file *f, uint64_t size, bool noted,
                        uint64_t present) {
    if (!noted && size <= MTF_PRESENT_ABOVE)
        return;
    f->large_blocks++;
    f->large_bytes += size;
    f->large_present += noted ? tcm_min_u64(present, size) : size;
}

/* The operations that follow belong to THREAD. */
static void switch_to(struct info_file *f, struct work *w, uint32_t thread) {
    struct raw_thread *t =
        thread == 0 ? NULL : raw_threads_find(&f->threads, thread);
    w->thread = t == NULL ? SIZE_MAX : (size_t)(t - f->threads.thread);
    if (t == NULL)
        return;
    t->life.began = true;
    if (t->first_ns == 0)
        t->first_ns = w->time_ns;
}

static void count_event(struct info_file *f, struct work *w,
                        const struct mtf_proc_block *b) {
    if (w->thread == SIZE_MAX) {
        tool_check_no_thread(&w->ops.check, b);
        return;
    }
    struct raw_thread *t = &f->threads.thread[w->thread];
    t->events++;
    t->last_ns = w->time_ns;
}

static void count_operation(struct info_file *f, struct work *w,
                            const struct mtf_proc_block *b,
                            const struct mtf_op *op) {
    struct info_live *l = &f->live;
    const struct tool_check *check = &w->ops.check;
    bool noted = check->noted;
    w->op++;
    count_event(f, w, b);
    check_slot(w, op);
    if (TCM_UNLIKELY(noted))
        tool_check_noted(&w->ops.check, b, op);
    if (w->thread != SIZE_MAX) {
        w->switches +=
            w->last_thread != SIZE_MAX && w->last_thread != w->thread;
        w->last_thread = w->thread;
    }
    if (w->phase < TCM_ARRAY_SIZE(w->phase_ops))
        w->phase_ops[w->phase]++;
    if (op->call < MTF_CALL_LIMIT)
        f->calls[op->call]++;
    if (op->kind == MTF_OP_FREE || op->kind == MTF_OP_FREE_SIZE ||
        op->kind == MTF_OP_REALLOC_END) {
        info_live_slot_freed(l, op->slot);
        return;
    }
    w->unknown_reallocs += op->kind == MTF_OP_REALLOC_NEW &&
                           (op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0;
    f->requested_bytes += op->size;
    count_large(f, op->size, noted, check->present);
    f->impossible_slots +=
        !info_live_slot(l, op->slot, w->most_slots, op->size, w->time_ns);
}

static void count_rare(struct info_file *f, struct work *w,
                       const struct mtf_proc_block *b,
                       const struct mtf_op *op) {
    struct raw_thread *t = NULL;
    const uint8_t *text;
    size_t n;
    if (op->kind == MTF_OP_THREAD_START || op->kind == MTF_OP_THREAD_END)
        t = raw_threads_find(&f->threads, op->slot);
    tool_check_record(&w->ops.check, b, op, t == NULL ? NULL : &t->life);
    switch (op->kind) {
    case MTF_OP_TIME:
        w->time_ns = op->size;
        if (op->size > f->last_ns)
            f->last_ns = op->size;
        break;
    case MTF_OP_SWITCH:
        switch_to(f, w, op->slot);
        break;
    case MTF_OP_PHASE:
        w->phase = op->slot;
        break;
    case MTF_OP_FAILED:
        count_event(f, w, b);
        break;
    case MTF_OP_THREAD_START:
        if (t != NULL)
            t->tid = op->size;
        break;
    case MTF_OP_THREAD_END:
        text = mtf_proc_bytes(b, op, &n);
        if (t != NULL)
            (void)snprintf(t->name, sizeof(t->name), "%.*s", (int)n,
                           (const char *)text);
        break;
    default:
        break;
    }
}

static void begin_block(struct info_file *f, struct work *w,
                        const struct mtf_proc_block *b) {
    f->blocks++;
    w->time_ns = b->head.time_ns;
    w->op = b->head.first_op;
    w->block_at = b->offset;
    /* Each slot was filled by an operation of a byte or more. Operations in a
       broken frame are not seen, but LZ4 can pack only so many into it. */
    w->most_slots = tool_input_bytes(w->ops.in) +
                    LZ4_RATIO * tool_input_stored_bytes(w->ops.in);
    switch_to(f, w, b->head.thread);
}

static void count_ops(struct info_file *f, struct work *w,
                      const struct tool_ops_item *item) {
    for (size_t i = 0; i < item->count; i++) {
        const struct mtf_op *op = &item->op[i];
        if (op->kind < INFO_OP_KINDS)
            f->ops[op->kind]++;
        if (op->kind <= MTF_OP_LAST_OPERATION)
            count_operation(f, w, item->block, op);
        else
            count_rare(f, w, item->block, op);
    }
}

static void end_block(struct info_file *f, struct work *w,
                      const char *problem) {
    if (problem != NULL)
        contradicts(w, "%s", problem);
    if (f->impossible_slots != 0) {
        contradicts(w, "block with impossible slots");
        tool_check_lost(&w->ops.check);
    }
    f->impossible_slots = 0;
}

/* Compares what was counted with what the closing block B says. */
static void check_closing(struct info_file *f, struct work *w,
                          const struct mtf_proc_block *b) {
    const uint64_t *ops = f->ops;
    struct tool_check_sums s = {0};
    uint64_t reallocs =
        ops[MTF_OP_REALLOC] + ops[MTF_OP_REALLOC_NEW] + ops[MTF_OP_REALLOC_END];
    uint64_t frees = ops[MTF_OP_FREE] + ops[MTF_OP_FREE_SIZE];
    tool_check_sum(&s, MTF_PROC_ACCOUNT_OPS,
                   ops[MTF_OP_ALLOC] + ops[MTF_OP_ALIGNED] + reallocs + frees);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MALLOCS, ops[MTF_OP_ALLOC]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MEMALIGNS, ops[MTF_OP_ALIGNED]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REALLOCS, reallocs);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FREES, frees);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FAILED_ALLOCATIONS, ops[MTF_OP_FAILED]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REQUESTED_BYTES, f->requested_bytes);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_UNMATCHED_REALLOCS,
                   w->unknown_reallocs);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_THREADS,
                   raw_threads_with_events(&f->threads));
    tool_check_sum(&s, MTF_PROC_ACCOUNT_SWITCHES, w->switches);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_PROLOGUE_OPS,
                   w->phase_ops[MTF_PROC_PHASE_PROLOGUE]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_EPILOGUE_OPS,
                   w->phase_ops[MTF_PROC_PHASE_EPILOGUE]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_PRESENT_BLOCKS, ops[MTF_OP_PRESENT]);
    if (!f->live.failed) {
        tool_check_sum(&s, MTF_PROC_ACCOUNT_LIVE_AT_END, f->live.blocks);
        tool_check_sum(&s, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES,
                       f->live.peak_bytes);
    }
    tool_check_closing(&w->ops.check, b, &s);
}

static void see_closing(struct info_file *f, struct work *w,
                        const struct mtf_proc_block *b) {
    w->lacks = tool_check_lacks(b);
    f->closed = true;
    f->complete = w->lacks == NULL;
    f->proc_account_count = 0;
    for (uint32_t at = 0; at + 10 <= b->head.length; at += 10) {
        uint16_t field;
        memcpy(&field, b->payload + at, 2);
        uint64_t value = mtf_load_le64(b->payload + at + 2);
        if (field == MTF_PROC_ACCOUNT_CLEAN_END)
            f->clean_end = value != 0;
        else if (field == MTF_PROC_ACCOUNT_GROWING)
            f->growing = value != 0;
        else if (field == MTF_PROC_ACCOUNT_BEGINS_LATE)
            f->begins_late = value != 0;
        else if (field == MTF_PROC_ACCOUNT_END_NS && value > f->last_ns)
            f->last_ns = value;
        if (f->proc_account_count == TCM_ARRAY_SIZE(f->proc_fields))
            continue;
        f->proc_fields[f->proc_account_count] = field;
        f->proc_values[f->proc_account_count++] = value;
    }
}

static void see_header(struct info_file *f, const struct mtf_proc_item *item) {
    f->proc_version = item->header.version;
    size_t n = tcm_min_u64(item->converter_length, sizeof(f->converter) - 1);
    if (n != 0)
        memcpy(f->converter, item->converter, n);
    if (item->header.raw_length == 0)
        return;
    enum mtf_status status = mtf_raw_parse_header(
        item->raw_header, item->header.raw_length, &f->header);
    f->have_header = status == MTF_OK;
    if (status != MTF_OK && status != MTF_TOO_NEW)
        info_problem(f, TOOL_DAMAGED,
                     "%s: byte %zu: the raw trace's header is damaged", f->name,
                     sizeof(item->header));
}

static void see_damage(struct info_file *f, const struct work *w,
                       const struct tool_ops_item *item) {
    bool stored = item->from->offset_is_stored;
    info_problem(
        f, TOOL_DAMAGED, "%s: byte %" PRIu64 ": %s%s%s, %" PRIu64 " bytes lost",
        f->name, item->offset, stored ? tool_input_frame_name(w->ops.in) : "",
        stored ? " " : "", item->problem, item->from->skipped);
}

static void see_problem(struct info_file *f, int status,
                        const struct tool_ops_item *item) {
    info_problem(f, status, "%s: byte %" PRIu64 ": %s", f->name, item->offset,
                 item->problem);
}

static void read_all(struct info_file *f, struct work *w) {
    struct tool_ops_item item;
    for (;;) {
        tool_ops_next(&w->ops, &item);
        switch (item.kind) {
        case TOOL_OPS_HEADER:
            f->kind = INFO_PROCESSED;
            see_header(f, item.from);
            break;
        case TOOL_OPS_BLOCK:
            begin_block(f, w, item.block);
            break;
        case TOOL_OPS_SOME:
            count_ops(f, w, &item);
            break;
        case TOOL_OPS_BLOCK_END:
            end_block(f, w, item.problem);
            break;
        case TOOL_OPS_CLOSING:
            check_closing(f, w, item.block);
            see_closing(f, w, item.block);
            break;
        case TOOL_OPS_DAMAGE:
            see_damage(f, w, &item);
            break;
        case TOOL_OPS_FAILED:
            see_problem(f, TOOL_FAILED, &item);
            return;
        case TOOL_OPS_END:
            f->kind = INFO_PROCESSED;
            if (item.problem != NULL)
                see_problem(f, TOOL_DAMAGED, &item);
            return;
        }
    }
}

void info_read_processed(struct info_file *f, struct tool_input *in) {
    struct work *w = malloc(sizeof(*w));
    if (tool_input_is_compressed(in))
        f->frame_name = tool_input_frame_name(in);
    f->from_file = true;
    if (w == NULL) {
        info_problem(f, TOOL_FAILED, "out of memory");
    } else {
        memset(w, 0, offsetof(struct work, ops));
        w->f = f;
        w->thread = w->last_thread = SIZE_MAX;
        tool_ops_init(&w->ops, in, tell_check, w);
        read_all(f, w);
        tool_ops_fini(&w->ops);
        if (f->status != TOOL_OK)
            f->complete = false;
        else if (f->closed && w->lacks != NULL)
            info_problem(f, TOOL_DAMAGED, "%s: %s", f->name, w->lacks);
    }
    free(w);
    f->raw_bytes = tool_input_bytes(in);
    f->stored_bytes = tool_input_stored_bytes(in);
    tool_input_close(in);
}
