/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces made block by block: later versions, blocks that are missing, that
 * come twice or after the end, and the accounts of the closing block. Whole
 * traces, and damage to any byte, are in test_proc_codec.c.
 */
#include "traceformat/proc_reader.h"

#include "base/checksum.h"
#include "memory_source.h"
#include "prng.h"
#include "tap.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

#include <stddef.h>

static uint8_t trace[4096];
static size_t length;

static void put_header(void) {
    struct mtf_proc_header h = {.version = MTF_PROC_VERSION,
                                .length = sizeof(h) + 8};
    memcpy(h.magic, MTF_PROC_MAGIC, 8);
    memcpy(trace, &h, sizeof(h));
    mtf_store_le64(trace + sizeof(h), tcm_checksum_of(trace, sizeof(h), 0));
    length = sizeof(h) + 8;
}

/* Adds a block with right checksums. */
static void put_block(unsigned kind, unsigned flags, uint64_t first_op,
                      uint32_t ops, const void *payload, uint32_t n) {
    struct mtf_proc_block_head h = {.sync = MTF_PROC_SYNC,
                                    .kind = (uint8_t)kind,
                                    .flags = (uint8_t)flags,
                                    .length = n,
                                    .records = ops,
                                    .ops = ops,
                                    .first_op = first_op};
    struct tcm_checksum c;
    h.head_check =
        (uint32_t)tcm_checksum_of(&h, offsetof(__typeof__(h), head_check), 0);
    tcm_checksum_begin(&c, 0);
    tcm_checksum_add(&c, &h, offsetof(__typeof__(h), checksum));
    tcm_checksum_add(&c, payload, n);
    h.checksum = tcm_checksum_end(&c);
    memcpy(trace + length, &h, sizeof(h));
    memcpy(trace + length + sizeof(h), payload, n);
    length += sizeof(h) + n;
}

static void put_ops(uint64_t first_op, uint32_t ops) {
    put_block(MTF_PROC_BLOCK_OPS, 0, first_op, ops, "payload", 7);
}

static void put_closing(uint64_t ops) {
    static const uint8_t accounts[25] = {MTF_PROC_ACCOUNT_OPS,
                                         0,
                                         200,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         MTF_PROC_ACCOUNT_THREADS,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         128,
                                         7,
                                         0,
                                         1,
                                         2,
                                         3};
    put_block(MTF_PROC_BLOCK_CLOSING, 0, ops, 0, accounts, sizeof(accounts));
}

/* Items that the reader yielded, a letter each. */
struct seen {
    char parts[64];
    const char *problem; /* of the last D, F or E that has one */
    uint64_t skipped;
    bool account, none;
};

static void read_with(struct seen *s, size_t piece) {
    static const char letters[] = {
        [MTF_PROC_ITEM_HEADER] = 'H',  [MTF_PROC_ITEM_OPS] = 'O',
        [MTF_PROC_ITEM_CLOSING] = 'C', [MTF_PROC_ITEM_INDEX] = 'I',
        [MTF_PROC_ITEM_DAMAGE] = 'D',  [MTF_PROC_ITEM_FAILED] = 'F',
        [MTF_PROC_ITEM_END] = 'E',
    };
    static uint8_t memory[MTF_PROC_READER_BYTES];
    struct memory_source m;
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    memset(s, 0, sizeof(*s));
    memory_source_init(&m, trace, length, piece);
    mtf_proc_reader_init(&r, &m.source, memory);
    for (size_t n = 0; n < sizeof(s->parts) - 1;) {
        mtf_proc_reader_next(&r, &item);
        s->parts[n++] = letters[item.kind];
        if (item.kind == MTF_PROC_ITEM_DAMAGE)
            s->skipped += item.skipped;
        if (item.status != MTF_OK)
            s->problem = item.problem;
        uint64_t v = 0;
        if (item.kind == MTF_PROC_ITEM_CLOSING) {
            s->account =
                mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_OPS, &v) &&
                v == 200 &&
                mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_THREADS, &v) &&
                v == (uint64_t)128 << 56;
            /* Neither a missing account nor a cut one is found. */
            s->none =
                !mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_SLOTS, &v) &&
                !mtf_proc_account(&item.block, 7 + 1, &v);
        }
        if (item.kind == MTF_PROC_ITEM_FAILED || item.kind == MTF_PROC_ITEM_END)
            break;
    }
}

/* PROBLEM: a part of the expected text, or NULL. */
static void expect(const char *parts, const char *problem, const char *what) {
    struct seen s;
    bool good = true;
    for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
        read_with(&s, piece);
        good &= strcmp(s.parts, parts) == 0 &&
                (problem == NULL
                     ? s.problem == NULL
                     : s.problem != NULL && strstr(s.problem, problem) != NULL);
    }
    if (!good)
        tap_diag("%s, want %s; %s", s.parts, parts,
                 s.problem ? s.problem : "no problem");
    tap_ok(good, "%s", what);
}

static void test_blocks(void) {
    struct seen s;
    put_header();
    put_ops(0, 100);
    put_ops(100, 100);
    put_closing(200);
    expect("HOOCE", NULL, "a whole trace");
    read_with(&s, 100);
    tap_ok(s.account, "accounts of the closing block");
    tap_ok(s.none, "those that are not there are not found");
    trace[length++] = 'x';
    expect("HOOCDE", "damaged", "a byte after the end");

    put_header();
    put_ops(0, 100);
    put_block(99, 0, 100, 0, "what is this", 12);
    put_ops(100, 100);
    put_closing(200);
    expect("HOOCE", NULL, "a block of a later kind is passed over");

    put_header();
    put_ops(0, 100);
    put_block(MTF_PROC_BLOCK_OPS, 1, 100, 100, "payload", 7);
    expect("HOF", "newer", "flags of a later version stop the reading");
}

static void test_places(void) {
    struct seen s;
    put_header();
    put_ops(0, 100);
    put_ops(150, 50);
    put_closing(200);
    expect("HODOCE", "damaged", "operations are missing");
    read_with(&s, 4096);
    tap_is_u64(s.skipped, 0, "though no byte was skipped");

    put_header();
    put_ops(0, 100);
    put_ops(0, 100);
    put_ops(100, 100);
    put_closing(200);
    expect("HODOCE", "damaged", "a block that comes twice counts once");
    read_with(&s, 4096);
    tap_is_u64(s.skipped, sizeof(struct mtf_proc_block_head) + 7,
               "the second one is skipped");

    put_header();
    put_ops(0, 100);
    put_closing(100);
    put_ops(100, 100);
    expect("HOCDE", "damaged", "a block after the closing one");

    put_header();
    put_ops(0, 100);
    expect("HOE", "closing block is missing", "no closing block");
    length -= 3;
    expect("HDE", "closing block is missing", "the end of a block is missing");

    put_header();
    put_closing(0);
    expect("HCE", NULL, "no operations");
    length = sizeof(struct mtf_proc_header) + 8;
    expect("HE", "closing block is missing", "nothing but a header");
}

/* A head with right checksums may have any contents. */
static void test_lengths(void) {
    static const uint32_t bad[] = {MTF_PROC_PAYLOAD_MAX + 1, UINT32_MAX};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(bad); i++) {
        struct mtf_proc_block_head h = {.sync = MTF_PROC_SYNC,
                                        .kind = MTF_PROC_BLOCK_OPS,
                                        .length = bad[i]};
        h.head_check = (uint32_t)tcm_checksum_of(
            &h, offsetof(__typeof__(h), head_check), 0);
        put_header();
        memcpy(trace + length, &h, sizeof(h));
        length += sizeof(h);
        put_ops(0, 100);
        put_closing(100);
        expect("HDOCE", "damaged", "a payload longer than it may be");
    }
}

static void test_names(void) {
    unsigned names = 0, recorder = 0;
    bool good = true;
    for (unsigned i = 0; i < 0x10000; i++) {
        const char *name = mtf_proc_account_name(i);
        good &= name == NULL || name[0] != '\0';
        names += name != NULL && i < MTF_PROC_ACCOUNT_RECORDER;
        recorder += name != NULL && i >= MTF_PROC_ACCOUNT_RECORDER;
    }
#define X(name, number, text) +1
    tap_is_u64(names, 0 MTF_PROC_ACCOUNTS(X), "every account has a name");
    tap_is_u64(recorder, 0 MTF_ACCOUNTS(X), "and every one of the recorder");
#undef X
    tap_ok(good, "none is empty");
    tap_is_str(mtf_proc_account_name(MTF_PROC_ACCOUNT_OPS), "ops", "ops");
    tap_is_str(
        mtf_proc_account_name(MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_EVENTS),
        "events", "the recorder's events");
}

int main(void) {
    test_blocks();
    test_places();
    test_lengths();
    test_names();
    return tap_done();
}
