/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of the frequent records, inline because the sorter writes tens of
 * millions of them a second. The decoder of exactly these bytes is
 * proc_reader.c; doc/processed-trace-format.md has the tables.
 *
 * How a free names its block: a block born in the same block of the trace by
 * the difference of births (programs free much in the order of allocation, and
 * that makes small and repeating numbers), an older one by its slot. Slots
 * alone would be half as large again after compression.
 */
#ifndef MTF_PROC_CODEC_H
#define MTF_PROC_CODEC_H

#include "base/check.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"

/* No record made here is longer: one realloc, two varints. */
#define MTF_PROC_RECORD_MAX 16u

/* Sizes above have no size code and go into records with all their bytes. */
#define MTF_PROC_SIZE_MAX MTF_SIZE_MAX

/* Out of line: a full block, another sticky call, a slot that was free before
   the block, a stack that must grow. */
void mtf_proc_make_room(struct mtf_proc_writer *w);
void mtf_proc_set_alloc_call(struct mtf_proc_writer *w, unsigned call);
void mtf_proc_set_free_call(struct mtf_proc_writer *w, unsigned call);
void mtf_proc_switch(struct mtf_proc_writer *w, uint32_t thread);
uint32_t mtf_proc_take_slot_slow(struct mtf_proc_writer *w);
void mtf_proc_grow_stack(struct mtf_proc_writer *w);
void mtf_proc_put_alloc_huge(struct mtf_proc_writer *w, unsigned call,
                             uint64_t size, struct mtf_proc_object *object);
void mtf_proc_put_realloc_huge(struct mtf_proc_writer *w, unsigned call,
                               bool moved, uint64_t size,
                               const struct mtf_proc_object *object);

/* Before every record: after it MTF_PROC_RECORD_MAX bytes and one record fit.
 */
static TCM_ALWAYS_INLINE void mtf_proc_room(struct mtf_proc_writer *w) {
    if (TCM_UNLIKELY(w->p >= w->limit || w->records == MTF_PROC_BLOCK_RECORDS))
        mtf_proc_make_room(w);
}

/* Whether OBJECT was born in the block in work; its BIRTH counts from there. */
static TCM_ALWAYS_INLINE bool
mtf_proc_is_young(const struct mtf_proc_writer *w,
                  const struct mtf_proc_object *object, uint32_t *birth) {
    *birth = (uint32_t)(object->birth - w->birth_base);
    return object->birth >= w->birth_base;
}

static TCM_ALWAYS_INLINE void mtf_proc_take_slot(struct mtf_proc_writer *w,
                                                 struct mtf_proc_object *o) {
    uint32_t slot;
    if (TCM_LIKELY(w->depth > w->low_water))
        slot = w->stack[--w->depth];
    else
        slot = mtf_proc_take_slot_slow(w);
    o->slot = slot;
    o->birth = w->birth_base + w->births++;
}

static TCM_ALWAYS_INLINE void mtf_proc_give_slot(struct mtf_proc_writer *w,
                                                 uint32_t slot) {
    if (TCM_UNLIKELY(w->depth == w->capacity)) {
        mtf_proc_grow_stack(w);
        if (w->failed)
            return;
    }
    w->stack[w->depth++] = slot;
}

/* A plain call that made a block; fills OBJECT. */
static TCM_ALWAYS_INLINE void mtf_proc_put_alloc(struct mtf_proc_writer *w,
                                                 unsigned call, uint64_t size,
                                                 struct mtf_proc_object *o) {
    if (TCM_UNLIKELY(size > MTF_PROC_SIZE_MAX)) {
        mtf_proc_put_alloc_huge(w, call, size, o);
        return;
    }
    if (TCM_UNLIKELY(call != w->alloc_call))
        mtf_proc_set_alloc_call(w, call);
    mtf_proc_room(w);
    w->p += mtf_varint_put(w->p, mtf_size_code(size, w->last_8th) << 1 | 1);
    w->last_8th = size >> 3;
    w->records++;
    w->ops++;
    mtf_proc_take_slot(w, o);
}

static TCM_ALWAYS_INLINE void
mtf_proc_put_free(struct mtf_proc_writer *w, unsigned call,
                  const struct mtf_proc_object *object) {
    if (TCM_UNLIKELY(call != w->free_call))
        mtf_proc_set_free_call(w, call);
    mtf_proc_room(w);
    uint32_t birth;
    uint64_t v;
    if (TCM_LIKELY(mtf_proc_is_young(w, object, &birth))) {
        v = mtf_zigzag((int64_t)birth - w->last_birth) << 2 | 2;
        w->last_birth = birth;
    } else {
        v = mtf_zigzag((int64_t)object->slot - w->last_slot) << 3 | 4;
        w->last_slot = object->slot;
    }
    w->p += mtf_varint_put(w->p, v);
    w->records++;
    w->ops++;
    mtf_proc_give_slot(w, object->slot);
}

/* realloc or reallocarray of a recorded block; it keeps its slot and birth. */
static TCM_ALWAYS_INLINE void
mtf_proc_put_realloc(struct mtf_proc_writer *w, unsigned call, bool moved,
                     uint64_t size, const struct mtf_proc_object *object) {
    if (TCM_UNLIKELY(size > MTF_PROC_SIZE_MAX)) {
        mtf_proc_put_realloc_huge(w, call, moved, size, object);
        return;
    }
    mtf_proc_room(w);
    uint32_t birth;
    uint64_t v;
    if (TCM_LIKELY(mtf_proc_is_young(w, object, &birth))) {
        v = mtf_zigzag((int64_t)birth - w->last_birth) << 4 | 8;
        w->last_birth = birth;
    } else {
        v = mtf_zigzag((int64_t)object->slot - w->last_slot);
        v = v << 9 | (uint64_t)MTF_PROC_REALLOC_OLD << 4;
        w->last_slot = object->slot;
    }
    w->p += mtf_varint_put(w->p, v);
    v = mtf_size_code(size, w->last_8th) << 2 | (uint64_t)moved << 1 |
        (call == MTF_CALL_REALLOCARRAY);
    w->p += mtf_varint_put(w->p, v);
    w->last_8th = size >> 3;
    w->records++;
    w->ops++;
}

/* Following records are THREAD's. */
static TCM_ALWAYS_INLINE void mtf_proc_put_switch(struct mtf_proc_writer *w,
                                                  uint32_t thread) {
    if (thread != w->thread)
        mtf_proc_switch(w, thread);
}

#endif
