/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dtrace: logs of CTSRD's memory-alloc-tracing, a line for each call. The
 * columns of new logs are separated by tabs. Their header, a line that begins
 * with @, and other records are skipped:
 *
 *     call-trace TIME CALLSTACK TID NAME ARGUMENTS RESULT ALLOC-STACK CPU-TIME
 *
 * ARGUMENTS are separated by blanks; pointers are hexadecimal, without 0x. Old
 * logs have columns separated by blanks, and no TID:
 *
 *     call-trace TIME STACK STACK malloc SIZE PTR
 *     call-trace TIME free PTR
 */
#include "formats/format_reader.h"

#define COLUMNS 9u

struct columns {
    const char *at[COLUMNS], *end[COLUMNS];
    unsigned count;
};

static void split(const char *p, const char *end, char by, struct columns *c) {
    c->count = 0;
    while (c->count < COLUMNS) {
        const char *stop = memchr(p, by, (size_t)(end - p));
        c->at[c->count] = p;
        c->end[c->count++] = stop == NULL ? end : stop;
        if (stop == NULL)
            return;
        for (p = stop + 1; by == ' ' && p < end && *p == ' '; p++)
            ;
    }
}

/* The call of the malloc family that column I names; 0: none. */
static uint8_t call_of(const struct columns *c, unsigned i) {
    static const uint8_t calls[] = {
        MTF_CALL_MALLOC,         MTF_CALL_FREE,          MTF_CALL_REALLOC,
        MTF_CALL_CALLOC,         MTF_CALL_ALIGNED_ALLOC, MTF_CALL_VALLOC,
        MTF_CALL_POSIX_MEMALIGN,
    };
    size_t n = (size_t)(c->end[i] - c->at[i]);
    for (size_t k = 0; k < TCM_ARRAY_SIZE(calls); k++) {
        const char *name = mtf_call_name(calls[k]);
        if (strlen(name) == n && memcmp(name, c->at[i], n) == 0)
            return calls[k];
    }
    return 0;
}

/* Reads the arguments in [P, END) and the result in [RESULT, RESULT_END), which
   a free does not have. */
static bool read_arguments(const char *p, const char *end, const char *result,
                           const char *result_end, struct format_event *e) {
    uint64_t a;
    e->kind = FORMAT_ALLOC;
    switch (e->call) {
    case MTF_CALL_FREE:
        e->kind = FORMAT_FREE;
        return format_scan_next_hex(&p, end, &e->old) &&
               format_scan_at_end(&p, end);
    case MTF_CALL_REALLOC:
        e->kind = FORMAT_REALLOC;
        if (!format_scan_next_hex(&p, end, &e->old) ||
            !format_scan_next_u64(&p, end, &e->size))
            return false;
        break;
    case MTF_CALL_MALLOC:
    case MTF_CALL_VALLOC:
        e->align_log2 = e->call == MTF_CALL_VALLOC ? 12 : 0;
        if (!format_scan_next_u64(&p, end, &e->size))
            return false;
        break;
    default:
        if (!format_scan_next_u64(&p, end, &a) ||
            !format_scan_next_u64(&p, end, &e->size))
            return false;
        if (e->call != MTF_CALL_CALLOC)
            e->align_log2 = format_align_log2(a);
        else if (!format_scan_product(a, e->size, &e->size))
            return false;
    }
    return format_scan_at_end(&p, end) &&
           format_scan_next_hex(&result, result_end, &e->id) &&
           format_scan_at_end(&result, result_end);
}

static enum format_result read_tabs(const struct columns *c,
                                    struct format_event *e) {
    const char *p = c->at[1];
    if (c->count < 7 || !format_scan_u64(&p, c->end[1], &e->time_ns) ||
        p != c->end[1])
        return FORMAT_BAD;
    p = c->at[3];
    if (!format_scan_u64(&p, c->end[3], &e->thread) || p != c->end[3] ||
        e->thread == UINT64_MAX)
        return FORMAT_BAD;
    e->flags = FORMAT_TIMED | FORMAT_THREADED;
    e->call = call_of(c, 4);
    if (e->call == 0)
        return FORMAT_NOTHING; /* mmap, munmap, ... */
    return read_arguments(c->at[5], c->end[5], c->at[6], c->end[6], e)
               ? FORMAT_EVENT
               : FORMAT_BAD;
}

static enum format_result read_blanks(const struct columns *c, const char *end,
                                      struct format_event *e) {
    const char *p = c->at[1];
    if (c->count < 4 || !format_scan_u64(&p, c->end[1], &e->time_ns) ||
        p != c->end[1])
        return FORMAT_BAD;
    e->flags = FORMAT_TIMED;
    for (unsigned i = 2; i + 1 < c->count; i++) {
        e->call = call_of(c, i);
        if (e->call == 0)
            continue;
        unsigned result = c->count - 1;
        const char *stop = e->call == MTF_CALL_FREE ? end : c->at[result];
        return read_arguments(c->at[i + 1], stop, c->at[result], end, e)
                   ? FORMAT_EVENT
                   : FORMAT_BAD;
    }
    return FORMAT_NOTHING;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct columns c;
    const char *from = p;
    (void)state;
    *why = "not a line of a memory-alloc-tracing log";
    if (*p == '@' || *p == '#' || format_scan_at_end(&p, end) ||
        format_scan_text(&p, end, "aspace-sample"))
        return FORMAT_NOTHING;
    if (!format_scan_text(&p, end, "call-trace") || p == end)
        return FORMAT_BAD;
    split(from, end, *p, &c);
    if (*p == '\t')
        return read_tabs(&c, e);
    return *p == ' ' ? read_blanks(&c, end, e) : FORMAT_BAD;
}

const struct format_type format_dtrace = {
    .name = "dtrace",
    .title = "CTSRD memory-alloc-tracing log",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
