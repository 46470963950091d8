/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/translate.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/feed/slot_words.h"
#include "traceformat/trace_event.h"

#include <string.h>

#define SLOTS_FIRST ((size_t)64 << 10)

/* --- Batches -------------------------------------------------------------- */

/* When CLOCK_NS of recorded time is due in the replay. */
static uint64_t replayed_ns(const struct replay_translate *t,
                            uint64_t clock_ns) {
    double ns = (double)clock_ns / (t->order.speed > 0 ? t->order.speed : 1);
    return ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
}

static void batch_begin(struct replay_translate *t) {
    t->batch = t->deal != NULL ? replay_deal_staging(t->deal)
                               : replay_ring_fill(t->ring);
    t->at = t->batch->word;
    t->batch->apart = t->apart;
    t->batch->segments = 0;
    t->batch->first_op = t->ops;
    t->batch->due_ns = t->order.speed > 0 ? replayed_ns(t, t->clock_ns) : 0;
    t->batch->span_ns = 0;
    t->batch_ns = t->clock_ns;
    t->limit = t->at + REPLAY_BATCH_WORDS - REPLAY_WORDS_MAX;
    /* In a trace without times each batch is a window. */
    if (t->deal != NULL && t->recorded.first_ns == t->recorded.last_ns)
        *t->at++ = replay_word(REPLAY_WINDOW, 0, 1);
}

static struct replay_account account(const struct replay_translate *t) {
    return (struct replay_account){.ops = t->ops,
                                   .live_bytes = t->live_bytes,
                                   .live_blocks = t->live_objects,
                                   .peak_live_bytes = t->peak_bytes,
                                   .requested_bytes = t->requested_bytes,
                                   .threads = t->threads.counted,
                                   .switches = t->switches};
}

/* Publishes the account up to the current batch: the measuring process reads it
   when this process has ended, however it did. */
static void publish(struct replay_translate *t) {
    struct replay_result *r = t->result;
    r->done = t->batch->account;
    r->apart_ops = t->apart_ops + (t->apart ? t->ops - t->apart_since : 0);
    r->cpu_ns = tcm_clock_process_cpu_ns();
}

static void batch_end(struct replay_translate *t, bool last) {
    struct replay_batch *b = t->batch;
    if (!replay_translate_fits(t))
        t->at = b->word;
    TCM_ASSERT(t->at >= b->word && t->at <= b->word + REPLAY_BATCH_WORDS);
    b->words = (uint32_t)(t->at - b->word);
    b->slots = t->used;
    b->caches = t->threads.indices;
    b->last = last;
    b->recorded_ns = t->recorded.last_ns - t->recorded.first_ns;
    b->account = account(t);
    b->is_state = 1;
    b->sampled = t->sampled;
    b->recorded_heap_bytes = replay_recorded_heap(&t->recorded);
    b->recorded_rss_bytes = t->recorded.rss_bytes;
    t->sampled = false;
    if (t->live_bytes > t->live_mark)
        t->live_mark = replay_live_mark(t->live_bytes);
    if (t->order.spread)
        b->span_ns = replayed_ns(t, t->clock_ns - t->batch_ns);
    /* The measuring process prefetches behind the end. */
    memset(t->at, 0, REPLAY_BATCH_PAD * sizeof(*t->at));
    publish(t);
    if (t->deal == NULL)
        replay_ring_filled(t->ring);
    else
        t->no_memory |= !replay_deal_batch(t->deal);
}

static TCM_NOINLINE void batch_next(struct replay_translate *t) {
    batch_end(t, false);
    batch_begin(t);
}

/* From here on operations are those of a prologue or epilogue (APART), or the
   recorded ones again. Each kind has its own batches, to be timed apart. */
static void begin_phase(struct replay_translate *t, bool apart) {
    t->apart_ops += t->apart ? t->ops - t->apart_since : 0;
    t->apart_since = t->ops;
    t->apart = apart;
    if (t->at != t->batch->word)
        batch_next(t);
    t->batch->apart = apart;
}

static TCM_ALWAYS_INLINE void put(struct replay_translate *t, uint64_t w) {
    TCM_ASSERT(t->at < t->batch->word + REPLAY_BATCH_WORDS);
    *t->at++ = w;
}

static void put_long(struct replay_translate *t, unsigned call, uint32_t slot,
                     uint64_t size, uint64_t old, unsigned align_log2,
                     bool is_new) {
    put(t, replay_word(REPLAY_LONG, slot, call));
    put(t, size);
    put(t, replay_long_word(old, align_log2, is_new));
}

/* --- Slots ---------------------------------------------------------------- */

/* Makes the table long enough for SLOT. False: the bytes read so far cannot
   have named as many slots, or out of memory. */
static TCM_COLD bool slot_extend(struct replay_translate *t, uint64_t slot) {
    if (slot - t->base >= t->most || slot >= UINT32_MAX)
        return false;
    if (slot >= t->capacity) {
        size_t n = t->capacity * 2;
        while (n <= slot)
            n *= 2;
        void *p = tcm_os_remap(t->slot, t->capacity * sizeof(*t->slot),
                               n * sizeof(*t->slot));
        if (p == NULL)
            return false;
        t->slot = p;
        t->capacity = n;
    }
    TCM_ASSERT(slot >= t->used && slot < t->capacity);
    t->used = (uint32_t)slot + 1;
    return true;
}

/* Bytes of the block in SLOT that are written. */
static uint64_t written(const struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot], size = replay_block_size(b);
    /* A block that the kernel refuses is alive only in the account. */
    if (size > t->grant_bytes)
        return 0;
    if (TCM_LIKELY((b & REPLAY_BLOCK_PARTLY) == 0))
        return size;
    const struct tool_map_entry *e =
        tool_map_find(&t->partly, (uint64_t)slot + 1);
    TCM_ASSERT(e != NULL);
    return e != NULL ? e->value : size;
}

/* Notes that PRESENT bytes of the block in SLOT are written, not all of them,
   or none since the kernel refuses the block. */
static TCM_COLD void put_partly(struct replay_translate *t, uint32_t slot,
                                uint64_t present) {
    uint64_t size = replay_block_size(t->slot[slot]);
    struct tool_map_entry *e = NULL;
    if (present < size)
        e = tool_map_get(&t->partly, (uint64_t)slot + 1);
    if (e != NULL) { /* without memory all of the block counts */
        e->value = present;
        t->slot[slot] |= REPLAY_BLOCK_PARTLY;
    }
    t->unwritten_bytes += size - written(t, slot);
}

/* SLOT holds BLOCK from now on; PRESENT bytes of it are written. */
static TCM_ALWAYS_INLINE void block_put(struct replay_translate *t,
                                        uint32_t slot, uint64_t block,
                                        uint64_t present) {
    uint64_t size = replay_block_size(block);
    t->slot[slot] = block;
    if (TCM_UNLIKELY(present < size || size > t->grant_bytes))
        put_partly(t, slot, present);
}

/* The block of SLOT is gone, or changes. */
static void block_take(struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot];
    t->live_bytes -= replay_block_size(b);
    t->unwritten_bytes -= replay_block_size(b) - written(t, slot);
    if (TCM_UNLIKELY((b & REPLAY_BLOCK_PARTLY) != 0)) {
        struct tool_map_entry *e =
            tool_map_find(&t->partly, (uint64_t)slot + 1);
        TCM_ASSERT(e != NULL);
        if (e != NULL)
            tool_map_remove(&t->partly, e);
    }
    t->slot[slot] = 0;
}

static void live_add(struct replay_translate *t, uint64_t size) {
    t->live_bytes += size;
    if (t->live_bytes > t->peak_bytes)
        t->peak_bytes = t->live_bytes;
}

/* A block is made in SLOT; PRESENT bytes of it are written. */
static void block_born(struct replay_translate *t, uint32_t slot,
                       uint64_t block, uint64_t present) {
    if (TCM_UNLIKELY(replay_block_lives(t->slot[slot]))) {
        block_take(t, slot);
        t->live_objects--;
        t->result->lost_frees++;
        put(t, replay_word(REPLAY_FREE, slot, 0));
    }
    block_put(t, slot, block, present);
    t->live_objects++;
    t->requested_bytes += replay_block_size(block);
    live_add(t, replay_block_size(block));
}

/* The block of SLOT is freed. Returns its word, 0 if it is not known. */
static uint64_t block_gone(struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot];
    if (TCM_UNLIKELY(!replay_block_lives(b))) {
        t->result->unknown_blocks++;
        return 0;
    }
    block_take(t, slot);
    t->live_objects--;
    return b;
}

/* --- Threads -------------------------------------------------------------- */

/* Before an operation of the current thread: attaches its cache. */
static TCM_NOINLINE bool thread_enter(struct replay_translate *t,
                                      const struct mtf_proc_block *b) {
    t->entered = true;
    if (t->thread == 0) {
        tool_check_no_thread(t->check, b);
        return true;
    }
    struct replay_thread *e = replay_threads_get(&t->threads, t->thread);
    if (e == NULL)
        return false;
    if (!e->counted) {
        e->counted = true;
        t->threads.counted++;
        t->threads.failed_only -= e->failed;
    }
    if (e->index == 0 && !replay_threads_index(&t->threads, e))
        return false;
    if (t->last_thread != 0 && t->last_thread != t->thread)
        t->switches++;
    t->last_thread = t->thread;
    TCM_ASSERT(e->index != 0 && e->index < t->threads.indices);
    if (e->index != t->index) {
        t->index = e->index;
        uint64_t id = tcm_min_u64(t->thread, REPLAY_SIZE_LIMIT - 1);
        put(t, replay_word(REPLAY_SWITCH, e->index, id));
    }
    return true;
}

void replay_translate_thread(struct replay_translate *t, uint32_t thread) {
    if (thread == t->thread)
        return;
    /* a thread that was switched to has begun, even without operations */
    struct replay_thread *e = NULL;
    if (!t->entered && t->thread != 0)
        e = replay_threads_get(&t->threads, t->thread);
    if (e != NULL)
        e->life.began = true;
    t->thread = thread;
    t->entered = false;
}

static void thread_ended(struct replay_translate *t, uint32_t thread) {
    uint32_t index = replay_threads_end(&t->threads, thread);
    if (index != 0)
        put(t, replay_word(REPLAY_THREAD_END, index, 0));
    /* The next thread of this index is another one. */
    if (t->deal != NULL && index == t->index)
        t->index = UINT32_MAX;
    if (thread == t->thread)
        t->entered = false;
}

/* --- Operations ----------------------------------------------------------- */

/* Bytes to be written of the block of SIZE that OP of B makes. */
static TCM_NOINLINE uint64_t take_note(struct replay_translate *t,
                                       const struct mtf_proc_block *b,
                                       const struct mtf_op *op) {
    t->noted = false;
    tool_check_noted(t->check, b, op);
    return t->use_present && t->noted_in == b->offset ? t->present : UINT64_MAX;
}

static void put_alloc(struct replay_translate *t, unsigned call, uint32_t slot,
                      uint64_t size, unsigned align_log2, uint64_t present) {
    if (TCM_UNLIKELY(present < size)) {
        put(t, replay_present_word(0, present));
        put_long(t, call, slot, size, 0, align_log2, false);
    } else if (alloc_code[call] != 0 && size < REPLAY_SIZE_LIMIT)
        put(t, replay_word((enum replay_code)alloc_code[call], slot, size));
    else
        put_long(t, call, slot, size, 0, align_log2, false);
}

static void put_free(struct replay_translate *t, unsigned call, uint32_t slot,
                     uint64_t block) {
    uint64_t size = replay_block_size(block);
    call = replay_free_call(call, block);
    if (free_code[call] != 0)
        put(t, replay_word((enum replay_code)free_code[call], slot,
                           tcm_min_u64(size, REPLAY_SIZE_LIMIT - 1)));
    else if (sized_free_code[call] != 0 && size < REPLAY_SIZE_LIMIT)
        put(t,
            replay_word((enum replay_code)sized_free_code[call], slot, size));
    else
        put_long(t, call, slot, size, 0, replay_block_align_log2(block), false);
}

static void put_realloc(struct replay_translate *t, const struct mtf_op *op,
                        uint32_t slot, uint64_t present) {
    uint64_t block = t->slot[slot];
    uint64_t next = replay_block(1, 0, op->size);
    uint64_t old = replay_block_size(block), size = replay_block_size(next);
    if (TCM_UNLIKELY(!replay_block_lives(block))) {
        t->result->unknown_blocks++;
        return;
    }
    uint64_t before = written(t, slot);
    block_take(t, slot);
    block_put(t, slot, next, present);
    t->requested_bytes += size;
    live_add(t, size);
    if (TCM_UNLIKELY(present < size || (block & REPLAY_BLOCK_PARTLY) != 0))
        put(t, replay_present_word(before, tcm_min_u64(present, size)));
    put_long(t, op->call, slot, size, old, 0, false);
}

/* Replays malloc_trim only. Other calls are for one allocator and for the
   calling thread; what they do depends on when the thread would sleep. */
static void translate_extension(struct replay_translate *t,
                                const struct mtf_op *op) {
    if (op->slot != MTF_EXTENSION_TRIM)
        return;
    t->result->recorded_trims++;
    put(t, replay_word(REPLAY_TRIM, 0, 0));
    put(t, op->size);
}

/* A failed call counts for its thread. False: out of memory. */
static bool call_failed(struct replay_translate *t,
                        const struct mtf_proc_block *b) {
    if (t->thread == 0) {
        tool_check_no_thread(t->check, b);
        return true;
    }
    struct replay_thread *e = replay_threads_get(&t->threads, t->thread);
    if (e == NULL)
        return false;
    t->threads.failed_only += !e->counted && !e->failed;
    e->failed = true;
    return true;
}

/* False: no memory. */
static bool check_record(struct replay_translate *t,
                         const struct mtf_proc_block *b,
                         const struct mtf_op *op) {
    struct replay_thread *e = NULL;
    if ((op->kind == MTF_OP_THREAD_START || op->kind == MTF_OP_THREAD_END) &&
        op->slot != 0) {
        e = replay_threads_get(&t->threads, op->slot);
        if (e == NULL)
            return false;
        e->life.began |= e->counted || op->slot == t->thread;
    }
    tool_check_record(t->check, b, op, e == NULL ? NULL : &e->life);
    return true;
}

/* False: the record is impossible. */
static TCM_NOINLINE bool translate_rare(struct replay_translate *t,
                                        const struct mtf_proc_block *b,
                                        const struct mtf_op *op) {
    if (!check_record(t, b, op))
        return false;
    t->noted = op->kind == MTF_OP_PRESENT;
    switch (op->kind) {
    case MTF_OP_SWITCH:
        replay_translate_thread(t, op->slot);
        return true;
    case MTF_OP_THREAD_END:
        thread_ended(t, op->slot);
        return true;
    case MTF_OP_TIME:
        replay_translate_time(t, op->size);
        return true;
    case MTF_OP_FAILED:
        t->result->recorded_failures++;
        return call_failed(t, b);
    case MTF_OP_SAMPLE:
        replay_recorded_sample(&t->recorded, b, op);
        /* Samples cannot be compared after another trace, or in a part of one:
           the heap begins with what was there before. */
        t->sampled = t->result->traces == 0 && !t->recorded.is_part &&
                     replay_recorded_heap(&t->recorded) != 0;
        if (t->sampled)
            batch_next(t);
        return true;
    case MTF_OP_EXTENSION:
        translate_extension(t, op);
        return true;
    case MTF_OP_PRESENT:
        t->notes++;
        t->present = op->size;
        t->noted_in = b->offset;
        return true;
    case MTF_OP_PHASE:
        t->recorded.is_part = true;
        begin_phase(t, op->slot != MTF_PROC_PHASE_RECORDED);
        return true;
    default:
        return true;
    }
}

/* An operation, which is counted. False: its slot is impossible. */
static TCM_NOINLINE bool translate_operation(struct replay_translate *t,
                                             const struct mtf_proc_block *b,
                                             const struct mtf_op *op) {
    uint64_t wide = (uint64_t)t->base + op->slot;
    if (wide >= t->used && !slot_extend(t, wide))
        return false;
    uint32_t slot = (uint32_t)wide;
    if (!t->entered && !thread_enter(t, b))
        return false;
    uint64_t block, present = UINT64_MAX;
    if (TCM_UNLIKELY(t->noted))
        present = take_note(t, b, op);
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
        block = replay_block(replay_family_bits[op->call], op->align_log2,
                             op->size);
        block_born(t, slot, block, present);
        put_alloc(t, op->call, slot, replay_block_size(block), op->align_log2,
                  present);
        break;
    case MTF_OP_FREE:
    case MTF_OP_REALLOC_END:
    case MTF_OP_FREE_SIZE:
        block = block_gone(t, slot);
        if (block != 0)
            put_free(t, op->call, slot, block);
        break;
    case MTF_OP_REALLOC:
        put_realloc(t, op, slot, present);
        break;
    case MTF_OP_REALLOC_NEW:
        t->unknown_reallocs += (op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0;
        block = replay_block(1, 0, op->size);
        block_born(t, slot, block, present);
        if (TCM_UNLIKELY(present < replay_block_size(block)))
            put(t, replay_present_word(0, present));
        put_long(t, op->call, slot, replay_block_size(block), 0, 0, true);
        break;
    }
    return true;
}

/* Variables that the hot loop keeps in registers. Counts are differences modulo
   2^64. */
struct translate_hot {
    uint64_t *at;
    uint64_t live_bytes, peak_bytes, requested_bytes, live_objects, ops;
    uint64_t live_mark;
    uint64_t granted; /* larger slot words, and those of blocks written in
                         part, take the other path */
};

static TCM_ALWAYS_INLINE void hot_load(struct translate_hot *h,
                                       const struct replay_translate *t) {
    *h =
        (struct translate_hot){.at = t->at,
                               .live_bytes = t->live_bytes,
                               .peak_bytes = t->peak_bytes,
                               .live_mark = t->live_mark,
                               .granted = replay_block(511, 0, t->grant_bytes)};
}

static TCM_ALWAYS_INLINE void hot_store(const struct translate_hot *h,
                                        struct replay_translate *t) {
    t->at = h->at;
    t->live_bytes = h->live_bytes;
    t->peak_bytes = h->peak_bytes;
    t->requested_bytes += h->requested_bytes;
    t->live_objects += h->live_objects;
    t->ops += h->ops;
}

/* Nearly every operation: a one-word allocation into an empty slot, or the free
   of a full one. False: it is another one; nothing was done. */
static TCM_ALWAYS_INLINE bool translate_common(struct translate_hot *h,
                                               uint64_t *slots, uint32_t used,
                                               uint32_t base,
                                               const struct mtf_op *op) {
    if (TCM_UNLIKELY(op->slot >= used))
        return false;
    uint64_t *place = &slots[op->slot];
    uint64_t block = *place;
    if (op->kind == MTF_OP_FREE) {
        unsigned code = free_code[op->call];
        if (TCM_UNLIKELY(code == 0 || !replay_block_lives(block) ||
                         block > h->granted))
            return false;
        *place = 0;
        h->live_bytes -= replay_block_size(block);
        h->live_objects--;
        *h->at++ = replay_word(
            (enum replay_code)code, base + op->slot,
            tcm_min_u64(replay_block_size(block), REPLAY_SIZE_LIMIT - 1));
    } else if (op->kind == MTF_OP_ALLOC) {
        unsigned code = alloc_code[op->call];
        if (TCM_UNLIKELY(code == 0 || op->size >= REPLAY_SIZE_LIMIT ||
                         replay_block_lives(block) ||
                         h->live_bytes + op->size > h->live_mark))
            return false;
        *place = op->size << 9 | replay_family_bits[op->call];
        h->live_objects++;
        h->live_bytes += op->size;
        h->requested_bytes += op->size;
        if (h->live_bytes > h->peak_bytes)
            h->peak_bytes = h->live_bytes;
        *h->at++ =
            replay_word((enum replay_code)code, base + op->slot, op->size);
    } else {
        return false;
    }
    h->ops++;
    return true;
}

/* All other operations. False: it is impossible. */
static TCM_NOINLINE bool translate_other(struct replay_translate *t,
                                         const struct mtf_proc_block *b,
                                         const struct mtf_op *op) {
    if (t->at > t->limit)
        batch_next(t);
    if (op->kind > MTF_OP_LAST_OPERATION)
        return translate_rare(t, b, op);
    if (!translate_operation(t, b, op))
        return false;
    t->ops++;
    t->rare[op->kind]++;
    if (TCM_UNLIKELY(t->live_bytes > t->live_mark))
        batch_next(t);
    return true;
}

bool replay_translate_ops(struct replay_translate *t,
                          const struct mtf_proc_block *b,
                          const struct mtf_op *ops, size_t n) {
    struct translate_hot h;
    size_t i = 0;
    while (i < n) {
        uint64_t *slots = t->slot + t->base;
        uint64_t *limit = t->limit;
        uint32_t base = t->base;
        /* A thread whose cache is not attached yet takes the other path, and so
           does an operation with present bytes. */
        uint32_t used = t->entered && !t->noted ? t->used - base : 0;
        hot_load(&h, t);
        for (; i < n; i++) {
            const struct mtf_op *op = &ops[i];
            __builtin_prefetch(&slots[op[TOOL_OPS_AHEAD].slot], 1);
            if (TCM_UNLIKELY(h.at > limit) ||
                TCM_UNLIKELY(!translate_common(&h, slots, used, base, op)))
                break;
        }
        hot_store(&h, t);
        if (i < n && !translate_other(t, b, &ops[i++]))
            return false;
    }
    return true;
}

/* --- Traces --------------------------------------------------------------- */

bool replay_translate_init(struct replay_translate *t, struct replay_ring *ring,
                           const struct replay_order *order) {
    memset(t, 0, sizeof(*t));
    t->ring = ring;
    t->result = &ring->result;
    t->room_bytes = t->grant_bytes = UINT64_MAX;
    bool good = true;
    if (order != NULL) {
        t->order = *order;
        if (order->skew != 0)
            t->deal = replay_deal_new(ring, order->skew);
        good = order->skew == 0 || t->deal != NULL;
    }
    batch_begin(t);
    t->live_mark = replay_live_mark(0);
    t->slot = tcm_os_map(SLOTS_FIRST * sizeof(*t->slot));
    t->capacity = SLOTS_FIRST;
    return good && t->slot != NULL;
}

void replay_translate_time(struct replay_translate *t, uint64_t ns) {
    bool timed = t->deal != NULL || t->order.speed > 0;
    replay_recorded_time(&t->recorded, ns);
    if (!timed)
        return;
    if (t->time_ns != 0 && ns > t->time_ns)
        t->clock_ns += tcm_min_u64(ns - t->time_ns, t->order.max_idle_ns);
    t->time_ns = ns;
    if (t->clock_ns - t->window_ns < REPLAY_WINDOW_NS)
        return;
    uint64_t windows = (t->clock_ns - t->window_ns) / REPLAY_WINDOW_NS;
    t->window_ns = t->clock_ns;
    if (t->at > t->limit)
        batch_next(t);
    if (t->deal != NULL)
        put(t, replay_word(REPLAY_WINDOW, 0,
                           tcm_min_u64(windows, REPLAY_SIZE_LIMIT - 1)));
    /* Operations from here on have a time of their own. */
    if (t->order.speed > 0 || t->order.spread)
        batch_next(t);
}

void replay_translate_trace(struct replay_translate *t) {
    replay_threads_forget(&t->threads);
    replay_recorded_end(&t->recorded, t->result);
    t->base = t->used;
    t->most = 0;
    t->thread = t->last_thread = 0;
    t->time_ns = 0;
    t->entered = t->noted = false;
    begin_phase(t, false);
}

void replay_translate_end(struct replay_translate *t) {
    replay_translate_trace(t);
    batch_end(t, true);
    replay_threads_fini(&t->threads);
    tool_map_fini(&t->partly);
    replay_deal_free(t->deal);
    if (t->slot != NULL)
        tcm_os_unmap(t->slot, t->capacity * sizeof(*t->slot));
}
