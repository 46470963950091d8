/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_check.h"

#include "base/check.h"
#include "common/collections.h"
#include "traceformat/proc_reader.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tell(struct tool_check *c, uint64_t offset, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static void tell(struct tool_check *c, uint64_t offset, const char *fmt, ...) {
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->tell(c->ctx, offset, text);
}

void tool_check_init(struct tool_check *c, tool_check_tell tell_it, void *ctx) {
    memset(c, 0, offsetof(struct tool_check, seen));
    c->tell = tell_it;
    c->ctx = ctx;
    c->chained = c->have_stack = true;
    c->step = 1;
}

void tool_check_fini(struct tool_check *c) {
    free(c->free_slot);
    c->free_slot = NULL;
    c->capacity = 0;
}

void tool_check_lost(struct tool_check *c) {
    c->lost = true;
    c->chained = c->have_stack = c->noted = false;
}

/* --- From block to block -------------------------------------------------- */

/* Checks the first block: there are no slots before it. Its time, sticky calls
   and the state that sizes are predicted from are the writer's choice. */
static void check_first(struct tool_check *c, const struct mtf_proc_block *b) {
    const struct mtf_proc_block_head *h = &b->head;
    if (h->slot_count != 0)
        tell(c, b->offset, "%" PRIu32 " slots before the first block",
             h->slot_count);
}

static void check_state(struct tool_check *c, const struct mtf_proc_block *b) {
    const struct mtf_proc_block_head *h = &b->head, *a = &c->after;
    if (h->slot_count != a->slot_count)
        tell(c, b->offset,
             "slot count %" PRIu32 ", after the block before %" PRIu32,
             h->slot_count, a->slot_count);
    if (h->time_ns < a->time_ns)
        tell(c, b->offset, "time goes back by %" PRIu64 " ns",
             a->time_ns - h->time_ns);
    else if (h->time_ns != a->time_ns)
        tell(c, b->offset, "time %" PRIu64 " ns after the block before",
             h->time_ns - a->time_ns);
    if (h->thread != a->thread)
        tell(c, b->offset,
             "thread %" PRIu32 ", after the block before %" PRIu32, h->thread,
             a->thread);
    if (h->alloc_call != a->alloc_call || h->free_call != a->free_call ||
        h->last_8th != a->last_8th || h->last_slot != a->last_slot)
        tell(c, b->offset, "state differs from that after the block before");
}

static void check_head(struct tool_check *c, const struct mtf_proc_block *b) {
    if (c->chained && c->blocks != 0)
        check_state(c, b);
    else if (c->chained && b->head.kind == MTF_PROC_BLOCK_OPS)
        check_first(c, b);
    if (b->head.kind != MTF_PROC_BLOCK_OPS &&
        (b->head.records | b->head.ops | b->head.taken) != 0)
        tell(c, b->offset, "records in a block of a kind without records");
}

/* Adds every step-th block to the list; a full list keeps every other entry. */
static void note_block(struct tool_check *c, const struct mtf_proc_block *b) {
    if (c->blocks % c->step == 0 && c->seen_count == MTF_PROC_INDEX_MAX) {
        for (uint32_t i = 0; i < MTF_PROC_INDEX_MAX / 2; i++)
            c->seen[i] = c->seen[2 * i];
        c->seen_count = MTF_PROC_INDEX_MAX / 2;
        c->step *= 2;
    }
    if (c->blocks % c->step == 0) {
        TCM_ASSERT(c->seen_count < MTF_PROC_INDEX_MAX);
        c->seen[c->seen_count++] = (struct mtf_proc_index_entry){
            b->offset, b->head.first_op, b->head.time_ns};
    }
    c->blocks++;
    c->records += b->head.records;
}

/* Checks that the slots that B lists are on top of the stack of free slots. */
static void check_taken(struct tool_check *c, const struct mtf_proc_block *b,
                        const struct mtf_proc_decoder *d) {
    uint32_t n = b->head.taken;
    if (!c->have_stack)
        return;
    if (n <= c->depth &&
        (n == 0 || memcmp(c->free_slot + (c->depth - n), d->stack,
                          n * sizeof(*d->stack)) == 0))
        return;
    tell(c, b->offset, "lists slots that are not those freed last");
    c->have_stack = false;
}

void tool_check_block(struct tool_check *c, const struct mtf_proc_block *b,
                      const struct mtf_proc_decoder *d) {
    if (c->have_index)
        tell(c, b->offset, "operations after the index");
    check_head(c, b);
    note_block(c, b);
    if (d->problem == NULL)
        check_taken(c, b, d);
}

/* Reports a PRESENT record in B without an operation that makes a block. */
static void check_no_note(struct tool_check *c,
                          const struct mtf_proc_block *b) {
    if (c->noted)
        tell(c, b->offset, "present bytes without a block of memory");
    c->noted = false;
}

/* Replaces the slots that B listed, on top of the stack, by those that B leaves
   free. */
static void pass_stack(struct tool_check *c, const struct mtf_proc_block *b,
                       const struct mtf_proc_decoder *d) {
    TCM_ASSERT(b->head.taken <= c->depth);
    size_t below = c->depth - b->head.taken, depth = below + d->depth;
    if (d->slot_count != b->head.slot_count && below != 0)
        tell(c, b->offset, "takes a new slot while others are free");
    if (depth > d->slot_count) {
        tell(c, b->offset, "more free slots than slots");
        c->have_stack = false;
        return;
    }
    if (!tool_array_reserve(&c->free_slot, &c->capacity, depth,
                            sizeof(*c->free_slot))) {
        c->have_stack = false; /* no memory: check the rest without it */
        return;
    }
    if (d->depth != 0)
        memcpy(c->free_slot + below, d->stack, d->depth * sizeof(*d->stack));
    c->depth = depth;
}

void tool_check_decoded(struct tool_check *c, const struct mtf_proc_block *b,
                        const struct mtf_proc_decoder *d) {
    if (d->problem != NULL) { /* which the caller reports */
        tool_check_lost(c);
        return;
    }
    check_no_note(c, b);
    if (d->time_ns < b->head.time_ns)
        tell(c, b->offset, "time goes back");
    if (c->have_stack)
        pass_stack(c, b, d);
    c->chained = true;
    c->after = (struct mtf_proc_block_head){
        .alloc_call = d->alloc_call,
        .free_call = d->free_call,
        .first_op = b->head.first_op + b->head.ops,
        .time_ns = d->time_ns,
        .slot_count = d->slot_count,
        .thread = d->thread,
        .last_8th = d->last_8th,
        .last_slot = d->last_slot,
    };
}

/* --- Records -------------------------------------------------------------- */

/* Checks the start or the end of thread ID. */
static void check_thread(struct tool_check *c, const struct mtf_proc_block *b,
                         uint32_t id, bool starts,
                         struct tool_check_life *life) {
    const char *what = starts ? "starts" : "ends";
    bool *done = starts ? &life->started : &life->ended;
    if (*done)
        tell(c, b->offset, "thread %" PRIu32 " %s twice", id, what);
    else if (starts && life->ended)
        tell(c, b->offset, "thread %" PRIu32 " starts after its end", id);
    else if (!starts && !life->began)
        tell(c, b->offset, "thread %" PRIu32 " ends and never began", id);
    *done = true;
}

static void check_bytes(struct tool_check *c, const struct mtf_proc_block *b,
                        const struct mtf_op *op) {
    size_t n;
    const uint8_t *p = mtf_proc_bytes(b, op, &n);
    if (n > MTF_PROC_BYTES_MAX)
        tell(c, b->offset, "a record of %zu bytes", n);
    if (op->kind == MTF_OP_SAMPLE && (n - 8) % 10 != 0)
        tell(c, b->offset, "a sample that is cut");
    if (op->kind == MTF_OP_LOSS && mtf_load_le64(p + 8) > mtf_load_le64(p + 16))
        tell(c, b->offset, "a loss that ends before it begins");
}

void tool_check_record(struct tool_check *c, const struct mtf_proc_block *b,
                       const struct mtf_op *op, struct tool_check_life *life) {
    if (c == NULL || c->lost)
        return;
    check_no_note(c, b);
    switch (op->kind) {
    case MTF_OP_PRESENT:
        c->noted = true;
        c->present = op->size;
        break;
    case MTF_OP_SWITCH:
        if (op->slot == 0)
            tell(c, b->offset, "a switch to thread 0");
        break;
    case MTF_OP_THREAD_START:
    case MTF_OP_THREAD_END:
        if (op->slot == 0)
            tell(c, b->offset, "thread 0 starts or ends");
        else if (life != NULL)
            check_thread(c, b, op->slot, op->kind == MTF_OP_THREAD_START, life);
        break;
    case MTF_OP_SAMPLE:
    case MTF_OP_LOSS:
    case MTF_OP_SITE_DEF:
    case MTF_OP_OTHER:
        check_bytes(c, b, op);
        break;
    default:
        if (mtf_op_is_text(op->kind))
            check_bytes(c, b, op);
        break;
    }
}

void tool_check_noted(struct tool_check *c, const struct mtf_proc_block *b,
                      const struct mtf_op *op) {
    if (c == NULL || !c->noted)
        return;
    if (!mtf_op_makes(op->kind)) {
        check_no_note(c, b);
        return;
    }
    c->noted = false;
    if (c->present > op->size)
        tell(c, b->offset,
             "present bytes %" PRIu64 " of a block of memory of %" PRIu64,
             c->present, op->size);
}

void tool_check_no_thread(struct tool_check *c,
                          const struct mtf_proc_block *b) {
    if (c != NULL && !c->lost)
        tell(c, b->offset, "a call without a thread");
}

/* --- Index ---------------------------------------------------------------- */

/* Tells whether the N entries at P are every STEPth block. */
static bool is_index_of(const struct tool_check *c, const uint8_t *p, size_t n,
                        uint64_t step) {
    for (size_t i = 0; i < n; i++) {
        struct mtf_proc_index_entry e;
        memcpy(&e, p + i * sizeof(e), sizeof(e));
        const struct mtf_proc_index_entry *s = &c->seen[i * (step / c->step)];
        if (e.offset != s->offset || e.first_op != s->first_op ||
            e.time_ns != s->time_ns)
            return false;
    }
    return true;
}

void tool_check_index(struct tool_check *c, const struct mtf_proc_block *b) {
    const size_t size = sizeof(struct mtf_proc_index_entry);
    if (c->have_index)
        tell(c, b->offset, "a second index");
    c->have_index = true;
    c->index_offset = b->offset;
    check_head(c, b);
    if (c->lost)
        return;
    size_t n = b->head.length / size;
    uint64_t step = c->step;
    while ((c->blocks + step - 1) / step > n && step < c->blocks)
        step *= 2;
    if (n == 0 || b->head.length % size != 0 ||
        (c->blocks + step - 1) / step != n ||
        !is_index_of(c, b->payload, n, step))
        tell(c, b->offset, "the index does not match the blocks");
}

/* --- Account -------------------------------------------------------------- */

#define FIELD(name) MTF_PROC_ACCOUNT_##name
#define BIT(name)   ((uint64_t)1 << MTF_PROC_ACCOUNT_##name)

/* Fields that are 0 in a recording that lacks nothing. */
static const uint8_t losses[] = {FIELD(DROPPED_EVENTS), FIELD(GROWING),
                                 FIELD(DAMAGED_PLACES),
                                 FIELD(LOST_STREAM_BYTES)};
/* Calls of each kind: fields of a processed trace and of the recorder's
   footer. */
static const struct {
    uint8_t field, recorder;
} kinds[] = {
    {FIELD(MALLOCS), MTF_ACCOUNT_MALLOCS},
    {FIELD(MEMALIGNS), MTF_ACCOUNT_MEMALIGNS},
    {FIELD(REALLOCS), MTF_ACCOUNT_REALLOCS},
    {FIELD(FREES), MTF_ACCOUNT_FREES},
    {FIELD(FAILED_ALLOCATIONS), MTF_ACCOUNT_FAILED_ALLOCATIONS},
};

const char *tool_check_lacks(const struct mtf_proc_block *b) {
    uint64_t v;
    if (mtf_proc_account(b, FIELD(GROWING), &v) && v != 0)
        return "made while the trace was still being recorded";
    bool lacks = false;
    if (mtf_proc_account(b, FIELD(COMPLETE), &v))
        lacks = v == 0;
    else
        for (unsigned i = 0; i < TCM_ARRAY_SIZE(losses); i++)
            lacks |= mtf_proc_account(b, losses[i], &v) && v != 0;
    return lacks ? "made from a trace that lacks something" : NULL;
}

static void read_account(struct tool_check *c, const struct mtf_proc_block *b,
                         struct tool_check_sums *a) {
    memset(a, 0, sizeof(*a));
    if (b->head.length % 10 != 0)
        tell(c, b->offset, "account cut");
    for (uint32_t at = 0; at + 10 <= b->head.length; at += 10) {
        uint16_t field;
        memcpy(&field, b->payload + at, sizeof(field));
        if (field >= MTF_PROC_ACCOUNT_LIMIT)
            continue;
        if (a->known >> field & 1)
            tell(c, b->offset, "account: field %u twice", (unsigned)field);
        a->known |= (uint64_t)1 << field;
        a->value[field] = mtf_load_le64(b->payload + at + 2);
    }
}

static bool has(const struct tool_check_sums *s, uint64_t bits) {
    return (s->known & bits) == bits;
}

/* Checks that A has FOUND for FIELD, or up to MORE more. */
static void compare(struct tool_check *c, const struct mtf_proc_block *b,
                    const struct tool_check_sums *a, unsigned field,
                    uint64_t found, uint64_t more) {
    uint64_t says = a->value[field];
    if ((a->known >> field & 1) != 0 && says - found > more)
        tell(c, b->offset, "account: %s %" PRIu64 ", the blocks have %" PRIu64,
             mtf_proc_account_name(field), says, found);
}

static void check_flags(struct tool_check *c, const struct mtf_proc_block *b,
                        const struct tool_check_sums *a) {
    static const uint8_t flags[] = {FIELD(COMPLETE), FIELD(CLEAN_END),
                                    FIELD(GROWING), FIELD(BEGINS_LATE)};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(flags); i++)
        if (a->value[flags[i]] > 1)
            tell(c, b->offset, "account: %s %" PRIu64 ", neither 0 nor 1",
                 mtf_proc_account_name(flags[i]), a->value[flags[i]]);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(losses); i++)
        if (a->value[FIELD(COMPLETE)] != 0 && a->value[losses[i]] != 0)
            tell(c, b->offset, "account: complete, but %s %" PRIu64,
                 mtf_proc_account_name(losses[i]), a->value[losses[i]]);
}

/* Checks the sums of operations and calls. */
static void check_events(struct tool_check *c, const struct mtf_proc_block *b,
                         const struct tool_check_sums *a) {
    bool is_part = has(a, BIT(PROLOGUE_OPS));
    uint64_t events = a->value[FIELD(EVENTS)], sum = 0, all = 0;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(kinds); i++) {
        sum += a->value[kinds[i].field];
        all |= (uint64_t)1 << kinds[i].field;
    }
    if (has(a, BIT(EVENTS) | all) && sum != events)
        tell(c, b->offset,
             "account: events %" PRIu64 ", but the kinds add up to %" PRIu64,
             events, sum);
    /* The unmatched frees of a part are those of the whole recording. */
    uint64_t none = a->value[FIELD(FAILED_ALLOCATIONS)] +
                    (is_part ? 0 : a->value[FIELD(UNMATCHED_FREES)]);
    if (has(a, BIT(OPS) | BIT(EVENTS) | BIT(FAILED_ALLOCATIONS)) &&
        (is_part || has(a, BIT(UNMATCHED_FREES))) &&
        a->value[FIELD(OPS)] != events - none)
        tell(c, b->offset,
             "account: ops %" PRIu64 ", but the events make %" PRIu64,
             a->value[FIELD(OPS)], events - none);
}

/* Checks that a complete trace has all that the recorder counted. It may have
   more: the events that the spool had after the footer. */
static void check_recorder(struct tool_check *c, const struct mtf_proc_block *b,
                           const struct tool_check_sums *a) {
    uint64_t v;
    if (a->value[FIELD(COMPLETE)] == 0 || a->value[FIELD(CLEAN_END)] == 0 ||
        a->value[FIELD(BEGINS_LATE)] != 0 || has(a, BIT(PROLOGUE_OPS)))
        return;
    uint64_t sum = 0;
    bool summed = true;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(kinds); i++) {
        bool known = mtf_proc_account(
            b, MTF_PROC_ACCOUNT_RECORDER + kinds[i].recorder, &v);
        summed &= known;
        sum += known ? v : 0;
        if (known && (a->known >> kinds[i].field & 1) != 0 &&
            a->value[kinds[i].field] < v)
            tell(c, b->offset,
                 "account: %s %" PRIu64 ", the recorder counted %" PRIu64,
                 mtf_proc_account_name(kinds[i].field),
                 a->value[kinds[i].field], v);
    }
    if (summed &&
        mtf_proc_account(b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_EVENTS,
                         &v) &&
        v != sum)
        tell(c, b->offset,
             "account: the recorder counted %" PRIu64
             " events, but the kinds add up to %" PRIu64,
             v, sum);
}

/* Reports contradictions within the account. */
static void check_account(struct tool_check *c, const struct mtf_proc_block *b,
                          const struct tool_check_sums *a) {
    check_flags(c, b, a);
    check_events(c, b, a);
    check_recorder(c, b, a);
    /* A window may end before the first event. */
    if (!has(a, BIT(PROLOGUE_OPS)) && has(a, BIT(START_NS) | BIT(END_NS)) &&
        a->value[FIELD(START_NS)] > a->value[FIELD(END_NS)])
        tell(c, b->offset, "account: end_ns is before start_ns");
    if (has(a, BIT(INDEX_OFFSET)) != c->have_index ||
        (c->have_index && a->value[FIELD(INDEX_OFFSET)] != c->index_offset))
        tell(c, b->offset, "account: wrong offset of the index");
}

/* Checks the account's unmatched reallocs. The trace has FOUND reallocs of
   blocks whose allocation it lacks: those that the recorder knows to be
   missing, and those of blocks from before the recording. */
static void check_unmatched(struct tool_check *c,
                            const struct mtf_proc_block *b,
                            const struct tool_check_sums *a, uint64_t found) {
    uint64_t says = a->value[FIELD(UNMATCHED_REALLOCS)];
    if (!has(a, BIT(PROLOGUE_OPS)) && says > found)
        tell(c, b->offset,
             "account: %s %" PRIu64 ", the blocks have at most %" PRIu64,
             mtf_proc_account_name(FIELD(UNMATCHED_REALLOCS)), says, found);
}

/* Largest number of events of FIELD that are in no block of the trace. */
static uint64_t unseen(const struct tool_check_sums *a, unsigned field) {
    if (has(a, BIT(PROLOGUE_OPS))) /* a window's account has its own events */
        return 0;
    switch (field) {
    case MTF_PROC_ACCOUNT_FREES:
    case MTF_PROC_ACCOUNT_REALLOCS:
        return a->value[FIELD(UNMATCHED_FREES)];
    case MTF_PROC_ACCOUNT_THREADS:
        return a->value[FIELD(UNMATCHED_FREES)] +
               a->value[FIELD(UNTRACED_FREES)];
    default:
        return 0;
    }
}

void tool_check_closing(struct tool_check *c, const struct mtf_proc_block *b,
                        const struct tool_check_sums *sums) {
    struct tool_check_sums a;
    check_head(c, b);
    read_account(c, b, &a);
    if (c->lost)
        return;
    check_account(c, b, &a);
    compare(c, b, &a, FIELD(RECORDS), c->records, 0);
    compare(c, b, &a, FIELD(BLOCKS), c->blocks, 0);
    if (c->blocks != 0)
        compare(c, b, &a, FIELD(SLOTS), c->after.slot_count, 0);
    check_unmatched(c, b, &a, sums->value[FIELD(UNMATCHED_REALLOCS)]);
    for (unsigned f = 0; f < MTF_PROC_ACCOUNT_LIMIT; f++)
        if (f != FIELD(UNMATCHED_REALLOCS) && (sums->known >> f & 1) != 0)
            compare(c, b, &a, f, sums->value[f], unseen(&a, f));
}
