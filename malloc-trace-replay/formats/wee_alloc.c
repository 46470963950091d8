/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wee-alloc: traces of wee_alloc's tests, a list of
 *
 *     Alloc(SIZE),
 *     Free(N),
 *
 * N is the number of an Alloc, from 0. The lists were made from logs of
 * valgrind; a realloc is a Free and an Alloc.
 */
#include "formats/format_reader.h"

struct state {
    uint64_t count; /* of Allocs */
};

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    uint64_t n;
    *why = "neither Alloc(SIZE) nor Free(N)";
    if (format_scan_at_end(&p, end))
        return FORMAT_NOTHING;
    bool makes = format_scan_text(&p, end, "Alloc(");
    if ((!makes && !format_scan_text(&p, end, "Free(")) ||
        !format_scan_u64(&p, end, &n) || !format_scan_char(&p, end, ')'))
        return FORMAT_BAD;
    (void)format_scan_char(&p, end, ',');
    if (!format_scan_at_end(&p, end) || n == UINT64_MAX)
        return FORMAT_BAD;
    if (makes) {
        e->kind = FORMAT_ALLOC;
        e->call = MTF_CALL_MALLOC;
        e->size = n;
        e->id = ++s->count;
    } else {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = n + 1;
    }
    return FORMAT_EVENT;
}

const struct format_type format_wee_alloc = {
    .name = "wee-alloc",
    .title = "wee_alloc test trace",
    .ids = FORMAT_IDS_FROM_0,
    .line = read_line,
    .state_bytes = sizeof(struct state),
};
