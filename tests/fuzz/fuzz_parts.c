/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the parts of a flight recording.
 *
 * Input: for each part u8 number of its file, u8 part (put into its header if
 * there is room for the field), u16 length, bytes.
 */
#include "tests/fuzz/fuzz_raw_items.h"
#include "tests/fuzz/fuzz_repair.h"

#include "trace/raw.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "parts", .stride = 7};

static char folder[] = "/tmp/fuzz_parts.XXXXXX";

static void remove_all(void) {
    char name[64];
    for (unsigned i = 0; i < MTF_PARTS; i++) {
        (void)snprintf(name, sizeof(name), "%s/t.k%u", folder, i);
        (void)unlink(name);
    }
}

static void leave(void) {
    remove_all();
    (void)rmdir(folder);
}

static void write_part(const uint8_t *data, size_t size, unsigned number,
                       unsigned part) {
    static uint8_t copy[1 << 16];
    char name[64];
    memcpy(copy, data, size);
    for (size_t at = sizeof(struct mtf_raw_header); at + 8 <= size && at < 512;
         at++) {
        static const uint8_t field[4] = {MTF_TAG_PART, 0, 4, 0};
        if (memcmp(copy + at, field, sizeof(field)) == 0)
            copy[at + 4] = (uint8_t)part;
    }
    fuzz_repair(copy, size);
    (void)snprintf(name, sizeof(name), "%s/t.k%u", folder, number % MTF_PARTS);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, copy, size) == (ssize_t)size);
    close(fd);
}

static void read_parts(const char *name, size_t size) {
    static struct fuzz_streams f;
    struct mtf_item item;
    struct tool_raw *t = tool_raw_open(name);
    FUZZ_CHECK(t != NULL);
    fuzz_streams_init(&f);
    do {
        tool_raw_next(t, &item);
        if (item.kind == MTF_ITEM_DAMAGE || item.kind == MTF_ITEM_FAILED)
            FUZZ_CHECK(strlen(tool_raw_item_text(t, &item)) != 0);
    } while (fuzz_item(&f, &item, size));
    (void)tool_raw_complete(t);
    tool_raw_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool made;
    char name[64];
    if (!made) {
        FUZZ_CHECK(mkdtemp(folder) != NULL);
        made = true;
        (void)atexit(leave);
    }
    remove_all();
    for (size_t at = 0; size - at >= 4;) {
        size_t n = data[at + 2] | (size_t)data[at + 3] << 8;
        n = n < size - at - 4 ? n : size - at - 4;
        write_part(data + at + 4, n, data[at], data[at + 1]);
        at += 4 + n;
    }
    (void)snprintf(name, sizeof(name), "%s/t", folder);
    read_parts(name, size);
    (void)snprintf(name, sizeof(name), "%s/t.k1", folder);
    read_parts(name, size);
    return 0;
}
