/* SPDX-License-Identifier: BSD-3-Clause */
/* Call sites: the decoder yields the encoder's input, definitions in pieces,
   and any bytes of a damaged trace. */
#include "prng.h"
#include "tap.h"
#include "traceformat/site_codec.h"

#include <string.h>

static void test_coding(void) {
    static struct mtf_site_state to, from;
    struct prng rng;
    uint64_t same = 0, short_ones = 0, count = 0;
    prng_seed(&rng, 14);
    for (int i = 0; i < 200000; i++) {
        uint32_t site =
            (uint32_t)(prng_next(&rng) % (i % 3 == 0 ? MTF_SITE_LIMIT : 300));
        if (site == to.last)
            continue;
        uint64_t argument = mtf_site_argument(&to, site);
        count++;
        same += mtf_site_decode(&from, argument) == site;
        short_ones += argument < 128;
    }
    tap_ok(same == count, "each site is decoded");
    tap_ok(short_ones != 0, "some in one or two bytes");

    memset(&to, 0, sizeof(to));
    uint64_t known = 0;
    for (uint32_t i = 0; i < 1000; i++)
        known += mtf_site_argument(&to, 1 + i % 10) == 0;
    tap_ok(known == 1000 - 11, "what comes round is coded as 0, got %u",
           (unsigned)known);
}

static void test_any_bytes(void) {
    static struct mtf_site_state s;
    struct prng rng;
    bool good = true;
    prng_seed(&rng, 15);
    for (int i = 0; i < 100000; i++)
        good &=
            mtf_site_decode(&s, prng_next(&rng) >> (i % 48)) < MTF_SITE_LIMIT;
    tap_ok(good, "a site out of range is none");

    struct mtf_site_def def;
    uint8_t bytes[128];
    unsigned taken = 0;
    for (int i = 0; i < 100000; i++) {
        size_t n = prng_next(&rng) % sizeof(bytes);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)prng_next(&rng);
        if (n != 0)
            bytes[0] &= 7;
        if (!mtf_site_def_get(bytes, n, &def))
            continue;
        taken++;
        good &= def.site < MTF_SITE_LIMIT && def.parent < MTF_SITE_LIMIT &&
                def.build_id_length <= MTF_BUILD_ID_MAX &&
                def.path_length <= n && def.file < MTF_SITE_LIMIT &&
                def.function < MTF_SITE_LIMIT && def.text < MTF_SITE_LIMIT &&
                def.offset + def.path_length <= MTF_SITE_TEXT_MAX;
    }
    tap_ok(good, "definitions stay within their bytes");
    tap_ok(taken != 0, "some were taken");
}

static void test_definitions(void) {
    static const uint8_t id[20] = {1, 2, 3, 20};
    static char path[300];
    uint8_t bytes[127];
    struct mtf_site_def d = {.kind = MTF_SITE_DEF_FRAME,
                             .site = 7,
                             .parent = 3,
                             .module = 2,
                             .address = 0x7f0012345678};
    struct mtf_site_def got;
    unsigned left;
    unsigned n = mtf_site_def_put(bytes, sizeof(bytes), &d, &left);
    tap_ok(n == MTF_SITE_FRAME_BYTES && left == 0 &&
               mtf_site_def_get(bytes, n, &got) && got.site == 7 &&
               got.parent == 3 && got.module == 2 &&
               got.address == 0x7f0012345678,
           "a frame");
    tap_ok(!mtf_site_def_get(bytes, n - 1, &got), "one that is cut");

    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = (char)('a' + i % 26);
    d = (struct mtf_site_def){.kind = MTF_SITE_DEF_MODULE,
                              .module = 9,
                              .start = 0x1000,
                              .end = 0x2000,
                              .bias = 0x800,
                              .build_id = id,
                              .build_id_length = sizeof(id),
                              .path = (const uint8_t *)path,
                              .path_length = sizeof(path)};
    char whole[sizeof(path)];
    size_t done = 0;
    bool good = true;
    do {
        d.path = (const uint8_t *)path + done;
        d.path_length = (uint32_t)(sizeof(path) - done);
        n = mtf_site_def_put(bytes, sizeof(bytes), &d, &left);
        good &= n <= sizeof(bytes) && mtf_site_def_get(bytes, n, &got) &&
                got.module == 9 && done + got.path_length <= sizeof(whole);
        if (!good)
            break;
        memcpy(whole + done, got.path, got.path_length);
        if (done == 0)
            good &= got.start == 0x1000 && got.end == 0x2000 &&
                    got.bias == 0x800 && got.build_id_length == 20 &&
                    memcmp(got.build_id, id, 20) == 0;
        done += got.path_length;
        d.kind = MTF_SITE_DEF_PATH;
    } while (left != 0);
    tap_ok(good && done == sizeof(path) && memcmp(path, whole, done) == 0,
           "a module with a long path, in pieces");
}

static void test_lines(void) {
    static char whole[300], back[300];
    uint8_t bytes[127];
    struct mtf_site_def got, d = {.kind = MTF_SITE_DEF_LINE,
                                  .site = 70000,
                                  .parent = 3,
                                  .language = MTF_LANGUAGE_PERL,
                                  .file = 2,
                                  .line = 1u << 31,
                                  .function = 5};
    unsigned left, n = mtf_site_def_put(bytes, sizeof(bytes), &d, &left);
    tap_ok(n == MTF_SITE_LINE_BYTES && mtf_site_def_get(bytes, n, &got) &&
               got.site == 70000 && got.parent == 3 &&
               got.language == MTF_LANGUAGE_PERL && got.file == 2 &&
               got.line == 1u << 31 && got.function == 5 && left == 0,
           "a line");
    tap_ok(!mtf_site_def_get(bytes, n - 1, &got), "one that is cut");

    d = (struct mtf_site_def){.kind = MTF_SITE_DEF_MODE,
                              .mode = MTF_SITE_MODE_SAMPLE,
                              .free_sites = true,
                              .depth = 64,
                              .mean = (uint64_t)1 << 40};
    n = mtf_site_def_put(bytes, sizeof(bytes), &d, &left);
    tap_ok(n == MTF_SITE_MODE_BYTES && mtf_site_def_get(bytes, n, &got) &&
               got.mode == MTF_SITE_MODE_SAMPLE && got.free_sites &&
               got.depth == 64 && got.mean == (uint64_t)1 << 40 &&
               !mtf_site_def_get(bytes, n - 1, &got),
           "the mode");

    for (size_t i = 0; i < sizeof(whole); i++)
        whole[i] = (char)('A' + i % 26);
    bool good = true;
    for (size_t done = 0; done < sizeof(whole);) {
        d = (struct mtf_site_def){.kind = MTF_SITE_DEF_TEXT,
                                  .text = 4,
                                  .offset = (uint32_t)done,
                                  .path = (const uint8_t *)whole + done,
                                  .path_length =
                                      (uint32_t)(sizeof(whole) - done)};
        n = mtf_site_def_put(bytes, sizeof(bytes), &d, &left);
        good &= mtf_site_def_get(bytes, n, &got) && got.text == 4 &&
                got.offset == done &&
                got.path_length == sizeof(whole) - done - left;
        if (!good)
            break;
        memcpy(back + done, got.path, got.path_length);
        done += got.path_length;
    }
    tap_ok(good && memcmp(whole, back, sizeof(whole)) == 0,
           "a long text, in pieces");
}

int main(void) {
    test_lines();
    test_coding();
    test_any_bytes();
    test_definitions();
    return tap_done();
}
