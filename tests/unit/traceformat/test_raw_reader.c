/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writer and reader of raw traces together: the reader yields the writer's
 * input; damage to any byte costs no more than its segment, and is always
 * reported.
 */
#include "traceformat/raw_reader.h"

#include "base/checksum.h"

#include "memory_source.h"
#include "prng.h"
#include "raw_build.h"
#include "tap.h"

/* --- Reading from memory ------------------------------------------------ */

#define PIECE 101u /* ends anywhere */

enum { SEEN_MAX = 64 };

/* Items that the reader returned. */
struct seen {
    unsigned counts[16]; /* by enum mtf_item_kind */
    unsigned data_count;
    uint64_t offsets[SEEN_MAX]; /* of DATA items, in the file */
    uint64_t sums[SEEN_MAX];    /* of their fields and bytes */
    uint64_t skipped;
    enum mtf_status status; /* of the last DAMAGE or FAILED */
    uint64_t fault_offset;  /* of the first */
};

static uint8_t reader_buffer[MTF_READER_BUFFER];

static uint64_t sum_of(const struct mtf_item *item) {
    uint64_t sum = item->thread * 31u + item->offset * 37u +
                   item->buffer_start * 41u + item->time_lo * 43u +
                   item->time_hi * 47u;
    for (uint32_t i = 0; i < item->length; i++)
        sum = sum * 131 + item->data[i];
    return sum;
}

static void read_trace(const uint8_t *data, size_t n, struct seen *seen) {
    struct memory_source m;
    struct mtf_raw_reader r;
    struct mtf_item item;
    memset(seen, 0, sizeof(*seen));
    memory_source_init(&m, data, n, PIECE);
    mtf_raw_reader_init(&r, &m.source, reader_buffer);
    do {
        mtf_raw_reader_next(&r, &item);
        seen->counts[item.kind]++;
        if (item.kind == MTF_ITEM_DATA && seen->data_count < SEEN_MAX) {
            seen->offsets[seen->data_count] = item.file_offset;
            seen->sums[seen->data_count++] = sum_of(&item);
        }
        if (item.kind == MTF_ITEM_DAMAGE || item.kind == MTF_ITEM_FAILED) {
            if (seen->status == MTF_OK)
                seen->fault_offset = item.file_offset;
            seen->status = item.status;
            seen->skipped += item.skipped;
        }
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    mtf_raw_reader_next(&r, &item);
    if (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED)
        seen->counts[0]++; /* must stay at the end */
}

static bool has_sum(const struct seen *s, uint64_t sum) {
    for (unsigned i = 0; i < s->data_count; i++)
        if (s->sums[i] == sum)
            return true;
    return false;
}

/* --- A small trace ------------------------------------------------------ */

static void put_data(struct mtf_raw_writer *w, uint32_t thread, uint64_t offset,
                     unsigned events) {
    struct encoder e = {.next_token = 1};
    put_buffer(&e, 1000, 0, 0);
    put_tokens(&e, 1, 10);
    for (unsigned i = 0; i < events; i++)
        put_alloc(&e, 8 * i + thread);
    struct mtf_raw_place place = {thread, offset, offset, 990, 1100};
    mtf_raw_write_data(w, &place, e.out.data, e.out.length);
    bytes_free(&e.out);
}

static void make_small(struct bytes *out, bool compressed) {
    struct mtf_raw_writer w;
    struct mtf_account_value a[] = {{MTF_ACCOUNT_EVENTS, 42},
                                    {MTF_ACCOUNT_END_REASON, MTF_END_EXIT}};
    void *memory = begin_trace(&w, out, compressed);
    for (uint32_t round = 0; round < 4; round++) {
        put_data(&w, 1, round * 1000, 5);
        put_data(&w, 2, round * 1000, 9 + round);
        mtf_raw_write_sample(&w, 2000, a, 1);
        mtf_raw_write_barrier(&w, 2000 + round);
    }
    mtf_raw_write_notice(&w, 3000, MTF_NOTICE_NO_SPOOL, "no room");
    mtf_raw_write_footer(&w, 3000, a, 2);
    free(memory);
}

static void test_round_trip(void) {
    struct bytes out = {0};
    make_small(&out, false);
    struct memory_source m;
    struct mtf_raw_reader r;
    struct mtf_item item;
    struct mtf_account_value sample;
    memory_source_init(&m, out.data, out.length, PIECE);
    mtf_raw_reader_init(&r, &m.source, reader_buffer);
    mtf_raw_reader_next(&r, &item);
    tap_ok(item.kind == MTF_ITEM_HEADER, "the header first");
    tap_ok(item.info->fixed.pid == 4711 && item.info->fixed.version == 1 &&
               item.info->fixed.random == example_header().random,
           "its fixed part");
    tap_is_str(item.info->executable, "program", "executable");
    tap_is_str(item.info->library, "recorder 1", "library");
    tap_ok(item.length == item.info->fixed.length &&
               memcmp(item.data, out.data, item.length) == 0,
           "its bytes as they are");
    mtf_raw_reader_next(&r, &item);
    tap_ok(item.kind == MTF_ITEM_DATA && item.thread == 1 && item.offset == 0 &&
               item.buffer_start == 0 && item.time_lo == 990 &&
               item.time_hi == 1100,
           "data of thread 1");
    mtf_raw_reader_next(&r, &item);
    tap_ok(item.kind == MTF_ITEM_DATA && item.thread == 2, "of thread 2");
    mtf_raw_reader_next(&r, &item);
    tap_ok(item.kind == MTF_ITEM_SAMPLE &&
               mtf_item_account(&item, 0, &sample) &&
               sample.field == MTF_ACCOUNT_EVENTS && sample.value == 42 &&
               !mtf_item_account(&item, 1, &sample),
           "a sample of one field");
    mtf_raw_reader_next(&r, &item);
    tap_ok(item.kind == MTF_ITEM_BARRIER && item.number == 1 &&
               item.time_lo == 2000,
           "the first barrier");
    struct seen seen;
    read_trace(out.data, out.length, &seen);
    tap_ok(seen.counts[MTF_ITEM_HEADER] == 1 &&
               seen.counts[MTF_ITEM_DATA] == 8 &&
               seen.counts[MTF_ITEM_BARRIER] == 4 &&
               seen.counts[MTF_ITEM_SAMPLE] == 4 &&
               seen.counts[MTF_ITEM_NOTICE] == 1 &&
               seen.counts[MTF_ITEM_FOOTER] == 1 &&
               seen.counts[MTF_ITEM_DAMAGE] == 0 && seen.counts[0] == 0,
           "all segments, no damage, one end");
    bytes_free(&out);
}

/* --- Damage ------------------------------------------------------------- */

/* Changes every byte. Other segments must be yielded, and a fault reported. */
static void test_every_byte(void) {
    struct bytes out = {0};
    make_small(&out, false);
    struct seen whole, seen;
    read_trace(out.data, out.length, &whole);
    bool told = true, kept = true, header = true;
    for (size_t at = 0; at < out.length; at++) {
        out.data[at] ^= 0x41;
        read_trace(out.data, out.length, &seen);
        out.data[at] ^= 0x41;
        told = told && seen.counts[MTF_ITEM_DAMAGE] >= 1 &&
               seen.counts[MTF_ITEM_FAILED] == 0 && seen.skipped != 0 &&
               seen.fault_offset <= at;
        header = header && seen.counts[MTF_ITEM_HEADER] == 1;
        for (unsigned i = 0; i < whole.data_count; i++) {
            uint64_t end =
                i + 1 < whole.data_count ? whole.offsets[i + 1] : UINT64_MAX;
            bool hit = at >= whole.offsets[i] && at < end;
            kept = kept && (hit || has_sum(&seen, whole.sums[i]));
        }
    }
    tap_ok(told, "any changed byte is told");
    tap_ok(header, "the header survives in its copies");
    tap_ok(kept, "all segments that were not hit are read");
    bytes_free(&out);
}

static void test_every_cut(void) {
    struct bytes out = {0};
    make_small(&out, false);
    struct seen whole, seen;
    read_trace(out.data, out.length, &whole);
    bool good = true;
    for (size_t at = 0; at < out.length; at++) {
        read_trace(out.data, at, &seen);
        if (at < 8) {
            good = good && seen.counts[MTF_ITEM_FAILED] == 1 &&
                   seen.status == (at == 0 ? MTF_EMPTY : MTF_NO_TRACE);
            continue;
        }
        unsigned before = 0;
        for (unsigned i = 0; i < whole.data_count; i++)
            before += i + 1 < whole.data_count && whole.offsets[i + 1] <= at;
        good = good && seen.counts[MTF_ITEM_FAILED] == 0 &&
               seen.data_count >= before && seen.skipped <= at;
        for (unsigned i = 0; i < before; i++)
            good = good && seen.sums[i] == whole.sums[i];
    }
    tap_ok(good, "whatever stands before a cut is read");
    read_trace(out.data, out.length - 1, &seen);
    tap_ok(seen.counts[MTF_ITEM_DAMAGE] == 1 && seen.status == MTF_CUT,
           "a cut segment is told as cut");
    bytes_free(&out);
}

/* Garbage between segments, a segment twice, and one missing. */
static void test_rearranged(void) {
    struct bytes out = {0}, other = {0};
    make_small(&out, false);
    struct seen whole, seen;
    read_trace(out.data, out.length, &whole);
    size_t cut = whole.offsets[3];
    bytes_add(&other, out.data, cut);
    for (int i = 0; i < 5000; i++) {
        uint32_t fake = i % 50 == 0 ? MTF_SEGMENT_SYNC : (uint32_t)i;
        bytes_add(&other, &fake, sizeof(fake));
    }
    bytes_add(&other, out.data + cut, out.length - cut);
    read_trace(other.data, other.length, &seen);
    tap_ok(seen.counts[MTF_ITEM_DAMAGE] == 1 && seen.fault_offset == cut &&
               seen.skipped == 20000 && seen.data_count == whole.data_count,
           "garbage with sync words in it is passed over, and counted");
    other.length = cut;
    bytes_add(&other, out.data + whole.offsets[4],
              out.length - whole.offsets[4]);
    read_trace(other.data, other.length, &seen);
    tap_ok(seen.counts[MTF_ITEM_DAMAGE] == 0 &&
               seen.data_count == whole.data_count - 1,
           "a segment that is missing whole is seen in its stream only");
    bytes_free(&out);
    bytes_free(&other);
}

/* Sync words everywhere, each with the longest length: the checksums of all
   candidates would take an hour. */
static void test_hostile(void) {
    struct bytes out = {0};
    struct mtf_raw_writer w;
    struct seen seen;
    free(begin_trace(&w, &out, false));
    struct mtf_segment fake = {.sync = MTF_SEGMENT_SYNC,
                               .kind = MTF_SEGMENT_DATA,
                               .length = MTF_SEGMENT_MAX,
                               .thread = 1};
    for (int i = 0; i < 200000; i++)
        bytes_add(&out, &fake, sizeof(fake));
    read_trace(out.data, out.length, &seen);
    tap_ok(seen.counts[MTF_ITEM_DAMAGE] == 1 &&
               seen.skipped == 200000 * sizeof(fake),
           "a trace of false sync words is passed over");
    bytes_free(&out);
}

static void test_kinds(void) {
    static const struct {
        const char *magic;
        enum mtf_status status;
    } others[] = {{MTF_SPOOL_MAGIC "more", MTF_IS_SPOOL},
                  {"\x89MTPRC\r\nmore", MTF_IS_PROCESSED},
                  {"#!/bin/sh\n", MTF_NO_TRACE},
                  {"short", MTF_NO_TRACE},
                  {"", MTF_EMPTY}};
    struct seen seen;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(others); i++) {
        read_trace((const uint8_t *)others[i].magic, strlen(others[i].magic),
                   &seen);
        tap_ok(seen.counts[MTF_ITEM_FAILED] == 1 &&
                   seen.status == others[i].status,
               "trace of another kind: %s", mtf_status_text(others[i].status));
    }
    /* A later version, and this version with bits that this reader does not
       know. */
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "p", NULL);
    struct mtf_raw_info info;
    memcpy(&h, header, sizeof(h));
    tap_ok(mtf_raw_parse_header(header, n, &info) == MTF_OK, "header");
    tap_ok(mtf_raw_parse_header(header, n - 1, &info) == MTF_CUT, "cut");
    h.version = 2;
    memcpy(header, &h, sizeof(h));
    tap_ok(mtf_raw_parse_header(header, n, &info) == MTF_DAMAGED,
           "checksum of the header");
    uint64_t sum = tcm_checksum_of(header, n - 8, 0);
    memcpy(header + n - 8, &sum, 8);
    tap_ok(mtf_raw_parse_header(header, n, &info) == MTF_TOO_NEW &&
               info.fixed.version == 2,
           "a later version is refused");
    h.version = MTF_RAW_VERSION;
    h.must_understand = 4;
    memcpy(header, &h, sizeof(h));
    sum = tcm_checksum_of(header, n - 8, 0);
    memcpy(header + n - 8, &sum, 8);
    tap_ok(mtf_raw_parse_header(header, n, &info) == MTF_TOO_NEW,
           "and so is what must be understood");
    read_trace(header, n, &seen);
    tap_ok(seen.counts[MTF_ITEM_FAILED] == 1 && seen.status == MTF_TOO_NEW,
           "and the reader gives up");
}

/* --- Writer ------------------------------------------------------------- */

static bool short_sink(void *ctx, const void *data, size_t n) {
    size_t *room = ctx;
    (void)data;
    if (n > *room)
        return false;
    *room -= n;
    return true;
}

/* Bytes that may wait in the compressor. */
enum { WAITS_MOST = 128 << 10 };

static void test_writer(bool compressed) {
    const char *how = compressed ? "LZ4" : "plain";
    struct bytes out = {0};
    struct mtf_raw_writer w;
    void *memory = begin_trace(&w, &out, compressed);
    bool lz4 = w.compress != NULL;
    uint8_t events[3000] = {1};
    struct mtf_raw_place place = {1, 0, 0, 1, 2};
    mtf_raw_write_data(&w, &place, events, sizeof(events));
    tap_ok(lz4 == (w.settled_bytes < w.raw_bytes),
           "%s: a small segment waits in the compressor", how);
    mtf_raw_writer_flush(&w);
    tap_ok(w.settled_bytes == w.raw_bytes, "%s: a flush stores it", how);
    bool bounded = true;
    for (int i = 0; i < 200; i++) {
        mtf_raw_write_data(&w, &place, events, sizeof(events));
        bounded = bounded && w.raw_bytes - w.settled_bytes <= WAITS_MOST;
    }
    tap_ok(bounded, "%s: what waits is bounded", how);
    mtf_raw_write_barrier(&w, 5);
    tap_ok(w.settled_bytes == w.raw_bytes && !w.in_frame && w.barriers == 1,
           "%s: a barrier stores all and ends the frame", how);
    tap_ok(w.stored_bytes == out.length, "%s: stored bytes", how);
    if (!lz4)
        tap_ok(w.raw_bytes == out.length, "%s: raw bytes", how);
    tap_ok(!mtf_raw_write_data(&w, &place, events, MTF_SEGMENT_MAX + 1),
           "%s: a segment that is too long is refused", how);
    free(memory);
    bytes_free(&out);

    size_t room = 1000;
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "p", NULL);
    memory = compressed ? malloc(MTF_RAW_WRITER_MEMORY) : NULL;
    mtf_raw_writer_init(&w, short_sink, &room, memory,
                        compressed ? MTF_RAW_WRITER_MEMORY : 0);
    bool first = mtf_raw_write_header(&w, header, n), last = true;
    struct prng r;
    prng_seed(&r, 9);
    for (size_t i = 0; i < sizeof(events); i++)
        events[i] = (uint8_t)prng_next(&r);
    for (size_t put = 0; put <= WAITS_MOST; put += sizeof(events))
        last = mtf_raw_write_data(&w, &place, events, sizeof(events));
    tap_ok(first && !last && w.failed && !mtf_raw_write_barrier(&w, 1) &&
               !mtf_raw_writer_flush(&w) && !mtf_raw_writer_end_frame(&w),
           "%s: when the sink refuses all ends", how);
    free(memory);
}

static void test_long_names(void) {
    char text[600];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    uint32_t part = 1;
    size_t n =
        mtf_raw_build_full_header(header, &h, text, text, text, 7, &part, 2);
    struct mtf_raw_info info;
    tap_ok(n <= MTF_RAW_HEADER_MAX && n % 8 == 0 &&
               mtf_raw_parse_header(header, n, &info) == MTF_OK &&
               strlen(info.executable) == 255 && strlen(info.library) == 255 &&
               strlen(info.allocator) == 255 && info.fork == 7 &&
               info.is_part && info.part == 1 && info.part_start == 2,
           "long names are cut, and numbers are behind them");
}

/* --- Streams ------------------------------------------------------------ */

static void test_place(void) {
    struct encoder e = {.next_token = 1};
    put_buffer(&e, 1, 0, 0);
    put_tokens(&e, 1, 6);
    size_t head = e.out.length;
    for (int i = 0; i < 10; i++)
        put_alloc(&e, 8);
    uint32_t n = (uint32_t)e.out.length;
    struct mtf_stream s;
    struct mtf_placement at;
    struct mtf_item item = {.kind = MTF_ITEM_DATA,
                            .thread = 1,
                            .data = e.out.data,
                            .length = (uint32_t)head};
    mtf_stream_init(&s);
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == head && at.gap == 0 && at.doubled == 0 &&
               at.undecodable == 0 && at.data == e.out.data && !s.lost,
           "the first part of a buffer");
    item.length = n;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == n - head && at.doubled == head && at.gap == 0 &&
               at.data == e.out.data + head,
           "the whole buffer again: only the rest is new");
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == 0 && at.doubled == n && at.gap == 0 && !s.lost,
           "and once more: nothing is");
    item.offset = n + 100;
    item.buffer_start = n;
    item.length = 10;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == 0 && at.gap == 100 && at.undecodable == 10 && s.lost,
           "after a gap the rest of a buffer is of no use");
    item.offset = n + 110;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == 0 && at.gap == 0 && at.undecodable == 10,
           "nor is what follows");
    item.offset = item.buffer_start = n + 120;
    item.length = n;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.length == n && !s.lost, "until the next buffer");
    mtf_stream_lose(&s);
    item.offset += n;
    item.length = 5;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.undecodable == 5 && at.length == 0,
           "events that could not be decoded lose the state");
    item.offset = item.buffer_start = 2 * (uint64_t)n + 125;
    item.data = e.out.data + head;
    mtf_stream_place(&s, &item, &at);
    tap_ok(at.undecodable == 5 && s.lost,
           "a buffer that does not begin with its state is of no use");
    bytes_free(&e.out);
}

int main(void) {
    test_round_trip();
    test_every_byte();
    test_every_cut();
    test_rearranged();
    test_hostile();
    test_kinds();
    test_writer(false);
    test_writer(true);
    test_long_names();
    test_place();
    return tap_done();
}
