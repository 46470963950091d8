/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as segments, barriers and samples for the sorter, past the
 * checksums of the raw trace. What it writes must be a good processed trace.
 *
 * Input: records of u8 kind, u8 thread, u16 time step, u16 width, u8 length,
 * bytes. Kinds, modulo 8: 0 to 4 a segment that follows the one before of its
 * thread, 5 one after a gap, 6 barrier, 7 sample.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tools/order_sort.h"

const struct fuzz_target fuzz_target = {.corpus = "order"};

struct feed {
    struct sorter *sorter;
    uint64_t offsets[8];
    uint64_t now;
    uint8_t bytes[256 + 16];
};

static void feed_record(struct feed *f, const uint8_t *head,
                        const uint8_t *bytes) {
    struct mtf_item item = {.kind = MTF_ITEM_DATA, .data = f->bytes};
    uint64_t width = head[4] | (uint64_t)head[5] << 8;
    f->now += head[2] | (uint64_t)head[3] << 8;
    memset(f->bytes, 0, sizeof(f->bytes));
    memcpy(f->bytes, bytes, head[6]);
    item.length = head[6];
    item.time_lo = f->now;
    item.time_hi = f->now + width * 16;
    switch (head[0] & 7) {
    case 6:
        item.kind = MTF_ITEM_BARRIER;
        break;
    case 7:
        item.kind = MTF_ITEM_SAMPLE;
        break;
    default: {
        unsigned t = head[1] & 7;
        item.thread = t == 7 ? MTF_THREAD_LATE : t + 1;
        if ((head[0] & 7) == 5)
            f->offsets[t] += 1000;
        item.offset = f->offsets[t];
        item.buffer_start = item.offset;
        f->offsets[t] += item.length;
        if (item.length == 0)
            return;
        if (head[0] & 8) /* as from a spool */
            item.time_hi = UINT64_MAX;
    }
    }
    sorter_add(f->sorter, &item);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct feed f;
    struct sorted out;
    memset(&f, 0, sizeof(f));
    f.sorter = sorter_begin(&out);
    size_t at = 0;
    while (size - at >= 7 && size - at - 7 >= data[at + 6]) {
        feed_record(&f, data + at, data + at + 7);
        at += 7u + data[at + 6];
    }
    sorter_end(f.sorter);
    /* every slot is taken when it is free and freed when it is taken */
    uint8_t *taken = calloc(1, out.count + 1);
    uint64_t live = 0;
    for (size_t i = 0; i < out.count; i++) {
        const struct mtf_op *op = &out.ops[i];
        switch (op->kind) {
        case MTF_OP_ALLOC:
        case MTF_OP_ALIGNED:
        case MTF_OP_REALLOC_NEW:
            FUZZ_CHECK(op->slot <= out.count && !taken[op->slot]);
            taken[op->slot] = 1;
            live++;
            break;
        case MTF_OP_FREE:
        case MTF_OP_FREE_SIZE:
        case MTF_OP_REALLOC_END:
            FUZZ_CHECK(taken[op->slot]);
            taken[op->slot] = 0;
            live--;
            break;
        case MTF_OP_REALLOC:
            FUZZ_CHECK(taken[op->slot]);
            break;
        default:
            break;
        }
    }
    FUZZ_CHECK(live == out.live_at_end);
    free(taken);
    sorted_free(&out);
    return 0;
}
