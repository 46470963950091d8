/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live blocks at the peak are known for each key without a pass over all keys
 * at each new peak: peaks are numbered, and a tally saves its live blocks
 * before its first change after a peak.
 */
#include "cmd/malloc_trace/report/report_tally.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/text.h"
#include "open/trace_open.h"
#include "trace/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tally of a block that is no sample, in a trace of samples. */
#define NO_TALLY UINT32_MAX

struct report_block {
    uint64_t size;
    uint64_t birth_ns;
    uint64_t birth_bytes; /* allocated in the trace up to its birth */
    uint64_t birth_event; /* number of its thread's event */
    uint32_t tally;       /* index plus 1; 0: no block; or NO_TALLY */
    uint32_t thread;      /* index */
    uint32_t site;
    uint32_t calls; /* that a sample counts for; 0: no sample */
};

static bool out_of_memory(struct report_tallies *t) {
    if (t->status != TOOL_FAILED)
        tool_out_of_memory();
    t->status = TOOL_FAILED;
    return false;
}

void report_tally_fini(struct report_tallies *t) {
    tool_sites_fini(&t->sites);
    tool_map_fini(&t->place);
    tool_map_fini(&t->thread_place);
    free(t->thread);
    free(t->tally);
    free(t->block);
}

void report_tally_add(struct report_tally *to,
                      const struct report_tally *from) {
    to->calls += from->calls;
    to->bytes += from->bytes;
    to->live += from->live;
    to->live_bytes += from->live_bytes;
    to->at_peak += from->at_peak;
    to->at_peak_bytes += from->at_peak_bytes;
    to->ended += from->ended;
    to->temporary += from->temporary;
    to->foreign += from->foreign;
    to->life_ns += from->life_ns;
    to->life_bytes += from->life_bytes;
    to->stay_ns += from->stay_ns;
    to->most += from->most;
    to->most_bytes += from->most_bytes;
    to->failed += from->failed;
    to->samples += from->samples;
    to->life_ns_max = tcm_max_u64(to->life_ns_max, from->life_ns_max);
    to->life_bytes_max = tcm_max_u64(to->life_bytes_max, from->life_bytes_max);
    to->largest = tcm_max_u64(to->largest, from->largest);
}

/* --- History -------------------------------------------------------------- */

/* Times of a trace come about every millisecond. */
#define FIRST_STEP_NS 100000u

struct report_history *report_history_new(void) {
    struct report_history *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->step_ns = FIRST_STEP_NS;
    h->key = calloc(REPORT_HISTORY_KEYS, sizeof(*h->key));
    if (h->key != NULL)
        return h;
    free(h);
    return NULL;
}

void report_history_free(struct report_history *h) {
    if (h == NULL)
        return;
    free(h->key);
    free(h);
}

static void put_column(struct report_history *h,
                       const struct report_tallies *t) {
    TCM_ASSERT(h->columns < REPORT_HISTORY_COLUMNS &&
               h->keys <= REPORT_HISTORY_KEYS);
    unsigned at = h->columns++;
    h->total[at] = t->live_bytes;
    for (size_t i = 0; i < h->keys; i++) {
        TCM_ASSERT(h->key[i].tally < t->count);
        h->key[i].live[at] = t->tally[h->key[i].tally].live_bytes;
    }
}

static void drop_every_other(struct report_history *h) {
    h->columns = REPORT_HISTORY_COLUMNS / 2;
    h->step_ns *= 2;
    for (unsigned c = 0; c < h->columns; c++)
        h->total[c] = h->total[2 * c];
    for (size_t i = 0; i < h->keys; i++)
        for (unsigned c = 0; c < h->columns; c++)
            h->key[i].live[c] = h->key[i].live[2 * c];
}

/* Advances to NS since the start: columns up to then have what is live now. Few
   steps suffice for any time, also for a wild one of a damaged trace: each
   round of columns is twice as long as the one before. */
static void history_until(struct report_history *h,
                          const struct report_tallies *t, uint64_t ns) {
    while (!h->over &&
           h->step_ns <= UINT64_MAX / (2 * REPORT_HISTORY_COLUMNS) &&
           h->columns * h->step_ns < ns) {
        if (h->columns == REPORT_HISTORY_COLUMNS)
            drop_every_other(h);
        else
            put_column(h, t);
    }
}

/* Drops keys that would not be followed now. True: some were. */
static bool make_room(struct report_history *h, struct report_tallies *t) {
    size_t kept = 0;
    for (size_t i = 0; i < h->keys; i++) {
        struct report_tally *a = &t->tally[h->key[i].tally];
        a->followed = a->most_bytes >= t->highest / REPORT_HISTORY_KEYS;
        if (a->followed)
            h->key[kept++] = h->key[i];
    }
    bool some = kept != h->keys;
    h->keys = kept;
    return some;
}

/* Starts to follow the tally at index PLACE if it has become large enough. */
static void history_see(struct report_history *h, struct report_tallies *t,
                        size_t place) {
    TCM_ASSERT(place < t->count);
    struct report_tally *a = &t->tally[place];
    if (a->followed || h->full || h->over ||
        a->live_bytes < t->highest / REPORT_HISTORY_KEYS)
        return;
    h->full = h->keys == REPORT_HISTORY_KEYS && !make_room(h, t);
    if (h->full)
        return;
    TCM_ASSERT(h->keys < REPORT_HISTORY_KEYS);
    h->key[h->keys++] = (struct report_history_key){.tally = (uint32_t)place};
    a->followed = true;
}

/* Ends the history with the trace, whose last moment is the last column. */
static void history_end(struct report_history *h,
                        const struct report_tallies *t) {
    uint64_t ns = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0;
    if (h->over)
        return;
    history_until(h, t, ns);
    if (h->columns == REPORT_HISTORY_COLUMNS)
        drop_every_other(h);
    put_column(h, t);
    h->over = true;
}

/* --- Keys ----------------------------------------------------------------- */

/* Index plus 1 of the tally of KEY; 0: out of memory. */
static uint32_t tally_of(struct report_tallies *t, uint64_t key) {
    /* 0 is no key of a map; no block has the size UINT64_MAX. */
    struct tool_map_entry *e =
        tool_map_get(&t->place, key == UINT64_MAX ? key : key + 1);
    if (e == NULL ||
        (e->value == 0 && !tool_array_reserve(&t->tally, &t->room, t->count + 1,
                                              sizeof(*t->tally)))) {
        out_of_memory(t);
        return 0;
    }
    if (e->value == 0) {
        t->tally[t->count] = (struct report_tally){.key = key};
        e->value = ++t->count;
    }
    return (uint32_t)e->value;
}

static uint64_t key_of(const struct report_tallies *t, uint64_t size) {
    if (t->options.by == REPORT_TALLY_BY_SIZE)
        return size;
    if (t->options.by == REPORT_TALLY_BY_THREAD)
        return t->current_place;
    return (t->options.freed && !t->ending ? REPORT_NOT_FREED : t->site) |
           (t->options.threads ? (uint64_t)t->current_place << 32 : 0);
}

/* The index of thread ID; 0, too, when out of memory. */
static uint32_t thread_of(struct report_tallies *t, uint32_t id) {
    struct tool_map_entry *e = tool_map_get(&t->thread_place, (uint64_t)id + 1);
    if (e != NULL && e->value == 0 &&
        tool_array_reserve(&t->thread, &t->thread_room, t->threads + 1,
                           sizeof(*t->thread))) {
        t->thread[t->threads] =
            (struct report_thread){.id = id, .trace = t->traces};
        e->value = ++t->threads;
    }
    if (e == NULL || e->value == 0)
        out_of_memory(t);
    return e == NULL || e->value == 0 ? 0 : (uint32_t)e->value - 1;
}

static void set_current(struct report_tallies *t, uint32_t id) {
    t->current = id;
    t->current_place = thread_of(t, id);
}

/* The block of SLOT; NULL: a slot that no trace of this length reaches, or out
   of memory. */
static struct report_block *block_of(struct report_tallies *t, uint32_t slot) {
    if (slot >= t->blocks) {
        if (slot >= t->most_slots)
            return NULL;
        if (!tool_array_extend(&t->block, &t->block_room, &t->blocks,
                               (size_t)slot + 1, sizeof(*t->block))) {
            out_of_memory(t);
            return NULL;
        }
    }
    return &t->block[slot];
}

/* --- Events --------------------------------------------------------------- */

static void before_change(struct report_tallies *t, struct report_tally *a) {
    if (a->peak_stamp == t->peaks)
        return;
    a->peak_stamp = t->peaks;
    a->at_peak = a->live;
    a->at_peak_bytes = a->live_bytes;
}

static uint64_t next_event(struct report_tallies *t) {
    return t->status == TOOL_FAILED ? 0 : ++t->thread[t->current_place].events;
}

/* --- Samples -------------------------------------------------------------- */

/* True if only samples have sites, and allocations without are skipped. */
static bool is_sampled(const struct report_tallies *t) {
    return t->mean != 0 && t->options.by == REPORT_TALLY_BY_SITE;
}

/* Probability that a block of SIZE bytes is a sample. */
static double chance(const struct report_tallies *t, uint64_t size) {
    return -expm1(-(double)tcm_max_u64(size, 1) / (double)t->mean);
}

/* Calls that a sample of SIZE bytes counts for, as a whole number. A keeps the
   remainder for its next sample, so that sums are not biased. */
static uint32_t calls_of(const struct report_tallies *t, struct report_tally *a,
                         uint64_t size) {
    double calls = 1 / chance(t, size) + a->rest;
    double whole = calls < UINT32_MAX ? floor(calls + 0.5) : UINT32_MAX;
    a->rest = calls < UINT32_MAX ? calls - whole : 0;
    return (uint32_t)whole;
}

/* Bytes that B counts for. */
static uint64_t bytes_of(const struct report_tallies *t,
                         const struct report_block *b) {
    if (b->calls == 0)
        return b->size;
    double bytes = (double)b->size / chance(t, b->size);
    return bytes < 0x1p63 ? (uint64_t)llround(bytes) : b->size;
}

/* --- Blocks --------------------------------------------------------------- */

static void tell_object(struct report_tallies *t, const struct report_block *b,
                        bool ended) {
    struct report_object o = {.birth_ns = b->birth_ns - t->start_ns,
                              .death_ns = t->time_ns - t->start_ns,
                              .size = b->size,
                              .life_bytes = t->all_bytes - b->birth_bytes,
                              .thread = t->thread[b->thread].id,
                              .freed_by = t->current,
                              .site = b->site,
                              .ended = ended};
    if (t->options.object != NULL && !t->options.object(t->options.ctx, &o)) {
        t->stopped = true;
        t->status = TOOL_FAILED;
    }
}

/* Ends B, which counts for CALLS and BYTES, by event EVENT of the thread. */
static void count_end(struct report_tallies *t, struct report_tally *a,
                      const struct report_block *b, uint64_t calls,
                      uint64_t bytes, uint64_t event) {
    uint64_t ns = t->time_ns > b->birth_ns ? t->time_ns - b->birth_ns : 0;
    uint64_t meanwhile = t->all_bytes - b->birth_bytes;
    before_change(t, a);
    a->live -= calls;
    a->live_bytes -= bytes;
    a->ended += calls;
    if (b->thread != t->current_place)
        a->foreign += calls;
    else if (event == b->birth_event + 1)
        a->temporary += calls;
    a->life_ns += (unsigned __int128)calls * ns;
    a->life_ns_max = tcm_max_u64(a->life_ns_max, ns);
    a->life_bytes += (double)calls * (double)meanwhile;
    a->life_bytes_max = tcm_max_u64(a->life_bytes_max, meanwhile);
}

static void count_birth(struct report_tallies *t, struct report_tally *a,
                        uint64_t size, uint64_t calls, uint64_t bytes) {
    before_change(t, a);
    a->calls += calls;
    a->bytes += bytes;
    a->live += calls;
    a->live_bytes += bytes;
    a->largest = tcm_max_u64(a->largest, size);
    if (a->live_bytes > a->most_bytes) {
        a->most_bytes = a->live_bytes;
        a->most = a->live;
    }
}

/* Moves B from the tally of blocks not freed to that of the current site, which
   frees it. */
static void move_to_end(struct report_tallies *t, struct report_block *b) {
    struct report_tally *from = &t->tally[b->tally - 1];
    before_change(t, from);
    from->calls--;
    from->bytes -= b->size;
    from->live--;
    from->live_bytes -= b->size;
    t->ending = true;
    uint32_t place = tally_of(t, key_of(t, b->size));
    t->ending = false;
    if (place == 0)
        return;
    b->tally = place;
    count_birth(t, &t->tally[place - 1], b->size, 1, b->size);
}

static void end(struct report_tallies *t, struct report_block *b,
                uint64_t event) {
    if (t->options.freed && b->tally != NO_TALLY && t->status != TOOL_FAILED)
        move_to_end(t, b);
    if (b->tally != NO_TALLY)
        count_end(t, &t->tally[b->tally - 1], b, tcm_max_u64(b->calls, 1),
                  bytes_of(t, b), event);
    count_end(t, &t->all, b, 1, b->size, event);
    t->live_bytes -= b->size;
    tell_object(t, b, true);
    b->tally = 0;
}

/* A new peak includes the allocation that makes it, so peaks are numbered after
   the allocation is counted. */
static void make(struct report_tallies *t, struct report_block *b,
                 uint64_t size, uint64_t event) {
    bool sampled = is_sampled(t);
    t->all_bytes += size;
    *b = (struct report_block){.size = size,
                               .birth_ns = t->time_ns,
                               .birth_bytes = t->all_bytes,
                               .birth_event = event,
                               .tally = NO_TALLY,
                               .thread = t->current_place,
                               .site = t->site};
    if (!sampled || t->site != MTF_SITE_NONE) {
        b->tally = tally_of(t, key_of(t, size));
        if (b->tally == 0)
            return;
        struct report_tally *a = &t->tally[b->tally - 1];
        if (sampled)
            b->calls = calls_of(t, a, size);
        a->samples += sampled;
        count_birth(t, a, size, tcm_max_u64(b->calls, 1), bytes_of(t, b));
    }
    count_birth(t, &t->all, size, 1, size);
    t->sited += t->site != MTF_SITE_NONE;
    t->live_bytes += size;
    if (t->live_bytes > t->highest) {
        t->highest = t->live_bytes;
        t->peak_ns = t->time_ns;
        t->peaks++;
    }
    if (t->options.history != NULL && b->tally != NO_TALLY)
        history_see(t->options.history, t, b->tally - 1);
    if (t->options.sample != NULL && t->all.calls >= t->options.next_sample)
        t->options.sample(t->options.sample_ctx, t);
}

static void take_operation(struct report_tallies *t, const struct mtf_op *op) {
    uint64_t event = next_event(t);
    t->operations++;
    struct report_block *b = block_of(t, op->slot);
    if (b == NULL || t->status == TOOL_FAILED)
        return;
    /* In a damaged trace the end of the slot's last block may be lost. */
    if (b->tally != 0)
        end(t, b, event);
    if (mtf_op_makes(op->kind))
        make(t, b, op->size, event);
}

static void take_failed(struct report_tallies *t, const struct mtf_op *op) {
    (void)next_event(t);
    t->all.failed++;
    if (is_sampled(t))
        return; /* failed calls are not sampled */
    uint32_t place = tally_of(t, key_of(t, op->size));
    if (place != 0)
        t->tally[place - 1].failed++;
}

/* --- The moment ----------------------------------------------------------- */

static void keep(struct report_tally *a) {
    a->kept = a->live;
    a->kept_bytes = a->live_bytes;
}

/* Saves the live blocks of the chosen moment, which is now. */
static void keep_moment(struct report_tallies *t) {
    t->moment_found = true;
    for (size_t i = t->first; i < t->count; i++)
        keep(&t->tally[i]);
    keep(&t->all);
}

static void set_time(struct report_tallies *t, uint64_t ns) {
    if (t->options.sample_time != NULL)
        t->options.sample_time(t->options.sample_ctx, t, ns);
    t->time_ns = ns;
}

/* Takes the chosen time, if it is not after NS. */
static void see_time(struct report_tallies *t, uint64_t ns) {
    if (t->options.moment == REPORT_AT_TIME && !t->moment_found &&
        ns >= t->start_ns && ns - t->start_ns >= t->options.moment_ns)
        keep_moment(t);
}

/* --- Records -------------------------------------------------------------- */

static void take_record(struct report_tallies *t,
                        const struct mtf_proc_block *block,
                        const struct mtf_op *op) {
    const uint8_t *bytes;
    uint32_t thread;
    size_t n;
    switch (op->kind) {
    case MTF_OP_SWITCH:
        set_current(t, op->slot);
        break;
    case MTF_OP_TIME:
        if (t->options.history != NULL && op->size > t->start_ns)
            history_until(t->options.history, t, op->size - t->start_ns);
        set_time(t, op->size);
        see_time(t, t->time_ns);
        break;
    case MTF_OP_SITE:
        t->site =
            op->slot == MTF_SITE_NONE ? op->slot : t->sites.base + op->slot;
        break;
    case MTF_OP_SITE_DEF:
        bytes = mtf_proc_bytes(block, op, &n);
        if (!tool_sites_take(&t->sites, bytes, n))
            out_of_memory(t);
        /* One mean for the whole trace: a block counts alike at birth and at
           its end. */
        if (t->mean == 0 && t->sites.mode.mode == MTF_SITE_MODE_SAMPLE)
            t->mean = t->sites.mode.mean;
        break;
    case MTF_OP_FAILED:
        take_failed(t, op);
        break;
    case MTF_OP_SAMPLE:
        untouched_record(&t->untouched, block, op, t->start_ns, t->live_bytes);
        break;
    case MTF_OP_MARK:
        bytes = mtf_proc_bytes(block, op, &n);
        if (t->options.moment == REPORT_AT_MARK && !t->moment_found &&
            strlen(t->options.mark) == n &&
            memcmp(t->options.mark, bytes, n) == 0)
            keep_moment(t);
        if (t->options.sample_mark != NULL)
            t->options.sample_mark(t->options.sample_ctx, t);
        break;
    case MTF_OP_THREAD_END:
        bytes = mtf_proc_bytes(block, op, &n);
        thread = thread_of(t, op->slot);
        if (t->status != TOOL_FAILED)
            (void)snprintf(t->thread[thread].name,
                           sizeof(t->thread[thread].name), "%.*s", (int)n,
                           (const char *)bytes);
        break;
    default:
        break;
    }
}

static void take_some(struct report_tallies *t,
                      const struct tool_ops_item *item) {
    for (size_t i = 0; i < item->count && t->status != TOOL_FAILED; i++) {
        const struct mtf_op *op = &item->op[i];
        if (op->kind <= MTF_OP_LAST_OPERATION)
            take_operation(t, op);
        else
            take_record(t, item->block, op);
    }
}

static void begin_block(struct report_tallies *t, const struct tool_ops *ops,
                        const struct mtf_proc_block *b) {
    set_time(t, b->head.time_ns);
    if (!t->begun && !t->have_header)
        t->start_ns = t->time_ns; /* imported: without raw header */
    t->begun = true;
    set_current(t, b->head.thread);
    t->site = MTF_SITE_NONE;
    t->most_slots = tool_ops_most_slots(ops);
}

static void see_header(struct report_tallies *t,
                       const struct mtf_proc_item *item) {
    t->have_header =
        item->header.raw_length != 0 &&
        mtf_raw_parse_header(item->raw_header, item->header.raw_length,
                             &t->header) == MTF_OK;
    if (!t->have_header)
        return;
    t->start_ns = t->header.fixed.start_ns;
    t->sites.pid[t->sites.base / MTF_SITE_LIMIT] = t->header.fixed.pid;
}

static void see_problem(struct report_tallies *t, const char *name,
                        uint64_t offset, const char *problem, int status) {
    tool_error("%s: byte %" PRIu64 ": %s", name, offset, problem);
    if (t->status != TOOL_FAILED)
        t->status = status;
}

/* --- The whole trace ------------------------------------------------------ */

/* Value of FIELD in the closing block B, or OTHERWISE if it has none. */
static uint64_t account_of(const struct mtf_proc_block *b, unsigned field,
                           uint64_t otherwise) {
    uint64_t v;
    return mtf_proc_account(b, field, &v) ? v : otherwise;
}

/* Text of what the trace lacks, apart from the end of one that is still
   growing. */
static const char *lacks_of(struct report_tallies *t,
                            const struct mtf_proc_block *b) {
    static const unsigned losses[] = {MTF_PROC_ACCOUNT_DROPPED_EVENTS,
                                      MTF_PROC_ACCOUNT_DAMAGED_PLACES,
                                      MTF_PROC_ACCOUNT_LOST_STREAM_BYTES};
    if (account_of(b, MTF_PROC_ACCOUNT_GROWING, 0) == 0)
        return tool_check_lacks(b);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(losses); i++)
        if (account_of(b, losses[i], 0) != 0)
            return tool_check_lacks(b);
    t->growing = true;
    return NULL;
}

/* Sees what the closing block B says of the recording's beginning and end. */
static void see_ends(struct report_tallies *t, const struct mtf_proc_block *b) {
    uint64_t end_ns;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_END_NS, &end_ns))
        see_time(t, end_ns);
    t->is_part |= account_of(b, MTF_PROC_ACCOUNT_CLEAN_END, 1) == 0 ||
                  account_of(b, MTF_PROC_ACCOUNT_BEGINS_LATE, 0) != 0;
    t->drops |= account_of(b, MTF_PROC_ACCOUNT_DROPPED_EVENTS, 0) != 0;
    t->wrong_frees += account_of(b, MTF_PROC_ACCOUNT_WRONG_FREES, 0);
}

struct report_reader {
    struct report_tallies *t;
    const char *name;
    const char *lacks;
    bool follows;
    struct trace trace;
    struct tool_ops ops;
};

enum report_step report_tally_step(struct report_reader *r) {
    struct report_tallies *t = r->t;
    struct tool_ops_item item;
    while (t->status != TOOL_FAILED) {
        tool_ops_next(&r->ops, &item);
        switch (item.kind) {
        case TOOL_OPS_HEADER:
            see_header(t, item.from);
            break;
        case TOOL_OPS_BLOCK:
            begin_block(t, &r->ops, item.block);
            break;
        case TOOL_OPS_SOME:
            take_some(t, &item);
            break;
        case TOOL_OPS_CLOSING:
            r->lacks = lacks_of(t, item.block);
            see_ends(t, item.block);
            break;
        case TOOL_OPS_BLOCK_END:
            if (item.problem != NULL)
                see_problem(t, r->name, item.offset, item.problem,
                            TOOL_DAMAGED);
            return r->follows && item.block->head.records == 0
                       ? REPORT_STEP_ALL
                       : REPORT_STEP_SOME;
        case TOOL_OPS_DAMAGE:
            if (item.problem != NULL)
                see_problem(t, r->name, item.offset, item.problem,
                            TOOL_DAMAGED);
            break;
        case TOOL_OPS_FAILED:
            if (trace_problem(&r->trace) == NULL) {
                see_problem(t, r->name, item.offset, item.problem, TOOL_FAILED);
            } else {
                tool_error("%s", trace_problem(&r->trace));
                t->status = TOOL_FAILED;
            }
            return REPORT_STEP_END;
        case TOOL_OPS_END:
            if (item.problem != NULL)
                see_problem(t, r->name, item.offset, item.problem,
                            TOOL_DAMAGED);
            else if (r->lacks != NULL && t->status == TOOL_OK &&
                     r->trace.sorting == NULL) {
                tool_error("%s: %s", r->name, r->lacks);
                t->status = TOOL_DAMAGED;
            }
            return REPORT_STEP_END;
        }
    }
    return REPORT_STEP_END;
}

bool report_tally_may_sleep(const struct report_reader *r) {
    return r->ops.reader.begin == r->ops.reader.end &&
           trace_may_sleep(&r->trace);
}

/* Resets the state of reading for the next trace. */
static void begin_trace(struct report_tallies *t) {
    if (t->traces != 0)
        tool_sites_next_trace(&t->sites);
    tool_map_fini(&t->place);
    tool_map_fini(&t->thread_place);
    t->blocks = 0;
    t->first = t->count;
    t->begun = false;
    t->start_ns = t->time_ns = t->live_bytes = t->all_bytes = 0;
    t->highest = t->peak_ns = t->mean = 0;
    t->all = (struct report_tally){0};
    t->moment_found = t->growing = false;
}

/* Sets live blocks of A to those of the chosen moment. */
static void choose_moment(struct report_tallies *t, struct report_tally *a) {
    before_change(t, a);
    if (t->options.moment == REPORT_AT_PEAK) {
        a->live = a->at_peak;
        a->live_bytes = a->at_peak_bytes;
    } else if (t->options.moment != REPORT_AT_END) {
        a->live = a->kept;
        a->live_bytes = a->kept_bytes;
    }
}

/* Counts B as live at the end. */
static void stay(struct report_tallies *t, const struct report_block *b) {
    uint64_t ns = t->end_ns > b->birth_ns ? t->end_ns - b->birth_ns : 0;
    if (b->tally != NO_TALLY)
        t->tally[b->tally - 1].stay_ns +=
            (unsigned __int128)ns * tcm_max_u64(b->calls, 1);
    t->all.stay_ns += ns;
    tell_object(t, b, false);
}

/* True if the tallies of the current trace have the sums of all its calls. */
static bool tallies_add_up(const struct report_tallies *t) {
    struct report_tally sum = {0};
    for (size_t i = t->first; i < t->count; i++)
        report_tally_add(&sum, &t->tally[i]);
    return sum.calls == t->all.calls && sum.bytes == t->all.bytes &&
           sum.live == t->all.live && sum.live_bytes == t->all.live_bytes &&
           sum.at_peak_bytes == t->all.at_peak_bytes &&
           sum.ended == t->all.ended && sum.failed == t->all.failed;
}

static void conclude(struct report_tallies *t) {
    t->end_ns = t->time_ns;
    if (t->options.history != NULL)
        history_end(t->options.history, t);
    for (size_t i = 0; i < t->blocks && !t->stopped; i++)
        if (t->block[i].tally != 0)
            stay(t, &t->block[i]);
    for (size_t i = t->first; i < t->count; i++)
        choose_moment(t, &t->tally[i]);
    choose_moment(t, &t->all);
    TCM_ASSERT(t->status == TOOL_FAILED || is_sampled(t) || tallies_add_up(t));
    report_tally_add(&t->exact, &t->all);
    t->peak_bytes += t->highest;
    t->sampled |= is_sampled(t);
    t->running |= t->growing;
    t->traces++;
}

static bool moment_is_there(struct report_tallies *t, const char *name) {
    struct tool_text text;
    if (t->options.moment == REPORT_AT_MARK && !t->moment_found) {
        tool_error("%s: no mark \"%s\"", name, t->options.mark);
        t->status = TOOL_FAILED;
    } else if (t->options.moment == REPORT_AT_TIME && !t->moment_found) {
        tool_error("%s: the trace ends after %s", name,
                   tool_text_ns(&text, t->end_ns - t->start_ns));
        t->status = TOOL_FAILED;
    }
    return t->status != TOOL_FAILED;
}

struct report_reader *report_tally_open(struct report_tallies *t,
                                        const char *name, bool follow) {
    struct report_reader *r = malloc(sizeof(*r));
    if (r == NULL) {
        (void)out_of_memory(t);
        return NULL;
    }
    const struct trace_open_options how = {.follow = follow};
    if (!trace_open(&r->trace, name, &how)) {
        if (errno == ENOMEM)
            (void)out_of_memory(t);
        else
            tool_error("%s: %s", name, strerror(errno));
        free(r);
        t->status = TOOL_FAILED;
        return NULL;
    }
    r->t = t;
    r->name = name;
    r->lacks = NULL;
    r->follows = follow && r->trace.sorting != NULL;
    begin_trace(t);
    t->name[t->traces] = name;
    tool_ops_init(&r->ops, r->trace.in, NULL, NULL);
    return r;
}

bool report_tally_stop_here(struct report_reader *r) {
    r->t->growing = true;
    conclude(r->t);
    return moment_is_there(r->t, r->name);
}

bool report_tally_close(struct report_reader *r) {
    struct report_tallies *t = r->t;
    const char *name = r->name;
    conclude(t);
    tool_ops_fini(&r->ops);
    int status = trace_close(&r->trace, t->status == TOOL_FAILED);
    free(r);
    /* A trace that is still growing is not damaged. */
    if (t->status == TOOL_OK && !(status == TOOL_DAMAGED && t->growing))
        t->status = status;
    if (t->status == TOOL_OK && !t->growing && !t->stopped &&
        t->all.calls + t->all.failed == 0)
        t->status = trace_not_seen(name, 0, "");
    return t->status != TOOL_FAILED && moment_is_there(t, name);
}

bool report_tally_read(struct report_tallies *t, const char *name) {
    struct report_reader *r = report_tally_open(t, name, false);
    if (r == NULL)
        return false;
    while (report_tally_step(r) != REPORT_STEP_END)
        continue;
    return report_tally_close(r);
}
