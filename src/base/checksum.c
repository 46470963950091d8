/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/checksum.h"
#include "base/check.h"

#include <string.h>

#define PRIME1 0x9E3779B185EBCA87u
#define PRIME2 0xC2B2AE3D27D4EB4Fu
#define PRIME3 0x165667B19E3779F9u
#define PRIME4 0x85EBCA77C2B2AE63u
#define PRIME5 0x27D4EB2F165667C5u

static inline uint64_t rotl(uint64_t x, unsigned n) {
    return (x << n) | (x >> (64 - n));
}

static inline uint64_t read64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t mix_lane(uint64_t lane, uint64_t input) {
    return rotl(lane + input * PRIME2, 31) * PRIME1;
}

static void consume_stripes(uint64_t lane[4], const uint8_t *p,
                            size_t stripes) {
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; stripes != 0; stripes--, p += 32) {
        a = mix_lane(a, read64(p));
        b = mix_lane(b, read64(p + 8));
        c = mix_lane(c, read64(p + 16));
        d = mix_lane(d, read64(p + 24));
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

void tcm_checksum_begin(struct tcm_checksum *c, uint64_t seed) {
    c->lane[0] = seed + PRIME1 + PRIME2;
    c->lane[1] = seed + PRIME2;
    c->lane[2] = seed;
    c->lane[3] = seed - PRIME1;
    c->seed = seed;
    c->total = 0;
    c->tail_length = 0;
}

void tcm_checksum_add(struct tcm_checksum *c, const void *data, size_t length) {
    const uint8_t *p = data;
    TCM_ASSERT(c->tail_length == c->total % sizeof(c->tail));
    c->total += length;
    if (c->tail_length != 0) {
        size_t n = sizeof(c->tail) - c->tail_length;
        if (n > length)
            n = length;
        memcpy(c->tail + c->tail_length, p, n);
        c->tail_length += (uint32_t)n;
        p += n;
        length -= n;
        if (c->tail_length < sizeof(c->tail))
            return;
        consume_stripes(c->lane, c->tail, 1);
        c->tail_length = 0;
    }
    consume_stripes(c->lane, p, length / 32);
    p += length / 32 * 32;
    length %= 32;
    if (length != 0)
        memcpy(c->tail, p, length);
    c->tail_length = (uint32_t)length;
}

uint64_t tcm_checksum_end(const struct tcm_checksum *c) {
    uint64_t h;
    TCM_ASSERT(c->tail_length == c->total % sizeof(c->tail));
    if (c->total >= 32) {
        h = rotl(c->lane[0], 1) + rotl(c->lane[1], 7) + rotl(c->lane[2], 12) +
            rotl(c->lane[3], 18);
        for (unsigned i = 0; i < 4; i++)
            h = (h ^ mix_lane(0, c->lane[i])) * PRIME1 + PRIME4;
    } else {
        h = c->seed + PRIME5;
    }
    h += c->total;
    const uint8_t *p = c->tail;
    uint32_t left = c->tail_length;
    for (; left >= 8; left -= 8, p += 8)
        h = rotl(h ^ mix_lane(0, read64(p)), 27) * PRIME1 + PRIME4;
    if (left >= 4) {
        uint32_t v;
        memcpy(&v, p, sizeof(v));
        h = rotl(h ^ (v * PRIME1), 23) * PRIME2 + PRIME3;
        p += 4;
        left -= 4;
    }
    for (; left != 0; left--, p++)
        h = rotl(h ^ (*p * PRIME5), 11) * PRIME1;
    h = (h ^ (h >> 33)) * PRIME2;
    h = (h ^ (h >> 29)) * PRIME3;
    return h ^ (h >> 32);
}

uint64_t tcm_checksum_of(const void *data, size_t length, uint64_t seed) {
    struct tcm_checksum c;
    tcm_checksum_begin(&c, seed);
    tcm_checksum_add(&c, data, length);
    return tcm_checksum_end(&c);
}
