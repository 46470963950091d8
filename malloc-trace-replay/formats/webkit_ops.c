/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * webkit-ops: .ops files of WebKit's MallocBench, little-endian records of 24
 * bytes,
 *
 *     u32 operation (0 malloc, 1 free, 2 realloc, 3 aligned), u16 thread,
 *     u16 log2 of the alignment, u64 slot, u64 size
 *
 * A free or realloc of an empty slot does nothing. Old files have one thread
 * and no aligned calls; the bytes of these fields are undefined.
 */
#include "formats/format_reader.h"
#include "traceformat/varint.h"

#define RECORD_BYTES ((size_t)24)

enum { OPS_MALLOC, OPS_FREE, OPS_REALLOC, OPS_ALIGNED, OPS_LIMIT };

static unsigned u16_at(const uint8_t *p) {
    return (unsigned)(p[0] | p[1] << 8);
}

static uint32_t operation_at(const uint8_t *p) {
    return (uint32_t)mtf_load_le64(p);
}

/* Makes an event of the record at P. False: the record is invalid. */
static bool fill_event(const uint8_t *p, struct format_event *e) {
    uint32_t op = operation_at(p);
    uint64_t id = mtf_load_le64(p + 8) + 1;
    unsigned log2 = u16_at(p + 6);
    if (op >= OPS_LIMIT || id == 0)
        return false;
    e->kind = FORMAT_ALLOC;
    e->call = MTF_CALL_MALLOC;
    e->id = id;
    e->size = mtf_load_le64(p + 16);
    e->thread = u16_at(p + 4);
    e->flags = FORMAT_THREADED;
    if (op == OPS_ALIGNED) {
        e->call = MTF_CALL_MEMALIGN;
        e->align_log2 = (uint8_t)(log2 < 64 ? log2 : 0);
    } else if (op != OPS_MALLOC) {
        e->kind = op == OPS_FREE ? FORMAT_FREE : FORMAT_REALLOC;
        e->call = op == OPS_FREE ? MTF_CALL_FREE : MTF_CALL_REALLOC;
        e->old = id;
        e->flags |= FORMAT_NO_BLOCK_IGNORED;
        if (op == OPS_FREE)
            e->id = e->size = 0;
    }
    return true;
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    size_t have;
    const uint8_t *p = format_reader_peek(r, RECORD_BYTES, &have);
    (void)state;
    if (have == 0)
        return FORMAT_END;
    *why = "ends inside a record";
    if (have < RECORD_BYTES)
        return FORMAT_CUT;
    format_reader_take(r, RECORD_BYTES);
    *why = "unknown operation";
    return fill_event(p, e) ? FORMAT_EVENT : FORMAT_BAD;
}

/* Reads calls of one thread, up to an aligned one. */
static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    size_t at = 0;
    (void)state;
    b->flags = FORMAT_THREADED;
    for (; n - at >= RECORD_BYTES && b->count < FORMAT_BATCH;
         at += RECORD_BYTES) {
        struct format_event e = {0};
        if (!fill_event(p + at, &e) || e.call == MTF_CALL_MEMALIGN ||
            (b->count != 0 && e.thread != b->thread))
            break;
        b->thread = e.thread;
        b->call[b->count++] = format_call_of(&e, at);
    }
    return at;
}

/* webkit-ops has no magic: all records have to be valid. */
static bool is_ops(const uint8_t *p, size_t n, bool whole) {
    size_t made = 0;
    if (whole && n % RECORD_BYTES != 0 && n < 4 * RECORD_BYTES)
        return false;
    for (; n >= RECORD_BYTES; p += RECORD_BYTES, n -= RECORD_BYTES) {
        uint32_t op = operation_at(p);
        if (op >= OPS_LIMIT || mtf_load_le64(p + 8) >> 32 != 0 ||
            mtf_load_le64(p + 16) >> 40 != 0 ||
            (op == OPS_ALIGNED && u16_at(p + 6) > 40))
            return false;
        made += op != OPS_FREE && mtf_load_le64(p + 16) != 0;
    }
    return made != 0;
}

const struct format_type format_webkit_ops = {
    .name = "webkit-ops",
    .title = "WebKit MallocBench operations",
    .ids = FORMAT_IDS_FROM_0,
    .matches = is_ops,
    .next = next_event,
    .batch = next_batch,
};
