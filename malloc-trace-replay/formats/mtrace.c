/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mtrace: the log that glibc's mtrace() writes to the file of MALLOC_TRACE.
 *
 *     = Start
 *     [@ WHERE] + PTR SIZE        malloc, calloc, aligned calls; (nil): failed
 *     [@ WHERE] - PTR             free, and realloc to 0
 *     [@ WHERE] < OLD             realloc, of two lines
 *     [@ WHERE] > PTR SIZE
 *     [@ WHERE] ! OLD SIZE        realloc that failed
 *     = End
 *
 * WHERE names the caller's file, which may have blanks, so a line is read from
 * its end.
 */
#include "formats/format_reader.h"

struct state {
    uint64_t old; /* realloc: of its first line; 0: none was read */
};

static bool is_mtrace(const uint8_t *p, size_t n, bool whole) {
    static const char start[] = "= Start\n";
    (void)whole;
    return n >= sizeof(start) - 1 && memcmp(p, start, sizeof(start) - 1) == 0;
}

/* The start of the word that ends before AT, and *WORD_END its end. */
static const char *word_before(const char *from, const char *at,
                               const char **word_end) {
    while (at > from && at[-1] == ' ')
        at--;
    *word_end = at;
    while (at > from && at[-1] != ' ')
        at--;
    return at;
}

/* A pointer or size as printf writes it: 0x1f, 0 or (nil). */
static bool read_number(const char *p, const char *end, uint64_t *v) {
    *v = 0;
    if (format_scan_text(&p, end, "(nil)"))
        return p == end;
    return format_scan_hex(&p, end, v) && p == end;
}

/* Takes the operation and its numbers from the end of [P, END). */
static bool read_call(const char *p, const char *end, char *what, uint64_t *ptr,
                      uint64_t *size) {
    const char *ends[3];
    const char *last = word_before(p, end, &ends[0]);
    const char *middle = word_before(p, last, &ends[1]);
    const char *first = word_before(p, middle, &ends[2]);
    *what = *middle;
    if (ends[1] - middle == 1 && (*what == '-' || *what == '<'))
        return read_number(last, ends[0], ptr) && *ptr != 0;
    *what = *first;
    return ends[2] - first == 1 &&
           (*what == '+' || *what == '>' || *what == '!') &&
           read_number(middle, ends[1], ptr) &&
           read_number(last, ends[0], size);
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    uint64_t ptr = 0, old = s->old;
    char what;
    *why = "not a line of mtrace";
    if (*p == '=')
        return FORMAT_NOTHING;
    if (!read_call(p, end, &what, &ptr, &e->size))
        return FORMAT_BAD;
    s->old = 0;
    *why = "half of a realloc, without the other line";
    if ((what == '>') != (old != 0))
        return FORMAT_BAD;
    switch (what) {
    case '<':
        s->old = ptr;
        return FORMAT_NOTHING;
    case '-':
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = ptr;
        return FORMAT_EVENT;
    case '+':
        e->kind = FORMAT_ALLOC;
        e->call = MTF_CALL_MALLOC;
        e->id = ptr;
        return FORMAT_EVENT;
    default:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->id = what == '>' ? ptr : 0;
        e->old = what == '>' ? old : ptr;
        e->flags = what == '>' ? 0 : FORMAT_FAILED;
        return FORMAT_EVENT;
    }
}

static const char *ends_early(void *state) {
    const struct state *s = state;
    return s->old != 0 ? "the second line of a realloc is missing" : NULL;
}

const struct format_type format_mtrace = {
    .name = "mtrace",
    .title = "log of glibc's mtrace()",
    .has_addresses = true,
    .matches = is_mtrace,
    .line = read_line,
    .ends_early = ends_early,
    .state_bytes = sizeof(struct state),
};
