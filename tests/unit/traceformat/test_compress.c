/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The compressor: frames of every shape decompress to their input, frame after
 * frame in the same memory.
 */
#include "traceformat/compress.h"

#include "prng.h"
#include "raw_build.h"
#include "tap.h"

#if TCM_HAVE_LZ4
#include <lz4frame.h>

static uint8_t out[MTF_COMPRESS_ROOM];

/* Compresses one frame of N bytes in pieces of random length, with flushes. */
static bool compress_frame(struct mtf_compress *c, const uint8_t *data,
                           size_t n, struct prng *r, struct bytes *stored) {
    size_t got = mtf_compress_begin(c, out, sizeof(out));
    if (got == MTF_COMPRESS_ERROR)
        return false;
    bytes_add(stored, out, got);
    for (size_t at = 0; at < n;) {
        size_t piece =
            1 +
            prng_below(r, prng_below(r, 4) == 0 ? MTF_COMPRESS_PIECE : 5000);
        piece = piece < n - at ? piece : n - at;
        got = mtf_compress_add(c, data + at, piece, out, sizeof(out));
        if (got == MTF_COMPRESS_ERROR)
            return false;
        bytes_add(stored, out, got);
        at += piece;
        if (prng_below(r, 8) == 0) {
            got = mtf_compress_flush(c, out, sizeof(out));
            if (got == MTF_COMPRESS_ERROR)
                return false;
            bytes_add(stored, out, got);
        }
    }
    got = mtf_compress_end(c, out, sizeof(out));
    if (got == MTF_COMPRESS_ERROR)
        return false;
    bytes_add(stored, out, got);
    return true;
}

/* Decompresses all frames with liblz4 itself. */
static bool decompress(const struct bytes *stored, struct bytes *plain,
                       unsigned *frames, bool *plain_frames) {
    LZ4F_dctx *d;
    size_t at = 0, hint = 1;
    *frames = 0;
    *plain_frames = true;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&d, LZ4F_VERSION)))
        return false;
    while (at < stored->length) {
        if (*frames == 0 || hint == 0) {
            LZ4F_frameInfo_t info;
            size_t head = stored->length - at;
            if (LZ4F_isError(
                    LZ4F_getFrameInfo(d, &info, stored->data + at, &head)))
                break;
            *plain_frames = *plain_frames &&
                            info.contentChecksumFlag == LZ4F_noContentChecksum;
            (*frames)++;
            at += head;
        }
        size_t taken = stored->length - at, got = 65536;
        uint8_t *p = bytes_room(plain, got);
        hint = LZ4F_decompress(d, p, &got, stored->data + at, &taken, NULL);
        if (LZ4F_isError(hint))
            break;
        plain->length += got;
        at += taken;
    }
    LZ4F_freeDecompressionContext(d);
    return at == stored->length && hint == 0;
}

/* Returns the bytes that all frames take together. */
static size_t test_frames(bool is_small) {
    enum { MOST = 600000, FRAMES = 40 };
    uint8_t *data = malloc(MOST);
    size_t size = is_small ? MTF_COMPRESS_SMALL_MEMORY : MTF_COMPRESS_MEMORY;
    void *memory = malloc(size);
    struct mtf_compress *c = mtf_compress_init(memory, size);
    tap_ok(c != NULL, "%s: fits its memory", is_small ? "small" : "usual");
    if (is_small)
        mtf_compress_make_small(c);
    struct bytes stored = {0}, want = {0}, plain = {0};
    struct prng r;
    prng_seed(&r, 5);
    bool good = true;
    for (int f = 0; f < FRAMES && good; f++) {
        size_t n = f == 0 ? 0 : prng_below(&r, f % 4 == 0 ? MOST : 3000);
        /* Every third frame cannot be compressed. */
        for (size_t i = 0; i < n; i++)
            data[i] = (uint8_t)(f % 3 == 0 ? prng_next(&r) : prng_below(&r, 3));
        good = compress_frame(c, data, n, &r, &stored);
        bytes_add(&want, data, n);
    }
    tap_ok(good, "many frames in the same memory");
    unsigned frames;
    bool plain_frames;
    tap_ok(decompress(&stored, &plain, &frames, &plain_frames), "valid frames");
    tap_is_u64(frames, FRAMES, "as many as were begun");
    tap_ok(plain_frames, "none has a checksum besides those of its segments");
    tap_ok(plain.length == want.length &&
               memcmp(plain.data, want.data, want.length) == 0,
           "the same bytes");
    size_t length = stored.length;
    bytes_free(&stored);
    bytes_free(&want);
    bytes_free(&plain);
    free(memory);
    free(data);
    return length;
}

/* Blocks of a frame refer to the 64 KiB before them, wherever flushes end
   them: content that comes back after less is mostly stored once. */
static void test_history(bool is_small) {
    enum { PERIOD = 60000, TIMES = 40, PIECE = 7000 };
    static uint8_t data[PERIOD * TIMES];
    size_t size = is_small ? MTF_COMPRESS_SMALL_MEMORY : MTF_COMPRESS_MEMORY;
    void *memory = malloc(size);
    struct mtf_compress *c = mtf_compress_init(memory, size);
    if (is_small)
        mtf_compress_make_small(c);
    struct prng r;
    prng_seed(&r, 6);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = i < PERIOD ? (uint8_t)prng_next(&r) : data[i - PERIOD];
    struct bytes stored = {0}, plain = {0};
    bytes_add(&stored, out, mtf_compress_begin(c, out, sizeof(out)));
    for (size_t at = 0; at < sizeof(data); at += PIECE) {
        size_t n = sizeof(data) - at < PIECE ? sizeof(data) - at : PIECE;
        bytes_add(&stored, out,
                  mtf_compress_add(c, data + at, n, out, sizeof(out)));
        /* From blocks of a single byte to those that are full. */
        if (at / PIECE % 16 < 3)
            bytes_add(&stored, out, mtf_compress_flush(c, out, sizeof(out)));
        if (at / PIECE % 16 == 2) {
            bytes_add(&stored, out,
                      mtf_compress_add(c, data + at + n, 1, out, sizeof(out)));
            bytes_add(&stored, out, mtf_compress_flush(c, out, sizeof(out)));
            at++;
        }
    }
    bytes_add(&stored, out, mtf_compress_end(c, out, sizeof(out)));
    unsigned frames;
    bool plain_frames;
    tap_ok(decompress(&stored, &plain, &frames, &plain_frames) &&
               plain.length == sizeof(data) &&
               memcmp(plain.data, data, sizeof(data)) == 0,
           "%s: content that comes back", is_small ? "small" : "usual");
    tap_ok(stored.length < sizeof(data) / 4,
           "is mostly stored once: %zu of %zu", stored.length, sizeof(data));
    bytes_free(&stored);
    bytes_free(&plain);
    free(memory);
}

static void test_refusals(void) {
    static uint8_t big[MTF_COMPRESS_PIECE + 1];
    void *memory = malloc(MTF_COMPRESS_MEMORY);
    tap_ok(mtf_compress_init(memory, MTF_COMPRESS_MEMORY - 1) == NULL,
           "too little memory is refused");
    struct mtf_compress *c = mtf_compress_init(memory, MTF_COMPRESS_MEMORY);
    tap_ok(mtf_compress_begin(c, out, 3) == MTF_COMPRESS_ERROR,
           "no room for a frame's head");
    tap_ok(mtf_compress_begin(c, out, sizeof(out)) != MTF_COMPRESS_ERROR,
           "begins again after an error");
    tap_ok(mtf_compress_add(c, big, sizeof(big), out, sizeof(out)) ==
               MTF_COMPRESS_ERROR,
           "a piece that is too large");
    free(memory);
}

int main(void) {
    tap_ok(mtf_compress_available(), "LZ4 is in this build");
    size_t usual = test_frames(false), small = test_frames(true);
    tap_ok(small < usual, "small frames are smaller: %zu of %zu", small, usual);
    test_history(false);
    test_history(true);
    test_refusals();
    return tap_done();
}

#else

int main(void) {
    static uint8_t memory[MTF_COMPRESS_MEMORY], out[MTF_COMPRESS_ROOM];
    struct mtf_compress *c = mtf_compress_init(memory, sizeof(memory));
    tap_ok(!mtf_compress_available(), "LZ4 is not in this build");
    tap_is_u64(mtf_compress_begin(c, out, sizeof(out)), 0, "no frame head");
    tap_is_u64(mtf_compress_add(c, "abc", 3, out, sizeof(out)), 3,
               "bytes pass through");
    tap_ok(memcmp(out, "abc", 3) == 0, "unchanged");
    tap_is_u64(mtf_compress_end(c, out, sizeof(out)), 0, "no frame end");
    return tap_done();
}

#endif
