/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Varints: every length and its bounds, reading with an end, zigzag.
 */
#include "traceformat/varint.h"

#include "prng.h"
#include "tap.h"

/* Encodes V by the definition of the format, byte by byte. */
static unsigned reference(uint64_t v, uint8_t out[8]) {
    unsigned n = 1;
    while (n < 8 && v >> (7 * n) != 0)
        n++;
    unsigned __int128 word = ((unsigned __int128)v << 1 | 1) << (n - 1);
    for (unsigned i = 0; i < 8; i++)
        out[i] = (uint8_t)(word >> (8 * i));
    return n;
}

static bool check_value(uint64_t v) {
    uint8_t want[8], got[8], cut[8];
    uint64_t back = ~v;
    unsigned n = reference(v, want);
    if (mtf_varint_length(v) != n || mtf_varint_put(got, v) != n ||
        memcmp(got, want, n) != 0 || got[0] == 0)
        return false;
    if (mtf_varint_get_unchecked(got, &back) != n || back != v)
        return false;
    /* The bytes after the varint must not matter. */
    memset(got + n, 0xFF, 8 - n);
    if (mtf_varint_get_unchecked(got, &back) != n || back != v)
        return false;
    memcpy(cut, got, sizeof(cut));
    for (unsigned room = 0; room < 8; room++) {
        back = ~v;
        unsigned m = mtf_varint_get(cut, cut + room, &back);
        if (room < n ? m != 0 : m != n || back != v)
            return false;
    }
    return true;
}

static void test_bounds(void) {
    bool good = true;
    for (unsigned bit = 0; bit < 56; bit++)
        for (int around = -2; around <= 2; around++) {
            uint64_t v = ((uint64_t)1 << bit) + (uint64_t)around;
            good = good && (v > MTF_VARINT_MAX || check_value(v));
        }
    tap_ok(good, "values around every power of two");
    tap_ok(check_value(0) && check_value(MTF_VARINT_MAX), "least and greatest");
    tap_is_u64(mtf_varint_length(127), 1, "127 takes one byte");
    tap_is_u64(mtf_varint_length(128), 2, "128 takes two bytes");
    tap_is_u64(mtf_varint_length(MTF_VARINT_MAX), 8, "the greatest takes 8");
}

static void test_random(void) {
    struct prng p;
    bool good = true;
    prng_seed(&p, 1);
    for (int i = 0; i < 200000 && good; i++)
        good = check_value(prng_next(&p) >> (8 + prng_below(&p, 56)));
    tap_ok(good, "random values of every length");
}

static void test_longer_forms(void) {
    /* Readers accept a value in more bytes than it needs. */
    bool good = true;
    for (unsigned n = 1; n <= 8; n++) {
        uint8_t bytes[8];
        uint64_t back = 0;
        mtf_store_le64(bytes, mtf_varint_word(5, n));
        good = good && mtf_varint_get_unchecked(bytes, &back) == n && back == 5;
    }
    tap_ok(good, "longer forms are read");
    uint8_t zero[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t v = 9;
    tap_is_u64(mtf_varint_get_unchecked(zero, &v), 0, "a zero byte is none");
    tap_is_u64(mtf_varint_get(zero, zero + 8, &v), 0, "nor with an end");
}

static void test_zigzag(void) {
    static const int64_t values[] = {0, -1, 1, -2, 2, INT64_MAX, INT64_MIN};
    static const uint64_t codes[] = {0, 1, 2, 3, 4, UINT64_MAX - 1, UINT64_MAX};
    bool good = true;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        good = good && mtf_zigzag(values[i]) == codes[i] &&
               mtf_unzigzag(codes[i]) == values[i];
    tap_ok(good, "zigzag of small and extreme numbers");
    struct prng p;
    prng_seed(&p, 2);
    for (int i = 0; i < 100000 && good; i++) {
        int64_t v = (int64_t)prng_next(&p) >> prng_below(&p, 64);
        good = mtf_unzigzag(mtf_zigzag(v)) == v;
    }
    tap_ok(good, "zigzag and back");
}

int main(void) {
    test_bounds();
    test_random();
    test_longer_forms();
    test_zigzag();
    return tap_done();
}
