/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/checksum.h"

#include "prng.h"
#include "tap.h"

/* The sanity vectors that come with the xxHash specification: a buffer made by
   this generator, with two seeds. */
#define SEED 2654435761u

static const struct {
    size_t length;
    uint64_t seed;
    uint64_t want;
} vectors[] = {
    {0, 0, 0xEF46DB3751D8E999u},      {0, SEED, 0xAC75FDA2929B17EFu},
    {1, 0, 0xE934A84ADB052768u},      {1, SEED, 0x5014607643A9B4C3u},
    {4, 0, 0x9136A0DCA57457EEu},      {14, 0, 0x8282DCC4994E35C8u},
    {14, SEED, 0xC3BD6BF63DEB6DF0u},  {222, 0, 0xB641AE8CB691C174u},
    {222, SEED, 0x20CB8AB7AE10C14Au},
};

static void test_vectors(void) {
    uint8_t buf[222];
    uint64_t gen = SEED;
    for (size_t i = 0; i < sizeof(buf); i++) {
        buf[i] = (uint8_t)(gen >> 56);
        gen *= 11400714785074694797u;
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(vectors); i++)
        tap_is_u64(tcm_checksum_of(buf, vectors[i].length, vectors[i].seed),
                   vectors[i].want, "vector of %zu bytes, seed %llu",
                   vectors[i].length, (unsigned long long)vectors[i].seed);
    tap_is_u64(tcm_checksum_of("abc", 3, 0), 0x44BC2CF5AD770999u, "abc");
}

/* Checks that the checksum does not depend on the pieces in which the input
   comes. */
static void test_pieces(void) {
    uint8_t buf[300];
    struct prng p;
    prng_seed(&p, 1);
    for (size_t i = 0; i < sizeof(buf); i++)
        buf[i] = (uint8_t)prng_next(&p);
    unsigned wrong = 0;
    for (unsigned round = 0; round < 2000; round++) {
        size_t length = prng_below(&p, sizeof(buf) + 1);
        uint64_t seed = prng_next(&p);
        struct tcm_checksum c;
        tcm_checksum_begin(&c, seed);
        for (size_t at = 0; at < length;) {
            size_t n = prng_below(&p, length - at + 1);
            tcm_checksum_add(&c, buf + at, n);
            at += n;
        }
        wrong += tcm_checksum_end(&c) != tcm_checksum_of(buf, length, seed);
    }
    tap_is_u64(wrong, 0, "2000 inputs in random pieces");
}

static void test_sensitive(void) {
    uint8_t buf[100];
    memset(buf, 0, sizeof(buf));
    uint64_t before = tcm_checksum_of(buf, sizeof(buf), 7);
    unsigned same = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(buf); bit++) {
        buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
        same += tcm_checksum_of(buf, sizeof(buf), 7) == before;
        buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    tap_is_u64(same, 0, "each flipped bit changes the sum");
    tap_ok(tcm_checksum_of(buf, sizeof(buf) - 1, 7) != before,
           "so does the length");
    tap_ok(tcm_checksum_of(buf, sizeof(buf), 8) != before, "so does the seed");
}

int main(void) {
    test_vectors();
    test_pieces();
    test_sensitive();
    return tap_done();
}
