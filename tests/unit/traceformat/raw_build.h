/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw traces made in memory for tests: an encoder of single events as the
 * recorder writes them, and a sink that gathers what a writer stores.
 */
#ifndef TESTS_UNIT_TRACEFORMAT_RAW_BUILD_H
#define TESTS_UNIT_TRACEFORMAT_RAW_BUILD_H

#include "base/compiler.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_writer.h"

#include <stdlib.h>
#include <string.h>

/* --- Bytes that grow ------------------------------------------------------ */

struct bytes {
    uint8_t *data; /* LENGTH bytes and 8 zeros */
    size_t length, capacity;
};

static inline uint8_t *bytes_room(struct bytes *b, size_t n) {
    if (b->data == NULL || b->length + n + 8 > b->capacity) {
        b->capacity = 2 * (b->length + n + 8) + 256;
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL)
            abort();
    }
    memset(b->data + b->length, 0, n + 8);
    return b->data + b->length;
}

static inline void bytes_add(struct bytes *b, const void *data, size_t n) {
    uint8_t *p = bytes_room(b, n);
    if (n != 0)
        memcpy(p, data, n);
    b->length += n;
}

static inline void bytes_free(struct bytes *b) {
    free(b->data);
    memset(b, 0, sizeof(*b));
}

static inline bool bytes_sink(void *ctx, const void *data, size_t n) {
    bytes_add(ctx, data, n);
    return true;
}

/* --- Events --------------------------------------------------------------- */

/* What the recording thread knows. */
struct encoder {
    struct bytes out;
    uint64_t next_token, tokens_left, last_8th, last_freed, time_ns;
};

static inline void put_payload(struct encoder *e, uint64_t payload) {
    uint8_t *p = bytes_room(&e->out, 8);
    e->out.length += mtf_varint_put(p, payload);
}

static inline void put_extended(struct encoder *e, enum mtf_raw_kind kind,
                                const void *data, unsigned n) {
    uint8_t head[8] = {0};
    mtf_put_extended_head(head, kind, n);
    bytes_add(&e->out, head, 2);
    bytes_add(&e->out, data, n);
}

static inline void put_buffer(struct encoder *e, uint64_t time_ns,
                              uint64_t untraced, uint64_t dropped) {
    struct mtf_raw_buffer_state s = {.time_ns = time_ns,
                                     .next_token = e->next_token,
                                     .tokens_left = (uint32_t)e->tokens_left,
                                     .cpu = 3,
                                     .alloc_call = MTF_CALL_MALLOC,
                                     .free_call = MTF_CALL_FREE,
                                     .untraced_frees = untraced,
                                     .dropped = dropped};
    put_extended(e, MTF_RAW_BUFFER, &s, sizeof(s));
    e->last_8th = 0;
    e->last_freed = e->next_token;
    e->time_ns = time_ns;
}

/* A block of 1 << LOG2 tokens that begins at FIRST. */
static inline void put_tokens(struct encoder *e, uint64_t first,
                              unsigned log2) {
    uint64_t distance = first - (e->next_token + e->tokens_left);
    put_payload(e, mtf_inline_payload(
                       MTF_RAW_TOKENS,
                       mtf_tokens_argument(distance, (uint64_t)1 << log2)));
    e->next_token = first;
    e->tokens_left = (uint64_t)1 << log2;
}

static inline void put_time(struct encoder *e, uint64_t time_ns) {
    put_payload(e, mtf_inline_payload(MTF_RAW_TIME, time_ns - e->time_ns));
    e->time_ns = time_ns;
}

static inline uint64_t take_token(struct encoder *e) {
    e->tokens_left--;
    return e->next_token++;
}

static inline uint64_t put_alloc(struct encoder *e, uint64_t size) {
    put_payload(e, mtf_alloc_payload(size, e->last_8th));
    e->last_8th = size >> 3;
    return take_token(e);
}

static inline void put_free(struct encoder *e, uint64_t token) {
    put_payload(e, mtf_free_payload(token, e->last_freed));
    e->last_freed = token;
}

static inline uint64_t put_realloc(struct encoder *e, uint64_t size,
                                   uint64_t old, bool moved, bool array) {
    uint64_t distance = mtf_zigzag((int64_t)(old - e->last_freed));
    put_payload(e, distance << 2 | MTF_RAW_REALLOC);
    put_payload(e, mtf_size_code(size, e->last_8th) << 2 |
                       (uint64_t)moved << 1 | (uint64_t)array);
    e->last_8th = size >> 3;
    e->last_freed = old;
    return take_token(e);
}

/* CALL, one more byte, perhaps a token, then SIZE. */
static inline void put_call(struct encoder *e, enum mtf_raw_kind kind,
                            unsigned call, int second, const uint64_t *token,
                            uint64_t size) {
    uint8_t data[24];
    unsigned n = 0;
    data[n++] = (uint8_t)call;
    if (second >= 0)
        data[n++] = (uint8_t)second;
    if (token != NULL) {
        mtf_store_le64(data + n, *token);
        n += 8;
    }
    n += mtf_put_size(data + n, size);
    put_extended(e, kind, data, n);
}

/* One event of each kind and more, as one buffer that begins at TIME_NS; the
   stream's tokens come from blocks of 64 beginning at FIRST. Returns how many
   of the events are calls of the malloc family. */
static inline unsigned put_every_kind(struct encoder *e, uint64_t time_ns,
                                      uint64_t first) {
    uint32_t tid = 77;
    uint8_t extension[9] = {2, 9};
    uint64_t gap[3] = {0, time_ns + 20, time_ns + 30};
    put_buffer(e, time_ns, 0, 0);
    put_extended(e, MTF_RAW_THREAD_START, &tid, sizeof(tid));
    put_tokens(e, first, 6);
    put_time(e, time_ns + 10);
    uint64_t a = put_alloc(e, 24);
    uint64_t b = put_alloc(e, 4097);
    put_payload(e, mtf_inline_payload(MTF_RAW_ALLOC_CALL, MTF_CALL_NEW));
    uint64_t c = put_alloc(e, 0);
    put_free(e, a);
    put_payload(e, mtf_inline_payload(MTF_RAW_FREE_CALL, MTF_CALL_DELETE));
    put_free(e, c);
    uint64_t d = put_realloc(e, 1 << 20, b, true, false);
    uint64_t x = put_realloc(e, 100, d, false, true);
    put_call(e, MTF_RAW_ALIGNED, MTF_CALL_POSIX_MEMALIGN, 12, NULL, 70000);
    put_call(e, MTF_RAW_REALLOC_NEW, MTF_CALL_REALLOC, 1, NULL, 0);
    e->next_token += 2;
    e->tokens_left -= 2;
    put_call(e, MTF_RAW_FAILED, MTF_CALL_CALLOC, 0, &gap[0], UINT64_MAX);
    put_call(e, MTF_RAW_FREE_SIZE, MTF_CALL_DELETE_SIZED, -1, &x, 99);
    e->last_freed = x;
    uint64_t y = put_alloc(e, 32);
    uint8_t end[9] = {MTF_CALL_REALLOC};
    mtf_store_le64(end + 1, y);
    put_extended(e, MTF_RAW_REALLOC_END, end, sizeof(end));
    e->last_freed = y;
    put_payload(e, mtf_inline_payload(MTF_RAW_UNTRACED, 3));
    put_extended(e, MTF_RAW_MARK, "a mark", 6);
    put_extended(e, MTF_RAW_EXTENSION, extension, sizeof(extension));
    put_extended(e, MTF_RAW_GAP, gap, sizeof(gap));
    put_extended(e, (enum mtf_raw_kind)30, "later", 5);
    put_extended(e, MTF_RAW_THREAD_END, "worker", 6);
    return 13;
}

/* --- Traces --------------------------------------------------------------- */

static inline struct mtf_raw_header example_header(void) {
    struct mtf_raw_header h = {.pid = 4711,
                               .parent_pid = 815,
                               .process_start = 123456,
                               .random = 0x0123456789ABCDEFu,
                               .wall_ns = 1700000000000000000u,
                               .start_ns = 1000000,
                               .first_token = 1,
                               .page_size = 4096,
                               .clock = MTF_CLOCK_MONOTONIC_NS,
                               .buffer_bound = 16u << 20};
    return h;
}

/* A writer into OUT; MEMORY of the compressor is returned (NULL: plain). */
static inline void *begin_trace(struct mtf_raw_writer *w, struct bytes *out,
                                bool compressed) {
    void *memory = compressed ? malloc(MTF_RAW_WRITER_MEMORY) : NULL;
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    if (compressed)
        h.settings |= MTF_SETTING_COMPRESSED;
    size_t n = mtf_raw_build_header(header, &h, "program", "recorder 1");
    if (!mtf_raw_writer_init(w, bytes_sink, out, memory,
                             memory == NULL ? 0 : MTF_RAW_WRITER_MEMORY) ||
        !mtf_raw_write_header(w, header, n))
        abort();
    return memory;
}

#endif
