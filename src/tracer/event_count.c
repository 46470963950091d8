/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/event_count.h"

#include "base/check.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

/* One bit in each byte. */
#define ONES 0x0101010101010101u

/* An extended event with payload V; returns the bytes after its varint. */
static size_t count_extended(struct mtr_event_counts *c, uint64_t v) {
    switch (v >> 2 & 31) {
    case MTF_RAW_ALIGNED:
        c->memaligns++;
        break;
    case MTF_RAW_REALLOC_NEW:
    case MTF_RAW_REALLOC_END:
        c->reallocs++;
        break;
    case MTF_RAW_FREE_SIZE:
        c->frees++;
        break;
    case MTF_RAW_FAILED:
        c->failed++;
        break;
    default:
        break;
    }
    return (v >> 2 & 31) >= 16 ? v >> 7 : 0;
}

/*
 * Most programs' events are one byte long: eight of them are counted at once.
 * A byte of a one-byte ALLOC is ...011, of a FREE ...101; so eight hot events
 * have bit 0 set and exactly one of the bits 1 and 2 in every byte.
 */
void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n) {
    const uint8_t *end = p + n;
    uint64_t mallocs = 0, frees = 0;
    while (p < end) {
        uint64_t w = mtf_load_le64(p);
        if (end - p >= 8 && (w & (w >> 1 ^ w >> 2) & ONES) == ONES) {
            unsigned alloc = (unsigned)((w >> 1 & ONES) * ONES >> 56);
            mallocs += alloc;
            frees += 8 - alloc;
            p += 8;
            continue;
        }
        /* The added bit bounds the length whatever the bytes are. */
        unsigned length = (unsigned)__builtin_ctzll(w | 0x80) + 1;
        uint64_t v = w << (64 - 8 * length) >> (64 - 7 * length);
        unsigned type = v & 3;
        mallocs += type == MTF_RAW_ALLOC;
        frees += type == MTF_RAW_FREE;
        p += length;
        if (TCM_UNLIKELY(type == MTF_RAW_EXTENDED)) {
            p += count_extended(counts, v);
        } else if (TCM_UNLIKELY(type == MTF_RAW_REALLOC)) {
            counts->reallocs++;
            p += (unsigned)__builtin_ctz(*p | 0x80u) + 1;
        }
    }
    counts->mallocs += mallocs;
    counts->frees += frees;
}
