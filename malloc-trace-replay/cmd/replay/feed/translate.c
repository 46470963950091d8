/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/translate.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/feed/op.h"
#include "common/collections.h"
#include "traceformat/site_codec.h"
#include "traceformat/trace_event.h"

#include <stdlib.h>
#include <string.h>

/* --- Words of slots ------------------------------------------------------- */

/*
 * A word for each slot, with the facts of its block:
 *
 *   bit 0         the slot holds a block
 *   bits 1, 2     enum block_family: the kind of call that made the block
 *   bits 3 to 8   log2 of the alignment, 0: none was asked for
 *   bits 9 to 62  size, saturated
 *   bit 63        part of the block is written: `partly` has the bytes
 */
enum block_family {
    FAMILY_MALLOC = 0,  /* malloc, calloc, realloc, reallocarray */
    FAMILY_NEW = 1,     /* operator new in all its forms */
    FAMILY_MEMALIGN = 2 /* all others */
};

#define BLOCK_SIZE_MAX (((uint64_t)1 << 54) - 1)
TCM_STATIC_ASSERT(BLOCK_SIZE_MAX < REPLAY_OLD_LIMIT, "fits a long word");
/* Part of the block is written. The top bit, so that the word is larger than
   any word without it. */
#define BLOCK_PARTLY ((uint64_t)1 << 63)

/* Makes the word of a slot; LOW: its low three bits. */
static TCM_ALWAYS_INLINE uint64_t block_word(unsigned low, unsigned align_log2,
                                             uint64_t size) {
    if (TCM_UNLIKELY(size > BLOCK_SIZE_MAX))
        size = BLOCK_SIZE_MAX;
    return size << 9 | (uint64_t)align_log2 << 3 | low;
}
static TCM_ALWAYS_INLINE bool block_lives(uint64_t b) {
    return b & 1;
}
static TCM_ALWAYS_INLINE enum block_family block_family(uint64_t b) {
    return (enum block_family)(b >> 1 & 3);
}
static TCM_ALWAYS_INLINE unsigned block_align_log2(uint64_t b) {
    return (unsigned)(b >> 3) & 63;
}
static TCM_ALWAYS_INLINE uint64_t block_size(uint64_t b) {
    return b << 1 >> 10;
}

#define FAMILY_NEW_BITS      (FAMILY_NEW << 1 | 1)
#define FAMILY_MEMALIGN_BITS (FAMILY_MEMALIGN << 1 | 1)
/* Low three bits of a slot's word, by call; 1 for the family of malloc. */
static const uint8_t family_bits[MTF_CALL_LIMIT] = {
    [MTF_CALL_MALLOC] = 1,
    [MTF_CALL_CALLOC] = 1,
    [MTF_CALL_REALLOC] = 1,
    [MTF_CALL_REALLOCARRAY] = 1,
    [MTF_CALL_NEW] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_NOTHROW] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_NOTHROW] = FAMILY_NEW_BITS,
    [MTF_CALL_MEMALIGN] = FAMILY_MEMALIGN_BITS,
    [MTF_CALL_ALIGNED_ALLOC] = FAMILY_MEMALIGN_BITS,
    [MTF_CALL_POSIX_MEMALIGN] = FAMILY_MEMALIGN_BITS,
    [MTF_CALL_VALLOC] = FAMILY_MEMALIGN_BITS,
    [MTF_CALL_PVALLOC] = FAMILY_MEMALIGN_BITS,
    [MTF_CALL_NEW_ALIGNED] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_ALIGNED] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_ALIGNED_NOTHROW] = FAMILY_NEW_BITS,
    [MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW] = FAMILY_NEW_BITS,
};

/* Codes of one-word operations, by call; 0 for calls that have none. */
static const uint8_t alloc_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_MALLOC] = REPLAY_MALLOC,
    [MTF_CALL_CALLOC] = REPLAY_CALLOC,
    [MTF_CALL_NEW] = REPLAY_NEW,
    [MTF_CALL_NEW_NOTHROW] = REPLAY_NEW,
    [MTF_CALL_NEW_ARRAY] = REPLAY_NEW_ARRAY,
    [MTF_CALL_NEW_ARRAY_NOTHROW] = REPLAY_NEW_ARRAY,
};
static const uint8_t free_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_REALLOC] = REPLAY_FREE,
    [MTF_CALL_REALLOCARRAY] = REPLAY_FREE,
    [MTF_CALL_FREE] = REPLAY_FREE,
    [MTF_CALL_CFREE] = REPLAY_FREE,
    [MTF_CALL_DELETE] = REPLAY_DELETE,
    [MTF_CALL_DELETE_NOTHROW] = REPLAY_DELETE,
    [MTF_CALL_DELETE_ARRAY] = REPLAY_DELETE_ARRAY,
    [MTF_CALL_DELETE_ARRAY_NOTHROW] = REPLAY_DELETE_ARRAY,
};
/* Likewise, for frees that carry the size. */
static const uint8_t sized_free_code[MTF_CALL_LIMIT] = {
    [MTF_CALL_DELETE_SIZED] = REPLAY_DELETE_SIZED,
    [MTF_CALL_DELETE_ARRAY_SIZED] = REPLAY_DELETE_ARRAY_SIZED,
    [MTF_CALL_FREE_SIZED] = REPLAY_FREE_SIZED,
};

/* Returns the call that frees BLOCK in place of CALL. An allocator may trust a
   sized free, so it must have the size of the call that made the block, and be
   of the same kind as that call. Otherwise the free is made without a size. */
static inline unsigned matching_free_call(unsigned call, uint64_t block) {
    enum block_family family = block_family(block);
    bool aligned = block_align_log2(block) != 0;
    switch (call) {
    case MTF_CALL_DELETE_SIZED:
        return family == FAMILY_NEW && !aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_SIZED:
        return family == FAMILY_NEW && !aligned ? call : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_DELETE_ALIGNED:
    case MTF_CALL_DELETE_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_SIZED_ALIGNED:
        return family == FAMILY_NEW && aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED:
        return family == FAMILY_NEW && aligned ? call : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_FREE_SIZED:
        return family == FAMILY_MALLOC ? call : MTF_CALL_FREE;
    case MTF_CALL_FREE_ALIGNED_SIZED:
        return family == FAMILY_MEMALIGN ? call : MTF_CALL_FREE;
    default:
        return call;
    }
}

#define SLOTS_FIRST ((size_t)64 << 10)

/* --- Batches -------------------------------------------------------------- */

/* True if batches have a time at which they are due. */
static bool order_has_times(const struct replay_order *o) {
    return o->speed > 0 || o->clock;
}

/* Time in the replay, from its start, of CLOCK_NS of recorded time. */
static uint64_t replayed_ns(const struct replay_translate *t,
                            uint64_t clock_ns) {
    double ns = (double)clock_ns / (t->order.speed > 0 ? t->order.speed : 1);
    return ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
}

/* Lowers the limit of the batch so that it ends behind the next operation that
   the caller wants to stop at. Operations of several words end it before; then
   the next batch ends there. */
static void batch_stop(struct replay_translate *t) {
    const struct replay_order *o = &t->order;
    while (t->next_stop < o->stops && o->stop[t->next_stop] <= t->ops)
        t->next_stop++;
    if (t->next_stop == o->stops)
        return;
    uint64_t left = o->stop[t->next_stop] - t->ops;
    if (left <= (uint64_t)(t->limit - t->at))
        t->limit = t->at + left - 1;
}

static void batch_begin(struct replay_translate *t) {
    t->batch = t->deal != NULL ? replay_deal_staging(t->deal)
                               : replay_ring_fill(t->ring);
    t->at = t->batch->word;
    t->batch->apart = t->apart;
    t->batch->segments = 0;
    t->batch->first_op = t->ops;
    t->batch->due_ns =
        order_has_times(&t->order) ? replayed_ns(t, t->clock_ns) : 0;
    t->batch->span_ns = 0;
    t->batch_ns = t->clock_ns;
    t->limit = t->at + REPLAY_BATCH_WORDS - REPLAY_WORDS_MAX;
    /* Without times in the trace each batch is a window. */
    if (t->deal != NULL && t->recorded.first_ns == t->recorded.last_ns)
        *t->at++ = replay_word(REPLAY_WINDOW, 0, 1);
    batch_stop(t);
}

static struct replay_account account_now(const struct replay_translate *t) {
    return (struct replay_account){.ops = t->ops,
                                   .live_bytes = t->live_bytes,
                                   .live_blocks = t->live_objects,
                                   .peak_live_bytes = t->peak_bytes,
                                   .requested_bytes = t->requested_bytes,
                                   .threads = t->threads.counted,
                                   .switches = t->switches};
}

/* Publishes the account up to the current batch. The measuring process reads it
   when this process has ended, by whatever cause. */
static void publish_account(struct replay_translate *t) {
    struct replay_result *r = t->result;
    r->done = t->batch->account;
    r->apart_ops = t->apart_ops + (t->apart ? t->ops - t->apart_since : 0);
    r->cpu_ns = tcm_clock_process_cpu_ns();
}

/* Words at the beginning of a trace in which a second thread is looked for. */
#define HEAD_WORDS ((size_t)1 << 20)

/* Chooses by the batches held whether recorded threads run on threads of their
   own. LAST: there are no more batches. */
static void decide_threads(struct replay_translate *t, bool last) {
    bool several = t->several || t->threads.counted - t->threads_before > 1;
    if (!several && !last && replay_deal_held_words(t->deal) < HEAD_WORDS)
        return;
    t->undecided = false;
    publish_account(t);
    t->result->is_real = several;
    if (several) {
        t->no_memory |= !replay_deal_release(t->deal);
        return;
    }
    t->result->head_ops = last ? 0 : t->ops;
    if (t->ring->low == 0)
        replay_ring_leave_turns(t->ring);
    replay_deal_pass(t->deal);
    replay_deal_free(t->deal);
    t->deal = NULL;
}

static void batch_end(struct replay_translate *t, bool last) {
    struct replay_batch *b = t->batch;
    if (!replay_translate_fits(t))
        t->at = b->word;
    TCM_ASSERT(t->at >= b->word && t->at <= b->word + REPLAY_BATCH_WORDS);
    TCM_ASSERT(t->ops >= b->first_op && t->live_objects <= t->used);
    b->words = (uint32_t)(t->at - b->word);
    b->slots = t->used;
    b->caches = t->threads.indices;
    b->last = last;
    /* Behind the times of the traces that have ended. */
    b->recorded_ns =
        t->result->recorded_ns + t->recorded.last_ns - t->recorded.first_ns;
    b->account = account_now(t);
    b->is_state = 1;
    b->sampled = t->sampled;
    b->recorded_heap_bytes = replay_recorded_heap(&t->recorded);
    b->recorded_rss_bytes = t->recorded.rss_bytes;
    t->sampled = false;
    if (t->live_bytes > t->live_mark)
        t->live_mark = replay_live_mark(t->live_bytes);
    if (t->order.spread || t->order.clock)
        b->span_ns = replayed_ns(t, t->clock_ns - t->batch_ns);
    /* A pause begins behind the operations. */
    if (order_has_times(&t->order) && !last)
        b->recorded_ns = t->batch_ns + tcm_min_u64(t->clock_ns - t->batch_ns,
                                                   REPLAY_WINDOW_NS);
    /* The measuring process prefetches behind the end. */
    memset(t->at, 0, REPLAY_BATCH_PAD * sizeof(*t->at));
    if (!t->undecided)
        publish_account(t);
    if (t->deal == NULL)
        replay_ring_filled(t->ring);
    else
        t->no_memory |= !replay_deal_batch(t->deal);
    if (t->undecided)
        decide_threads(t, last);
}

static TCM_NOINLINE void batch_next(struct replay_translate *t) {
    batch_end(t, false);
    batch_begin(t);
}

/* Begins operations of a prologue or epilogue (APART), or recorded ones again.
   Each kind has batches of its own, so that they can be timed apart. */
static void phase_begin(struct replay_translate *t, bool apart) {
    t->apart_ops += t->apart ? t->ops - t->apart_since : 0;
    t->apart_since = t->ops;
    t->apart = apart;
    if (t->at != t->batch->word)
        batch_next(t);
    t->batch->apart = apart;
}

static TCM_ALWAYS_INLINE void put_word(struct replay_translate *t, uint64_t w) {
    TCM_ASSERT(t->at < t->batch->word + REPLAY_BATCH_WORDS);
    *t->at++ = w;
}

static void put_long(struct replay_translate *t, unsigned call, uint32_t slot,
                     uint64_t size, uint64_t old, unsigned align_log2,
                     bool is_new) {
    put_word(t, replay_word(REPLAY_LONG, slot, call));
    put_word(t, size);
    put_word(t, replay_long_word(old, align_log2, is_new));
}

/* --- Slots ---------------------------------------------------------------- */

/* Makes the table long enough for SLOT. False: the bytes that were read cannot
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
static uint64_t block_written(const struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot], size = block_size(b);
    /* A block that the kernel refuses lives only in the account. */
    if (size > t->grant_bytes)
        return 0;
    if (TCM_LIKELY((b & BLOCK_PARTLY) == 0))
        return size;
    const struct tool_map_entry *e =
        tool_map_find(&t->partly, (uint64_t)slot + 1);
    TCM_ASSERT(e != NULL);
    return e != NULL ? e->value : size;
}

/* Notes that PRESENT bytes of the block in SLOT are written, or none if the
   kernel refuses the block. */
static TCM_COLD void block_put_partly(struct replay_translate *t, uint32_t slot,
                                      uint64_t present) {
    uint64_t size = block_size(t->slot[slot]);
    struct tool_map_entry *e = NULL;
    if (present < size)
        e = tool_map_get(&t->partly, (uint64_t)slot + 1);
    if (e != NULL) { /* out of memory: the whole block counts */
        e->value = present;
        t->slot[slot] |= BLOCK_PARTLY;
    }
    t->unwritten_bytes += size - block_written(t, slot);
}

/* Puts BLOCK into SLOT. PRESENT bytes of it are written. */
static TCM_ALWAYS_INLINE void block_put(struct replay_translate *t,
                                        uint32_t slot, uint64_t block,
                                        uint64_t present) {
    uint64_t size = block_size(block);
    t->slot[slot] = block;
    if (TCM_UNLIKELY(present < size || size > t->grant_bytes))
        block_put_partly(t, slot, present);
}

/* Takes the block out of SLOT: it is freed, or changes. */
static void block_take(struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot];
    t->live_bytes -= block_size(b);
    t->unwritten_bytes -= block_size(b) - block_written(t, slot);
    if (TCM_UNLIKELY((b & BLOCK_PARTLY) != 0)) {
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

/* Counts an allocation of BLOCK into SLOT. PRESENT bytes of it are written. */
static void block_born(struct replay_translate *t, uint32_t slot,
                       uint64_t block, uint64_t present) {
    if (TCM_UNLIKELY(block_lives(t->slot[slot]))) {
        block_take(t, slot);
        t->live_objects--;
        t->result->lost_frees++;
        put_word(t, replay_word(REPLAY_FREE, slot, 0));
    }
    block_put(t, slot, block, present);
    t->live_objects++;
    t->requested_bytes += block_size(block);
    live_add(t, block_size(block));
}

/* Counts a free of the block in SLOT. Returns the word of the block; 0: unknown
   block. */
static uint64_t block_freed(struct replay_translate *t, uint32_t slot) {
    uint64_t b = t->slot[slot];
    if (TCM_UNLIKELY(!block_lives(b))) {
        t->result->unknown_blocks++;
        return 0;
    }
    block_take(t, slot);
    t->live_objects--;
    return b;
}

/* --- Threads -------------------------------------------------------------- */

struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id) {
    struct replay_thread *thread =
        tool_ids_get(&t->ids, &t->thread, sizeof(*t->thread), id);
    if (thread != NULL)
        thread->id = id;
    return thread;
}

bool replay_threads_index(struct replay_thread_map *t,
                          struct replay_thread *entry) {
    if (t->free_count != 0) {
        entry->index = t->free_index[--t->free_count];
        return true;
    }
    if (t->indices == 0)
        t->indices = 1;
    /* Reserves the place for this index, so that taking the index back cannot
       fail. */
    if (!tool_array_reserve(&t->free_index, &t->free_room,
                            (size_t)t->indices + 1, sizeof(*t->free_index)))
        return false;
    entry->index = t->indices++;
    return true;
}

uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id) {
    size_t place = tool_ids_find(&t->ids, id);
    if (place == SIZE_MAX)
        return 0;
    struct replay_thread *thread = &t->thread[place];
    uint32_t index = thread->index;
    TCM_ASSERT(index < t->indices || index == 0);
    TCM_ASSERT(index == 0 || t->free_count < t->free_room);
    if (index != 0)
        t->free_index[t->free_count++] = index;
    thread->index = 0;
    return index;
}

/* Forgets all threads. Their indices stay taken, and the counts stay. */
static void threads_forget(struct replay_thread_map *t) {
    /* The table of a large trace would slow down each small trace that
       follows. */
    free(t->thread);
    t->thread = NULL;
    tool_ids_fini(&t->ids);
}

void replay_threads_fini(struct replay_thread_map *t) {
    threads_forget(t);
    free(t->free_index);
    memset(t, 0, sizeof(*t));
}

/* Attaches the cache of the current thread, before an operation. */
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
        put_word(t, replay_word(REPLAY_SWITCH, e->index, id));
    }
    return true;
}

void replay_translate_thread(struct replay_translate *t, uint32_t thread) {
    if (thread == t->thread)
        return;
    /* The switch to a thread begins it, even without operations. */
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
        put_word(t, replay_word(REPLAY_THREAD_END, index, 0));
    /* The next thread with this index is a different one. */
    if ((t->deal != NULL || t->order.sites) && index == t->index)
        t->index = UINT32_MAX;
    if (thread == t->thread)
        t->entered = false;
}

/* --- Operations ----------------------------------------------------------- */

/* Bytes to write of the block that OP of B makes, by the note before OP. */
static TCM_NOINLINE uint64_t take_present(struct replay_translate *t,
                                          const struct mtf_proc_block *b,
                                          const struct mtf_op *op) {
    t->noted = false;
    tool_check_noted(t->check, b, op);
    return t->use_present && t->noted_in == b->offset ? t->present : UINT64_MAX;
}

static void put_alloc(struct replay_translate *t, unsigned call, uint32_t slot,
                      uint64_t size, unsigned align_log2, uint64_t present) {
    if (TCM_UNLIKELY(present < size)) {
        put_word(t, replay_present_word(0, present));
        put_long(t, call, slot, size, 0, align_log2, false);
    } else if (alloc_code[call] != 0 && size < REPLAY_SIZE_LIMIT)
        put_word(t,
                 replay_word((enum replay_code)alloc_code[call], slot, size));
    else
        put_long(t, call, slot, size, 0, align_log2, false);
}

static void put_free(struct replay_translate *t, unsigned call, uint32_t slot,
                     uint64_t block) {
    uint64_t size = block_size(block);
    call = matching_free_call(call, block);
    if (free_code[call] != 0)
        put_word(t, replay_word((enum replay_code)free_code[call], slot,
                                tcm_min_u64(size, REPLAY_SIZE_LIMIT - 1)));
    else if (sized_free_code[call] != 0 && size < REPLAY_SIZE_LIMIT)
        put_word(t, replay_word((enum replay_code)sized_free_code[call], slot,
                                size));
    else
        put_long(t, call, slot, size, 0, block_align_log2(block), false);
}

static void put_realloc(struct replay_translate *t, const struct mtf_op *op,
                        uint32_t slot, uint64_t present) {
    uint64_t block = t->slot[slot];
    uint64_t next = block_word(1, 0, op->size);
    uint64_t old = block_size(block), size = block_size(next);
    if (TCM_UNLIKELY(!block_lives(block))) {
        t->result->unknown_blocks++;
        return;
    }
    uint64_t before = block_written(t, slot);
    block_take(t, slot);
    block_put(t, slot, next, present);
    t->requested_bytes += size;
    live_add(t, size);
    if (TCM_UNLIKELY(present < size || (block & BLOCK_PARTLY) != 0))
        put_word(t, replay_present_word(before, tcm_min_u64(present, size)));
    put_long(t, op->call, slot, size, old, 0, false);
}

/* Replays malloc_trim. All other calls are left out: they are for one allocator
   and for the calling thread, and their effect depends on when the thread would
   sleep. */
static void translate_extension(struct replay_translate *t,
                                const struct mtf_op *op) {
    if (op->slot != MTF_EXTENSION_TRIM)
        return;
    t->result->recorded_trims++;
    put_word(t, replay_word(REPLAY_TRIM, 0, 0));
    put_word(t, op->size);
}

void replay_translate_site(struct replay_translate *t, uint32_t site) {
    if (!t->order.sites)
        return;
    if (site != MTF_SITE_NONE)
        site += (uint32_t)t->result->traces * MTF_SITE_LIMIT;
    if (site == t->site)
        return;
    if (t->at > t->limit)
        batch_next(t);
    t->site = site;
    put_word(t, replay_word(REPLAY_SITE, site, 0));
}

/* Counts a failed call for its thread. False: out of memory. */
static bool count_failed(struct replay_translate *t,
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

/* False: out of memory. */
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

/* Takes a record that is no operation. False: it is impossible. */
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
    case MTF_OP_SITE:
        replay_translate_site(t, op->slot);
        return true;
    case MTF_OP_FAILED:
        t->result->recorded_failures++;
        return count_failed(t, b);
    case MTF_OP_SAMPLE:
        replay_recorded_sample(&t->recorded, b, op);
        /* Samples behind another trace, or in a part of one, cannot be
           compared: the heap begins with earlier blocks. */
        t->sampled = t->result->traces == 0 && !t->recorded.is_part &&
                     replay_recorded_heap(&t->recorded) != 0;
        if (t->writes_all && t->result->traces == 0)
            untouched_record(&t->result->untouched, b, op, t->recorded.first_ns,
                             t->live_bytes - t->unwritten_bytes);
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
        phase_begin(t, op->slot != MTF_PROC_PHASE_RECORDED);
        return true;
    default:
        return true;
    }
}

/* Translates and counts an operation. False: its slot is impossible. */
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
        present = take_present(t, b, op);
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
        block = block_word(family_bits[op->call], op->align_log2, op->size);
        block_born(t, slot, block, present);
        put_alloc(t, op->call, slot, block_size(block), op->align_log2,
                  present);
        break;
    case MTF_OP_FREE:
    case MTF_OP_REALLOC_END:
    case MTF_OP_FREE_SIZE:
        block = block_freed(t, slot);
        if (block != 0)
            put_free(t, op->call, slot, block);
        break;
    case MTF_OP_REALLOC:
        put_realloc(t, op, slot, present);
        break;
    case MTF_OP_REALLOC_NEW:
        t->unknown_reallocs += (op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0;
        block = block_word(1, 0, op->size);
        block_born(t, slot, block, present);
        if (TCM_UNLIKELY(present < block_size(block)))
            put_word(t, replay_present_word(0, present));
        put_long(t, op->call, slot, block_size(block), 0, 0, true);
        break;
    }
    return true;
}

/* Variables of the hot loop that are kept in registers. Counts are differences
   modulo 2^64. */
struct translate_hot {
    uint64_t *at;
    uint64_t live_bytes, peak_bytes, requested_bytes, live_objects, ops;
    uint64_t live_mark;
    uint64_t granted; /* Words above are slow: blocks that the kernel refuses,
                         or that are written in part. */
};

static TCM_ALWAYS_INLINE void hot_load(struct translate_hot *h,
                                       const struct replay_translate *t) {
    *h = (struct translate_hot){.at = t->at,
                                .live_bytes = t->live_bytes,
                                .peak_bytes = t->peak_bytes,
                                .live_mark = t->live_mark,
                                .granted = block_word(511, 0, t->grant_bytes)};
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

/* Translates nearly every operation: a one-word allocation into an empty
   slot, or the free of a full slot. False: a different operation; nothing
   was done. */
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
        if (TCM_UNLIKELY(code == 0 || !block_lives(block) ||
                         block > h->granted))
            return false;
        *place = 0;
        h->live_bytes -= block_size(block);
        h->live_objects--;
        *h->at++ =
            replay_word((enum replay_code)code, base + op->slot,
                        tcm_min_u64(block_size(block), REPLAY_SIZE_LIMIT - 1));
    } else if (op->kind == MTF_OP_ALLOC) {
        unsigned code = alloc_code[op->call];
        if (TCM_UNLIKELY(code == 0 || op->size >= REPLAY_SIZE_LIMIT ||
                         block_lives(block) ||
                         h->live_bytes + op->size > h->live_mark))
            return false;
        *place = op->size << 9 | family_bits[op->call];
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

/* Translates an operation that translate_common declined. False: it is
   impossible. */
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
        /* translate_common declines all while the thread's cache is not
           attached, or present bytes are noted. */
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
        t->undecided = t->deal != NULL && order->undecided;
        if (t->undecided)
            replay_deal_hold(t->deal);
        good = order->skew == 0 || t->deal != NULL;
    }
    batch_begin(t);
    t->live_mark = replay_live_mark(0);
    t->slot = tcm_os_map(SLOTS_FIRST * sizeof(*t->slot));
    t->capacity = SLOTS_FIRST;
    return good && t->slot != NULL;
}

void replay_translate_time(struct replay_translate *t, uint64_t ns) {
    bool timed = t->deal != NULL || order_has_times(&t->order);
    bool has_ops = t->ops != t->ops_before;
    replay_recorded_time(&t->recorded, ns, has_ops);
    if (!timed)
        return;
    if (has_ops && t->time_ns != 0 && ns > t->time_ns)
        t->clock_ns += tcm_min_u64(ns - t->time_ns, t->order.max_idle_ns);
    t->time_ns = ns;
    if (t->clock_ns - t->window_ns < REPLAY_WINDOW_NS)
        return;
    uint64_t windows = (t->clock_ns - t->window_ns) / REPLAY_WINDOW_NS;
    t->window_ns = t->clock_ns;
    if (t->at > t->limit)
        batch_next(t);
    if (t->deal != NULL)
        put_word(t, replay_word(REPLAY_WINDOW, 0,
                                tcm_min_u64(windows, REPLAY_SIZE_LIMIT - 1)));
    /* The operations that follow have a time of their own. */
    if (order_has_times(&t->order) || t->order.spread)
        batch_next(t);
}

void replay_translate_trace(struct replay_translate *t) {
    threads_forget(&t->threads);
    replay_recorded_end(&t->recorded, t->result);
    t->several |= t->threads.counted - t->threads_before > 1;
    t->threads_before = t->threads.counted;
    t->ops_before = t->ops;
    t->base = t->used;
    t->most = 0;
    t->thread = t->last_thread = 0;
    t->time_ns = 0;
    t->entered = t->noted = false;
    phase_begin(t, false);
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
