/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the segments of a thread make its stream again.
 */
#include "traceformat/raw_reader.h"

#include <string.h>

void mtf_stream_init(struct mtf_stream *s) {
    memset(s, 0, sizeof(*s));
    s->lost = true;
}

void mtf_stream_init_late(struct mtf_stream *s) {
    mtf_stream_init(s);
    s->may_be_late = true;
}

void mtf_stream_lose(struct mtf_stream *s) {
    s->lost = true;
}

void mtf_stream_place(struct mtf_stream *s, const struct mtf_item *item,
                      struct mtf_placement *out) {
    memset(out, 0, sizeof(*out));
    out->data = item->data;
    uint64_t start = item->offset;
    uint64_t end = start + item->length;
    if (s->may_be_late) {
        s->may_be_late = false;
        s->before = start != item->buffer_start;
        s->next_offset = start;
    }
    if (end <= s->next_offset) {
        out->doubled = item->length;
        return;
    }
    if (start > s->next_offset) {
        out->gap = start - s->next_offset;
        s->next_offset = start;
        s->lost = true;
    }
    uint64_t at = s->next_offset;
    out->doubled = at - start;
    s->next_offset = end;
    const uint8_t *data = item->data + out->doubled;
    if (at == item->buffer_start)
        s->lost = !mtf_raw_is_buffer_event(data, item->data + item->length);
    if (s->lost) {
        if (s->before && at != item->buffer_start)
            out->before = end - at;
        else
            out->undecodable = end - at;
        return;
    }
    s->before = false;
    out->data = data;
    out->length = (size_t)(end - at);
}
