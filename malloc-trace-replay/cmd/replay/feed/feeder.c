/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/feeder.h"

#include "base/bits.h"
#include "base/check.h"
#include "cmd/replay/feed/memory_room.h"
#include "cmd/replay/feed/translate.h"
#include "common/input.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"
#include "open/recordings.h"
#include "open/trace_open.h"
#include "trace/ops.h"
#include "trace/trace_check.h"
#include "traceformat/proc_reader.h"
#include "traceformat/site_codec.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Inputs that are opened and checked before the replay of the first one. */
#define FEED_INPUTS 64

struct feeder {
    struct replay_translate t;
    struct replay_result *result;
    const char *name; /* name of the input */
    struct trace trace;
    bool damaged; /* a part of this input is lost */
    /* Account at the beginning of this input, and births since. */
    struct replay_translate first;
    uint64_t first_failures, births;
    /* Counts in `result` at the beginning of the current block. */
    uint64_t first_unknown, first_filled;
    bool gave_up; /* result->status is TOOL_FAILED */
    enum replay_touch touch;
    struct replay_memory there;

    struct tool_progress progress;
    uint64_t past_bytes;  /* stored bytes of the inputs before */
    uint64_t total_bytes; /* stored bytes of all inputs; 0: unknown */

    struct tool_ops ops;
};

/* --- Messages ------------------------------------------------------------- */

static void feed_notice(struct feeder *f, const char *fmt, ...)
    TCM_PRINTF(2, 3);
static void feed_notice(struct feeder *f, const char *fmt, ...) {
    struct replay_result *r = f->result;
    if (r->notices < REPLAY_NOTICES) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(r->notice[r->notices], REPLAY_NOTICE_SIZE, fmt, ap);
        va_end(ap);
    }
    if (r->notices != UINT32_MAX)
        r->notices++;
}

/* The input lacks something; the rest of it is used. */
#define feed_damage(f, ...)                                                    \
    do {                                                                       \
        (f)->damaged = true;                                                   \
        tool_check_lost(&(f)->ops.check);                                      \
        if ((f)->result->status == TOOL_OK)                                    \
            (f)->result->status = TOOL_DAMAGED;                                \
        feed_notice((f), __VA_ARGS__);                                         \
    } while (0)

/* Reports that the input contradicts itself; it is used as it is. A
   tool_check_tell. */
static void feed_contradiction(void *ctx, uint64_t offset, const char *text) {
    struct feeder *f = ctx;
    if (f->result->status == TOOL_OK)
        f->result->status = TOOL_DAMAGED;
    feed_notice(f, "%s: byte %llu: %s", f->name, (unsigned long long)offset,
                text);
}

static void feed_fail(struct feeder *f, const char *fmt, ...) TCM_PRINTF(2, 3);
static void feed_fail(struct feeder *f, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->result->error, sizeof(f->result->error), fmt, ap);
    va_end(ap);
    f->result->status = TOOL_FAILED;
    f->gave_up = true;
}

/* --- Threads -------------------------------------------------------------- */

/* Chooses whether recorded threads run on threads of their own, for ORDER,
   which has no skew: if a trace has several. Where closing blocks do not tell,
   the translation finds out. */
static void choose_threads(struct feeder *f, char *const *name, int count,
                           struct replay_ring *ring,
                           struct replay_order *order) {
    struct replay_peek peek;
    bool all_known = true, several = false;
    for (int i = 0; i < (count == 0 ? 1 : count) && !several; i++) {
        bool known = replay_peek(count == 0 ? NULL : name[i], &peek) &&
                     peek.threads != 0;
        all_known &= known;
        several = known && peek.threads > 1;
    }
    TCM_ASSERT(order->skew == 0);
    f->result->is_real = several;
    order->undecided = !several && !all_known;
    if (several || !all_known)
        order->skew = 1;
    else if (ring->low == 0)
        replay_ring_leave_turns(ring);
}

/* --- Memory --------------------------------------------------------------- */

/* Part of the available memory that is kept for what allocators need beyond
   live blocks, and for this program: blocks of 5 KiB take 3 % more with glibc,
   7 % with tcmalloc-mt and 13 % with jemalloc. */
#define ROOM_KEPT 8u

/* Finds the memory available, if TOUCH writes whole blocks or a byte in each
   page. Other modes need less than the live bytes. */
static void find_memory(struct feeder *f, enum replay_touch touch) {
    f->touch = touch;
    replay_memory_find(&f->there, "");
    if (touch == REPLAY_TOUCH_NONE || touch == REPLAY_TOUCH_FIRST)
        f->there.room_bytes = f->there.address_bytes = UINT64_MAX;
    f->t.room_bytes = f->there.room_bytes - f->there.room_bytes / ROOM_KEPT;
    f->t.grant_bytes = f->there.grant_bytes;
    f->t.writes_all = touch != REPLAY_TOUCH_NONE && touch != REPLAY_TOUCH_FIRST;
    f->t.use_present = touch == REPLAY_TOUCH_AUTO || touch == REPLAY_TOUCH_USE;
}

/* Warns before the run if the peak of trace NAME is known and exceeds the
   memory. */
static void warn_of_peak(struct feeder *f, const char *name) {
    struct tool_text a, b;
    struct replay_peek peek;
    char *text = f->result->memory;
    if (text[0] != '\0' || !replay_peek(name, &peek))
        return;
    uint64_t peak = peek.peak_bytes;
    bool all_written = !f->t.use_present || peek.present_blocks == 0;
    if (all_written && peak > f->t.room_bytes)
        snprintf(
            text, REPLAY_NOTICE_SIZE,
            "%s: the peak of live blocks is %s; they are written, and with "
            "the allocator's overhead need more than the available %s "
            "(%s): replay will stop before the peak",
            name != NULL ? name : "standard input", tool_text_bytes(&a, peak),
            tool_text_bytes(&b, f->there.room_bytes), f->there.room_of);
    else if (peak > f->there.address_bytes)
        snprintf(text, REPLAY_NOTICE_SIZE,
                 "%s: the peak of live blocks is %s, more than the limit of "
                 "address space, %s: blocks will be refused",
                 name != NULL ? name : "standard input",
                 tool_text_bytes(&a, peak),
                 tool_text_bytes(&b, f->there.address_bytes));
    if (text[0] != '\0')
        tool_warn("%s", text);
}

/* False: gave up, as the translated operations exceed the memory. */
static bool fits(struct feeder *f) {
    struct tool_text a, b;
    if (f->t.no_memory && !f->gave_up)
        feed_fail(f, "%s: out of memory for the threads' operations", f->name);
    if (f->gave_up || replay_translate_fits(&f->t))
        return !f->gave_up;
    feed_fail(f,
              "%s: near operation %s: live blocks, which are written "
              "(--touch=%s), and the allocator's overhead need more than the "
              "available %s (%s); stopped before the kernel kills a process "
              "(--touch=none writes nothing)",
              f->name, tool_text_count(&a, f->t.ops - f->first.ops),
              replay_touch_name(f->touch),
              tool_text_bytes(&b, f->there.room_bytes), f->there.room_of);
    return false;
}

/* --- Blocks and inputs ---------------------------------------------------- */

/* Reports UNKNOWN operations of block B on empty slots and FILLED allocations
   to full ones. A trace without losses has none. */
static void tell_slots(struct feeder *f, const struct mtf_proc_block *b,
                       uint64_t unknown, uint64_t filled) {
    char text[120];
    if (f->damaged || (unknown | filled) == 0)
        return;
    snprintf(text, sizeof(text),
             "%llu operations on slots that hold nothing, %llu allocations to "
             "slots that hold a block",
             (unsigned long long)unknown, (unsigned long long)filled);
    feed_contradiction(f, b->offset, text);
}

static void begin_block(struct feeder *f, const struct mtf_proc_block *b) {
    f->first_unknown = f->result->unknown_blocks;
    f->first_filled = f->result->lost_frees;
    /* Each slot took an allocation, of a byte or more in the input. */
    f->t.most = tool_input_bytes(f->ops.in);
    if (f->damaged)
        f->t.most = tcm_min_u64(b->head.first_op + b->head.ops,
                                tool_ops_most_slots(&f->ops));
    replay_translate_time(&f->t, b->head.time_ns);
    replay_translate_thread(&f->t, b->head.thread);
    replay_translate_site(&f->t, MTF_SITE_NONE);
}

/* False: gave up. */
static bool feed_ops(struct feeder *f, const struct tool_ops_item *item) {
    if (replay_translate_ops(&f->t, item->block, item->op, item->count))
        return fits(f);
    feed_damage(f,
                "%s: byte %llu: block with impossible slots, the rest of it is "
                "left out",
                f->name, (unsigned long long)item->block->offset);
    tool_ops_skip_block(&f->ops);
    return true;
}

static void end_block(struct feeder *f, const struct tool_ops_item *item) {
    replay_translate_time(&f->t, f->ops.decoder.time_ns);
    if (item->problem != NULL)
        feed_damage(f, "%s: byte %llu: %s, the rest of the block is left out",
                    f->name, (unsigned long long)item->block->offset,
                    item->problem);
    f->births += f->ops.decoder.births;
    tell_slots(f, item->block, f->result->unknown_blocks - f->first_unknown,
               f->result->lost_frees - f->first_filled);
}

static void begin_input(struct feeder *f, struct tool_input *in) {
    tool_ops_init(&f->ops, in, feed_contradiction, f);
    replay_translate_trace(&f->t);
    f->damaged = false;
    f->t.check = &f->ops.check;
    f->first = f->t;
    f->first_failures = f->result->recorded_failures;
    f->births = 0;
}

/* Compares the counts of this input with its closing block B. */
static void check_closing(struct feeder *f, const struct mtf_proc_block *b) {
    const struct replay_translate *t = &f->t, *t0 = &f->first;
    struct tool_check_sums s = {0};
    uint64_t n[MTF_OP_LAST_OPERATION + 1];
    for (unsigned i = 0; i <= MTF_OP_LAST_OPERATION; i++)
        n[i] = t->rare[i] - t0->rare[i];
    uint64_t resized = n[MTF_OP_REALLOC] + n[MTF_OP_REALLOC_END];
    uint64_t ops = t->ops - t0->ops;
    tool_check_sum(&s, MTF_PROC_ACCOUNT_OPS, ops);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MALLOCS,
                   f->births - n[MTF_OP_ALIGNED] - n[MTF_OP_REALLOC_NEW]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_MEMALIGNS, n[MTF_OP_ALIGNED]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REALLOCS,
                   resized + n[MTF_OP_REALLOC_NEW]);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FREES, ops - f->births - resized);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_FAILED_ALLOCATIONS,
                   f->result->recorded_failures - f->first_failures);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_LIVE_AT_END,
                   t->live_objects - t0->live_objects);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_REQUESTED_BYTES,
                   t->requested_bytes - t0->requested_bytes);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_UNMATCHED_REALLOCS,
                   t->unknown_reallocs - t0->unknown_reallocs);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_THREADS,
                   t->threads.counted + t->threads.failed_only -
                       t0->threads.counted - t0->threads.failed_only);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_SWITCHES, t->switches - t0->switches);
    tool_check_sum(&s, MTF_PROC_ACCOUNT_PRESENT_BLOCKS, t->notes - t0->notes);
    /* This is the peak of all inputs so far: it is this input's if it rose. */
    if (t0->peak_bytes == 0 || t->peak_bytes > t0->peak_bytes)
        tool_check_sum(&s, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES,
                       t->peak_bytes - t0->live_bytes);
    tool_check_closing(&f->ops.check, b, &s);
}

static void feed_closing(struct feeder *f, const struct mtf_proc_block *b) {
    const char *lacks = tool_check_lacks(b);
    check_closing(f, b);
    replay_recorded_closing(&f->t.recorded, b);
    /* The sorter of a raw trace reports that itself. */
    if (lacks != NULL && f->trace.sorting == NULL)
        feed_damage(f, "%s: %s", f->name, lacks);
}

static void feed_header(struct feeder *f, const struct mtf_proc_item *item) {
    static struct mtf_raw_info info;
    if (item->header.raw_length == 0)
        return;
    enum mtf_status status =
        mtf_raw_parse_header(item->raw_header, item->header.raw_length, &info);
    if (status != MTF_OK && status != MTF_TOO_NEW)
        feed_contradiction(f, sizeof(item->header),
                           "the raw trace's header is damaged");
    if (status == MTF_OK)
        memcpy(f->result->executable, info.executable,
               sizeof(f->result->executable));
}

/* Reports the loss of the rest of a stored frame. */
static void feed_break(struct feeder *f, const struct mtf_proc_item *item) {
    feed_damage(f, "%s: byte %llu: %s %s, %llu stored bytes are lost", f->name,
                (unsigned long long)item->file_offset,
                tool_input_frame_name(f->ops.in), item->problem,
                (unsigned long long)item->skipped);
}

/* True if a signal ended the reading before ITEM, in which case ITEM may look
   like damage. */
static bool is_interrupted(struct feeder *f, const struct tool_ops_item *item) {
    if (!tool_stop_requested() ||
        (item->kind == TOOL_OPS_END && item->problem == NULL))
        return false;
    f->result->interrupted = true;
    if (f->result->status == TOOL_OK)
        f->result->status = TOOL_DAMAGED;
    return true;
}

static void show_progress(struct feeder *f) {
    if (f->progress.shown)
        tool_progress_show(&f->progress, f->t.ops, "operations",
                           f->past_bytes + tool_input_stored_bytes(f->ops.in),
                           f->total_bytes);
}

static void feed_failed_item(struct feeder *f,
                             const struct tool_ops_item *item) {
    const char *problem = trace_problem(&f->trace);
    if (problem != NULL)
        feed_fail(f, "%s", problem);
    else
        feed_fail(f, "%s: byte %llu: %s", f->name,
                  (unsigned long long)item->offset, item->problem);
}

static void feed_items(struct feeder *f) {
    struct tool_ops_item item;
    for (;;) {
        tool_ops_next(&f->ops, &item);
        if (is_interrupted(f, &item))
            return;
        switch (item.kind) {
        case TOOL_OPS_HEADER:
            feed_header(f, item.from);
            break;
        case TOOL_OPS_BLOCK:
            begin_block(f, item.block);
            show_progress(f);
            break;
        case TOOL_OPS_SOME:
            if (!feed_ops(f, &item))
                return;
            break;
        case TOOL_OPS_BLOCK_END:
            end_block(f, &item);
            break;
        case TOOL_OPS_CLOSING:
            feed_closing(f, item.block);
            break;
        case TOOL_OPS_DAMAGE:
            if (item.from->offset_is_stored) {
                feed_break(f, item.from);
                break;
            }
            f->result->damaged_places++;
            feed_damage(f, "%s: byte %llu: %s, %llu bytes are left out",
                        f->name, (unsigned long long)item.offset, item.problem,
                        (unsigned long long)item.from->skipped);
            break;
        case TOOL_OPS_FAILED:
            feed_failed_item(f, &item);
            return;
        case TOOL_OPS_END:
            if (item.problem != NULL && !f->damaged)
                feed_damage(f, "%s: byte %llu: %s", f->name,
                            (unsigned long long)item.offset, item.problem);
            return;
        }
    }
}

static void feed_input(struct feeder *f) {
    begin_input(f, f->trace.in);
    feed_items(f);
    tool_ops_fini(&f->ops);
    f->t.check = NULL;
}

static const char *foreign_text(struct tool_input *in) {
    const char *text = tool_input_foreign_text(in);
    return text != NULL ? text : "is no processed trace";
}

/* Says why input IN is no processed trace; NULL: it may be one. */
static const char *no_trace_text(struct tool_input *in) {
    uint8_t first[8];
    size_t n = tool_input_peek(in, first);
    enum mtf_status status = tool_input_status(in);
    if (n == sizeof(first))
        return memcmp(first, MTF_PROC_MAGIC, n) == 0 ? NULL : foreign_text(in);
    if (status == MTF_SYSTEM)
        return strerror(tool_input_source(in)->error);
    if (status != MTF_OK && status < MTF_CUT)
        return mtf_status_text(status);
    /* Damaged at once, or LZ4 of a few bytes: reading it reports which. */
    if (tool_input_is_compressed(in) && memcmp(first, MTF_PROC_MAGIC, n) == 0)
        return NULL;
    return n == 0 ? MTF_EMPTY_TEXT : foreign_text(in);
}

/* Opens NAME and checks its first bytes. False: gave up. */
static bool feed_open(struct feeder *f, struct trace *t, const char *name) {
    if (!trace_open(t, name, NULL)) {
        feed_fail(f, "cannot open %s: %s", name ? name : "standard input",
                  strerror(errno));
        return false;
    }
    const char *problem = t->sorting != NULL ? NULL : no_trace_text(t->in);
    if (problem == NULL)
        return true;
    feed_fail(f, "%s: byte 0: %s", tool_input_name(t->in), problem);
    (void)trace_close(t, true);
    return false;
}

/* Sum of the stored bytes of COUNT traces; 0: unknown. */
static uint64_t total_bytes(const struct trace *trace, int count) {
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        uint64_t size = tool_input_file_size(trace[i].in);
        if (size == 0)
            return 0;
        total += size;
    }
    return total;
}

/* Reads the open trace, and closes it. */
static void feed_trace(struct feeder *f) {
    struct replay_result *r = f->result;
    struct tool_input *in = f->trace.in;
    f->name = tool_input_name(in);
    uint64_t threads = f->t.threads.counted;
    feed_input(f);
    r->most_threads =
        tcm_max_u64(r->most_threads, f->t.threads.counted - threads);
    r->input_bytes += tool_input_bytes(in);
    r->stored_bytes += tool_input_stored_bytes(in);
    f->past_bytes = r->stored_bytes;
    int status = trace_close(&f->trace, f->gave_up || r->interrupted);
    if (r->status == TOOL_OK)
        r->status = status;
}

static void feed_all(struct feeder *f, char *const *name, int count) {
    static struct trace trace[FEED_INPUTS];
    static char *standard_input[] = {NULL};
    if (count == 0) {
        name = standard_input;
        count = 1;
    }
    for (int i = 0; i < count && i < FEED_INPUTS; i++)
        if (!feed_open(f, &trace[i], name[i]))
            return;
    for (int i = 0; i < count && i < FEED_INPUTS; i++)
        if (trace[i].sorting == NULL)
            warn_of_peak(f, name[i]);
    f->total_bytes = count <= FEED_INPUTS ? total_bytes(trace, count) : 0;
    for (int i = 0; i < count && !f->gave_up && !f->result->interrupted; i++) {
        if (i < FEED_INPUTS)
            f->trace = trace[i];
        else if (!feed_open(f, &f->trace, name[i]))
            return;
        feed_trace(f);
    }
}

void replay_feed(struct replay_ring *ring, char *const *name, int count,
                 enum replay_touch touch, const struct replay_order *order) {
    static struct feeder f;
    static char recording[PATH_MAX];
    static char *one[] = {recording};
    struct replay_order chosen = *order;
    f.result = &ring->result;
    if (count == 1 && open_recordings_choose(name[0], recording) == recording)
        name = one;
    tool_progress_init(&f.progress);
    if (ring->undecided)
        choose_threads(&f, name, count, ring, &chosen);
    if (replay_translate_init(&f.t, ring, &chosen)) {
        find_memory(&f, touch);
        feed_all(&f, name, count);
    } else {
        feed_fail(&f, "out of memory");
    }
    tool_progress_clear(&f.progress);
    replay_translate_end(&f.t);
}
