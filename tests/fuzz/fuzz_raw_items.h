/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of what a reader of raw traces yields: shared by the targets that
 * reach it on different ways.
 */
#ifndef TESTS_FUZZ_FUZZ_RAW_ITEMS_H
#define TESTS_FUZZ_FUZZ_RAW_ITEMS_H

#include "tests/fuzz/fuzz.h"
#include "traceformat/raw_reader.h"
#include "traceformat/site_codec.h"

#include <string.h>

/* Streams of the first threads, by id. */
#define FUZZ_STREAMS 8u

struct fuzz_streams {
    struct mtf_stream stream[FUZZ_STREAMS];
    uint64_t items;
    uint64_t data_bytes;
    bool header;
};

static inline void fuzz_streams_init(struct fuzz_streams *f) {
    memset(f, 0, sizeof(*f));
    for (unsigned i = 0; i < FUZZ_STREAMS; i++)
        mtf_stream_init(&f->stream[i]);
}

static inline void fuzz_site_def(const uint8_t *p, size_t n) {
    struct mtf_site_def def;
    if (!mtf_site_def_get(p, n, &def))
        return;
    FUZZ_CHECK(def.site < MTF_SITE_LIMIT && def.parent < MTF_SITE_LIMIT &&
               def.module < MTF_SITE_LIMIT);
    FUZZ_CHECK(def.build_id_length <= MTF_BUILD_ID_MAX);
    if (def.path_length != 0)
        FUZZ_CHECK(def.path >= p && def.path + def.path_length == p + n);
}

static inline void fuzz_decode(struct mtf_stream *s,
                               const struct mtf_placement *place) {
    const uint8_t *p = place->data, *end = p + place->length;
    static struct mtf_site_state site;
    struct mtf_event e;
    memset(&site, 0, sizeof(site));
    while (p < end) {
        memset(&e, 0xA5, sizeof(e));
        int n = mtf_raw_decode(&s->state, p, end, &e);
        if (n <= 0) {
            mtf_stream_lose(s);
            return;
        }
        FUZZ_CHECK(n <= end - p);
        FUZZ_CHECK(e.kind >= MTF_EVENT_ALLOC && e.kind <= MTF_EVENT_UNKNOWN);
        if (e.kind <= MTF_EVENT_FAILED)
            FUZZ_CHECK(e.call != 0 && e.call < MTF_CALL_LIMIT);
        if (e.kind == MTF_EVENT_ALLOC || e.kind == MTF_EVENT_ALIGNED ||
            e.kind == MTF_EVENT_REALLOC || e.kind == MTF_EVENT_REALLOC_NEW)
            FUZZ_CHECK(e.size <= MTF_SIZE_MAX);
        if (e.kind == MTF_EVENT_SITE)
            FUZZ_CHECK(mtf_site_decode(&site, e.value) < MTF_SITE_LIMIT);
        if (e.kind == MTF_EVENT_SITE_DEF)
            fuzz_site_def(e.text, e.text_length);
        p += n;
    }
}

/* Returns false at the end. */
static inline bool fuzz_item(struct fuzz_streams *f,
                             const struct mtf_item *item, size_t size) {
    struct mtf_account_value a;
    /* Each item takes at least a byte of the input; LZ4 makes 255 of one. */
    FUZZ_CHECK(++f->items <= 300 * (uint64_t)size + 16);
    switch (item->kind) {
    case MTF_ITEM_END:
        return false;
    case MTF_ITEM_FAILED:
        FUZZ_CHECK(item->status != MTF_OK);
        return false;
    case MTF_ITEM_HEADER:
        FUZZ_CHECK(!f->header);
        f->header = true;
        FUZZ_CHECK(strlen(item->info->executable) < 256);
        break;
    case MTF_ITEM_DAMAGE:
        FUZZ_CHECK(item->status != MTF_OK);
        break;
    case MTF_ITEM_DATA: {
        struct mtf_placement place;
        struct mtf_stream *s = &f->stream[item->thread % FUZZ_STREAMS];
        FUZZ_CHECK(f->header && item->length != 0 && item->thread != 0);
        mtf_stream_place(s, item, &place);
        FUZZ_CHECK(place.length + place.doubled + place.undecodable ==
                   item->length);
        f->data_bytes += item->length;
        fuzz_decode(s, &place);
        break;
    }
    case MTF_ITEM_SITES: {
        struct mtf_event e;
        for (uint32_t at = 0, was = 0; mtf_item_site_def(item, &at, &e);
             was = at) {
            FUZZ_CHECK(at > was && at <= item->length);
            fuzz_site_def(e.text, e.text_length);
        }
        break;
    }
    default:
        for (unsigned i = 0; mtf_item_account(item, i, &a); i++)
            FUZZ_CHECK(i < item->length);
        break;
    }
    return true;
}

#endif
