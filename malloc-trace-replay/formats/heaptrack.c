/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heaptrack: recordings of heaptrack, raw or interpreted, of file format 3 and
 * below. The first letter of a line tells its kind; numbers are hexadecimal.
 *
 *     v VERSION [FORMAT]     first line; FORMAT is missing in the oldest files
 *     c MILLISECONDS         time of the lines that follow
 *     + SIZE STACK POINTER   raw: allocation
 *     - POINTER              raw: free
 *     a SIZE STACK           interpreted: allocations number 0, 1, ...
 *     + NUMBER               interpreted: a block of allocation NUMBER
 *     - NUMBER               interpreted: free of a block of allocation NUMBER
 *
 * All other lines, such as modules and call stacks, are skipped.
 *
 * An interpreted recording does not tell which of the blocks of equal size and
 * call stack is freed: the newest one is taken.
 *
 * Invariants: memory is bounded by the `a` lines.
 */
#include "common/collections.h"
#include "formats/format_reader.h"

#include <stdlib.h>

#define NS_PER_MS   1000000u
#define FORMAT_LAST 3u

/* Blocks of equal size and call stack. */
struct allocation {
    uint64_t size;
    uint64_t live; /* blocks that are not freed */
};

struct state {
    struct allocation *allocation;
    size_t count, room;
    bool interpreted;
    uint64_t time_ns;
};

/* Id of block number LIVE, from 1, of allocation INDEX. */
static uint64_t block_id(size_t index, uint64_t live) {
    return (uint64_t)index << 32 | (live & UINT32_MAX);
}

static enum format_result read_version(const char *p, const char *end,
                                       const char **why) {
    uint64_t version, format = 0;
    if (!format_scan_next_hex(&p, end, &version) ||
        (!format_scan_at_end(&p, end) && !format_scan_hex(&p, end, &format)) ||
        !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    *why = "file format later than version 3";
    return format <= FORMAT_LAST ? FORMAT_NOTHING : FORMAT_GIVE_UP;
}

static enum format_result read_time(struct state *s, const char *p,
                                    const char *end) {
    uint64_t ms;
    if (!format_scan_next_hex(&p, end, &ms) || !format_scan_at_end(&p, end) ||
        !format_scan_product(ms, NS_PER_MS, &ms))
        return FORMAT_BAD;
    s->time_ns = ms;
    return FORMAT_NOTHING;
}

static enum format_result read_allocation(struct state *s, const char *p,
                                          const char *end, const char **why) {
    struct allocation a = {0, 0};
    uint64_t stack;
    if (!format_scan_next_hex(&p, end, &a.size) ||
        !format_scan_next_hex(&p, end, &stack) || !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    *why = "out of memory";
    if (s->count >= UINT32_MAX ||
        !tool_array_reserve(&s->allocation, &s->room, s->count + 1, sizeof(a)))
        return FORMAT_GIVE_UP;
    s->allocation[s->count++] = a;
    s->interpreted = true;
    return FORMAT_NOTHING;
}

/* + or - of an interpreted recording. */
static enum format_result read_number(struct state *s, const char *p,
                                      const char *end, bool frees,
                                      struct format_event *e,
                                      const char **why) {
    uint64_t index;
    if (!format_scan_next_hex(&p, end, &index) || !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    *why = "unknown number of an allocation";
    if (index >= s->count)
        return FORMAT_BAD;
    struct allocation *a = &s->allocation[index];
    *why = "free of an allocation without live blocks";
    if (frees && a->live == 0)
        return FORMAT_BAD;
    *why = "more than 2^32 live blocks of one allocation";
    if (!frees && a->live == UINT32_MAX)
        return FORMAT_BAD;
    a->live += !frees;
    if (frees)
        e->old = block_id((size_t)index, a->live);
    else
        e->id = block_id((size_t)index, a->live);
    e->size = frees ? 0 : a->size;
    a->live -= frees;
    TCM_ASSERT(s->interpreted && index < s->count);
    e->flags |= FORMAT_NUMBERED;
    return FORMAT_EVENT;
}

/* + or - of a raw recording. */
static enum format_result read_pointer(const char *p, const char *end,
                                       bool frees, struct format_event *e) {
    uint64_t stack;
    if (frees)
        return format_scan_next_hex(&p, end, &e->old) &&
                       format_scan_at_end(&p, end)
                   ? FORMAT_EVENT
                   : FORMAT_BAD;
    return format_scan_next_hex(&p, end, &e->size) &&
                   format_scan_next_hex(&p, end, &stack) &&
                   format_scan_next_hex(&p, end, &e->id) &&
                   format_scan_at_end(&p, end)
               ? FORMAT_EVENT
               : FORMAT_BAD;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    *why = "not a line of heaptrack";
    char letter = *p++;
    if (letter == '#')
        return FORMAT_NOTHING;
    if (p < end && *p != ' ')
        return FORMAT_BAD;
    switch (letter) {
    case 'v':
        return read_version(p, end, why);
    case 'c':
        return read_time(s, p, end);
    case 'a':
        return read_allocation(s, p, end, why);
    case '+':
    case '-':
        e->kind = letter == '+' ? FORMAT_ALLOC : FORMAT_FREE;
        e->call = letter == '+' ? MTF_CALL_MALLOC : MTF_CALL_FREE;
        e->time_ns = s->time_ns;
        e->flags = FORMAT_TIMED;
        return s->interpreted ? read_number(s, p, end, letter == '-', e, why)
                              : read_pointer(p, end, letter == '-', e);
    case 'A': /* attached to a running program */
    case 'I': /* size of pages and of memory */
    case 'R': /* resident pages */
    case 'S': /* suppression */
    case 'X': /* command */
    case 'i': /* instruction */
    case 'm': /* module */
    case 's': /* string */
    case 't': /* call stack */
    case 'x': /* executable */
        return FORMAT_NOTHING;
    default:
        return FORMAT_BAD;
    }
}

/* Tells whether the first line has a version, and the second line is one that
   follows it. */
static bool is_heaptrack(const uint8_t *p, size_t n, bool whole) {
    const char *at = (const char *)p, *end = at + n;
    uint64_t version, format;
    (void)whole;
    if (!format_scan_text(&at, end, "v ") ||
        !format_scan_hex(&at, end, &version) || version < 0x10000)
        return false;
    if (format_scan_char(&at, end, ' ') && !format_scan_hex(&at, end, &format))
        return false;
    return format_scan_char(&at, end, '\n') && end - at >= 2 &&
           memchr("#AIXmsx", *at, 7) != NULL && at[1] == ' ';
}

static void fini(void *state) {
    struct state *s = state;
    free(s->allocation);
}

const struct format_type format_heaptrack = {
    .name = "heaptrack",
    .title = "heaptrack recording",
    .has_addresses = true,
    .matches = is_heaptrack,
    .line = read_line,
    .fini = fini,
    .state_bytes = sizeof(struct state),
};
