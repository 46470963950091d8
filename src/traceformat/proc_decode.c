/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop reads each varint with one load, which may pass the end by 8 bytes,
 * and checks afterwards if it did. A damaged block breaks only its own
 * operations. Births, stack and slot count are bounded by the number of
 * records, which is checked once, so the loop checks no array bound but those
 * of the two names that a record can have.
 */
#include "traceformat/proc_decode.h"

#include "base/check.h"
#include "traceformat/raw_codec.h"
#include "traceformat/site_codec.h"
#include "traceformat/trace_event.h"

#include <string.h>

static bool decode_taken(struct mtf_proc_decoder *d, uint32_t taken) {
    int64_t slot = d->last_slot;
    for (uint32_t i = 0; i < taken; i++) {
        uint64_t v;
        unsigned n = mtf_varint_get(d->p, d->end, &v);
        if (n == 0)
            return false;
        d->p += n;
        slot += mtf_unzigzag(v);
        if (slot < 0 || slot >= d->old_slots)
            return false;
        d->stack[taken - 1 - i] = (uint32_t)slot;
    }
    d->depth = taken;
    return true;
}

bool mtf_proc_decode_begin(struct mtf_proc_decoder *d,
                           const struct mtf_proc_block *block) {
    const struct mtf_proc_block_head *h = &block->head;
    d->payload = block->payload;
    d->p = block->payload;
    d->end = block->payload + h->length;
    d->last_8th = h->last_8th;
    d->time_ns = h->time_ns;
    d->last_birth = 0;
    d->last_slot = h->last_slot;
    d->births = 0;
    d->depth = 0;
    d->slot_count = h->slot_count;
    d->old_slots = h->slot_count;
    d->thread = h->thread;
    d->records_left = h->records;
    d->ops_left = h->ops;
    d->alloc_call = h->alloc_call;
    d->free_call = h->free_call;
    d->problem = NULL;
    if (h->records > MTF_PROC_BLOCK_RECORDS || h->taken > h->records ||
        h->ops > h->records ||
        h->slot_count > UINT32_MAX - MTF_PROC_BLOCK_RECORDS ||
        !mtf_call_is_plain_alloc(h->alloc_call) ||
        !mtf_call_is_free(h->free_call))
        d->problem = "impossible block head";
    else if (!decode_taken(d, h->taken))
        d->problem = "impossible list of slots";
    if (d->problem != NULL)
        d->records_left = 0;
    return d->problem == NULL;
}

static bool stop_decoding(struct mtf_proc_decoder *d, const char *problem) {
    d->problem = problem;
    d->records_left = 0;
    return false;
}

static TCM_ALWAYS_INLINE uint32_t take_slot(struct mtf_proc_decoder *d) {
    TCM_ASSERT(d->births < TCM_ARRAY_SIZE(d->birth_slot));
    uint32_t slot = d->depth != 0 ? d->stack[--d->depth] : d->slot_count++;
    d->birth_slot[d->births++] = slot;
    return slot;
}

static TCM_ALWAYS_INLINE void give_slot(struct mtf_proc_decoder *d,
                                        uint32_t slot) {
    TCM_ASSERT(slot < d->slot_count);
    TCM_ASSERT(d->depth < TCM_ARRAY_SIZE(d->stack));
    d->stack[d->depth++] = slot;
}

static TCM_ALWAYS_INLINE void put_op(struct mtf_op *op, unsigned kind,
                                     unsigned call, uint32_t slot,
                                     uint64_t size) {
    *op = (struct mtf_op){.slot = slot,
                          .kind = (uint8_t)kind,
                          .call = (uint8_t)call,
                          .size = size};
}

/* Little-endian number in the N bytes at P, of which at most 8 count. */
static uint64_t bytes_value(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    memcpy(&v, p, n < 8 ? n : 8);
    return v;
}

static bool check_slot(struct mtf_proc_decoder *d, uint32_t slot) {
    return slot < d->slot_count || stop_decoding(d, "slot out of range");
}

/* Decodes records with bytes that are operations. false: decoding has stopped.
   *MADE: OP was filled. */
static bool decode_operation(struct mtf_proc_decoder *d, unsigned kind,
                             const uint8_t *p, size_t n, struct mtf_op *op,
                             bool *made) {
    static const uint8_t least[] = {
        [MTF_PROC_ALIGNED] = 3,      [MTF_PROC_REALLOC_NEW] = 3,
        [MTF_PROC_REALLOC_END] = 5,  [MTF_PROC_FREE_SIZE] = 6,
        [MTF_PROC_REALLOC_SIZE] = 7,
    };
    *made = true;
    if (n < least[kind])
        return stop_decoding(d, "record too short");
    unsigned call = p[0];
    uint32_t slot = 0;
    switch (kind) {
    case MTF_PROC_ALIGNED:
        if (p[1] > 63 || !(mtf_call_is_aligned_alloc(call) ||
                           (p[1] == 0 && mtf_call_is_plain_alloc(call))))
            return stop_decoding(d, "impossible call");
        put_op(op,
               mtf_call_is_plain_alloc(call) ? MTF_OP_ALLOC : MTF_OP_ALIGNED,
               call, take_slot(d), bytes_value(p + 2, n - 2));
        op->align_log2 = p[1];
        break;
    case MTF_PROC_REALLOC_NEW:
        if (!mtf_call_is_realloc(call))
            return stop_decoding(d, "impossible call");
        put_op(op, MTF_OP_REALLOC_NEW, call, take_slot(d),
               bytes_value(p + 2, n - 2));
        op->flags = p[1] & MTF_PROC_FLAG_OLD_UNKNOWN;
        break;
    case MTF_PROC_REALLOC_END:
        memcpy(&slot, p + 1, 4);
        if (!mtf_call_is_realloc(call))
            return stop_decoding(d, "impossible call");
        if (!check_slot(d, slot))
            return false;
        put_op(op, MTF_OP_REALLOC_END, call, slot, 0);
        give_slot(d, slot);
        break;
    case MTF_PROC_FREE_SIZE:
        memcpy(&slot, p + 1, 4);
        if (!mtf_call_is_free(call))
            return stop_decoding(d, "impossible call");
        if (!check_slot(d, slot))
            return false;
        put_op(op, MTF_OP_FREE_SIZE, call, slot, bytes_value(p + 5, n - 5));
        give_slot(d, slot);
        break;
    default: /* MTF_PROC_REALLOC_SIZE */
        memcpy(&slot, p + 2, 4);
        if (!mtf_call_is_realloc(call))
            return stop_decoding(d, "impossible call");
        if (!check_slot(d, slot))
            return false;
        put_op(op, MTF_OP_REALLOC, call, slot, bytes_value(p + 6, n - 6));
        op->flags = p[1] & MTF_PROC_FLAG_MOVED;
    }
    if (d->ops_left == 0)
        return stop_decoding(d, "more operations than the head says");
    d->ops_left--;
    return true;
}

/* Decodes kinds of the forms TEXT and PAIR, and kinds of a later version. */
static TCM_NOINLINE bool decode_plain(struct mtf_proc_decoder *d, unsigned kind,
                                      const uint8_t *p, size_t n,
                                      struct mtf_op *op) {
    const uint8_t *from = p;
    unsigned number = kind;
    if (kind == MTF_PROC_NOTE) {
        number = MTF_NOTE(*p++);
        n--;
    }
    const struct mtf_kind *k = mtf_plain_of_proc(number);
    if (k == NULL) {
        n += (size_t)(p - from);
        put_op(op, MTF_OP_OTHER, 0, kind,
               (uint64_t)(from - d->payload) << 32 | n);
    } else if (k->form == MTF_FORM_TEXT) {
        put_op(op, k->op, 0, 0, (uint64_t)(p - d->payload) << 32 | n);
    } else {
        TCM_ASSERT(k->form == MTF_FORM_PAIR);
        if (n < 9)
            return stop_decoding(d, "record too short");
        put_op(op, k->op, 0, p[0], bytes_value(p + 1, 8));
    }
    return true;
}

/* Decodes all records with bytes. */
static bool decode_with_bytes(struct mtf_proc_decoder *d, unsigned kind,
                              const uint8_t *p, size_t n, struct mtf_op *op,
                              bool *made) {
    static const uint8_t least[32] = {
        [MTF_PROC_FAILED] = 4,     [MTF_PROC_THREAD_START] = 8,
        [MTF_PROC_THREAD_END] = 4, [MTF_PROC_SAMPLE] = 8,
        [MTF_PROC_LOSS] = 28,      [MTF_PROC_PHASE] = 1,
        [MTF_PROC_NOTE] = 1,       [MTF_PROC_SITE] = 1,
    };
    uint64_t at = (uint64_t)(p - d->payload);
    *made = true;
    if (n < least[kind])
        return stop_decoding(d, "record too short");
    switch (kind) {
    case MTF_PROC_ALIGNED:
    case MTF_PROC_REALLOC_NEW:
    case MTF_PROC_REALLOC_END:
    case MTF_PROC_FREE_SIZE:
    case MTF_PROC_REALLOC_SIZE:
        return decode_operation(d, kind, p, n, op, made);
    case MTF_PROC_FAILED:
        /* calls of later versions too: no program executes a FAILED */
        if (p[0] == MTF_CALL_NONE || p[0] >= MTF_CALL_FREE)
            return stop_decoding(d, "impossible call");
        put_op(op, MTF_OP_FAILED, p[0], 0, bytes_value(p + 3, n - 3));
        op->align_log2 = p[1];
        op->flags = p[2] & MTF_PROC_FLAG_HAD_OLD;
        return true;
    case MTF_PROC_THREAD_START:
        put_op(op, MTF_OP_THREAD_START, 0, (uint32_t)bytes_value(p, 4),
               bytes_value(p + 4, 4));
        return true;
    case MTF_PROC_THREAD_END:
        put_op(op, MTF_OP_THREAD_END, 0, (uint32_t)bytes_value(p, 4),
               (at + 4) << 32 | (n - 4));
        return true;
    case MTF_PROC_SAMPLE:
        put_op(op, MTF_OP_SAMPLE, 0, 0, at << 32 | n);
        return true;
    case MTF_PROC_LOSS:
        put_op(op, MTF_OP_LOSS, 0, (uint32_t)bytes_value(p, 4),
               (at + 4) << 32 | (n - 4));
        return true;
    case MTF_PROC_SITE: {
        uint64_t site = bytes_value(p, n);
        put_op(op, MTF_OP_SITE, 0,
               site < MTF_SITE_LIMIT ? (uint32_t)site : MTF_SITE_NONE, 0);
        return true;
    }
    case MTF_PROC_SITE_DEF:
        put_op(op, MTF_OP_SITE_DEF, 0, 0, at << 32 | n);
        return true;
    case MTF_PROC_PHASE:
        put_op(op, MTF_OP_PHASE, 0, p[0], 0);
        return true;
    case MTF_PROC_NOTE:
        if (MTF_NOTE(p[0]) != MTF_PROC_PRESENT)
            return decode_plain(d, kind, p, n, op);
        if (n < 2)
            return stop_decoding(d, "record too short");
        put_op(op, MTF_OP_PRESENT, 0, 0, bytes_value(p + 1, n - 1));
        return true;
    default:
        return decode_plain(d, kind, p, n, op);
    }
}

/* Decodes the second varint of a realloc. */
static bool decode_realloc(struct mtf_proc_decoder *d, uint32_t slot,
                           struct mtf_op *op) {
    uint64_t v;
    unsigned n = mtf_varint_get(d->p, d->end, &v);
    if (n == 0)
        return stop_decoding(d, "record cut");
    if (d->ops_left == 0)
        return stop_decoding(d, "more operations than the head says");
    d->p += n;
    d->ops_left--;
    put_op(op, MTF_OP_REALLOC, v & 1 ? MTF_CALL_REALLOCARRAY : MTF_CALL_REALLOC,
           slot, mtf_size_of_code(v >> 2, &d->last_8th));
    op->flags = v & 2 ? MTF_PROC_FLAG_MOVED : 0;
    return true;
}

/* Takes a TIME record that follows one of the longest step: both are parts of
   one pause, which is one operation. false: there is none. */
static bool take_time(struct mtf_proc_decoder *d, uint64_t *step) {
    uint64_t v;
    unsigned n = mtf_varint_get(d->p, d->end, &v);
    if (d->records_left == 0 || n == 0 || (v & 15) != 0 ||
        (v >> 4 & 31) != MTF_PROC_TIME)
        return false;
    d->p += n;
    d->records_left--;
    *step = v >> 9;
    return true;
}

static bool decode_extended(struct mtf_proc_decoder *d, uint64_t v,
                            struct mtf_op *op, bool *made) {
    unsigned kind = (unsigned)(v >> 4) & 31;
    uint64_t x = v >> 9;
    *made = false;
    switch (kind) {
    case MTF_PROC_ALLOC_CALL:
        if (x >= MTF_CALL_LIMIT || !mtf_call_is_plain_alloc((unsigned)x))
            return stop_decoding(d, "impossible call");
        d->alloc_call = (uint8_t)x;
        return true;
    case MTF_PROC_FREE_CALL:
        if (x >= MTF_CALL_LIMIT || !mtf_call_is_free((unsigned)x))
            return stop_decoding(d, "impossible call");
        d->free_call = (uint8_t)x;
        return true;
    case MTF_PROC_SWITCH:
        if (x > UINT32_MAX)
            return stop_decoding(d, "impossible thread");
        d->thread = (uint32_t)x;
        put_op(op, MTF_OP_SWITCH, 0, d->thread, 0);
        *made = true;
        return true;
    case MTF_PROC_TIME:
        d->time_ns += x;
        while (x == MTF_PROC_TIME_MAX && take_time(d, &x))
            d->time_ns += x;
        put_op(op, MTF_OP_TIME, 0, 0, d->time_ns);
        *made = true;
        return true;
    case MTF_PROC_REALLOC_OLD: {
        uint32_t slot = d->last_slot + (uint32_t)mtf_unzigzag(x);
        if (!check_slot(d, slot))
            return false;
        d->last_slot = slot;
        *made = true;
        return decode_realloc(d, slot, op);
    }
    default:
        if (kind < 16)
            return stop_decoding(d, "operation of a later version");
        if (x > (uint64_t)(d->end - d->p))
            return stop_decoding(d, "record cut");
        const uint8_t *bytes = d->p;
        d->p += x;
        return decode_with_bytes(d, kind, bytes, (size_t)x, op, made);
    }
}

/* Decodes any record but ALLOC, FREE and FREE_OLD; D->p is behind its first
   varint V. MADE becomes true if OP was filled. */
static TCM_NOINLINE bool decode_rare(struct mtf_proc_decoder *d, uint64_t v,
                                     struct mtf_op *op, bool *made) {
    if ((v & 15) == 0)
        return decode_extended(d, v, op, made);
    uint32_t birth = d->last_birth + (uint32_t)mtf_unzigzag(v >> 4);
    if (birth >= d->births)
        return stop_decoding(d, "birth out of range");
    d->last_birth = birth;
    *made = true;
    return decode_realloc(d, d->birth_slot[birth], op);
}

size_t mtf_proc_decode(struct mtf_proc_decoder *d, struct mtf_op *ops,
                       size_t max) {
    struct mtf_op *op = ops, *stop_at = ops + max;
    while (op < stop_at && d->records_left != 0) {
        uint64_t w = mtf_load_le64(d->p);
        unsigned n = (unsigned)__builtin_ctzll(w | (uint64_t)1 << 63) + 1;
        if (TCM_UNLIKELY(n > 8 || n > (size_t)(d->end - d->p))) {
            stop_decoding(d, "record cut");
            break;
        }
        uint64_t v = w << (64 - 8 * n) >> (64 - 7 * n);
        d->p += n;
        d->records_left--;
        if (v & 1) {
            uint64_t size = mtf_size_of_code(v >> 1, &d->last_8th);
            put_op(op++, MTF_OP_ALLOC, d->alloc_call, take_slot(d), size);
            d->ops_left--;
            continue;
        }
        uint32_t slot;
        if (v & 2) {
            uint32_t birth = d->last_birth + (uint32_t)mtf_unzigzag(v >> 2);
            if (TCM_UNLIKELY(birth >= d->births)) {
                stop_decoding(d, "birth out of range");
                break;
            }
            d->last_birth = birth;
            slot = d->birth_slot[birth];
        } else if (v & 4) {
            slot = d->last_slot + (uint32_t)mtf_unzigzag(v >> 3);
            if (TCM_UNLIKELY(slot >= d->old_slots)) {
                stop_decoding(d, "slot out of range");
                break;
            }
            d->last_slot = slot;
        } else {
            bool made;
            if (!decode_rare(d, v, op, &made))
                break;
            op += made;
            continue;
        }
        put_op(op++, MTF_OP_FREE, d->free_call, slot, 0);
        give_slot(d, slot);
        d->ops_left--;
    }
    if (d->records_left == 0 && d->problem == NULL &&
        (d->p != d->end || d->ops_left != 0))
        d->problem = "records and head contradict each other";
    return (size_t)(op - ops);
}
