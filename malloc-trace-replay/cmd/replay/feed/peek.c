/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last frame near the end of a compressed file is decompressed; if that has
 * only a part of the closing block, the one before it as well.
 */
#include "cmd/replay/feed/peek.h"

#include "base/bits.h"
#include "common/input.h"
#include "traceformat/proc_reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stored bytes that two frames of postprocess may have, and what they hold. */
#define WINDOW_BYTES  ((size_t)9 << 20)
#define CONTENT_BYTES ((uint64_t)64 << 20)
#define FRAMES        2u
#define LZ4_MAGIC     "\x04\x22\x4d\x18"

/* The end of a trace: in a file, or in memory. */
struct tail {
    int fd; /* -1: bytes */
    const uint8_t *bytes;
    size_t size;
};

static size_t read_tail(void *ctx, uint64_t offset, void *data, size_t n) {
    const struct tail *t = ctx;
    if (t->fd >= 0) {
        ssize_t got = pread(t->fd, data, n, (off_t)offset);
        return got < 0 ? 0 : (size_t)got;
    }
    if (offset > t->size)
        return 0;
    n = tcm_min_u64(n, t->size - offset);
    memcpy(data, t->bytes + offset, n);
    return n;
}

static bool peak_of(struct tail *t, uint64_t size, struct replay_peek *peek) {
    static uint8_t memory[MTF_PROC_INDEX_MEMORY];
    struct mtf_proc_block closing;
    if (!mtf_proc_find_closing(read_tail, t, size, memory, &closing))
        return false;
    peek->present_blocks = 0;
    (void)mtf_proc_account(&closing, MTF_PROC_ACCOUNT_PRESENT_BLOCKS,
                           &peek->present_blocks);
    return mtf_proc_account(&closing, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES,
                            &peek->peak_bytes);
}

/* Decompresses FD from OFFSET to its end. */
static bool peak_from(int fd, uint64_t offset, struct replay_peek *peek) {
    static uint8_t last[2][MTF_PROC_CLOSING_TAIL];
    struct tool_input *in = NULL;
    size_t used = 0, got = 0;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0 && lseek(copy, (off_t)offset, SEEK_SET) == (off_t)offset)
        in = tool_input_from_fd(copy, "trace");
    if (in == NULL)
        return false;
    /* two halves: together they always have the last bytes */
    unsigned half = 0;
    enum mtf_source_result r = MTF_SOURCE_DATA;
    while (tool_input_bytes(in) < CONTENT_BYTES) {
        if (used == sizeof(last[0])) {
            half ^= 1;
            used = 0;
        }
        r = tool_input_read(in, last[half] + used, sizeof(last[0]) - used,
                            &got);
        if (r != MTF_SOURCE_DATA)
            break;
        used += got;
    }
    size_t before = tool_input_bytes(in) > used ? sizeof(last[0]) - used : 0;
    tool_input_close(in);
    static uint8_t whole[sizeof(last[0])];
    memcpy(whole, last[half ^ 1] + (sizeof(last[0]) - before), before);
    memcpy(whole + before, last[half], used);
    struct tail t = {-1, whole, before + used};
    return r == MTF_SOURCE_END && peak_of(&t, t.size, peek);
}

static bool peak_of_frames(int fd, uint64_t size, struct replay_peek *peek) {
    size_t n = (size_t)tcm_min_u64(size, WINDOW_BYTES);
    uint8_t *window = malloc(n);
    bool found = false;
    unsigned frames = 0;
    if (window != NULL && pread(fd, window, n, (off_t)(size - n)) == (ssize_t)n)
        for (size_t at = n - tcm_min_u64(n, 4) + 1;
             at-- != 0 && !found && frames < FRAMES;) {
            if (memcmp(window + at, LZ4_MAGIC, 4) != 0)
                continue;
            frames++;
            found = peak_from(fd, size - n + at, peek);
        }
    free(window);
    return found;
}

bool replay_peek(const char *name, struct replay_peek *peek) {
    struct stat st;
    uint8_t first[4] = {0};
    bool found = false;
    if (name == NULL || strcmp(name, "-") == 0)
        name = "/dev/stdin";
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        pread(fd, first, sizeof(first), 0) == (ssize_t)sizeof(first)) {
        uint64_t size = (uint64_t)st.st_size;
        struct tail t = {fd, NULL, 0};
        found = memcmp(first, LZ4_MAGIC, sizeof(first)) == 0
                    ? peak_of_frames(fd, size, peek)
                    : peak_of(&t, size, peek);
    }
    if (fd >= 0)
        close(fd);
    return found;
}
