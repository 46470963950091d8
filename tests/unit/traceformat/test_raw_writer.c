/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer of raw traces, its bytes checked without the reader: segments and
 * their checksums, ends of frames, copies of the header, a sink that refuses at
 * any of its calls, and arguments beyond their limits.
 */
#include "traceformat/raw_reader.h"
#include "traceformat/raw_writer.h"

#include "base/bits.h"
#include "base/checksum.h"
#include "prng.h"
#include "raw_build.h"
#include "tap.h"

static const struct mtf_account_value accounts[] = {
    {MTF_ACCOUNT_EVENTS, 42},
    {MTF_ACCOUNT_END_REASON, MTF_END_EXIT},
};

/* --- A sink that can refuse ---------------------------------------------- */

struct sink {
    struct bytes out;
    unsigned calls, refuse_at; /* the call that is refused; 0: none */
    unsigned late;             /* calls after that one */
};

static bool sink_take(void *ctx, const void *data, size_t n) {
    struct sink *s = ctx;
    s->calls++;
    if (s->refuse_at != 0 && s->calls >= s->refuse_at) {
        s->late += s->calls > s->refuse_at;
        return false;
    }
    bytes_add(&s->out, data, n);
    return true;
}

static size_t make_header(uint8_t *header) {
    struct mtf_raw_header h = example_header();
    return mtf_raw_build_header(header, &h, "program", "recorder 1");
}

/* --- Header --------------------------------------------------------------- */

static void test_header(void) {
    uint8_t out[MTF_RAW_HEADER_MAX];
    struct mtf_raw_header h = example_header(), got;
    memset(h.magic, 'x', sizeof(h.magic));
    h.version = 77;
    h.must_understand = 77;
    h.length = 77;
    h.reserved = 77;
    size_t n = mtf_raw_build_header(out, &h, "exe", NULL);
    memcpy(&got, out, sizeof(got));
    tap_ok(memcmp(got.magic, MTF_RAW_MAGIC, 8) == 0 &&
               got.version == MTF_RAW_VERSION && got.must_understand == 0 &&
               got.length == n && got.reserved == 0,
           "magic, version and length are the writer's");
    tap_ok(got.pid == h.pid && got.random == h.random &&
               got.start_ns == h.start_ns && got.page_size == h.page_size &&
               got.buffer_bound == h.buffer_bound,
           "the rest is the caller's");
    tap_ok(n == tcm_align_up(96 + 4 + 3 + 4, 8) + 8 &&
               memcmp(out + 96, "\1\0\3\0exe\0\0\0\0", 11) == 0,
           "a field, then the end of fields");
    tap_is_u64(mtf_load_le64(out + n - 8), tcm_checksum_of(out, n - 8, 0),
               "checksum");
    tap_is_u64(mtf_raw_build_header(out, &h, NULL, ""),
               tcm_align_up(96 + 4, 8) + 8, "no texts, no fields");
    char text[400];
    memset(text, 'a', sizeof(text));
    text[399] = '\0';
    n = mtf_raw_build_header(out, &h, text, text);
    tap_ok(n == tcm_align_up(96 + 2 * (4 + 255) + 4, 8) + 8 && out[98] == 255 &&
               out[99] == 0,
           "long texts are cut to 255 bytes");
}

static void test_header_refused(void) {
    static uint8_t header[MTF_RAW_HEADER_MAX + 8];
    static const size_t lengths[] = {0, 95, MTF_RAW_HEADER_MAX + 1};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(lengths); i++) {
        struct mtf_raw_writer w;
        struct sink s = {.calls = 0};
        mtf_raw_writer_init(&w, sink_take, &s, NULL, 0);
        tap_ok(!mtf_raw_write_header(&w, header, lengths[i]) && w.failed &&
                   s.calls == 0,
               "a header of %zu bytes", lengths[i]);
    }
}

/* --- Segments of a plain trace ------------------------------------------- */

/* Checks the segment at *AT, moves behind it, and gives head and payload. */
static bool next_segment(const struct bytes *b, size_t *at,
                         struct mtf_segment *head, const uint8_t **payload) {
    if (b->length - *at < sizeof(*head))
        return false;
    memcpy(head, b->data + *at, sizeof(*head));
    if (head->sync != MTF_SEGMENT_SYNC || head->length > MTF_SEGMENT_MAX ||
        head->flags != 0 || head->reserved != 0 ||
        head->length > b->length - *at - sizeof(*head))
        return false;
    *payload = b->data + *at + sizeof(*head);
    uint64_t seed =
        head->kind == MTF_SEGMENT_HEADER ? 0 : example_header().random;
    struct tcm_checksum sum;
    tcm_checksum_begin(&sum, seed);
    tcm_checksum_add(&sum, b->data + *at,
                     offsetof(struct mtf_segment, checksum));
    tcm_checksum_add(&sum, *payload, head->length);
    *at += sizeof(*head) + head->length;
    return tcm_checksum_end(&sum) == head->checksum;
}

static void test_segments(void) {
    struct mtf_raw_writer w;
    struct bytes out = {0};
    struct mtf_segment h;
    const uint8_t *p;
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = make_header(header), at = n;
    begin_trace(&w, &out, false);
    struct mtf_raw_place place = {7, 1000, 900, 11, 12};
    bool good = mtf_raw_write_data(&w, &place, "events", 6) &&
                mtf_raw_write_barrier(&w, 20) &&
                mtf_raw_write_sample(&w, 21, accounts, 1) &&
                mtf_raw_write_notice(&w, 22, MTF_NOTICE_NO_SPOOL, "why") &&
                mtf_raw_write_notice(&w, 23, MTF_NOTICE_END_MODE, NULL) &&
                mtf_raw_write_barrier(&w, 24) &&
                mtf_raw_write_footer(&w, 25, accounts, 2);
    tap_ok(good && !w.failed, "written");
    tap_ok(memcmp(out.data, header, n) == 0, "the header as it was given");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_HEADER &&
               h.length == n && memcmp(p, header, n) == 0,
           "a copy of it follows");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_DATA &&
               h.thread == 7 && h.offset == 1000 && h.buffer_start == 900 &&
               h.time_lo == 11 && h.time_hi == 12 && h.length == 6 &&
               memcmp(p, "events", 6) == 0,
           "data");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_BARRIER &&
               h.length == 8 && mtf_load_le64(p) == 1 && h.time_lo == 20 &&
               h.time_hi == 20 && h.thread == 0,
           "the first barrier");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_HEADER,
           "the second frame begins with the header");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_SAMPLE &&
               h.length == 10 && p[0] == MTF_ACCOUNT_EVENTS && p[1] == 0 &&
               mtf_load_le64(p + 2) == 42 && h.time_lo == 21,
           "a sample");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_NOTICE &&
               h.length == 5 && memcmp(p, "\1\0why", 5) == 0,
           "a notice");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_NOTICE &&
               h.length == 2 && p[0] == MTF_NOTICE_END_MODE,
           "one without words");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_BARRIER &&
               mtf_load_le64(p) == 2,
           "the second barrier");
    tap_ok(next_segment(&out, &at, &h, &p) && h.kind == MTF_SEGMENT_FOOTER &&
               h.length == 20 && mtf_load_le64(p + 12) == MTF_END_EXIT,
           "the footer");
    tap_ok(at == out.length && w.raw_bytes == at && w.stored_bytes == at &&
               w.settled_bytes == at && w.segments == 9 && w.barriers == 2,
           "and the writer's counts");
    bytes_free(&out);
}

/* --- Frames and copies of the header -------------------------------------- */

static void test_frames(void) {
    static uint8_t events[MTF_SEGMENT_MAX];
    enum { SEGMENTS = 60 };
    struct mtf_raw_writer w;
    struct bytes out = {0};
    struct mtf_segment h;
    const uint8_t *p;
    struct prng random;
    bool inside = true, copied = true;
    begin_trace(&w, &out, false);
    memset(events, 0x33, sizeof(events));
    prng_seed(&random, 8);
    uint64_t last_copy = 0, data = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct mtf_raw_place place = {1, i, i, 0, 0};
        size_t n = 1 + prng_below(&random, i % 3 ? 1000 : MTF_SEGMENT_MAX);
        if (!mtf_raw_write_data(&w, &place, events,
                                i == 5 ? MTF_SEGMENT_MAX : n))
            tap_bail("write");
        inside &=
            w.in_frame && w.raw_bytes - w.frame_start <= MTF_RAW_FRAME_BYTES;
    }
    tap_ok(inside, "no frame is longer than it may be");
    size_t at = 96;
    at = mtf_load_le64(out.data + 8) >> 32; /* the header's length */
    while (at < out.length) {
        if (!next_segment(&out, &at, &h, &p))
            tap_bail("segment before %zu", at);
        data += h.kind == MTF_SEGMENT_DATA;
        if (h.kind == MTF_SEGMENT_HEADER)
            last_copy = at;
        copied &= at - last_copy <= 2 * MTF_RAW_FRAME_BYTES;
    }
    tap_is_u64(data, SEGMENTS, "all segments, whole");
    tap_ok(copied && w.header_copies >= w.raw_bytes / MTF_RAW_FRAME_BYTES / 2,
           "the header comes again and again: %u times", w.header_copies);
    mtf_raw_writer_end_frame(&w);
    tap_ok(!w.in_frame && mtf_raw_writer_end_frame(&w) &&
               mtf_raw_writer_flush(&w) && w.raw_bytes == out.length,
           "ending no frame writes nothing");
    bytes_free(&out);
}

/* --- Bytes that the sink has ---------------------------------------------- */

static void test_settled(void) {
    static uint8_t events[9000];
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = make_header(header);
    struct mtf_raw_writer w;
    struct sink s = {.calls = 0};
    struct prng random;
    if (!mtf_compress_available()) {
        tap_skip("a build without compression");
        return;
    }
    void *memory = malloc(MTF_RAW_WRITER_MEMORY);
    tap_ok(!mtf_raw_writer_init(&w, sink_take, &s, memory,
                                MTF_RAW_WRITER_MEMORY - 1),
           "too little memory for a compressor is refused");
    mtf_raw_writer_init(&w, sink_take, &s, memory, MTF_RAW_WRITER_MEMORY);
    mtf_raw_write_header(&w, header, n);
    prng_seed(&random, 3);
    bool bounded = true, order = true, frames = true;
    unsigned long_frames = 0;
    for (unsigned i = 0; i < 400; i++) {
        struct mtf_raw_place place = {1, i, i, 0, 0};
        for (size_t k = 0; k < sizeof(events); k++)
            events[k] = (uint8_t)prng_below(&random, 5);
        mtf_raw_write_data(&w, &place, events,
                           1 + prng_below(&random, sizeof(events)));
        bounded &= w.raw_bytes - w.settled_bytes < 128 << 10;
        order &=
            w.settled_bytes <= w.raw_bytes && w.stored_bytes == s.out.length;
        if (i % 50 == 9)
            order &= mtf_raw_writer_flush(&w) && w.settled_bytes == w.raw_bytes;
        if (i % 50 == 19) {
            order &=
                mtf_raw_write_barrier(&w, i) && w.settled_bytes == w.raw_bytes;
            frames &= w.in_frame ==
                      (i != 19 && w.raw_bytes - w.frame_start < 1 << 20);
            long_frames += !w.in_frame;
        }
    }
    order &= mtf_raw_write_footer(&w, 1, accounts, 2) &&
             w.settled_bytes == w.raw_bytes && !w.failed;
    tap_ok(bounded, "few bytes wait in the compressor");
    tap_ok(order, "none after a flush, a barrier and the footer");
    tap_ok(frames && long_frames > 1 && long_frames < 8,
           "barriers end the first frame and long ones, %u", long_frames);
    tap_ok(w.stored_bytes < w.raw_bytes, "%llu bytes of %llu",
           (unsigned long long)w.stored_bytes, (unsigned long long)w.raw_bytes);
    bytes_free(&s.out);
    free(memory);
}

/* --- Refusals --------------------------------------------------------------
 */

/* Writes a short trace; true if all calls returned true. Calls after a refusal
   must return false: *LATE counts others. */
static bool write_all(struct mtf_raw_writer *w, struct sink *s, void *memory,
                      unsigned *late) {
    uint8_t header[MTF_RAW_HEADER_MAX];
    static const uint8_t events[5000] = {1, 2, 3};
    size_t n = make_header(header);
    struct mtf_raw_place place = {1, 0, 0, 0, 0};
    mtf_raw_writer_init(w, sink_take, s, memory,
                        memory ? MTF_RAW_WRITER_MEMORY : 0);
    bool good = true;
    for (unsigned i = 0; i < 12; i++) {
        bool did =
            i == 0    ? mtf_raw_write_header(w, header, n)
            : i == 2  ? mtf_raw_write_barrier(w, 5)
            : i == 4  ? mtf_raw_write_sample(w, 6, accounts, 2)
            : i == 5  ? mtf_raw_write_notice(w, 6, MTF_NOTICE_NO_SPOOL, "words")
            : i == 7  ? mtf_raw_writer_flush(w)
            : i == 9  ? mtf_raw_writer_end_frame(w)
            : i == 11 ? mtf_raw_write_footer(w, 9, accounts, 2)
                      : mtf_raw_write_data(w, &place, events, sizeof(events));
        *late += did && !good;
        good &= did;
    }
    if (good != !w->failed || w->stored_bytes != s->out.length)
        tap_bail("the writer and its sink disagree");
    return good;
}

static void test_sink_refuses(bool compressed) {
    void *memory = compressed ? malloc(MTF_RAW_WRITER_MEMORY) : NULL;
    struct mtf_raw_writer w;
    struct sink whole = {.calls = 0};
    unsigned late = 0;
    const char *kind = compressed ? "compressed" : "plain";
    tap_ok(write_all(&w, &whole, memory, &late), "%s: %u calls of the sink",
           kind, whole.calls);
    bool told = true, quiet = true, prefix = true;
    for (unsigned at = 1; at <= whole.calls; at++) {
        struct sink s = {.refuse_at = at};
        told &= !write_all(&w, &s, memory, &late);
        quiet &= s.late == 0;
        prefix &= s.out.length < whole.out.length &&
                  memcmp(s.out.data ? s.out.data : whole.out.data,
                         whole.out.data, s.out.length) == 0;
        bytes_free(&s.out);
    }
    tap_ok(told && late == 0, "%s: a refusal is told, then by every call",
           kind);
    tap_ok(quiet, "%s: the sink is not called again", kind);
    tap_ok(prefix, "%s: what came before is the start of the trace", kind);
    bytes_free(&whole.out);
    free(memory);
}

/* The sink refuses a plain trace at any call: the writer goes on behind its
   last whole segment. */
static void test_goes_back(void) {
    struct mtf_raw_writer w;
    struct sink whole = {.calls = 0};
    uint8_t header[MTF_RAW_HEADER_MAX];
    unsigned late = 0, cut = 0;
    bool good = write_all(&w, &whole, NULL, &late);
    for (unsigned call = 4; call <= whole.calls; call++) {
        struct sink s = {.refuse_at = call};
        struct mtf_segment h = {.kind = 0};
        const uint8_t *p;
        size_t at = make_header(header);
        good &= !write_all(&w, &s, NULL, &late);
        s.refuse_at = 0;
        cut += mtf_raw_writer_excess(&w) != 0;
        s.out.length -= mtf_raw_writer_excess(&w);
        good &= mtf_raw_writer_go_back(&w) &&
                mtf_raw_write_footer(&w, 9, accounts, 2) &&
                w.stored_bytes == s.out.length && w.raw_bytes == s.out.length;
        while (at < s.out.length && next_segment(&s.out, &at, &h, &p))
            continue;
        good &= at == s.out.length && h.kind == MTF_SEGMENT_FOOTER;
        bytes_free(&s.out);
    }
    tap_ok(good && cut != 0, "a trace goes on behind its last whole segment");
    bytes_free(&whole.out);
}

/* An argument beyond its limit: nothing is written after it. */
static void test_limits(void) {
    static uint8_t big[MTF_SEGMENT_MAX + 1];
    static struct mtf_account_value many[MTF_ACCOUNTS_MAX + 1];
    char text[400];
    struct mtf_raw_place place = {1, 0, 0, 0, 0};
    for (unsigned what = 0; what < 4; what++) {
        struct mtf_raw_writer w;
        struct bytes out = {0};
        begin_trace(&w, &out, false);
        size_t before = out.length;
        bool did =
            what == 0   ? mtf_raw_write_data(&w, &place, big, 0)
            : what == 1 ? mtf_raw_write_data(&w, &place, big, sizeof(big))
            : what == 2
                ? mtf_raw_write_sample(&w, 1, many, MTF_ACCOUNTS_MAX + 1)
                : mtf_raw_write_footer(&w, 1, many, MTF_ACCOUNTS_MAX + 1);
        tap_ok(!did && out.length == before &&
                   !mtf_raw_write_data(&w, &place, big, 10) &&
                   out.length == before,
               "%s",
               what == 0   ? "no events"
               : what == 1 ? "more events than a segment holds"
               : what == 2 ? "too many fields of a sample"
                           : "too many fields of a footer");
        bytes_free(&out);
    }
    struct mtf_raw_writer w;
    struct bytes out = {0};
    struct mtf_segment h;
    const uint8_t *p;
    begin_trace(&w, &out, false);
    size_t at = out.length;
    memset(text, 'b', sizeof(text));
    text[399] = '\0';
    tap_ok(mtf_raw_write_sample(&w, 1, many, MTF_ACCOUNTS_MAX) &&
               next_segment(&out, &at, &h, &p) &&
               h.length == 10 * MTF_ACCOUNTS_MAX,
           "as many fields as there may be");
    tap_ok(mtf_raw_write_notice(&w, 1, MTF_NOTICE_NO_SPOOL, text) &&
               next_segment(&out, &at, &h, &p) && h.length == 2 + 255,
           "long words are cut");
    bytes_free(&out);
}

/* --- Spool ---------------------------------------------------------------- */

static void test_spool(void) {
    static uint8_t page[MTF_SPOOL_UNIT];
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = make_header(header);
    struct mtf_spool_head h;
    struct mtf_spool_mark mark;
    mtf_spool_put_head(page, header, n, 77);
    memcpy(&h, page, sizeof(h));
    tap_ok(memcmp(h.magic, MTF_SPOOL_MAGIC, 8) == 0 &&
               h.version == MTF_RAW_VERSION && h.must_understand == 0 &&
               h.header_offset == sizeof(h) + sizeof(mark) &&
               h.checksum == tcm_checksum_of(page, 24, 0),
           "the spool's head");
    tap_ok(mtf_spool_get_mark(page, &mark) && mark.length == MTF_SPOOL_UNIT &&
               mark.saved == 77 && mark.begun == 77 && mark.flags == 0,
           "what it knows of the output");
    tap_ok(memcmp(page + h.header_offset, header, n) == 0, "then the trace's");
    struct mtf_spool_buffer b;
    memset(&b, 0xff, sizeof(b));
    b.saved = 55;
    mtf_spool_put_buffer(&b, 99, 65536, 3, 1000, 2000);
    tap_ok(b.sync == MTF_SPOOL_BUFFER_SYNC && b.size == 65536 &&
               b.thread == 3 && b.offset == 1000 && b.time_lo == 2000 &&
               b.reserved == 0 && b.saved == 55,
           "a buffer's head");
    tap_is_u64(b.checksum, tcm_checksum_of(&b, 40, 99), "its checksum");
}

int main(void) {
    test_header();
    test_header_refused();
    test_segments();
    test_frames();
    test_settled();
    test_sink_refuses(false);
    if (mtf_compress_available())
        test_sink_refuses(true);
    test_goes_back();
    test_limits();
    test_spool();
    return tap_done();
}
