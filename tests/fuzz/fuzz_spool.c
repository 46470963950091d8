/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the spool of a recording.
 */
#include "tests/fuzz/fuzz_raw_items.h"
#include "tests/fuzz/fuzz_repair.h"

#include "trace/raw.h"

#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "spool"};

static void run(const uint8_t *data, size_t size) {
    char name[64];
    static struct fuzz_streams f;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    struct tool_raw *t = tool_raw_open(name);
    FUZZ_CHECK(t != NULL);
    struct mtf_item item;
    fuzz_streams_init(&f);
    do
        tool_raw_next(t, &item);
    while (fuzz_item(&f, &item, size));
    tool_raw_close(t);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_both(data, size, run);
    return 0;
}
