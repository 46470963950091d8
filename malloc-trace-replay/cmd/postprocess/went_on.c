/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/went_on.h"

#include "common/input.h"
#include "common/main.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Up to N first bytes of NAME, decompressed. */
static size_t read_first(const char *name, uint8_t *out, size_t n) {
    struct tool_input *in = tool_input_open(name);
    size_t length = 0, got = 0;
    if (in == NULL)
        return 0;
    while (length < n && tool_input_read(in, out + length, n - length, &got) ==
                             MTF_SOURCE_DATA)
        length += got;
    tool_input_close(in);
    return length;
}

/* Whether NAME, or its spool alone, is a later recording of OWN's process. */
static bool is_later(const char *name, const struct mtf_raw_header *own) {
    static uint8_t page[MTF_SPOOL_UNIT];
    char spool[PATH_MAX + 8];
    struct mtf_raw_info info;
    size_t n = read_first(name, page, MTF_RAW_HEADER_MAX);
    enum mtf_status status = mtf_raw_parse_header(page, n, &info);
    if (n == 0) {
        (void)snprintf(spool, sizeof(spool), "%s.spool", name);
        n = read_first(spool, page, sizeof(page));
        status = mtf_spool_parse_head(page, n, &info);
    }
    return status == MTF_OK && info.fixed.pid == own->pid &&
           info.fixed.process_start == own->process_start &&
           info.fixed.random != own->random &&
           info.fixed.start_ns >= own->start_ns;
}

/* How many traces BASE.FROM, BASE.FROM+1 and so on are there. */
static uint64_t count(const char *base, int length, uint64_t from,
                      const struct mtf_raw_header *own) {
    char name[PATH_MAX];
    uint64_t n = 0;
    while (snprintf(name, sizeof(name), "%.*s.%" PRIu64, length, base,
                    from + n) < (int)sizeof(name) &&
           is_later(name, own))
        n++;
    return n;
}

void went_on_tell(const char *name, const struct mtf_raw_header *own) {
    const char *dot = strrchr(name, '.');
    int length = (int)strlen(name);
    uint64_t from = 1, number;
    if (own->pid == 0) /* an artificial trace */
        return;
    uint64_t n = count(name, length, from, own);
    /* A trace that has a number is followed by the next one. */
    if (n == 0 && dot != NULL && dot != name &&
        tool_parse_u64(dot + 1, 999999999, &number)) {
        length = (int)(dot - name);
        from = number + 1;
        n = count(name, length, from, own);
    }
    if (n == 0)
        return;
    fprintf(stderr, "  the process recorded on in %.*s.%" PRIu64, length, name,
            from);
    if (n > 1)
        fprintf(stderr, " to %.*s.%" PRIu64, length, name, from + n - 1);
    fputs(", after an exec or a new start\n", stderr);
}
