/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of every kind through reader, sorter and writer; the late stream;
 * gaps; segments that come twice; and blocks whose allocation is missing.
 */
#include "order_sort.h"
#include "tests/unit/traceformat/raw_build.h"

static void add_data(struct sorter *s, const struct encoder *e, uint32_t thread,
                     uint64_t offset, uint64_t lo, uint64_t hi) {
    struct mtf_item item = {.kind = MTF_ITEM_DATA,
                            .thread = thread,
                            .offset = offset,
                            .buffer_start = offset,
                            .time_lo = lo,
                            .time_hi = hi,
                            .data = e->out.data,
                            .length = (uint32_t)e->out.length};
    sorter_add(s, &item);
}

static void add_barrier(struct sorter *s, uint64_t time) {
    struct mtf_item item = {
        .kind = MTF_ITEM_BARRIER, .time_lo = time, .time_hi = time};
    sorter_add(s, &item);
}

static void add_sample(struct sorter *s, uint64_t time) {
    static const uint8_t fields[20];
    struct mtf_item item = {.kind = MTF_ITEM_SAMPLE,
                            .time_lo = time,
                            .time_hi = time,
                            .data = fields,
                            .length = sizeof(fields)};
    sorter_add(s, &item);
}

static void test_every_kind(void) {
    static struct text text;
    struct sorted out;
    struct encoder one = {.next_token = 1};
    unsigned calls = put_every_kind(&one, 1000, 1);
    struct sorter *s = sorter_begin(&out);
    out.text = &text;
    add_data(s, &one, 1, 0, 990, 5000000);
    add_sample(s, 4000000);
    add_barrier(s, 6000000);
    sorter_end(s);
    tap_is_str(text.s,
               "thread 1\n"
               "thread 1 starts, kernel id 77\n"
               "slot 0 = malloc(24)\n"
               "slot 1 = malloc(4097)\n"
               "slot 2 = new(0)\n"
               "time 1111896 ns\n"
               "free(slot 0)\n"
               "delete(slot 2)\n"
               "slot 1 = realloc(slot 1, 1048576) moved\n"
               "slot 1 = reallocarray(slot 1, 100)\n"
               "time 2222783 ns\n"
               "slot 2 = posix_memalign(70000, align 4096)\n"
               "slot 0 = realloc(0)\n"
               "calloc(18446744073709551615) failed\n"
               "delete(size)(slot 1, 99)\n"
               "time 3333670 ns\n"
               "slot 1 = new(32)\n"
               "realloc(slot 1, 0) freed it\n"
               "mark \"a mark\"\n"
               "sample at 4000000 ns, 2 fields\n"
               "extension 2, 9\n"
               "time 4444556 ns\n"
               "thread 1 lost 0 events, 1020 to 1030 ns\n"
               "thread 1 ends, name \"worker\"\n",
               "every kind of event");
    const struct tool_ops_counts *c = &out.counts;
    tap_ok(c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed ==
                   calls &&
               c->mallocs == 4 && c->memaligns == 1 && c->reallocs == 4 &&
               c->frees == 3 && c->failed == 1 && c->threads == 1,
           "counts by kind");
    tap_is_u64(c->requested_bytes,
               24 + 4097 + 0 + (1 << 20) + 100 + 70000 + 0 + 32,
               "requested bytes");
    tap_is_u64(out.peak_live_bytes, 1 << 20, "a realloc is one step");
    tap_is_u64(out.live_at_end, 2, "live at the end");
    tap_is_u64(out.untraced, 3, "frees of blocks made while not recording");
    sorted_free(&out);
    bytes_free(&one.out);
}

/* Events that a thread makes after it gave up its buffer come after all its
   other events, whatever their estimated times are. */
static void test_late(void) {
    static struct text text;
    struct sorted out;
    struct encoder own = {.next_token = 1}, late = {.next_token = 1000};
    put_buffer(&own, 1000, 0, 0);
    put_tokens(&own, 1, 6);
    uint64_t a = put_alloc(&own, 8), b = put_alloc(&own, 16);
    put_alloc(&own, 24);
    PUT(&own, mtf_raw_put_bytes, MTF_RAW_THREAD_END, "t", 1);
    put_buffer(&late, 1000, 0, 0);
    put_payload(&late, mtf_inline_payload(MTF_RAW_AS_THREAD, 7));
    put_free(&late, b);
    put_payload(&late, mtf_inline_payload(MTF_RAW_AS_THREAD, 5));
    put_free(&late, a);
    struct sorter *s = sorter_begin(&out);
    out.text = &text;
    add_data(s, &late, MTF_THREAD_LATE, 0, 1000, 1001);
    add_barrier(s, 1500);
    add_data(s, &own, 7, 0, 1000, 90000);
    add_barrier(s, 95000);
    sorter_end(s);
    tap_is_str(text.s,
               "thread 7\n"
               "slot 0 = malloc(8)\n"
               "slot 1 = malloc(16)\n"
               "slot 2 = malloc(24)\n"
               "thread 7 ends, name \"t\"\n"
               "free(slot 1)\n"
               "thread 5\n"
               "free(slot 0)\n",
               "the late stream");
    tap_is_u64(out.counts.threads, 2, "its threads count");
    sorted_free(&out);
    bytes_free(&own.out);
    bytes_free(&late.out);
}

/* The worked example of doc/ordering.md. */
static void test_example(void) {
    static struct text text;
    struct sorted out;
    struct encoder a = {.next_token = 1}, b = {.next_token = 1};
    put_buffer(&a, 10000, 0, 0);
    put_buffer(&b, 15000, 0, 0);
    put_tokens(&a, 1, 6);
    put_tokens(&b, 65, 6);
    uint64_t x = put_alloc(&a, 100), y = put_alloc(&b, 50);
    put_time(&a, 20000);
    put_alloc(&a, 8);
    put_free(&a, y);
    put_free(&b, x);
    put_time(&b, 30000);
    put_alloc(&b, 16);
    struct sorter *s = sorter_begin(&out);
    out.text = &text;
    add_data(s, &a, 1, 0, 10000, 40000);
    add_data(s, &b, 2, 0, 15000, 50000);
    add_barrier(s, 60000);
    sorter_end(s);
    tap_is_str(text.s,
               "thread 1\n"
               "slot 0 = malloc(100)\n"
               "slot 1 = malloc(8)\n"
               "thread 2\n"
               "slot 2 = malloc(50)\n"
               "free(slot 0)\n"
               "slot 0 = malloc(16)\n"
               "thread 1\n"
               "free(slot 2)\n",
               "the example of the documentation");
    tap_is_u64(out.waited, 1, "one of them waited");
    sorted_free(&out);
    bytes_free(&a.out);
    bytes_free(&b.out);
}

static void test_missing(void) {
    static struct text text;
    struct sorted out;
    struct encoder one = {.next_token = 1}, two = {.next_token = 65};
    put_buffer(&one, 1000, 0, 0);
    put_tokens(&one, 1, 6);
    put_alloc(&one, 8);
    put_free(&one, 4000); /* nobody made it */
    put_realloc(&one, 40, 4001, true, false);
    put_alloc(&one, 16);
    put_buffer(&two, 1000, 0, 0);
    put_tokens(&two, 65, 6);
    put_alloc(&two, 32);
    struct sorter *s = sorter_begin(&out);
    out.text = &text;
    add_data(s, &one, 1, 0, 1000, 2000);
    add_data(s, &two, 2, 0, 1000, 2000);
    add_data(s, &two, 2, 0, 1000, 2000); /* a second time, as from a spool */
    add_barrier(s, 3000);
    size_t before = s->emit.counts.frees;
    add_barrier(s, 4000);
    size_t after = s->emit.counts.frees;
    sorter_end(s);
    tap_is_str(text.s,
               "thread 1\n"
               "slot 0 = malloc(8)\n"
               "thread 2\n"
               "slot 1 = malloc(32)\n"
               "thread 1\n"
               "slot 2 = realloc(40)\n"
               "slot 3 = malloc(16)\n",
               "a free and a realloc of nobody's blocks");
    tap_ok(before == 0 && after == 1,
           "given up at the barrier after the next one");
    tap_ok(out.counts.unmatched_frees == 1 &&
               out.counts.unmatched_reallocs == 1 && out.conflicts == 0 &&
               out.counts.frees == 1 && out.counts.reallocs == 1,
           "counted");
    tap_is_u64(out.lost_bytes, 0, "what comes twice is no loss");
    sorted_free(&out);
    bytes_free(&one.out);
    bytes_free(&two.out);
}

static void test_damage(void) {
    struct sorted out;
    struct encoder one = {.next_token = 1}, two, three;
    put_buffer(&one, 1000, 0, 0);
    put_tokens(&one, 1, 6);
    for (unsigned i = 0; i < 10; i++)
        put_alloc(&one, 8);
    uint64_t good = one.out.length;
    put_payload(&one,
                mtf_alloc_payload(8, 1)); /* from a block that is used up */
    one.tokens_left = 0;
    two = one;
    two.out = (struct bytes){0};
    put_payload(&two, mtf_inline_payload(MTF_RAW_TIME, 1));
    three = two;
    three.out = (struct bytes){0};
    three.next_token = 200;
    put_buffer(&three, 3000, 0, 0);
    put_tokens(&three, 200, 6);
    put_alloc(&three, 8);
    one.out.data[good] = 0; /* no event begins with a zero byte */
    struct sorter *s = sorter_begin(&out);
    add_data(s, &one, 1, 0, 1000, 2000);
    struct mtf_item item = {.kind = MTF_ITEM_DATA,
                            .thread = 1,
                            .offset = one.out.length,
                            .time_lo = 2000,
                            .time_hi = 2500,
                            .data = two.out.data,
                            .length = (uint32_t)two.out.length};
    sorter_add(s, &item);
    add_data(s, &three, 1, one.out.length + two.out.length + 50, 3000, 4000);
    sorter_end(s);
    tap_is_u64(out.counts.mallocs, 11,
               "after damage a stream goes on with the next buffer");
    tap_is_u64(out.lost_bytes, one.out.length - good + two.out.length + 50,
               "lost bytes are counted");
    tap_is_u64(out.bad_places, 1, "and the place");
    sorted_free(&out);
    bytes_free(&one.out);
    bytes_free(&two.out);
    bytes_free(&three.out);
}

/* An interval of more events than are decoded at once. */
static void test_long_interval(void) {
    struct sorted out;
    struct encoder one = {.next_token = 1}, two = {.next_token = 1 << 20};
    put_buffer(&one, 1000, 0, 0);
    put_tokens(&one, 1, 18);
    for (unsigned i = 0; i < 200000; i++)
        put_alloc(&one, i * 8);
    for (unsigned i = 0; i < 200000; i++)
        put_free(&one, 1 + i);
    put_buffer(&two, 1000, 0, 0);
    put_tokens(&two, 1 << 20, 6);
    put_time(&two, 200001000);
    put_alloc(&two, 8);
    struct sorter *s = sorter_begin(&out);
    add_data(s, &one, 1, 0, 1000, 400001000);
    add_data(s, &two, 2, 0, 1000, 200001000);
    add_barrier(s, 400001000);
    sorter_end(s);
    uint64_t before = 0, sizes = 0, wrong = 0;
    bool seen = false;
    for (size_t i = 0; i < out.count; i++) {
        const struct mtf_op *op = &out.ops[i];
        if (op->kind == MTF_OP_SWITCH && op->slot == 2)
            seen = true;
        before += op->kind <= MTF_OP_LAST_OPERATION && !seen;
        if (op->kind == MTF_OP_ALLOC && !seen)
            wrong += op->size != sizes++ * 8;
    }
    /* Event i of 400000 in 400 ms is estimated at 1000 ns * (i + 1). The other
       thread's event is due when that is 20 us ahead of it. */
    tap_ok(out.counts.mallocs == 200001 && out.counts.frees == 200000 &&
               wrong == 0 && out.live_at_end == 1,
           "all events of a long interval");
    tap_ok(before >= 200019 && before <= 200021,
           "the other thread comes in its time (after %llu)",
           (unsigned long long)before);
    sorted_free(&out);
    bytes_free(&one.out);
    bytes_free(&two.out);
}

int main(void) {
    test_every_kind();
    test_late();
    test_example();
    test_missing();
    test_damage();
    test_long_interval();
    return tap_done();
}
