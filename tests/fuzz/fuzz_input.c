/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a file in LZ4 frames, plain, or in another packing: whatever
 * they are, reading them in large and in small pieces gives the same bytes and
 * the same breaks, and of LZ4 no more than it can make of so many.
 */
#include "tests/fuzz/fuzz.h"

#include "common/input.h"
#include "common/unpack.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "input"};

struct sum {
    uint64_t bytes, breaks, skipped, hash;
    enum mtf_source_result end;
};

static void read_all(const uint8_t *data, size_t size, size_t piece, bool peek,
                     struct sum *s) {
    static uint8_t buffer[1 << 16];
    uint8_t first[8];
    size_t got;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
               lseek(fd, 0, SEEK_SET) == 0);
    struct tool_input *in = tool_input_from_fd(fd, "fuzz");
    FUZZ_CHECK(in != NULL);
    memset(s, 0, sizeof(*s));
    if (peek)
        FUZZ_CHECK(tool_input_peek(in, first) <= sizeof(first));
    for (;;) {
        enum mtf_source_result r = tool_input_read(in, buffer, piece, &got);
        if (r == MTF_SOURCE_DATA) {
            FUZZ_CHECK(got != 0 && got <= piece);
            s->bytes += got;
            for (size_t i = 0; i < got; i++)
                s->hash = (s->hash ^ buffer[i]) * 0x100000001B3u;
            continue;
        }
        if (r != MTF_SOURCE_BREAK) {
            s->end = r;
            break;
        }
        struct mtf_source *source = tool_input_source(in);
        s->skipped += source->break_skipped;
        s->hash = (s->hash ^ source->break_offset) * 0x100000001B3u;
        FUZZ_CHECK(++s->breaks <= size && source->break_offset <= size);
    }
    FUZZ_CHECK(s->skipped <= size &&
               (s->bytes <= 255 * (uint64_t)size ||
                tool_packing_of(data, size) != TOOL_PACKING_NONE));
    FUZZ_CHECK(tool_input_bytes(in) == s->bytes);
    tool_input_close(in);
}

/* Tells whether a decoder drops what it made in the call that finds damage:
   libbz2 does, and liblz4 of blocks that are stored as they are and have
   checksums. */
static bool drops(const uint8_t *data, size_t size) {
    static const char magic[] = "\x04\x22\x4d\x18";
    const uint8_t *end = data + size, *p = data;
    if (size >= 3 && memcmp(data, "BZh", 3) == 0)
        return true;
    while ((p = memmem(p, (size_t)(end - p), magic, 4)) != NULL) {
        p += 4;
        if (p < end && (*p & 0x10) != 0)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sum whole, pieces;
    read_all(data, size, 1 << 16, false, &whole);
    read_all(data, size, 61, true, &pieces);
    if (whole.breaks != 0 && drops(data, size))
        FUZZ_CHECK(pieces.breaks == whole.breaks && pieces.end == whole.end &&
                   pieces.bytes >= whole.bytes);
    else
        FUZZ_CHECK(memcmp(&whole, &pieces, sizeof(whole)) == 0);
    return 0;
}
