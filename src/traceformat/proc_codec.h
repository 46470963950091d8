/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of the frequent records, inline because the sorter writes tens of
 * millions of them a second. The decoder of exactly these bytes is
 * proc_decode.c; doc/processed-trace-format.md has the tables.
 *
 * A free names a block born in the same block of the trace by the difference of
 * births (programs free much in the order of allocation, and that makes small
 * and repeating numbers), an older one by its slot. Slots alone would be half
 * as large again after compression.
 */
#ifndef TCM_TRACEFORMAT_PROC_CODEC_H
#define TCM_TRACEFORMAT_PROC_CODEC_H

#include "base/check.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"

/* Sizes above have no size code and go into records with all their bytes. */
#define MTF_PROC_SIZE_MAX MTF_SIZE_MAX

/* Before every record: after it MTF_PROC_RECORD_MAX bytes and one record fit.
 */
static TCM_ALWAYS_INLINE void mtf_proc_room(struct mtf_proc_writer *w,
                                            struct mtf_proc_hot *h) {
    if (TCM_UNLIKELY(h->p >= w->limit || h->records == MTF_PROC_BLOCK_RECORDS))
        MTF_PROC_OUT_OF_LINE(w, h, mtf_proc_flush(w));
}

/* The distance from the last named block to OBJECT, zigzag: in births if OBJECT
   was born in the block in work (*YOUNG), else in slots. */
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

/* A plain call that made a block; fills OBJECT. */
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

/* realloc or reallocarray of a recorded block; it keeps its slot and birth. */
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

/* Following records are THREAD's. */
static TCM_ALWAYS_INLINE void mtf_proc_put_switch(struct mtf_proc_writer *w,
                                                  uint32_t thread) {
    if (thread != w->thread)
        mtf_proc_switch(w, thread);
}

#endif
