/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw traces made in memory for tests: a thread that records by the encoders of
 * raw_codec.h, and a sink that collects the output of a writer.
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

/* State of a recording thread. */
struct encoder {
    struct bytes out;
    uint64_t next_token, tokens_left, last_8th, last_freed, time_ns;
};

static inline void put_payload(struct encoder *e, uint64_t payload) {
    uint8_t *p = bytes_room(&e->out, 8);
    e->out.length += mtf_varint_put(p, payload);
}

/* Adds the output of an encoder of raw_codec.h. */
#define PUT(e, encode, ...)                                                    \
    ((e)->out.length +=                                                        \
     (encode)(bytes_room(&(e)->out, MTF_EVENT_ROOM), __VA_ARGS__))

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
    PUT(e, mtf_raw_put_buffer, &s);
    e->last_8th = 0;
    e->last_freed = e->next_token;
    e->time_ns = time_ns;
}

/* Adds a block of 1 << LOG2 tokens that begins at FIRST. */
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
    put_payload(e, mtf_free_payload(mtf_free_distance(token, e->last_freed)));
    e->last_freed = token;
}

static inline uint64_t put_realloc(struct encoder *e, uint64_t size,
                                   uint64_t old, bool moved, bool array) {
    PUT(e, mtf_raw_put_realloc, e->last_freed, e->last_8th,
        array ? MTF_CALL_REALLOCARRAY : MTF_CALL_REALLOC, old, size, moved);
    e->last_8th = size >> 3;
    e->last_freed = old;
    return take_token(e);
}

static inline uint64_t put_aligned(struct encoder *e, enum mtf_call call,
                                   unsigned align_log2, uint64_t size) {
    PUT(e, mtf_raw_put_aligned, call, align_log2, size);
    return take_token(e);
}

static inline void put_free_size(struct encoder *e, enum mtf_call call,
                                 uint64_t token, uint64_t size) {
    PUT(e, mtf_raw_put_free_size, call, token, size);
    e->last_freed = token;
}

/* Adds at least one event of each kind, as one buffer that begins at TIME_NS;
   the stream's tokens come from blocks of 64 beginning at FIRST. Returns the
   number of events that are calls of the malloc family. */
static inline unsigned put_every_kind(struct encoder *e, uint64_t time_ns,
                                      uint64_t first) {
    put_buffer(e, time_ns, 0, 0);
    PUT(e, mtf_raw_put_thread_start, 77);
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
    put_aligned(e, MTF_CALL_POSIX_MEMALIGN, 12, 70000);
    PUT(e, mtf_raw_put_realloc_new, MTF_CALL_REALLOC, true, 0);
    take_token(e);
    PUT(e, mtf_raw_put_failed, MTF_CALL_CALLOC, 0, 0, UINT64_MAX);
    put_payload(e, mtf_present_payload(4096));
    put_free_size(e, MTF_CALL_DELETE_SIZED, x, 99);
    uint64_t y = put_alloc(e, 32);
    PUT(e, mtf_raw_put_realloc_end, MTF_CALL_REALLOC, y);
    e->last_freed = y;
    put_payload(e, mtf_inline_payload(MTF_RAW_UNTRACED, 3));
    PUT(e, mtf_raw_put_bytes, MTF_RAW_MARK, "a mark", 6);
    PUT(e, mtf_raw_put_pair, MTF_RAW_EXTENSION,
        MTF_EXTENSION_RELEASE_FREE_MEMORY, 9);
    PUT(e, mtf_raw_put_gap, 0, time_ns + 20, time_ns + 30);
    PUT(e, mtf_raw_put_wrong, MTF_CALL_FREE, MTF_WRONG_FREED, b, 0);
    PUT(e, mtf_raw_put_bytes, (enum mtf_raw_kind)30, "later", 5);
    PUT(e, mtf_raw_put_bytes, MTF_RAW_THREAD_END, "worker", 6);
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

/* Makes a writer into OUT. Returns the memory of the compressor (NULL: plain).
 */
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
