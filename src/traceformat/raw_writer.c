/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/raw_writer.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/checksum.h"
#include "traceformat/trace_event.h"

#include <string.h>

TCM_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                  "structs are written as they lie in memory");

/* Longest text of a header field or notice. */
#define TEXT_MAX 255u
/* Uncompressed bytes that may wait in the compressor after a data segment:
   smaller blocks compress worse, larger ones keep buffers from reuse. */
#define PENDING_MAX ((uint64_t)128 << 10)
/* A frame with fewer bytes goes on behind a barrier: each begins without what
   repeats, so that frames of 10 ms take up to three times as much. */
#define FRAME_LEAST ((uint64_t)1 << 20)

bool mtf_raw_writer_init(struct mtf_raw_writer *w, mtf_sink *sink, void *ctx,
                         void *memory, size_t size) {
    memset(w, 0, sizeof(*w));
    w->sink = sink;
    w->ctx = ctx;
    if (memory == NULL || !mtf_compress_available())
        return true;
    if (size < MTF_RAW_WRITER_MEMORY)
        return false;
    w->compress = mtf_compress_init(memory, MTF_COMPRESS_MEMORY);
    w->out = (uint8_t *)memory + MTF_COMPRESS_MEMORY;
    return w->compress != NULL;
}

/* --- Bytes to the sink -------------------------------------------------- */

static bool fail_writer(struct mtf_raw_writer *w) {
    w->failed = true;
    return false;
}

/* Passes N bytes to the sink; N may be the result of a compressor call. */
static bool store_bytes(struct mtf_raw_writer *w, const void *data, size_t n) {
    if (w->failed || n == MTF_COMPRESS_ERROR)
        return fail_writer(w);
    if (n == 0)
        return true;
    if (!w->sink(w->ctx, data, n))
        return fail_writer(w);
    w->stored_bytes += n;
    return true;
}

/* Where the next call of the compressor may put its output. */
static uint8_t *compressed_end(struct mtf_raw_writer *w) {
    TCM_ASSERT(w->gathered <= MTF_RAW_GATHER);
    return w->out + w->gathered;
}

/* Passes the gathered output of the compressor to the sink. */
static bool store_gathered(struct mtf_raw_writer *w) {
    size_t n = w->gathered;
    w->gathered = 0;
    return store_bytes(w, w->out, n);
}

/* Keeps N more bytes of output, the result of a compressor call. */
static bool gather(struct mtf_raw_writer *w, size_t n) {
    if (n == MTF_COMPRESS_ERROR)
        return fail_writer(w);
    w->gathered += n;
    return w->gathered <= MTF_RAW_GATHER || store_gathered(w);
}

/* Notes that the sink has all bytes so far, of which the last ends a segment.
 */
static bool note_settled(struct mtf_raw_writer *w) {
    TCM_ASSERT(w->settled_bytes <= w->raw_bytes);
    TCM_ASSERT(w->settled_stored <= w->stored_bytes);
    w->settled_bytes = w->raw_bytes;
    w->settled_stored = w->stored_bytes;
    w->settled_in_frame = w->in_frame;
    return true;
}

static bool put_bytes(struct mtf_raw_writer *w, const void *data, size_t n) {
    if (w->failed)
        return false;
    /* Readers of the spool see it, after a kill or in a copy. */
    if (w->begun != NULL)
        tcm_store_relaxed(w->begun, w->raw_bytes + n);
    if (w->compress == NULL) {
        if (!store_bytes(w, data, n))
            return false;
        w->raw_bytes += n;
        return true;
    }
    const uint8_t *p = data;
    while (n != 0) {
        size_t piece = n < MTF_COMPRESS_PIECE ? n : MTF_COMPRESS_PIECE;
        size_t got = mtf_compress_add(w->compress, p, piece, compressed_end(w),
                                      MTF_COMPRESS_ROOM);
        if (!gather(w, got))
            return false;
        p += piece;
        n -= piece;
        w->raw_bytes += piece;
    }
    return true;
}

bool mtf_raw_writer_flush(struct mtf_raw_writer *w) {
    if (w->failed)
        return false;
    if (w->compress == NULL || !w->in_frame)
        return true;
    size_t n =
        mtf_compress_flush(w->compress, compressed_end(w), MTF_COMPRESS_ROOM);
    return gather(w, n) && store_gathered(w) && note_settled(w);
}

uint64_t mtf_raw_writer_excess(const struct mtf_raw_writer *w) {
    return w->stored_bytes - w->settled_stored;
}

bool mtf_raw_writer_go_back(struct mtf_raw_writer *w) {
    static const uint8_t end_mark[4];
    TCM_ASSERT(w->settled_bytes <= w->raw_bytes);
    w->failed = false;
    w->in_frame = false;
    w->gathered = 0;
    w->raw_bytes = w->settled_bytes;
    w->stored_bytes = w->settled_stored;
    if (w->compress == NULL || !w->settled_in_frame)
        return true;
    return store_bytes(w, end_mark, sizeof(end_mark)) && note_settled(w);
}

bool mtf_raw_writer_end_frame(struct mtf_raw_writer *w) {
    if (w->failed)
        return false;
    if (!w->in_frame)
        return true;
    w->in_frame = false;
    if (w->compress != NULL) {
        size_t n =
            mtf_compress_end(w->compress, compressed_end(w), MTF_COMPRESS_ROOM);
        if (!gather(w, n) || !store_gathered(w))
            return false;
    }
    return note_settled(w);
}

static bool begin_frame(struct mtf_raw_writer *w) {
    TCM_ASSERT(!w->in_frame);
    w->in_frame = true;
    w->frame_start = w->raw_bytes;
    if (w->compress == NULL)
        return !w->failed;
    return gather(w, mtf_compress_begin(w->compress, compressed_end(w),
                                        MTF_COMPRESS_ROOM));
}

/* --- Header ------------------------------------------------------------- */

static size_t put_field(uint8_t *p, enum mtf_header_tag tag, const char *text) {
    size_t n = text == NULL ? 0 : strnlen(text, TEXT_MAX);
    if (n == 0)
        return 0;
    uint16_t head[2] = {(uint16_t)tag, (uint16_t)n};
    memcpy(p, head, sizeof(head));
    memcpy(p + sizeof(head), text, n);
    return sizeof(head) + n;
}

static size_t put_number(uint8_t *p, enum mtf_header_tag tag,
                         const void *number, uint16_t bytes) {
    uint16_t head[2] = {(uint16_t)tag, bytes};
    memcpy(p, head, sizeof(head));
    memcpy(p + sizeof(head), number, bytes);
    return sizeof(head) + bytes;
}

size_t mtf_raw_build_full_header(void *out, const struct mtf_raw_header *fixed,
                                 const char *executable, const char *library,
                                 const char *allocator, uint64_t fork,
                                 const uint32_t *part, uint64_t start) {
    uint8_t *p = out;
    memset(p, 0, MTF_RAW_HEADER_MAX);
    size_t n = sizeof(*fixed);
    n += put_field(p + n, MTF_TAG_EXECUTABLE, executable);
    n += put_field(p + n, MTF_TAG_LIBRARY, library);
    n += put_field(p + n, MTF_TAG_ALLOCATOR, allocator);
    if (fork != 0)
        n += put_number(p + n, MTF_TAG_FORK, &fork, sizeof(fork));
    if (part != NULL) {
        n += put_number(p + n, MTF_TAG_PART, part, sizeof(*part));
        n += put_number(p + n, MTF_TAG_PART_START, &start, sizeof(start));
    }
    n += 4; /* MTF_TAG_END, length 0 */
    n = tcm_align_up(n, 8) + 8;
    TCM_ASSERT(n <= MTF_RAW_HEADER_MAX);
    struct mtf_raw_header h = *fixed;
    memcpy(h.magic, MTF_RAW_MAGIC, sizeof(h.magic));
    h.version = MTF_RAW_VERSION;
    h.must_understand = 0;
    h.length = (uint32_t)n;
    h.reserved = 0;
    memcpy(p, &h, sizeof(h));
    uint64_t sum = tcm_checksum_of(p, n - 8, 0);
    memcpy(p + n - 8, &sum, sizeof(sum));
    return n;
}

size_t mtf_raw_build_header(void *out, const struct mtf_raw_header *fixed,
                            const char *executable, const char *library) {
    return mtf_raw_build_full_header(out, fixed, executable, library, NULL, 0,
                                     NULL, 0);
}

/* --- Segments ----------------------------------------------------------- */

/* Fills the checksum of HEAD, whose payload is two pieces. */
static void fill_checksum(struct mtf_segment *head, uint64_t seed,
                          const void *a, size_t a_bytes, const void *b,
                          size_t b_bytes) {
    struct tcm_checksum sum;
    TCM_ASSERT(head->sync == MTF_SEGMENT_SYNC);
    TCM_ASSERT(head->length == a_bytes + b_bytes);
    tcm_checksum_begin(&sum, seed);
    tcm_checksum_add(&sum, head, offsetof(struct mtf_segment, checksum));
    if (a_bytes != 0)
        tcm_checksum_add(&sum, a, a_bytes);
    if (b_bytes != 0)
        tcm_checksum_add(&sum, b, b_bytes);
    head->checksum = tcm_checksum_end(&sum);
}

static bool put_header_copy(struct mtf_raw_writer *w) {
    struct mtf_segment head = {.sync = MTF_SEGMENT_SYNC,
                               .kind = MTF_SEGMENT_HEADER,
                               .length = w->header_length};
    fill_checksum(&head, 0, w->header, w->header_length, NULL, 0);
    if (!put_bytes(w, &head, sizeof(head)) ||
        !put_bytes(w, w->header, w->header_length))
        return false;
    w->header_copy = w->raw_bytes;
    w->header_copies++;
    w->segments++;
    return w->compress != NULL || note_settled(w);
}

/*
 * True if a copy of the header is due. The header's random number is the seed
 * of all checksums, so without a header nothing can be read. A copy follows the
 * header at once, against damage inside a frame or in a plain trace; one begins
 * the second frame, for the case that the first is lost; and later ones come
 * every MTF_RAW_FRAME_BYTES, for readers that join a long trace late.
 */
static bool copy_is_due(const struct mtf_raw_writer *w) {
    return w->header_copies < 2 ||
           w->raw_bytes - w->header_copy >= MTF_RAW_FRAME_BYTES;
}

/* Makes room for a segment of BYTES in the open frame, or begins a frame. */
static bool enter_frame(struct mtf_raw_writer *w, size_t bytes) {
    TCM_ASSERT(bytes <= sizeof(struct mtf_segment) + MTF_SEGMENT_MAX);
    if (w->failed)
        return false;
    if (w->in_frame &&
        w->raw_bytes - w->frame_start + bytes > MTF_RAW_FRAME_BYTES &&
        !mtf_raw_writer_end_frame(w))
        return false;
    if (w->in_frame)
        return true;
    return begin_frame(w) && (!copy_is_due(w) || put_header_copy(w));
}

bool mtf_raw_write_header(struct mtf_raw_writer *w, const void *header,
                          size_t length) {
    struct mtf_raw_header fixed;
    if (length < sizeof(fixed) || length > sizeof(w->header))
        return fail_writer(w);
    memcpy(&fixed, header, sizeof(fixed));
    memcpy(w->header, header, length);
    w->header_length = (uint32_t)length;
    w->random = fixed.random;
    return begin_frame(w) && put_bytes(w, header, length) && put_header_copy(w);
}

bool mtf_raw_write_part(struct mtf_raw_writer *w, const void *header,
                        size_t length) {
    TCM_ASSERT(!w->in_frame);
    w->header_copies = 0;
    return mtf_raw_write_header(w, header, length) &&
           mtf_raw_writer_end_frame(w);
}

/* Writes a segment whose payload is two pieces; fills in sync, length and
   checksum. */
static bool write_segment(struct mtf_raw_writer *w, struct mtf_segment *head,
                          const void *a, size_t a_bytes, const void *b,
                          size_t b_bytes) {
    TCM_ASSERT(w->failed || w->header_length != 0);
    head->sync = MTF_SEGMENT_SYNC;
    head->length = (uint32_t)(a_bytes + b_bytes);
    fill_checksum(head, w->random, a, a_bytes, b, b_bytes);
    if (!enter_frame(w, sizeof(*head) + a_bytes + b_bytes) ||
        !put_bytes(w, head, sizeof(*head)) || !put_bytes(w, a, a_bytes) ||
        !put_bytes(w, b, b_bytes))
        return false;
    w->segments++;
    TCM_ASSERT(w->raw_bytes - w->frame_start <= MTF_RAW_FRAME_BYTES);
    return w->compress != NULL || note_settled(w);
}

bool mtf_raw_write_data(struct mtf_raw_writer *w,
                        const struct mtf_raw_place *place, const void *events,
                        size_t n) {
    if (n == 0 || n > MTF_SEGMENT_MAX)
        return fail_writer(w);
    struct mtf_segment head = {.kind = MTF_SEGMENT_DATA,
                               .thread = place->thread,
                               .offset = place->offset,
                               .buffer_start = place->buffer_start,
                               .time_lo = place->time_lo,
                               .time_hi = place->time_hi};
    if (!write_segment(w, &head, events, n, NULL, 0))
        return false;
    return w->raw_bytes - w->settled_bytes < PENDING_MAX ||
           mtf_raw_writer_flush(w);
}

bool mtf_raw_write_barrier(struct mtf_raw_writer *w, uint64_t time_ns) {
    struct mtf_segment head = {
        .kind = MTF_SEGMENT_BARRIER, .time_lo = time_ns, .time_hi = time_ns};
    uint64_t number = w->barriers + 1;
    if (!write_segment(w, &head, &number, sizeof(number), NULL, 0))
        return false;
    w->barriers = number;
    /* The first frame is short: the second repeats the header. */
    return w->header_copies < 2 || w->raw_bytes - w->frame_start >= FRAME_LEAST
               ? mtf_raw_writer_end_frame(w)
               : mtf_raw_writer_flush(w);
}

static bool write_accounts(struct mtf_raw_writer *w, enum mtf_segment_kind kind,
                           uint64_t time_ns,
                           const struct mtf_account_value *accounts,
                           unsigned count) {
    if (count > MTF_ACCOUNTS_MAX)
        return fail_writer(w);
    uint8_t payload[MTF_ACCOUNTS_MAX * MTF_ACCOUNT_BYTES];
    for (unsigned i = 0; i < count; i++)
        mtf_put_account(payload + (size_t)MTF_ACCOUNT_BYTES * i, accounts[i]);
    struct mtf_segment head = {
        .kind = (uint8_t)kind, .time_lo = time_ns, .time_hi = time_ns};
    return write_segment(w, &head, payload, (size_t)MTF_ACCOUNT_BYTES * count,
                         NULL, 0);
}

bool mtf_raw_write_sample(struct mtf_raw_writer *w, uint64_t time_ns,
                          const struct mtf_account_value *accounts,
                          unsigned count) {
    return write_accounts(w, MTF_SEGMENT_SAMPLE, time_ns, accounts, count);
}

bool mtf_raw_write_notice(struct mtf_raw_writer *w, uint64_t time_ns,
                          enum mtf_notice code, const char *text) {
    struct mtf_segment head = {
        .kind = MTF_SEGMENT_NOTICE, .time_lo = time_ns, .time_hi = time_ns};
    uint16_t number = (uint16_t)code;
    return write_segment(w, &head, &number, sizeof(number), text,
                         text == NULL ? 0 : strnlen(text, TEXT_MAX));
}

bool mtf_raw_write_present(struct mtf_raw_writer *w, uint64_t time_ns,
                           const struct mtf_present *blocks, unsigned count) {
    struct mtf_segment head = {
        .kind = MTF_SEGMENT_PRESENT, .time_lo = time_ns, .time_hi = time_ns};
    if (count > MTF_PRESENT_MAX)
        return fail_writer(w);
    return write_segment(w, &head, blocks, count * sizeof(*blocks), NULL, 0);
}

bool mtf_raw_write_sites(struct mtf_raw_writer *w, uint64_t time_ns,
                         const void *events, size_t n) {
    struct mtf_segment head = {
        .kind = MTF_SEGMENT_SITES, .time_lo = time_ns, .time_hi = time_ns};
    if (n > MTF_SEGMENT_MAX)
        return fail_writer(w);
    return write_segment(w, &head, events, n, NULL, 0);
}

bool mtf_raw_write_footer(struct mtf_raw_writer *w, uint64_t time_ns,
                          const struct mtf_account_value *accounts,
                          unsigned count) {
    return write_accounts(w, MTF_SEGMENT_FOOTER, time_ns, accounts, count) &&
           mtf_raw_writer_end_frame(w);
}

/* --- Spool -------------------------------------------------------------- */

struct mtf_spool_mark *mtf_spool_mark_of(void *page) {
    return (void *)((uint8_t *)page + sizeof(struct mtf_spool_head));
}

void mtf_spool_put_head(void *page, const void *header, size_t length,
                        uint64_t saved) {
    struct mtf_spool_mark mark = {
        .length = MTF_SPOOL_UNIT, .saved = saved, .begun = saved};
    struct mtf_spool_head head = {.version = MTF_RAW_VERSION,
                                  .header_offset = sizeof(head) + sizeof(mark)};
    TCM_ASSERT(head.header_offset + length <=
               MTF_SPOOL_UNIT - sizeof(struct mtf_spool_lost));
    memcpy(head.magic, MTF_SPOOL_MAGIC, sizeof(head.magic));
    head.checksum =
        tcm_checksum_of(&head, offsetof(struct mtf_spool_head, checksum), 0);
    memcpy(page, &head, sizeof(head));
    memcpy(mtf_spool_mark_of(page), &mark, sizeof(mark));
    memcpy((uint8_t *)page + head.header_offset, header, length);
}

void mtf_spool_put_forced(void *page) {
    struct mtf_spool_head head;
    memcpy(&head, page, sizeof(head));
    head.end_reason = MTF_END_FORCED;
    head.checksum =
        tcm_checksum_of(&head, offsetof(struct mtf_spool_head, checksum), 0);
    memcpy(page, &head, sizeof(head));
}

void mtf_spool_put_buffer(struct mtf_spool_buffer *head, uint64_t random,
                          uint32_t size, uint32_t thread, uint64_t offset,
                          uint64_t time_lo) {
    struct mtf_spool_buffer h = {.sync = MTF_SPOOL_BUFFER_SYNC,
                                 .size = size,
                                 .thread = thread,
                                 .offset = offset,
                                 .time_lo = time_lo,
                                 .saved = head->saved};
    TCM_ASSERT(size > sizeof(h) && thread != MTF_THREAD_NONE);
    h.checksum = tcm_checksum_of(
        &h, offsetof(struct mtf_spool_buffer, checksum), random);
    uint32_t sync = h.sync;
    h.sync = 0;
    memcpy(head, &h, sizeof(h));
    /* The memory outlives the process: a kill between the two copies must leave
       no sync word before a head that is not whole. */
    __asm__ volatile("" ::: "memory");
    memcpy(&head->sync, &sync, sizeof(sync));
}
