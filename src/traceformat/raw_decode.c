/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/raw_decode.h"

/* An extended event with bytes, taken apart. */
struct extended {
    unsigned kind;
    unsigned length;     /* of the bytes */
    const uint8_t *data; /* they and 8 more can be read */
};

static uint32_t load_le32(const uint8_t *p) {
    return (uint32_t)mtf_load_le64(p);
}

/* N bytes (1 to 8) as a number. */
static uint64_t load_bytes(const uint8_t *p, unsigned n) {
    return mtf_load_le64(p) << (64 - 8 * n) >> (64 - 8 * n);
}

static bool is_alloc_call(unsigned call) {
    return mtf_call_is_plain_alloc(call);
}

static bool take_token(struct mtf_raw_state *s, struct mtf_event *e) {
    if (s->tokens_left == 0)
        return false;
    s->tokens_left--;
    e->token = s->next_token++;
    return true;
}

/* --- Two-bit types ------------------------------------------------------ */

static int decode_realloc(struct mtf_raw_state *s, const uint8_t *p,
                          const uint8_t *end, uint64_t v, unsigned n,
                          struct mtf_event *e) {
    uint64_t code;
    if (p + n >= end)
        return MTF_DECODE_BAD;
    unsigned m = mtf_varint_get_unchecked(p + n, &code);
    if (m == 0 || m > (size_t)(end - p) - n)
        return MTF_DECODE_BAD;
    uint64_t last_8th = s->last_8th;
    e->size = mtf_size_of_code(code >> 2, &last_8th);
    if (e->size > MTF_SIZE_MAX || !take_token(s, e))
        return MTF_DECODE_BAD;
    s->last_8th = last_8th;
    s->last_freed += (uint64_t)mtf_unzigzag(v >> 2);
    e->kind = MTF_EVENT_REALLOC;
    e->call = (code & 1) != 0 ? MTF_CALL_REALLOCARRAY : MTF_CALL_REALLOC;
    e->flags = (code & 2) != 0 ? MTF_EVENT_MOVED : 0;
    e->old_token = s->last_freed;
    return (int)(n + m);
}

/* --- Extended events without bytes -------------------------------------- */

static bool decode_inline(struct mtf_raw_state *s, unsigned kind, uint64_t arg,
                          struct mtf_event *e) {
    e->kind = MTF_EVENT_STATE;
    switch (kind) {
    case MTF_RAW_ALLOC_CALL:
        if (arg >= MTF_CALL_LIMIT || !is_alloc_call((unsigned)arg))
            return false;
        s->alloc_call = (uint8_t)arg;
        return true;
    case MTF_RAW_FREE_CALL:
        if (arg >= MTF_CALL_LIMIT || !mtf_call_is_free((unsigned)arg))
            return false;
        s->free_call = (uint8_t)arg;
        return true;
    case MTF_RAW_TIME:
        s->time_ns += arg;
        e->kind = MTF_EVENT_TIME;
        e->time_ns = s->time_ns;
        return true;
    case MTF_RAW_TOKENS:
        s->next_token += s->tokens_left + (arg >> 5);
        s->tokens_left = (uint64_t)1 << (arg & 31);
        return true;
    case MTF_RAW_AS_THREAD:
        if (arg == MTF_THREAD_NONE || arg >= MTF_THREAD_LATE)
            return false;
        s->as_thread = (uint32_t)arg;
        e->kind = MTF_EVENT_AS_THREAD;
        e->thread = (uint32_t)arg;
        return true;
    case MTF_RAW_UNTRACED:
        s->untraced_frees += arg;
        e->kind = MTF_EVENT_UNTRACED;
        e->value = arg;
        return true;
    default:
        e->kind = MTF_EVENT_UNKNOWN;
        e->text = NULL;
        e->text_length = 0;
        e->value = kind;
        return true;
    }
}

/* --- Extended events with bytes ----------------------------------------- */

static bool decode_buffer(struct mtf_raw_state *s, const struct extended *x,
                          struct mtf_event *e) {
    if (x->length < sizeof(struct mtf_raw_buffer_state))
        return false;
    const uint8_t *d = x->data;
    unsigned alloc_call = d[22], free_call = d[23];
    if (alloc_call == MTF_CALL_NONE)
        alloc_call = MTF_CALL_MALLOC;
    if (free_call == MTF_CALL_NONE)
        free_call = MTF_CALL_FREE;
    if (!is_alloc_call(alloc_call) || !mtf_call_is_free(free_call))
        return false;
    s->time_ns = mtf_load_le64(d);
    s->next_token = mtf_load_le64(d + 8);
    s->tokens_left = load_le32(d + 16);
    s->cpu = (uint16_t)load_bytes(d + 20, 2);
    s->alloc_call = (uint8_t)alloc_call;
    s->free_call = (uint8_t)free_call;
    s->untraced_frees = mtf_load_le64(d + 24);
    s->dropped = mtf_load_le64(d + 32);
    s->waits = mtf_load_le64(d + 40);
    s->wait_ns = mtf_load_le64(d + 48);
    s->last_8th = 0;
    s->last_freed = s->next_token;
    s->as_thread = MTF_THREAD_NONE;
    e->kind = MTF_EVENT_BUFFER;
    e->time_ns = s->time_ns;
    return true;
}

/* The size that ends the event after FIXED bytes. */
static bool take_size(const struct extended *x, unsigned fixed,
                      struct mtf_event *e) {
    if (x->length <= fixed || x->length - fixed > 8)
        return false;
    e->size = load_bytes(x->data + fixed, x->length - fixed);
    return true;
}

static bool decode_call(struct mtf_raw_state *s, const struct extended *x,
                        struct mtf_event *e) {
    const uint8_t *d = x->data;
    if (x->length == 0)
        return false;
    e->call = d[0];
    e->flags = 0;
    switch (x->kind) {
    case MTF_RAW_ALIGNED:
        e->kind = MTF_EVENT_ALIGNED;
        e->align_log2 = d[1];
        return take_size(x, 2, e) && mtf_call_is_aligned_alloc(e->call) &&
               e->align_log2 < 48 && e->size <= MTF_SIZE_MAX &&
               take_token(s, e);
    case MTF_RAW_FAILED:
        e->kind = MTF_EVENT_FAILED;
        if (!take_size(x, 10, e))
            return false;
        e->align_log2 = d[1];
        e->old_token = mtf_load_le64(d + 2);
        return e->call != MTF_CALL_NONE && e->call < MTF_CALL_FREE &&
               (e->align_log2 < 64 || e->align_log2 == MTF_ALIGN_BAD);
    case MTF_RAW_FREE_SIZE:
        e->kind = MTF_EVENT_FREE_SIZE;
        e->old_token = mtf_load_le64(d + 1);
        if (!take_size(x, 9, e) || !mtf_call_is_free(e->call))
            return false;
        s->last_freed = e->old_token;
        return true;
    case MTF_RAW_REALLOC_NEW:
        e->kind = MTF_EVENT_REALLOC_NEW;
        e->flags = (d[1] & 1) != 0 ? MTF_EVENT_OLD_UNKNOWN : 0;
        return take_size(x, 2, e) && mtf_call_is_realloc(e->call) &&
               e->size <= MTF_SIZE_MAX && take_token(s, e);
    default: /* MTF_RAW_REALLOC_END */
        e->kind = MTF_EVENT_REALLOC_END;
        if (x->length < 9 || !mtf_call_is_realloc(e->call))
            return false;
        e->old_token = mtf_load_le64(d + 1);
        s->last_freed = e->old_token;
        return true;
    }
}

static bool decode_other(const struct extended *x, struct mtf_event *e) {
    const uint8_t *d = x->data;
    e->text = d;
    e->text_length = x->length;
    switch (x->kind) {
    case MTF_RAW_THREAD_START:
        e->kind = MTF_EVENT_THREAD_START;
        e->value = load_le32(d);
        return x->length >= 4;
    case MTF_RAW_THREAD_END:
        e->kind = MTF_EVENT_THREAD_END;
        return true;
    case MTF_RAW_MARK:
        e->kind = MTF_EVENT_MARK;
        return true;
    case MTF_RAW_EXTENSION:
        e->kind = MTF_EVENT_EXTENSION;
        if (x->length < 9)
            return false;
        e->call = d[0];
        e->value = mtf_load_le64(d + 1);
        return true;
    case MTF_RAW_GAP:
        e->kind = MTF_EVENT_GAP;
        if (x->length < 24)
            return false;
        e->value = mtf_load_le64(d);
        e->time_ns = mtf_load_le64(d + 8);
        e->time_hi = mtf_load_le64(d + 16);
        return true;
    default:
        e->kind = MTF_EVENT_UNKNOWN;
        e->value = x->kind;
        return true;
    }
}

static bool decode_extended(struct mtf_raw_state *s, const struct extended *x,
                            struct mtf_event *e) {
    switch (x->kind) {
    case MTF_RAW_BUFFER:
        return decode_buffer(s, x, e);
    case MTF_RAW_ALIGNED:
    case MTF_RAW_FAILED:
    case MTF_RAW_FREE_SIZE:
    case MTF_RAW_REALLOC_NEW:
    case MTF_RAW_REALLOC_END:
        return decode_call(s, x, e);
    default:
        return decode_other(x, e);
    }
}

int mtf_raw_decode_slow(struct mtf_raw_state *s, const uint8_t *p,
                        const uint8_t *end, struct mtf_event *e) {
    uint64_t v;
    size_t room = (size_t)(end - p);
    unsigned n = mtf_varint_get_unchecked(p, &v);
    if (n == 0)
        return MTF_DECODE_END;
    if (n > room)
        return MTF_DECODE_BAD;
    switch (v & 3) {
    case MTF_RAW_ALLOC:
    case MTF_RAW_FREE: {
        unsigned taken = mtf_raw_decode_hot(s, p, end, e);
        return taken == 0 ? MTF_DECODE_BAD : (int)taken;
    }
    case MTF_RAW_REALLOC:
        return decode_realloc(s, p, end, v, n, e);
    default:
        break;
    }
    unsigned kind = (unsigned)(v >> 2) & 31;
    if (kind < MTF_RAW_BUFFER)
        return decode_inline(s, kind, v >> 7, e) ? (int)n : MTF_DECODE_BAD;
    if (v >> 7 > room - n)
        return MTF_DECODE_BAD;
    struct extended x = {kind, (unsigned)(v >> 7), p + n};
    return decode_extended(s, &x, e) ? (int)(n + x.length) : MTF_DECODE_BAD;
}

/* --- Lengths alone ------------------------------------------------------ */

/* Length of the event at P; 0 for a zero byte, or if END cuts it. */
static size_t event_length(const uint8_t *p, const uint8_t *end) {
    uint64_t v;
    size_t room = (size_t)(end - p);
    size_t n = mtf_varint_get_unchecked(p, &v);
    if (n == 0 || n > room)
        return 0;
    if ((v & 3) == MTF_RAW_REALLOC) {
        if (n == room)
            return 0;
        size_t m = mtf_varint_get_unchecked(p + n, &v);
        return m == 0 || m > room - n ? 0 : n + m;
    }
    if ((v & 3) == MTF_RAW_EXTENDED && (v >> 2 & 31) >= MTF_RAW_BUFFER)
        return v >> 7 > room - n ? 0 : n + (size_t)(v >> 7);
    return n;
}

size_t mtf_raw_events_length(const uint8_t *p, const uint8_t *end,
                             bool *ended) {
    const uint8_t *q = p;
    while (q < end) {
        size_t n = event_length(q, end);
        if (n == 0)
            break;
        q += n;
    }
    *ended = q == end || *q == 0;
    return (size_t)(q - p);
}

bool mtf_raw_is_buffer_event(const uint8_t *p, const uint8_t *end) {
    uint64_t v;
    if (p >= end)
        return false;
    unsigned n = mtf_varint_get_unchecked(p, &v);
    return n != 0 && n <= (size_t)(end - p) &&
           (v & 127) == (MTF_RAW_BUFFER << 2 | MTF_RAW_EXTENDED) &&
           v >> 7 >= sizeof(struct mtf_raw_buffer_state) &&
           v >> 7 <= (size_t)(end - p) - n;
}
