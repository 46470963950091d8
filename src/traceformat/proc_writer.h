/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writer of processed traces: records into blocks, blocks to a sink.
 *
 * The writer numbers slots itself: an allocation takes the slot freed last, or
 * a new one. The caller keeps slot and birth of each allocation and passes them
 * with the free. The calls made for each event are inline.
 *
 * Invariants: a failed sink sets `failed`, and all later output is dropped; the
 * bytes depend on the calls alone.
 *
 * Threads: one user at a time for each writer.
 */
#ifndef TCM_TRACEFORMAT_PROC_WRITER_H
#define TCM_TRACEFORMAT_PROC_WRITER_H

#include "base/check.h"
#include "traceformat/proc_layout.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"
#include "traceformat/trace_io.h"

/* Makes *STACK, which has *CAPACITY entries (NULL at first), larger; contents
   are kept. false: out of memory. */
typedef bool (*mtf_proc_grow)(void *ctx, uint32_t **stack, size_t *capacity);

/* State of an allocation, which the caller keeps until its free. */
struct mtf_proc_object {
    uint64_t birth; /* allocations of the trace before it, below 2^48 */
    uint32_t slot;
};

/* State that each frequent record changes. A loop keeps a copy in registers:
   for all that the compiler knows, bytes stored through a pointer may change
   the writer. */
struct mtf_proc_hot {
    uint8_t *p; /* next byte of the payload of the block in work */
    uint64_t last_8th;
    uint32_t records, ops;
    uint32_t births; /* in this block */
    uint32_t last_birth, last_slot;
    size_t depth; /* of the stack of free slots */
};

struct mtf_proc_writer {
    struct mtf_proc_hot hot;
    /* records begin behind the room that the list of taken slots may need */
    uint8_t *limit;
    uint64_t birth_base; /* births before this block */
    uint8_t alloc_call, free_call;
    bool failed;

    uint32_t *stack; /* free slots, the last freed at the end */
    size_t capacity;
    size_t low_water; /* slots below are free since before this block */
    uint32_t taken;   /* slots taken from below the block's first low water */
    uint32_t slot_count;
    uint32_t thread;
    uint32_t site; /* of the allocations that follow; a block begins with it */
    uint64_t time_ns;

    struct mtf_proc_block_head head; /* the state before the block in work */
    mtf_sink *sink;
    mtf_proc_grow grow;
    void *ctx;
    uint64_t total_ops, total_records, blocks, bytes;
    uint64_t present_blocks; /* calls of mtf_proc_put_present */
    /* changes of thread from one operation to the next; final after the end */
    uint64_t switches;
    uint64_t ops_at_switch; /* operations before the last SWITCH */
    uint32_t ops_thread;    /* thread of the last of them, 0 none */
    uint32_t index_count;
    uint64_t index_step; /* each index_step-th block is in the index */
    uint32_t taken_slot[MTF_PROC_BLOCK_RECORDS];
    struct mtf_proc_index_entry index[MTF_PROC_INDEX_MAX];
    uint8_t payload[MTF_PROC_PAYLOAD_MAX + 64];
    uint8_t taken_bytes[MTF_PROC_PAYLOAD_MAX + 64];
};

/* Most bytes of a frequent record: one realloc, two varints. */
#define MTF_PROC_RECORD_MAX 16u

/* Begins a trace. The sink gets the header at once, which has the RAW_LENGTH
   bytes at RAW_HEADER: the raw trace's header. W is large (1 MiB): not for the
   stack. */
bool mtf_proc_writer_begin(struct mtf_proc_writer *w, mtf_sink *sink,
                           mtf_proc_grow grow, void *ctx,
                           const void *raw_header, uint32_t raw_length);
/* Begins a trace that is made from another recorder's: CONVERTER names the
   program that makes it, and its input. At most MTF_PROC_CONVERTER_MAX bytes
   count. */
bool mtf_proc_writer_begin_converted(struct mtf_proc_writer *w, mtf_sink *sink,
                                     mtf_proc_grow grow, void *ctx,
                                     const char *converter);
/* Ends the block in work, if it holds a record. */
void mtf_proc_flush(struct mtf_proc_writer *w);
/* mtf_proc_flush that writes a block without records behind it: all records so
   far are before that. */
void mtf_proc_pause(struct mtf_proc_writer *w);
/* Ends the trace. ACCOUNTS are COUNT fields of the closing block; the writer
   adds those that it knows itself (ops, records, blocks, slots). true: the sink
   took every byte. */
bool mtf_proc_writer_end(struct mtf_proc_writer *w,
                         const struct mtf_account_value *accounts,
                         size_t count);

/* Parts of the inline encoders that are out of line: another sticky call,
   another thread, a slot that was free before the block, a stack that must
   grow, a size without size code. */
void mtf_proc_set_alloc_call(struct mtf_proc_writer *w, unsigned call);
void mtf_proc_set_free_call(struct mtf_proc_writer *w, unsigned call);
void mtf_proc_switch(struct mtf_proc_writer *w, uint32_t thread);
uint32_t mtf_proc_take_slot_slow(struct mtf_proc_writer *w);
void mtf_proc_grow_stack(struct mtf_proc_writer *w);
void mtf_proc_put_realloc_huge(struct mtf_proc_writer *w, unsigned call,
                               bool moved, uint64_t size,
                               const struct mtf_proc_object *object);

/* Records of rarer events; the frequent ones are below. */
void mtf_proc_put_time(struct mtf_proc_writer *w, uint64_t time_ns);
void mtf_proc_put_thread_start(struct mtf_proc_writer *w, uint32_t thread,
                               uint32_t kernel_id);
void mtf_proc_put_thread_end(struct mtf_proc_writer *w, uint32_t thread,
                             const void *name, size_t length);
void mtf_proc_put_aligned(struct mtf_proc_writer *w, unsigned call,
                          unsigned align_log2, uint64_t size,
                          struct mtf_proc_object *object);
void mtf_proc_put_realloc_new(struct mtf_proc_writer *w, unsigned call,
                              unsigned flags, uint64_t size,
                              struct mtf_proc_object *object);
void mtf_proc_put_realloc_end(struct mtf_proc_writer *w, unsigned call,
                              const struct mtf_proc_object *object);
void mtf_proc_put_free_size(struct mtf_proc_writer *w, unsigned call,
                            const struct mtf_proc_object *object,
                            uint64_t size);
void mtf_proc_put_failed(struct mtf_proc_writer *w, unsigned call,
                         unsigned align_log2, unsigned flags, uint64_t size);
/* Plain kinds: of the form TEXT, of which at most MTF_PROC_BYTES_MAX bytes are
   kept, and of the form PAIR. */
void mtf_proc_put_text(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                       const void *text, size_t length);
void mtf_proc_put_pair(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                       unsigned which, uint64_t argument);
/* ACCOUNTS: bytes as in a raw sample segment. */
void mtf_proc_put_sample(struct mtf_proc_writer *w, uint64_t time_ns,
                         const void *accounts, size_t length);
void mtf_proc_put_loss(struct mtf_proc_writer *w, uint32_t thread,
                       uint64_t events, uint64_t from_ns, uint64_t to_ns);
/* Sets the call site of the allocations that follow, 0: none. Called before the
   present bytes of one are put. */
void mtf_proc_set_site(struct mtf_proc_writer *w, uint32_t site);
static inline void mtf_proc_put_site(struct mtf_proc_writer *w, uint32_t site) {
    if (w->site != site)
        mtf_proc_set_site(w, site);
}
/* BYTES: as in a raw SITE_DEF. */
void mtf_proc_put_site_def(struct mtf_proc_writer *w, const void *bytes,
                           size_t length);
/* Puts the records that follow into PHASE (enum mtf_proc_phase). */
void mtf_proc_put_phase(struct mtf_proc_writer *w, unsigned phase);
/* Puts the present bytes of the block that the next record makes or resizes:
   the caller's next call must put that record, of the current thread. */
void mtf_proc_put_present(struct mtf_proc_writer *w, uint64_t bytes);

/* Makes CALL, which needs the writer's own state, from a loop that has the
   state in *H. */
#define MTF_PROC_OUT_OF_LINE(w, h, call)                                       \
    do {                                                                       \
        (w)->hot = *(h);                                                       \
        call;                                                                  \
        *(h) = (w)->hot;                                                       \
    } while (0)

/* Slot and birth of a block that is made. */
static TCM_ALWAYS_INLINE void mtf_proc_take_slot(struct mtf_proc_writer *w,
                                                 struct mtf_proc_hot *h,
                                                 struct mtf_proc_object *o) {
    if (TCM_LIKELY(h->depth > w->low_water))
        o->slot = w->stack[--h->depth];
    else
        MTF_PROC_OUT_OF_LINE(w, h, o->slot = mtf_proc_take_slot_slow(w));
    o->birth = w->birth_base + h->births++;
}

/* Frees the slot of a block that ends. */
static TCM_ALWAYS_INLINE void mtf_proc_give_slot(struct mtf_proc_writer *w,
                                                 struct mtf_proc_hot *h,
                                                 uint32_t slot) {
    TCM_ASSERT(slot < w->slot_count && h->depth < w->slot_count);
    if (TCM_UNLIKELY(h->depth == w->capacity)) {
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_grow_stack(w));
        if (w->failed)
            return;
    }
    w->stack[h->depth++] = slot;
}

/* --- The frequent records ------------------------------------------------- */

/*
 * Inline, because the sorter writes tens of millions of them a second. The
 * decoder of exactly these bytes is proc_decode.c;
 * doc/processed-trace-format.md has the tables.
 *
 * A free names a block that was born in the same block of the trace by the
 * difference of births: programs free much in the order of allocation, which
 * makes small and repeating numbers. It names an older block by its slot. With
 * slots alone the trace would be half as large again after compression.
 */

/* Largest size with a size code; larger ones go into records with all their
   bytes. */
#define MTF_PROC_SIZE_MAX MTF_SIZE_MAX

/* Makes room; called before every record. MTF_PROC_RECORD_MAX bytes and one
   record fit afterwards. */
static TCM_ALWAYS_INLINE void mtf_proc_room(struct mtf_proc_writer *w,
                                            struct mtf_proc_hot *h) {
    if (TCM_UNLIKELY(h->p >= w->limit || h->records == MTF_PROC_BLOCK_RECORDS))
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_flush(w));
}

/* Distance from the last named block to OBJECT, zigzag: in births if OBJECT was
   born in the current block of the trace (*YOUNG), else in slots. */
static TCM_ALWAYS_INLINE uint64_t
mtf_proc_distance(const struct mtf_proc_writer *w, struct mtf_proc_hot *h,
                  const struct mtf_proc_object *object, bool *young) {
    TCM_ASSERT(object->slot < w->slot_count);
    TCM_ASSERT(object->birth < w->birth_base + h->births);
    *young = object->birth >= w->birth_base;
    if (TCM_LIKELY(*young)) {
        uint32_t birth = (uint32_t)(object->birth - w->birth_base);
        uint64_t distance = mtf_zigzag((int64_t)birth - h->last_birth);
        h->last_birth = birth;
        return distance;
    }
    uint64_t distance = mtf_zigzag((int64_t)object->slot - h->last_slot);
    h->last_slot = object->slot;
    return distance;
}

/* Puts a plain call that made a block; fills OBJECT. */
static TCM_ALWAYS_INLINE void
mtf_proc_put_alloc_hot(struct mtf_proc_writer *w, struct mtf_proc_hot *h,
                       unsigned call, uint64_t size,
                       struct mtf_proc_object *o) {
    TCM_ASSERT(mtf_call_is_plain_alloc(call));
    if (TCM_UNLIKELY(size > MTF_PROC_SIZE_MAX)) {
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_put_aligned(w, call, 0, size, o));
        return;
    }
    if (TCM_UNLIKELY(call != w->alloc_call))
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_set_alloc_call(w, call));
    mtf_proc_room(w, h);
    h->p += mtf_varint_put(h->p, mtf_size_code(size, h->last_8th) << 1 | 1);
    h->last_8th = size >> 3;
    h->records++;
    h->ops++;
    mtf_proc_take_slot(w, h, o);
}

static TCM_ALWAYS_INLINE void
mtf_proc_put_free_hot(struct mtf_proc_writer *w, struct mtf_proc_hot *h,
                      unsigned call, const struct mtf_proc_object *object) {
    TCM_ASSERT(mtf_call_is_free(call));
    if (TCM_UNLIKELY(call != w->free_call))
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_set_free_call(w, call));
    mtf_proc_room(w, h);
    bool young;
    uint64_t v = mtf_proc_distance(w, h, object, &young);
    v = TCM_LIKELY(young) ? v << 2 | 2 : v << 3 | 4;
    h->p += mtf_varint_put(h->p, v);
    h->records++;
    h->ops++;
    mtf_proc_give_slot(w, h, object->slot);
}

static TCM_ALWAYS_INLINE void mtf_proc_put_alloc(struct mtf_proc_writer *w,
                                                 unsigned call, uint64_t size,
                                                 struct mtf_proc_object *o) {
    mtf_proc_put_alloc_hot(w, &w->hot, call, size, o);
}

static TCM_ALWAYS_INLINE void
mtf_proc_put_free(struct mtf_proc_writer *w, unsigned call,
                  const struct mtf_proc_object *object) {
    mtf_proc_put_free_hot(w, &w->hot, call, object);
}

/* Puts a realloc or reallocarray of a recorded block, which keeps its slot and
   birth. */
static TCM_ALWAYS_INLINE void
mtf_proc_put_realloc(struct mtf_proc_writer *w, unsigned call, bool moved,
                     uint64_t size, const struct mtf_proc_object *object) {
    TCM_ASSERT(mtf_call_is_realloc(call));
    if (TCM_UNLIKELY(size > MTF_PROC_SIZE_MAX)) {
        mtf_proc_put_realloc_huge(w, call, moved, size, object);
        return;
    }
    struct mtf_proc_hot *h = &w->hot;
    mtf_proc_room(w, h);
    bool young;
    uint64_t v = mtf_proc_distance(w, h, object, &young);
    v = young ? v << 4 | 8 : v << 9 | (uint64_t)MTF_PROC_REALLOC_OLD << 4;
    h->p += mtf_varint_put(h->p, v);
    v = mtf_size_code(size, h->last_8th) << 2 | (uint64_t)moved << 1 |
        (call == MTF_CALL_REALLOCARRAY);
    h->p += mtf_varint_put(h->p, v);
    h->last_8th = size >> 3;
    h->records++;
    h->ops++;
}

/* Makes the following records those of THREAD. */
static TCM_ALWAYS_INLINE void mtf_proc_put_switch(struct mtf_proc_writer *w,
                                                  uint32_t thread) {
    if (thread != w->thread)
        mtf_proc_switch(w, thread);
}

#endif
