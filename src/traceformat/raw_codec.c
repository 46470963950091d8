/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of rare events: finds the decoder for an event.
 */
#include "traceformat/raw_codec.h"

static bool decode_inline(struct mtf_raw_state *s, unsigned kind, uint64_t arg,
                          struct mtf_event *e) {
    e->kind = MTF_EVENT_STATE;
    switch (kind) {
    case MTF_RAW_ALLOC_CALL:
        if (arg >= MTF_CALL_LIMIT || !mtf_call_is_plain_alloc((unsigned)arg))
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
        mtf_raw_get_tokens(s, arg);
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
    case MTF_RAW_PRESENT:
        mtf_raw_get_present(arg, e);
        return true;
    case MTF_RAW_SITE:
        e->kind = MTF_EVENT_SITE;
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

/* Decodes kinds of the forms TEXT and PAIR, and kinds of a later version. */
static TCM_NOINLINE bool decode_plain(const struct mtf_raw_bytes *x,
                                      struct mtf_event *e) {
    const struct mtf_kind *k = mtf_plain_of_raw(x->kind);
    if (k != NULL && k->form == MTF_FORM_PAIR)
        return mtf_raw_get_pair(x, (enum mtf_event_kind)k->event, e);
    mtf_raw_get_bytes(
        x, k != NULL ? (enum mtf_event_kind)k->event : MTF_EVENT_UNKNOWN, e);
    return true;
}

static bool decode_bytes(struct mtf_raw_state *s, const struct mtf_raw_bytes *x,
                         struct mtf_event *e) {
    switch (x->kind) {
    case MTF_RAW_BUFFER:
        return mtf_raw_get_buffer(s, x, e);
    case MTF_RAW_THREAD_START:
        return mtf_raw_get_thread_start(x, e);
    case MTF_RAW_THREAD_END:
        mtf_raw_get_bytes(x, MTF_EVENT_THREAD_END, e);
        return true;
    case MTF_RAW_WRONG:
        return mtf_raw_get_wrong(x, e);
    case MTF_RAW_GAP:
        return mtf_raw_get_gap(x, e);
    case MTF_RAW_SITE_DEF:
        /* A longer definition is of a later version, and readers keep the
           length in a byte. */
        mtf_raw_get_bytes(x,
                          x->length <= MTF_EXTENDED_MAX ? MTF_EVENT_SITE_DEF
                                                        : MTF_EVENT_UNKNOWN,
                          e);
        return true;
    default:
        return decode_plain(x, e);
    }
}

/* Decodes calls: the first byte is the call. */
static bool decode_call(struct mtf_raw_state *s, const struct mtf_raw_bytes *x,
                        struct mtf_event *e) {
    if (x->length == 0)
        return false;
    e->call = x->data[0];
    e->flags = 0;
    switch (x->kind) {
    case MTF_RAW_ALIGNED:
        return mtf_raw_get_aligned(s, x, e);
    case MTF_RAW_FAILED:
        return mtf_raw_get_failed(x, e);
    case MTF_RAW_FREE_SIZE:
        return mtf_raw_get_free_size(s, x, e);
    case MTF_RAW_REALLOC_NEW:
        return mtf_raw_get_realloc_new(s, x, e);
    default:
        return mtf_raw_get_realloc_end(s, x, e);
    }
}

static bool decode_extended(struct mtf_raw_state *s, uint64_t v, size_t length,
                            const uint8_t *p, struct mtf_event *e) {
    unsigned kind = mtf_raw_kind_of(v);
    if (kind < MTF_RAW_BUFFER)
        return decode_inline(s, kind, v >> 7, e);
    unsigned bytes = (unsigned)(v >> 7);
    struct mtf_raw_bytes x = {kind, bytes, p + length - bytes};
    switch (kind) {
    case MTF_RAW_ALIGNED:
    case MTF_RAW_FAILED:
    case MTF_RAW_FREE_SIZE:
    case MTF_RAW_REALLOC_NEW:
    case MTF_RAW_REALLOC_END:
        return decode_call(s, &x, e);
    default:
        return decode_bytes(s, &x, e);
    }
}

static bool decode_realloc(struct mtf_raw_state *s, const uint8_t *p,
                           struct mtf_event *e) {
    uint64_t first = 0, second = 0;
    p += mtf_varint_get_unchecked(p, &first);
    mtf_varint_get_unchecked(p, &second);
    return mtf_raw_get_realloc(s, first, second, e);
}

int mtf_raw_decode_slow(struct mtf_raw_state *s, const uint8_t *p,
                        const uint8_t *end, struct mtf_event *e) {
    uint64_t v;
    size_t length = mtf_raw_event_length(p, end, &v);
    bool good = false;
    if (length == 0)
        return *p == 0 ? MTF_DECODE_END : MTF_DECODE_BAD;
    switch (v & 3) {
    case MTF_RAW_ALLOC:
    case MTF_RAW_FREE:
        good = mtf_raw_decode_hot(s, p, end, e) != 0;
        break;
    case MTF_RAW_REALLOC:
        good = decode_realloc(s, p, e);
        break;
    default:
        good = decode_extended(s, v, length, p, e);
    }
    return good ? (int)length : MTF_DECODE_BAD;
}

size_t mtf_raw_events_length(const uint8_t *p, const uint8_t *end,
                             bool *ended) {
    const uint8_t *q = p;
    uint64_t v;
    while (q < end) {
        size_t n = mtf_raw_event_length(q, end, &v);
        if (n == 0)
            break;
        q += n;
    }
    *ended = q == end || *q == 0;
    return (size_t)(q - p);
}

bool mtf_raw_is_buffer_event(const uint8_t *p, const uint8_t *end) {
    uint64_t v;
    return p < end && mtf_raw_event_length(p, end, &v) != 0 &&
           (v & 3) == MTF_RAW_EXTENDED &&
           mtf_raw_kind_of(v) == MTF_RAW_BUFFER &&
           v >> 7 >= sizeof(struct mtf_raw_buffer_state);
}
