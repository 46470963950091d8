/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/fuzz_repair.h"

#include "base/checksum.h"
#include "tests/fuzz/fuzz.h"
#include "traceformat/proc_layout.h"
#include "traceformat/raw_layout.h"

#include <string.h>

static uint32_t get_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static void put_u32(uint8_t *p, uint32_t v) {
    memcpy(p, &v, sizeof(v));
}

static void put_u64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, sizeof(v));
}

static uint64_t sum_of(const uint8_t *a, size_t n, const uint8_t *b, size_t m,
                       uint64_t seed) {
    struct tcm_checksum c;
    tcm_checksum_begin(&c, seed);
    tcm_checksum_add(&c, a, n);
    tcm_checksum_add(&c, b, m);
    return tcm_checksum_end(&c);
}

/* A header with its length at 12 and its checksum in the last 8 bytes, at least
   LEAST and at most MOST bytes. Returns its length, 0 if it is none. */
static size_t repair_header(uint8_t *p, size_t size, size_t least,
                            size_t most) {
    if (size < least)
        return 0;
    uint32_t length = get_u32(p + 12);
    if (length < least || length > most || length % 8 != 0 || length > size)
        return 0;
    put_u64(p + length - 8, tcm_checksum_of(p, length - 8, 0));
    return length;
}

static size_t repair_raw_header(uint8_t *p, size_t size) {
    return repair_header(p, size, sizeof(struct mtf_raw_header) + 8,
                         MTF_RAW_HEADER_MAX);
}

static void repair_raw(uint8_t *data, size_t size) {
    const size_t head = sizeof(struct mtf_segment);
    size_t at = repair_raw_header(data, size);
    uint64_t random;
    if (at == 0)
        return;
    memcpy(&random, data + offsetof(struct mtf_raw_header, random), 8);
    while (size - at >= head) {
        uint8_t *p = data + at;
        put_u32(p, MTF_SEGMENT_SYNC);
        uint32_t length = get_u32(p + offsetof(struct mtf_segment, length));
        if (length > MTF_SEGMENT_MAX || length > size - at - head) {
            length = (uint32_t)(size - at - head);
            put_u32(p + offsetof(struct mtf_segment, length), length);
        }
        bool is_header = p[4] == MTF_SEGMENT_HEADER;
        if (is_header)
            (void)repair_raw_header(p + head, length);
        put_u64(p + offsetof(struct mtf_segment, checksum),
                sum_of(p, offsetof(struct mtf_segment, checksum), p + head,
                       length, is_header ? 0 : random));
        at += head + length;
    }
}

static void repair_spool(uint8_t *data, size_t size) {
    const size_t check = offsetof(struct mtf_spool_buffer, checksum);
    if (size < MTF_SPOOL_UNIT)
        return;
    put_u64(
        data + offsetof(struct mtf_spool_head, checksum),
        tcm_checksum_of(data, offsetof(struct mtf_spool_head, checksum), 0));
    uint32_t at = get_u32(data + 12);
    if (at > MTF_SPOOL_UNIT - sizeof(struct mtf_raw_header) ||
        repair_raw_header(data + at, MTF_SPOOL_UNIT - at) == 0)
        return;
    uint64_t random;
    memcpy(&random, data + at + offsetof(struct mtf_raw_header, random), 8);
    for (size_t p = MTF_SPOOL_UNIT; size - p >= sizeof(struct mtf_spool_buffer);
         p += MTF_SPOOL_UNIT) {
        if (get_u32(data + p) == MTF_SPOOL_BUFFER_SYNC)
            put_u64(data + p + check, tcm_checksum_of(data + p, check, random));
        if (size - p < MTF_SPOOL_UNIT)
            break;
    }
}

static void repair_processed(uint8_t *data, size_t size) {
    const size_t head = sizeof(struct mtf_proc_block_head);
    const size_t low = offsetof(struct mtf_proc_block_head, head_check);
    const size_t all = offsetof(struct mtf_proc_block_head, checksum);
    size_t at = repair_header(data, size, sizeof(struct mtf_proc_header) + 8,
                              MTF_PROC_HEADER_MAX);
    if (at == 0)
        return;
    while (size - at >= head) {
        uint8_t *p = data + at;
        put_u32(p, MTF_PROC_SYNC);
        uint32_t length = get_u32(p + 8);
        if (length > MTF_PROC_PAYLOAD_MAX || length > size - at - head) {
            length = (uint32_t)(size - at - head);
            put_u32(p + 8, length);
        }
        put_u32(p + low, (uint32_t)tcm_checksum_of(p, low, 0));
        put_u64(p + all, sum_of(p, all, p + head, length, 0));
        at += head + length;
    }
}

void fuzz_repair(uint8_t *data, size_t size) {
    if (size < 16)
        return;
    if (memcmp(data, MTF_RAW_MAGIC, 8) == 0)
        repair_raw(data, size);
    else if (memcmp(data, MTF_SPOOL_MAGIC, 8) == 0)
        repair_spool(data, size);
    else if (memcmp(data, MTF_PROC_MAGIC, 8) == 0)
        repair_processed(data, size);
}

void fuzz_both(const uint8_t *data, size_t size, fuzz_run run) {
    run(data, size);
    if (size == 0)
        return;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    fuzz_repair(copy, size);
    if (memcmp(copy, data, size) != 0)
        run(copy, size);
    free(copy);
}
