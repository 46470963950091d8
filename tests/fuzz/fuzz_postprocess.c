/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the file that postprocess reads: reader, LZ4 frames, sorter and
 * writer together. What comes out must be a good processed trace.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_repair.h"
#include "tests/unit/tools/order_sort.h"

#include "trace/raw.h"

#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "raw"};

static void run(const uint8_t *data, size_t size) {
    struct sorted out;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
               lseek(fd, 0, SEEK_SET) == 0);
    char name[32];
    struct tool_input *in = tool_input_from_fd(fd, "fuzz");
    FUZZ_CHECK(in != NULL);
    /* Opened again for the present bytes. */
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    struct tool_raw *t = tool_raw_from_input(in, NULL);
    FUZZ_CHECK(t != NULL);
    struct sorter *s = sorter_begin(&out);
    struct mtf_item item;
    s->emit.present.name = name;
    do {
        tool_raw_next(t, &item);
        if (item.kind == MTF_ITEM_HEADER)
            s->emit.present.random = item.info->fixed.random;
        sorter_add(s, &item);
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    sorter_end(s);
    tool_raw_close(t);
    sorted_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_both(data, size, run);
    return 0;
}
