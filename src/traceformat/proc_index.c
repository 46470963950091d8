/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/proc_index.h"

#include "base/bits.h"

#include <string.h>

#define HEAD_SIZE  sizeof(struct mtf_proc_block_head)
#define ENTRY_SIZE sizeof(struct mtf_proc_index_entry)

bool mtf_proc_find_closing(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                           void *room, struct mtf_proc_block *closing) {
    uint8_t *memory = room;
    size_t n = (size_t)tcm_min_u64(size, MTF_PROC_CLOSING_TAIL);
    if (n < HEAD_SIZE || read_at(ctx, size - n, memory, n) != n)
        return false;
    for (size_t at = n - HEAD_SIZE + 1; at-- != 0;) {
        if (mtf_proc_is_block(memory + at, n - at, &closing->head) &&
            closing->head.kind == MTF_PROC_BLOCK_CLOSING &&
            at + HEAD_SIZE + closing->head.length == n) {
            closing->payload = memory + at + HEAD_SIZE;
            closing->offset = size - n + at;
            return true;
        }
    }
    return false;
}

/* Reads the index block at OFFSET. Returns the number of entries in MEMORY
   behind its head. */
static size_t read_index(mtf_proc_read_at read_at, void *ctx, uint64_t offset,
                         uint8_t *memory) {
    struct mtf_proc_block_head h;
    if (read_at(ctx, offset, memory, HEAD_SIZE) != HEAD_SIZE)
        return 0;
    memcpy(&h, memory, sizeof(h));
    if (h.length > MTF_PROC_PAYLOAD_MAX ||
        read_at(ctx, offset + HEAD_SIZE, memory + HEAD_SIZE, h.length) !=
            h.length ||
        !mtf_proc_is_block(memory, HEAD_SIZE + h.length, &h) ||
        h.kind != MTF_PROC_BLOCK_INDEX || h.flags != 0)
        return 0;
    return h.length / ENTRY_SIZE;
}

static struct mtf_proc_index_entry entry(const uint8_t *memory, size_t i) {
    struct mtf_proc_index_entry e;
    memcpy(&e, memory + HEAD_SIZE + i * ENTRY_SIZE, ENTRY_SIZE);
    return e;
}

bool mtf_proc_index_find(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                         void *memory, uint64_t wanted,
                         struct mtf_proc_index_entry *found) {
    struct mtf_proc_block closing;
    uint64_t offset;
    if (!mtf_proc_find_closing(read_at, ctx, size, memory, &closing) ||
        !mtf_proc_account(&closing, MTF_PROC_ACCOUNT_INDEX_OFFSET, &offset) ||
        offset >= closing.offset)
        return false;
    size_t count = read_index(read_at, ctx, offset, memory);
    size_t low = 0, high = count; /* entries below LOW begin early enough */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry(memory, middle).offset <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *found = entry(memory, low - 1);
    return found->offset < offset;
}
