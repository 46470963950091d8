/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round trip of the processed trace: the reader yields the writer's input, in
 * blocks that can be decoded alone and in any order; damage costs only the
 * blocks that it hits.
 */
#include "memory_source.h"
#include "proc_sample.h"

static bool has_bytes(unsigned kind) {
    return mtf_op_is_text(kind) || kind == MTF_OP_SAMPLE ||
           kind == MTF_OP_LOSS || kind == MTF_OP_THREAD_END;
}

static bool same_op(const struct mtf_op *got, const struct mtf_op *want) {
    struct mtf_op g = *got;
    if (has_bytes(g.kind))
        g.size = 0;
    return memcmp(&g, want, sizeof(g)) == 0;
}

struct reading {
    uint64_t first[64]; /* index of each block's first operation */
    uint64_t ops, blocks, damages, skipped;
    bool headers, closed;
    const char *problem;
    bool foreign;
    uint64_t wrong; /* operations that differ from the expected ones */
    uint64_t live_at_end;
};

/* Reads the trace, PIECE bytes at a time, and compares it with S. */
static void read_all(struct reading *out, const struct proc_sample *s,
                     const uint8_t *bytes, size_t length, size_t piece,
                     size_t batch) {
    static struct mtf_op ops[4096];
    static struct mtf_proc_reader r; /* has the text of the problem */
    struct mtf_proc_item item;
    struct memory_source m;
    struct mtf_proc_decoder *d = malloc(sizeof(*d));
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    size_t index = 0;
    memset(out, 0, sizeof(*out));
    memory_source_init(&m, bytes, length, piece);
    mtf_proc_reader_init(&r, &m.source, memory);
    for (;;) {
        mtf_proc_reader_next(&r, &item);
        switch (item.kind) {
        case MTF_PROC_ITEM_HEADER:
            out->headers =
                item.header.raw_length == sizeof(s->header) &&
                memcmp(item.raw_header, s->header, sizeof(s->header)) == 0;
            continue;
        case MTF_PROC_ITEM_OPS: {
            if (!mtf_proc_decode_begin(d, &item.block))
                out->wrong++;
            /* place of the block's records among the expected ones, by its
               count of earlier operations */
            if (out->damages != 0) {
                uint64_t seen = 0;
                for (index = 0; index < s->count; index++) {
                    if (seen == item.block.head.first_op)
                        break;
                    seen += s->ops[index].kind <= MTF_OP_LAST_OPERATION;
                }
            }
            out->blocks++;
            size_t n;
            bool found = out->damages == 0;
            while ((n = mtf_proc_decode(d, ops, batch)) != 0) {
                for (size_t i = 0; i < n; i++) {
                    /* records of no operation stand before or after it */
                    while (!found && index < s->count &&
                           !same_op(&ops[i], &s->ops[index]) &&
                           s->ops[index].kind > MTF_OP_LAST_OPERATION)
                        index++;
                    found = true;
                    if (index >= s->count || !same_op(&ops[i], &s->ops[index]))
                        out->wrong++;
                    index++;
                    out->ops += ops[i].kind <= MTF_OP_LAST_OPERATION;
                }
            }
            if (d->problem != NULL)
                out->wrong++;
            continue;
        }
        case MTF_PROC_ITEM_CLOSING:
            out->closed = true;
            if (!mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_LIVE_AT_END,
                                  &out->live_at_end))
                out->wrong++;
            continue;
        case MTF_PROC_ITEM_DAMAGE:
            out->damages++;
            out->skipped += item.skipped;
            continue;
        case MTF_PROC_ITEM_FAILED:
            out->foreign = true;
            break;
        case MTF_PROC_ITEM_END:
        case MTF_PROC_ITEM_INDEX:
            break;
        }
        break;
    }
    out->problem = item.problem;
    free(d);
    free(memory);
}

static void test_round_trip(void) {
    static const size_t events[] = {0, 1, 100, 70000, 400000};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(events); i++) {
        struct proc_sample s, again;
        struct reading r;
        tap_ok(proc_sample_make(&s, i, events[i], 0), "written");
        read_all(&r, &s, s.bytes, s.length, 1 << 20, 4096);
        tap_is_u64(r.wrong, 0, "%zu events: as they were put", events[i]);
        tap_is_u64(r.ops, s.operations, "%zu events: all of them", events[i]);
        tap_ok(r.headers && r.closed && r.problem == NULL && r.damages == 0,
               "%zu events: header, closing block, no damage", events[i]);
        read_all(&r, &s, s.bytes, s.length, 97, 7);
        tap_ok(r.wrong == 0 && r.ops == s.operations && r.closed,
               "%zu events: in pieces of 97 bytes and 7 operations", events[i]);
        proc_sample_make(&again, i, events[i], 0);
        tap_ok(again.length == s.length &&
                   memcmp(again.bytes, s.bytes, s.length) == 0,
               "%zu events: the same bytes again", events[i]);
        if (s.operations > 1000)
            /* 2 of them for sizes that no predictor foretells */
            tap_ok(s.length < s.operations * 4, "%.2f bytes an operation",
                   (double)s.length / (double)s.operations);
        proc_sample_free(&s);
        proc_sample_free(&again);
    }
}

/* Slots are taken in last-in first-out order, and never while they are in use.
 */
static void test_slots(void) {
    struct proc_sample s;
    proc_sample_make(&s, 11, 200000, 0);
    uint8_t *taken = calloc(1, s.count);
    uint32_t *stack = malloc(s.count * sizeof(*stack));
    uint32_t slots = 0;
    size_t depth = 0, wrong = 0;
    for (size_t i = 0; i < s.count; i++) {
        const struct mtf_op *op = &s.ops[i];
        switch (op->kind) {
        case MTF_OP_ALLOC:
        case MTF_OP_ALIGNED:
        case MTF_OP_REALLOC_NEW: {
            uint32_t want = depth != 0 ? stack[--depth] : slots++;
            wrong += op->slot != want || taken[want];
            taken[want] = 1;
            break;
        }
        case MTF_OP_FREE:
        case MTF_OP_FREE_SIZE:
        case MTF_OP_REALLOC_END:
            wrong += !taken[op->slot];
            taken[op->slot] = 0;
            stack[depth++] = op->slot;
            break;
        case MTF_OP_REALLOC:
            wrong += !taken[op->slot];
            break;
        default:
            break;
        }
    }
    tap_is_u64(wrong, 0, "slots are reused last-in first-out");
    free(taken);
    free(stack);
    proc_sample_free(&s);
}

static void test_damage(void) {
    struct proc_sample s;
    struct reading r;
    proc_sample_make(&s, 5, 300000, 0);
    read_all(&r, &s, s.bytes, s.length, 1 << 20, 4096);
    uint64_t blocks = r.blocks;
    uint8_t *bytes = malloc(s.length);
    struct prng p;
    prng_seed(&p, 9);
    bool good = true;
    for (unsigned i = 0; i < 25; i++) {
        size_t at = 200 + prng_below(&p, s.length - 200);
        memcpy(bytes, s.bytes, s.length);
        bytes[at] ^= (uint8_t)(1u << (i & 7));
        read_all(&r, &s, bytes, s.length, 1 << 16, 4096);
        good = good && r.wrong == 0 && r.damages != 0 && r.problem != NULL &&
               r.blocks + 1 >= blocks && !r.foreign;
    }
    tap_ok(good, "a flipped bit costs at most its block, and is told");

    memcpy(bytes, s.bytes, s.length);
    bytes[20] ^= 1;
    read_all(&r, &s, bytes, s.length, 1 << 16, 4096);
    tap_ok(r.blocks == blocks && r.wrong == 0 && r.damages == 1 && r.closed &&
               !r.foreign,
           "a damaged header costs the header");

    good = true;
    for (unsigned i = 0; i < 25; i++) {
        size_t n = 8 + prng_below(&p, s.length - 8);
        read_all(&r, &s, s.bytes, n, 1 << 16, 4096);
        good = good && r.wrong == 0 && r.problem != NULL && !r.closed &&
               !r.foreign;
    }
    tap_ok(good, "a cut trace yields its whole blocks and says that it is cut");
    free(bytes);
    proc_sample_free(&s);
}

static void test_foreign(void) {
    struct proc_sample s;
    struct reading r;
    proc_sample_make(&s, 5, 10, 0);
    read_all(&r, &s, s.bytes, 0, 100, 10);
    tap_ok(r.foreign && strcmp(r.problem, MTF_EMPTY_TEXT) == 0, "empty");
    read_all(&r, &s, (const uint8_t *)"hello, world", 12, 100, 10);
    tap_ok(r.foreign, "text");
    read_all(&r, &s, (const uint8_t *)MTF_RAW_MAGIC "xx", 10, 100, 10);
    tap_ok(r.foreign && strstr(r.problem, "raw") != NULL, "a raw trace");
    read_all(&r, &s, s.bytes, 5, 100, 10);
    tap_ok(r.foreign, "cut within the magic");

    s.bytes[10] = 1;
    struct mtf_proc_header h;
    memcpy(&h, s.bytes, sizeof(h));
    mtf_store_le64(s.bytes + h.length - 8,
                   tcm_checksum_of(s.bytes, h.length - 8, 0));
    read_all(&r, &s, s.bytes, s.length, 100, 10);
    tap_ok(r.foreign && strstr(r.problem, "knows version") != NULL,
           "must-understand bits");
    proc_sample_free(&s);
}

static void test_sink_fails(void) {
    struct proc_sample s;
    tap_ok(!proc_sample_make(&s, 3, 200000, 100000), "a sink that fails");
    proc_sample_free(&s);
}

int main(void) {
    test_round_trip();
    test_slots();
    test_damage();
    test_foreign();
    test_sink_fails();
    return tap_done();
}
