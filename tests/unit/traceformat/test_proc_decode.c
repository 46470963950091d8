/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that contradict themselves: each is refused with the reason, after the
 * operations before the fault. The blocks are made byte by byte;
 * test_proc_codec.c decodes blocks of our writer.
 */
#include "prng.h"
#include "tap.h"
#include "traceformat/proc_writer.h"
#include "traceformat/proc_reader.h"

static struct mtf_proc_decoder decoder;

struct block {
    struct mtf_proc_block b;
    uint8_t payload[256 + 8];
};

static void begin(struct block *k, uint32_t slots) {
    memset(k, 0, sizeof(*k));
    k->b.payload = k->payload;
    k->b.head.alloc_call = MTF_CALL_MALLOC;
    k->b.head.free_call = MTF_CALL_FREE;
    k->b.head.slot_count = slots;
}

static void put(struct block *k, uint64_t v) {
    k->b.head.length += mtf_varint_put(k->payload + k->b.head.length, v);
}

/* Adds one record of payload V; IS_OP: it counts as an operation. */
static void record(struct block *k, uint64_t v, bool is_op) {
    put(k, v);
    k->b.head.records++;
    k->b.head.ops += is_op;
}

static void alloc_of(struct block *k) {
    record(k, mtf_size_code(8, 0) << 1 | 1, true);
}

static uint64_t inline_of(unsigned kind, uint64_t argument) {
    return argument << 9 | (uint64_t)kind << 4;
}

static void with_bytes(struct block *k, unsigned kind, const void *data,
                       size_t n, bool is_op) {
    record(k, inline_of(kind, n), is_op);
    if (n != 0)
        memcpy(k->payload + k->b.head.length, data, n);
    k->b.head.length += (uint32_t)n;
}

/* Decodes the block; returns the number of operations made. */
static size_t decode(const struct block *k) {
    struct mtf_op ops[8];
    size_t all = 0, n;
    /* A copy of exactly its bytes lets a sanitizer see reads beyond them. */
    uint8_t *copy = malloc(k->b.head.length + 8);
    struct mtf_proc_block b = k->b;
    memcpy(copy, k->payload, k->b.head.length + 8);
    b.payload = copy;
    mtf_proc_decode_begin(&decoder, &b);
    while ((n = mtf_proc_decode(&decoder, ops, 3)) != 0) {
        all += n;
        for (size_t i = 0; i < n; i++) {
            if (ops[i].kind == 0 || ops[i].kind > MTF_OP_OTHER ||
                ops[i].call >= MTF_CALL_LIMIT)
                all += 1000000; /* not a valid operation */
            if (ops[i].kind <= MTF_OP_LAST_OPERATION &&
                ops[i].slot >= decoder.slot_count)
                all += 1000000;
        }
    }
    free(copy);
    return all;
}

static void refused(const struct block *k, size_t before, const char *problem,
                    const char *what) {
    size_t n = decode(k);
    bool good = n == before && decoder.problem != NULL &&
                strcmp(decoder.problem, problem) == 0;
    if (!good)
        tap_diag("%zu operations, problem: %s", n,
                 decoder.problem ? decoder.problem : "none");
    tap_ok(good, "%s: %s", what, problem);
}

static void test_heads(void) {
    struct block k;
    static const char *const head = "impossible block head";
    begin(&k, 0);
    tap_ok(decode(&k) == 0 && decoder.problem == NULL, "an empty block");
    k.b.head.records = MTF_PROC_BLOCK_RECORDS + 1;
    refused(&k, 0, head, "too many records");
    begin(&k, 0);
    k.b.head.ops = 1;
    refused(&k, 0, head, "more operations than records");
    begin(&k, 5);
    k.b.head.taken = 1;
    refused(&k, 0, head, "more slots taken than records");
    begin(&k, UINT32_MAX - MTF_PROC_BLOCK_RECORDS + 1);
    refused(&k, 0, head, "slots that could overflow");
    begin(&k, 0);
    k.b.head.alloc_call = MTF_CALL_FREE;
    refused(&k, 0, head, "an allocating free");
    begin(&k, 0);
    k.b.head.free_call = MTF_CALL_MALLOC;
    refused(&k, 0, head, "a freeing malloc");
}

static void test_taken(void) {
    static const char *const list = "impossible list of slots";
    struct block k;
    begin(&k, 4);
    k.b.head.taken = 2;
    put(&k, mtf_zigzag(3));
    put(&k, mtf_zigzag(-2));
    alloc_of(&k);
    alloc_of(&k);
    alloc_of(&k);
    struct mtf_op op[4];
    mtf_proc_decode_begin(&decoder, &k.b);
    tap_ok(mtf_proc_decode(&decoder, op, 4) == 3 && decoder.problem == NULL &&
               op[0].slot == 3 && op[1].slot == 1 && op[2].slot == 4 &&
               decoder.slot_count == 5,
           "listed slots come first, in their order, then new ones");
    begin(&k, 4);
    k.b.head.taken = 1;
    put(&k, mtf_zigzag(4));
    alloc_of(&k);
    refused(&k, 0, list, "a slot not used so far");
    begin(&k, 4);
    k.b.head.taken = 1;
    put(&k, mtf_zigzag(-1));
    alloc_of(&k);
    refused(&k, 0, list, "a slot below 0");
    begin(&k, 4);
    k.b.head.taken = 1;
    k.b.head.records = 1;
    refused(&k, 0, list, "a list that is cut");
}

static void test_records(void) {
    struct block k;
    static const char *const cut = "record cut";
    begin(&k, 3);
    alloc_of(&k);
    record(&k, mtf_zigzag(1) << 2 | 2, true);
    refused(&k, 1, "birth out of range", "free of what is not born");
    begin(&k, 3);
    alloc_of(&k);
    record(&k, mtf_zigzag(-1) << 2 | 2, true);
    refused(&k, 1, "birth out of range", "free of what was born before");
    begin(&k, 3);
    alloc_of(&k);
    record(&k, mtf_zigzag(3) << 3 | 4, true);
    refused(&k, 1, "slot out of range", "free of a slot not used before");
    begin(&k, 3);
    alloc_of(&k);
    record(&k, mtf_zigzag(1) << 4 | 8, true);
    refused(&k, 1, "birth out of range", "realloc of what is not born");
    begin(&k, 3);
    record(&k, inline_of(MTF_PROC_REALLOC_OLD, mtf_zigzag(3)), true);
    refused(&k, 0, "slot out of range", "realloc of a slot not used before");
    begin(&k, 3);
    record(&k, inline_of(MTF_PROC_REALLOC_OLD, mtf_zigzag(2)), true);
    refused(&k, 0, cut, "realloc without a size");
    begin(&k, 3);
    record(&k, inline_of(MTF_PROC_REALLOC_OLD, mtf_zigzag(2)), false);
    put(&k, 0);
    refused(&k, 0, "more operations than the head says",
            "an uncounted realloc");
    begin(&k, 3);
    k.b.head.records = 1;
    refused(&k, 0, cut, "a record that is not there");
    begin(&k, 3);
    alloc_of(&k);
    k.payload[k.b.head.length++] = 0x80; /* the first byte of 8 */
    k.b.head.records++;
    refused(&k, 1, cut, "a varint that is cut");
    begin(&k, 3);
    alloc_of(&k);
    k.b.head.length++;
    refused(&k, 1, "records and head contradict each other", "bytes left");
    begin(&k, 3);
    alloc_of(&k);
    k.b.head.ops = 0;
    refused(&k, 1, "records and head contradict each other", "no operations");
}

static void test_extended(void) {
    static const char *const call = "impossible call";
    static const struct {
        unsigned kind;
        uint64_t argument;
        const char *problem, *what;
    } bad[] = {
        {MTF_PROC_ALLOC_CALL, MTF_CALL_FREE, call, "sticky free"},
        {MTF_PROC_ALLOC_CALL, 1 << 20, call, "sticky absurd number"},
        {MTF_PROC_FREE_CALL, MTF_CALL_MALLOC, call, "sticky malloc"},
        {MTF_PROC_FREE_CALL, 256 + MTF_CALL_FREE, call, "sticky free + 256"},
        {MTF_PROC_SWITCH, (uint64_t)1 << 32, "impossible thread", "thread"},
        {6, 0, "operation of a later version", "kind 6"},
        {15, 0, "operation of a later version", "kind 15"},
        {0, 0, "operation of a later version", "kind 0"},
        {MTF_PROC_MARK, 1000, "record cut", "a mark that is cut"},
        {31, (uint64_t)1 << 46, "record cut", "absurd length"},
    };
    struct block k;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(bad); i++) {
        begin(&k, 3);
        alloc_of(&k);
        record(&k, inline_of(bad[i].kind, bad[i].argument), false);
        refused(&k, 1, bad[i].problem, bad[i].what);
    }
    begin(&k, 3);
    with_bytes(&k, MTF_PROC_SITE, "\5\1", 2, false);
    with_bytes(&k, MTF_PROC_NOTE, "later", 5, false);
    with_bytes(&k, MTF_PROC_NOTE, "\1\0\0\1", 4, false);
    struct mtf_op op[3];
    size_t n;
    mtf_proc_decode_begin(&decoder, &k.b);
    tap_ok(mtf_proc_decode(&decoder, op, 3) == 3 && op[0].kind == MTF_OP_SITE &&
               op[0].slot == 0x105,
           "a call site");
    tap_ok(op[1].kind == MTF_OP_OTHER && op[1].slot == MTF_PROC_NOTE &&
               memcmp(mtf_proc_bytes(&k.b, &op[1], &n), "later", 5) == 0 &&
               n == 5,
           "a later note is handed on");
    tap_ok(op[2].kind == MTF_OP_PRESENT && op[2].size == 65536 &&
               decoder.problem == NULL,
           "present bytes");
    begin(&k, 2);
    with_bytes(&k, MTF_PROC_SITE, "\0\0\0\1", 4, false);
    with_bytes(&k, MTF_PROC_SITE_DEF, "whatever", 8, false);
    mtf_proc_decode_begin(&decoder, &k.b);
    tap_ok(mtf_proc_decode(&decoder, op, 3) == 2 && op[0].kind == MTF_OP_SITE &&
               op[0].slot == 0 && op[1].kind == MTF_OP_SITE_DEF &&
               memcmp(mtf_proc_bytes(&k.b, &op[1], &n), "whatever", 8) == 0 &&
               n == 8,
           "a call site out of range is none, a definition is handed on");
    begin(&k, 3);
    with_bytes(&k, MTF_PROC_NOTE, "\1", 1, false);
    refused(&k, 0, "record too short", "present bytes without a number");
}

static void test_with_bytes(void) {
    static const char *const call = "impossible call", *const slot =
                                                           "slot out of range";
    static const struct {
        uint8_t kind, length, bytes[30];
        const char *problem, *what;
    } bad[] = {
        {MTF_PROC_ALIGNED, 3, {MTF_CALL_FREE, 4, 8}, call, "aligned free"},
        {MTF_PROC_ALIGNED, 3, {MTF_CALL_MEMALIGN, 64, 8}, call, "2^64"},
        {MTF_PROC_ALIGNED, 3, {MTF_CALL_MALLOC, 4, 8}, call, "aligned malloc"},
        {MTF_PROC_REALLOC_NEW, 3, {MTF_CALL_MALLOC, 0, 8}, call, "realloc"},
        {MTF_PROC_REALLOC_END, 5, {MTF_CALL_FREE, 1}, call, "realloc end"},
        {MTF_PROC_REALLOC_END, 5, {MTF_CALL_REALLOC, 9}, slot, "realloc end"},
        {MTF_PROC_FREE_SIZE, 6, {MTF_CALL_MALLOC, 1}, call, "sized free"},
        {MTF_PROC_FREE_SIZE, 6, {MTF_CALL_FREE, 0, 0, 0, 9}, slot, "sized"},
        {MTF_PROC_REALLOC_SIZE, 7, {MTF_CALL_FREE}, call, "huge realloc"},
        {MTF_PROC_REALLOC_SIZE, 7, {MTF_CALL_REALLOC, 0, 9}, slot, "huge"},
        {MTF_PROC_FAILED, 4, {MTF_CALL_FREE}, call, "failed free"},
        {MTF_PROC_FAILED, 4, {MTF_CALL_NONE}, call, "failed nothing"},
    };
    static const struct {
        uint8_t kind, least;
    } least[] = {{MTF_PROC_ALIGNED, 3},      {MTF_PROC_REALLOC_NEW, 3},
                 {MTF_PROC_REALLOC_END, 5},  {MTF_PROC_FREE_SIZE, 6},
                 {MTF_PROC_FAILED, 4},       {MTF_PROC_THREAD_START, 8},
                 {MTF_PROC_THREAD_END, 4},   {MTF_PROC_EXTENSION, 9},
                 {MTF_PROC_SAMPLE, 8},       {MTF_PROC_LOSS, 28},
                 {MTF_PROC_REALLOC_SIZE, 7}, {MTF_PROC_NOTE, 1}};
    struct block k;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(bad); i++) {
        begin(&k, 3);
        alloc_of(&k);
        with_bytes(&k, bad[i].kind, bad[i].bytes, bad[i].length,
                   bad[i].kind != MTF_PROC_FAILED);
        refused(&k, 1, bad[i].problem, bad[i].what);
    }
    bool good = true;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(least); i++) {
        for (unsigned n = 0; n < least[i].least; n++) {
            static const uint8_t bytes[32] = {MTF_CALL_REALLOC};
            begin(&k, 3);
            with_bytes(&k, least[i].kind, bytes, n, false);
            good &= decode(&k) == 0 && decoder.problem != NULL &&
                    strcmp(decoder.problem, "record too short") == 0;
        }
    }
    tap_ok(good, "records with too few bytes");
    begin(&k, 3);
    with_bytes(&k, MTF_PROC_REALLOC_NEW, "\3\0\10", 3, false);
    refused(&k, 0, "more operations than the head says", "uncounted");
}

/* Random bytes: the work is bounded, and no impossible operation comes out. */
static void test_any_bytes(void) {
    struct prng random;
    bool good = true;
    prng_seed(&random, 6);
    for (unsigned round = 0; round < 20000; round++) {
        struct block k;
        begin(&k, (uint32_t)prng_below(&random, 6));
        k.b.head.length = (uint32_t)prng_below(&random, 257);
        for (unsigned i = 0; i < k.b.head.length; i++)
            k.payload[i] =
                (uint8_t)(prng_next(&random) >> prng_below(&random, 2) * 60);
        k.b.head.records = (uint32_t)prng_below(&random, 200);
        k.b.head.ops = (uint32_t)prng_below(&random, k.b.head.records + 1);
        k.b.head.taken = (uint32_t)prng_below(&random, 3);
        good &= decode(&k) <= k.b.head.records;
    }
    tap_ok(good, "random bytes");
}

int main(void) {
    test_heads();
    test_taken();
    test_records();
    test_extended();
    test_with_bytes();
    test_any_bytes();
    return tap_done();
}
