/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rep: malloc-lab traces, known from textbook exercises: a header of two or
 * four numbers, a line each, then
 *
 *     a ID SIZE     malloc
 *     r ID SIZE     realloc; the block keeps its number
 *     f ID          free
 */
#include "formats/format_reader.h"

struct state {
    uint64_t head[4];
    unsigned heads; /* numbers of the header so far */
    uint64_t ops;
    bool begun;
};

static bool read_op(const char **p, const char *end, struct format_event *e) {
    char op = *(*p)++;
    uint64_t id;
    if (!format_scan_next_u64(p, end, &id) || id == UINT64_MAX)
        return false;
    switch (op) {
    case 'a':
        e->kind = FORMAT_ALLOC;
        e->call = MTF_CALL_MALLOC;
        e->id = id + 1;
        return format_scan_next_u64(p, end, &e->size);
    case 'r':
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->id = e->old = id + 1;
        return format_scan_next_u64(p, end, &e->size);
    case 'f':
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = id + 1;
        return true;
    default:
        return false;
    }
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    *why = "not a line of a malloc-lab trace";
    if (format_scan_at_end(&p, end))
        return FORMAT_NOTHING;
    if (*p >= '0' && *p <= '9') {
        if (s->begun || s->heads == TCM_ARRAY_SIZE(s->head) ||
            !format_scan_u64(&p, end, &s->head[s->heads]) ||
            !format_scan_at_end(&p, end))
            return FORMAT_BAD;
        s->heads++;
        return FORMAT_NOTHING;
    }
    if (s->heads < 2)
        return FORMAT_BAD;
    s->begun = true;
    if (!read_op(&p, end, e) || !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    s->ops++;
    return FORMAT_EVENT;
}

/* The header has the number of operations. */
static const char *ends_early(void *state) {
    const struct state *s = state;
    uint64_t promised = s->heads == 4 ? s->head[2] : s->head[1];
    return s->heads >= 2 && s->ops < promised
               ? "fewer operations than the header says"
               : NULL;
}

const struct format_type format_rep = {
    .name = "rep",
    .title = "malloc-lab trace",
    .ids = FORMAT_IDS_FROM_0,
    .line = read_line,
    .ends_early = ends_early,
    .state_bytes = sizeof(struct state),
};
