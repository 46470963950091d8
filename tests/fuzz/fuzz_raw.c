/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a raw trace: through the reader alone, from memory in pieces of
 * two sizes (which must make no difference), and through the file layer with
 * its LZ4 frames.
 */
#include "tests/fuzz/fuzz_raw_items.h"
#include "tests/fuzz/fuzz_repair.h"

#include "memory_source.h"
#include "trace/raw.h"

#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "raw"};

static void read_memory(const uint8_t *data, size_t size, size_t piece,
                        struct fuzz_streams *f) {
    static uint8_t buffer[MTF_READER_BUFFER];
    struct memory_source m;
    struct mtf_raw_reader r;
    struct mtf_item item;
    memory_source_init(&m, data, size, piece);
    mtf_raw_reader_init(&r, &m.source, buffer);
    fuzz_streams_init(f);
    do
        mtf_raw_reader_next(&r, &item);
    while (fuzz_item(f, &item, size));
}

static void read_file(const uint8_t *data, size_t size,
                      struct fuzz_streams *f) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
               lseek(fd, 0, SEEK_SET) == 0);
    struct tool_input *in = tool_input_from_fd(fd, "fuzz");
    FUZZ_CHECK(in != NULL);
    struct tool_raw *t = tool_raw_from_input(in, NULL);
    FUZZ_CHECK(t != NULL);
    struct mtf_item item;
    fuzz_streams_init(f);
    for (;;) {
        tool_raw_next(t, &item);
        if (item.kind == MTF_ITEM_DAMAGE || item.kind == MTF_ITEM_FAILED)
            FUZZ_CHECK(strlen(tool_raw_item_text(t, &item)) != 0);
        if (!fuzz_item(f, &item, size))
            break;
    }
    (void)tool_raw_complete(t);
    tool_raw_close(t);
}

static void run(const uint8_t *data, size_t size) {
    static struct fuzz_streams whole, pieces, file;
    read_memory(data, size, SIZE_MAX, &whole);
    read_memory(data, size, 7, &pieces);
    FUZZ_CHECK(memcmp(&whole, &pieces, sizeof(whole)) == 0);
    read_file(data, size, &file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_both(data, size, run);
    return 0;
}
