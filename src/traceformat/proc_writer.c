/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of the processed trace, and the records that are not frequent.
 *
 * A block's head has the state before its first record, so it is kept aside
 * while the block grows. The slots that a block takes and that were free before
 * it are known only at its end; they are collected meanwhile and written before
 * the records.
 */
#include "traceformat/proc_writer.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/checksum.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_layout.h"
#include "traceformat/varint.h"

#include <string.h>

TCM_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                  "heads are written as they lie in memory");

/* Most bytes of a slot in the list of taken ones: 33 bits. */
#define TAKEN_BYTES 5u
/* Offset of the records in the payload buffer, so that `limit` stays inside the
   buffer whatever the list of taken slots needs. */
#define RECORDS_START 8u

static void put_bytes(struct mtf_proc_writer *w, const void *data, size_t n) {
    if (w->failed || n == 0)
        return;
    if (!w->sink(w->ctx, data, n))
        w->failed = true;
    else
        w->bytes += n;
}

static void begin_block(struct mtf_proc_writer *w) {
    w->hot.p = w->payload + RECORDS_START;
    w->limit = w->payload + sizeof(w->payload) - 64 - MTF_PROC_RECORD_MAX -
               TAKEN_BYTES;
    w->hot.records = 0;
    w->hot.ops = 0;
    w->taken = 0;
    w->low_water = w->hot.depth;
    w->birth_base += w->hot.births;
    w->hot.births = 0;
    w->hot.last_birth = 0;
    memset(&w->head, 0, sizeof(w->head));
    w->head.sync = MTF_PROC_SYNC;
    w->head.alloc_call = w->alloc_call;
    w->head.free_call = w->free_call;
    w->head.first_op = w->total_ops;
    w->head.time_ns = w->time_ns;
    w->head.slot_count = w->slot_count;
    w->head.thread = w->thread;
    w->head.last_8th = w->hot.last_8th;
    w->head.last_slot = w->hot.last_slot;
}

/* Completes the head and writes the block with two pieces of payload. */
static void write_block(struct mtf_proc_writer *w, enum mtf_proc_block_kind k,
                        const void *a, size_t a_length, const void *b,
                        size_t b_length) {
    struct mtf_proc_block_head *h = &w->head;
    TCM_ASSERT(a_length + b_length <= MTF_PROC_PAYLOAD_MAX);
    TCM_ASSERT(h->ops <= h->records && h->records <= MTF_PROC_BLOCK_RECORDS);
    h->kind = (uint8_t)k;
    h->length = (uint32_t)(a_length + b_length);
    h->head_check = (uint32_t)tcm_checksum_of(
        h, offsetof(struct mtf_proc_block_head, head_check), 0);
    struct tcm_checksum c;
    tcm_checksum_begin(&c, 0);
    tcm_checksum_add(&c, h, offsetof(struct mtf_proc_block_head, checksum));
    tcm_checksum_add(&c, a, a_length);
    if (b_length != 0)
        tcm_checksum_add(&c, b, b_length);
    h->checksum = tcm_checksum_end(&c);
    put_bytes(w, h, sizeof(*h));
    put_bytes(w, a, a_length);
    put_bytes(w, b, b_length);
}

static size_t encode_taken(struct mtf_proc_writer *w) {
    uint8_t *p = w->taken_bytes;
    uint32_t last = w->head.last_slot;
    for (uint32_t i = 0; i < w->taken; i++) {
        uint32_t slot = w->taken_slot[i];
        p += mtf_varint_put(p, mtf_zigzag((int64_t)slot - last));
        last = slot;
    }
    TCM_ASSERT((size_t)(p - w->taken_bytes) <= (size_t)TAKEN_BYTES * w->taken);
    return (size_t)(p - w->taken_bytes);
}

/* Adds the current block to the index, before it is written. A full index keeps
   every other entry, so that its size is bounded and depends on the number of
   blocks alone. */
static void add_to_index(struct mtf_proc_writer *w) {
    if (w->blocks % w->index_step != 0)
        return;
    if (w->index_count == MTF_PROC_INDEX_MAX) {
        for (uint32_t i = 0; i < MTF_PROC_INDEX_MAX / 2; i++)
            w->index[i] = w->index[2 * i];
        w->index_count = MTF_PROC_INDEX_MAX / 2;
        w->index_step *= 2;
    }
    TCM_ASSERT(w->failed || w->index_count == 0 ||
               w->index[w->index_count - 1].offset < w->bytes);
    w->index[w->index_count++] = (struct mtf_proc_index_entry){
        w->bytes, w->head.first_op, w->head.time_ns};
}

static void put_site(struct mtf_proc_writer *w);

static void end_block(struct mtf_proc_writer *w) {
    size_t taken = encode_taken(w);
    size_t length = (size_t)(w->hot.p - w->payload) - RECORDS_START;
    TCM_ASSERT(taken + length <= MTF_PROC_PAYLOAD_MAX);
    TCM_ASSERT(w->hot.births <= w->hot.ops && w->taken <= w->hot.births);
    TCM_ASSERT(w->hot.depth <= w->slot_count);
    w->head.records = w->hot.records;
    w->head.ops = w->hot.ops;
    w->head.taken = w->taken;
    add_to_index(w);
    write_block(w, MTF_PROC_BLOCK_OPS, w->taken_bytes, taken,
                w->payload + RECORDS_START, length);
    w->total_ops += w->hot.ops;
    w->total_records += w->hot.records;
    w->blocks++;
    begin_block(w);
    if (w->site != 0)
        put_site(w);
}

void mtf_proc_flush(struct mtf_proc_writer *w) {
    if (w->hot.records != 0)
        end_block(w);
}

void mtf_proc_pause(struct mtf_proc_writer *w) {
    w->site = 0; /* no block is written for it alone */
    mtf_proc_flush(w);
    end_block(w);
}

static void init_writer(struct mtf_proc_writer *w, mtf_sink *sink,
                        mtf_proc_grow grow, void *ctx, uint64_t start_ns) {
    memset(w, 0, offsetof(struct mtf_proc_writer, taken_slot));
    w->sink = sink;
    w->grow = grow;
    w->ctx = ctx;
    w->alloc_call = MTF_CALL_MALLOC;
    w->free_call = MTF_CALL_FREE;
    w->index_step = 1;
    w->time_ns = start_ns;
    begin_block(w);
}

/* Writes the header. BYTES has N bytes, with room for the fixed part at the
   start and zeros behind them. */
static bool put_header(struct mtf_proc_writer *w, uint8_t *bytes, size_t n,
                       uint32_t raw_length) {
    struct mtf_proc_header h = {.version = MTF_PROC_VERSION,
                                .raw_length = raw_length};
    memcpy(h.magic, MTF_PROC_MAGIC, sizeof(h.magic));
    uint32_t end = (uint32_t)tcm_align_up(n, 8);
    h.length = end + 8;
    memcpy(bytes, &h, sizeof(h));
    mtf_store_le64(bytes + end, tcm_checksum_of(bytes, end, 0));
    put_bytes(w, bytes, h.length);
    return !w->failed;
}

bool mtf_proc_writer_begin(struct mtf_proc_writer *w, mtf_sink *sink,
                           mtf_proc_grow grow, void *ctx,
                           const void *raw_header, uint32_t raw_length) {
    uint8_t bytes[MTF_PROC_HEADER_MAX] = {0};
    uint64_t start_ns = 0;
    TCM_CHECK(raw_length <= MTF_RAW_HEADER_MAX);
    if (raw_length >= sizeof(struct mtf_raw_header))
        start_ns = mtf_load_le64((const uint8_t *)raw_header +
                                 offsetof(struct mtf_raw_header, start_ns));
    init_writer(w, sink, grow, ctx, start_ns);
    if (raw_length != 0)
        memcpy(bytes + sizeof(struct mtf_proc_header), raw_header, raw_length);
    return put_header(w, bytes, sizeof(struct mtf_proc_header) + raw_length,
                      raw_length);
}

bool mtf_proc_writer_begin_converted(struct mtf_proc_writer *w, mtf_sink *sink,
                                     mtf_proc_grow grow, void *ctx,
                                     const char *converter) {
    uint8_t bytes[MTF_PROC_HEADER_MAX] = {0};
    uint8_t *p = bytes + sizeof(struct mtf_proc_header);
    uint16_t field[2] = {MTF_PROC_TAG_CONVERTER, 0};
    size_t n = tcm_min_u64(strlen(converter), MTF_PROC_CONVERTER_MAX);
    field[1] = (uint16_t)n;
    init_writer(w, sink, grow, ctx, 0);
    memcpy(p, field, sizeof(field));
    memcpy(p + sizeof(field), converter, n);
    return put_header(w, bytes,
                      sizeof(struct mtf_proc_header) + sizeof(field) + n, 0);
}

/* --- Parts of the inline encoders that are out of line -------------------- */

/* Makes room for a record with LENGTH bytes; returns the place of its head. */
static uint8_t *room_for(struct mtf_proc_writer *w, size_t length) {
    if (w->hot.p + length >= w->limit ||
        w->hot.records == MTF_PROC_BLOCK_RECORDS)
        mtf_proc_flush(w);
    return w->hot.p;
}

static void put_inline(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                       uint64_t argument) {
    TCM_ASSERT(kind < MTF_PROC_ALIGNED && argument <= MTF_VARINT_MAX >> 9);
    room_for(w, 0);
    uint64_t v = argument << 9 | (uint64_t)kind << 4;
    w->hot.p += mtf_varint_put(w->hot.p, v);
    w->hot.records++;
}

/* Puts a record with at most MTF_PROC_BYTES_MAX bytes from two pieces. */
static void put_extended(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                         const void *a, size_t a_length, const void *b,
                         size_t b_length) {
    size_t length = a_length + b_length;
    TCM_ASSERT(kind >= MTF_PROC_ALIGNED && length <= MTF_PROC_BYTES_MAX);
    uint8_t *p = room_for(w, length);
    p += mtf_varint_put(p, (uint64_t)length << 9 | (uint64_t)kind << 4);
    if (a_length != 0)
        memcpy(p, a, a_length);
    p += a_length;
    if (b_length != 0)
        memcpy(p, b, b_length);
    w->hot.p = p + b_length;
    w->hot.records++;
    TCM_ASSERT(w->hot.p <= w->payload + sizeof(w->payload));
}

void mtf_proc_set_alloc_call(struct mtf_proc_writer *w, unsigned call) {
    put_inline(w, MTF_PROC_ALLOC_CALL, call);
    w->alloc_call = (uint8_t)call;
}

void mtf_proc_set_free_call(struct mtf_proc_writer *w, unsigned call) {
    put_inline(w, MTF_PROC_FREE_CALL, call);
    w->free_call = (uint8_t)call;
}

/* Counts the change to the current thread if it had an operation. Called before
   the thread changes. Threads that only start, end or fail are no change. */
static void count_switch(struct mtf_proc_writer *w) {
    uint64_t ops = w->total_ops + w->hot.ops;
    bool none = ops == w->ops_at_switch;
    w->ops_at_switch = ops;
    if (none || w->thread == 0)
        return;
    w->switches += w->ops_thread != 0 && w->ops_thread != w->thread;
    w->ops_thread = w->thread;
}

void mtf_proc_switch(struct mtf_proc_writer *w, uint32_t thread) {
    count_switch(w);
    put_inline(w, MTF_PROC_SWITCH, thread);
    w->thread = thread;
}

uint32_t mtf_proc_take_slot_slow(struct mtf_proc_writer *w) {
    if (w->hot.depth == 0) {
        if (w->slot_count == UINT32_MAX - MTF_PROC_BLOCK_RECORDS) {
            w->failed = true; /* more objects than there are numbers of slots */
            return 0;
        }
        return w->slot_count++;
    }
    TCM_ASSERT(w->taken < MTF_PROC_BLOCK_RECORDS);
    uint32_t slot = w->stack[--w->hot.depth];
    w->low_water = w->hot.depth;
    w->taken_slot[w->taken++] = slot;
    w->limit -= TAKEN_BYTES;
    return slot;
}

void mtf_proc_grow_stack(struct mtf_proc_writer *w) {
    if (!w->grow(w->ctx, &w->stack, &w->capacity) ||
        w->hot.depth == w->capacity)
        w->failed = true;
}

/* --- The rare records ----------------------------------------------------- */

void mtf_proc_put_time(struct mtf_proc_writer *w, uint64_t time_ns) {
    if (time_ns <= w->time_ns)
        return;
    /* A time before all records is the time at which the trace begins. */
    if (w->time_ns == 0 && w->hot.records == 0 && w->total_ops == 0) {
        w->head.time_ns = w->time_ns = time_ns;
        return;
    }
    uint64_t step = time_ns - w->time_ns;
    /* A step that does not fit an argument takes several records. */
    while (step > MTF_PROC_TIME_MAX) {
        put_inline(w, MTF_PROC_TIME, MTF_PROC_TIME_MAX);
        step -= MTF_PROC_TIME_MAX;
        w->time_ns += MTF_PROC_TIME_MAX;
    }
    put_inline(w, MTF_PROC_TIME, step);
    w->time_ns += step;
}

void mtf_proc_put_thread_start(struct mtf_proc_writer *w, uint32_t thread,
                               uint32_t kernel_id) {
    uint32_t v[2] = {thread, kernel_id};
    put_extended(w, MTF_PROC_THREAD_START, v, sizeof(v), NULL, 0);
}

void mtf_proc_put_thread_end(struct mtf_proc_writer *w, uint32_t thread,
                             const void *name, size_t length) {
    size_t room = MTF_PROC_BYTES_MAX - sizeof(thread);
    put_extended(w, MTF_PROC_THREAD_END, &thread, sizeof(thread), name,
                 length < room ? length : room);
}

/* Writes u8 CALL, u8 X, and the bytes of SIZE; returns the length. */
static size_t pack_call(uint8_t *p, unsigned call, unsigned x, uint64_t size) {
    p[0] = (uint8_t)call;
    p[1] = (uint8_t)x;
    return 2 + mtf_put_size(p + 2, size);
}

void mtf_proc_put_aligned(struct mtf_proc_writer *w, unsigned call,
                          unsigned align_log2, uint64_t size,
                          struct mtf_proc_object *object) {
    uint8_t b[16];
    put_extended(w, MTF_PROC_ALIGNED, b, pack_call(b, call, align_log2, size),
                 NULL, 0);
    w->hot.ops++;
    mtf_proc_take_slot(w, &w->hot, object);
}

void mtf_proc_put_realloc_new(struct mtf_proc_writer *w, unsigned call,
                              unsigned flags, uint64_t size,
                              struct mtf_proc_object *object) {
    uint8_t b[16];
    put_extended(w, MTF_PROC_REALLOC_NEW, b, pack_call(b, call, flags, size),
                 NULL, 0);
    w->hot.ops++;
    mtf_proc_take_slot(w, &w->hot, object);
}

void mtf_proc_put_realloc_huge(struct mtf_proc_writer *w, unsigned call,
                               bool moved, uint64_t size,
                               const struct mtf_proc_object *object) {
    uint8_t b[16];
    b[0] = (uint8_t)call;
    b[1] = moved ? MTF_PROC_FLAG_MOVED : 0;
    memcpy(b + 2, &object->slot, 4);
    size_t n = 6 + mtf_put_size(b + 6, size);
    put_extended(w, MTF_PROC_REALLOC_SIZE, b, n, NULL, 0);
    w->hot.ops++;
}

void mtf_proc_put_realloc_end(struct mtf_proc_writer *w, unsigned call,
                              const struct mtf_proc_object *object) {
    uint8_t b[5];
    b[0] = (uint8_t)call;
    memcpy(b + 1, &object->slot, 4);
    put_extended(w, MTF_PROC_REALLOC_END, b, sizeof(b), NULL, 0);
    w->hot.ops++;
    mtf_proc_give_slot(w, &w->hot, object->slot);
}

void mtf_proc_put_free_size(struct mtf_proc_writer *w, unsigned call,
                            const struct mtf_proc_object *object,
                            uint64_t size) {
    uint8_t b[16];
    b[0] = (uint8_t)call;
    memcpy(b + 1, &object->slot, 4);
    put_extended(w, MTF_PROC_FREE_SIZE, b, 5 + mtf_put_size(b + 5, size), NULL,
                 0);
    w->hot.ops++;
    mtf_proc_give_slot(w, &w->hot, object->slot);
}

void mtf_proc_put_failed(struct mtf_proc_writer *w, unsigned call,
                         unsigned align_log2, unsigned flags, uint64_t size) {
    uint8_t b[16];
    b[0] = (uint8_t)call;
    b[1] = (uint8_t)align_log2;
    b[2] = (uint8_t)flags;
    put_extended(w, MTF_PROC_FAILED, b, 3 + mtf_put_size(b + 3, size), NULL, 0);
}

/* Number that stands before the bytes of KIND. For a note, *P gets the byte
   that its bytes begin with, and moves behind it. */
static unsigned number_of(unsigned kind, uint8_t **p) {
    if (kind < MTF_NOTE(0))
        return kind;
    *(*p)++ = (uint8_t)(kind - MTF_NOTE(0));
    return MTF_PROC_NOTE;
}

void mtf_proc_put_text(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                       const void *text, size_t length) {
    uint8_t b[1], *p = b;
    unsigned number = number_of(kind, &p);
    size_t before = (size_t)(p - b), room = MTF_PROC_BYTES_MAX - before;
    put_extended(w, number, b, before, text, length < room ? length : room);
}

void mtf_proc_put_pair(struct mtf_proc_writer *w, enum mtf_proc_kind kind,
                       unsigned which, uint64_t argument) {
    uint8_t b[10], *p = b;
    unsigned number = number_of(kind, &p);
    TCM_ASSERT(which <= UINT8_MAX);
    p[0] = (uint8_t)which;
    mtf_store_le64(p + 1, argument);
    put_extended(w, number, b, (size_t)(p + 9 - b), NULL, 0);
}

void mtf_proc_put_sample(struct mtf_proc_writer *w, uint64_t time_ns,
                         const void *accounts, size_t length) {
    size_t room = (MTF_PROC_BYTES_MAX - sizeof(time_ns)) / 10 * 10;
    put_extended(w, MTF_PROC_SAMPLE, &time_ns, sizeof(time_ns), accounts,
                 length < room ? length : room);
}

void mtf_proc_put_loss(struct mtf_proc_writer *w, uint32_t thread,
                       uint64_t events, uint64_t from_ns, uint64_t to_ns) {
    uint64_t v[3] = {events, from_ns, to_ns};
    put_extended(w, MTF_PROC_LOSS, &thread, sizeof(thread), v, sizeof(v));
}

static void put_site(struct mtf_proc_writer *w) {
    uint8_t b[8];
    put_extended(w, MTF_PROC_SITE, b, mtf_put_size(b, w->site), NULL, 0);
}

void mtf_proc_set_site(struct mtf_proc_writer *w, uint32_t site) {
    /* A flush must come first: the next block then begins with the old site,
       and has the new one once. */
    if (w->hot.records == MTF_PROC_BLOCK_RECORDS)
        mtf_proc_flush(w);
    room_for(w, 2 * MTF_PROC_RECORD_MAX);
    w->site = site;
    put_site(w);
}

void mtf_proc_put_site_def(struct mtf_proc_writer *w, const void *bytes,
                           size_t length) {
    TCM_ASSERT(length <= MTF_PROC_BYTES_MAX);
    put_extended(w, MTF_PROC_SITE_DEF, bytes, length, NULL, 0);
}

void mtf_proc_put_phase(struct mtf_proc_writer *w, unsigned phase) {
    uint8_t b = (uint8_t)phase;
    put_extended(w, MTF_PROC_PHASE, &b, sizeof(b), NULL, 0);
}

/* The record must be in the block of its operation: room is made for that
   operation and for another sticky call. */
void mtf_proc_put_present(struct mtf_proc_writer *w, uint64_t bytes) {
    uint8_t b[9], *p = b;
    if (w->hot.records > MTF_PROC_BLOCK_RECORDS - 3)
        mtf_proc_flush(w);
    room_for(w, sizeof(b) + 4 * MTF_PROC_RECORD_MAX);
    unsigned number = number_of(MTF_PROC_PRESENT, &p);
    p += mtf_put_size(p, bytes);
    put_extended(w, number, b, (size_t)(p - b), NULL, 0);
    w->present_blocks++;
}

/* --- End ------------------------------------------------------------------ */

static uint8_t *put_account(uint8_t *p, unsigned field, uint64_t value) {
    mtf_put_account(p, (struct mtf_account_value){(uint16_t)field, value});
    return p + MTF_ACCOUNT_BYTES;
}

bool mtf_proc_writer_end(struct mtf_proc_writer *w,
                         const struct mtf_account_value *accounts,
                         size_t count) {
    count_switch(w);
    w->site = 0; /* no block is written for it alone */
    mtf_proc_flush(w);
    uint64_t index_offset = w->bytes;
    if (w->index_count != 0)
        write_block(w, MTF_PROC_BLOCK_INDEX, w->index,
                    w->index_count * sizeof(w->index[0]), NULL, 0);
    uint8_t *start = w->payload, *p = start;
    p = put_account(p, MTF_PROC_ACCOUNT_OPS, w->total_ops);
    p = put_account(p, MTF_PROC_ACCOUNT_RECORDS, w->total_records);
    p = put_account(p, MTF_PROC_ACCOUNT_BLOCKS, w->blocks);
    p = put_account(p, MTF_PROC_ACCOUNT_SLOTS, w->slot_count);
    p = put_account(p, MTF_PROC_ACCOUNT_SWITCHES, w->switches);
    if (w->index_count != 0)
        p = put_account(p, MTF_PROC_ACCOUNT_INDEX_OFFSET, index_offset);
    if (w->present_blocks != 0)
        p = put_account(p, MTF_PROC_ACCOUNT_PRESENT_BLOCKS, w->present_blocks);
    TCM_CHECK(count <= 1024);
    for (size_t i = 0; i < count; i++)
        p = put_account(p, accounts[i].field, accounts[i].value);
    write_block(w, MTF_PROC_BLOCK_CLOSING, start, (size_t)(p - start), NULL, 0);
    return !w->failed;
}
