/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bpftrace: lines that malloc_calls.bt, a script for bpftrace, prints.
 *
 *     TIME_NS TID NAME(ARGUMENTS) = RESULT
 *     TIME_NS TID free(POINTER)
 *
 * Sizes are decimal, pointers hexadecimal with 0x. Calls that another call
 * makes, such as malloc in calloc, are not in the output. Messages of bpftrace
 * are skipped; "Lost N events" is a fault.
 */
#include "formats/format_reader.h"

/* Takes ") = RESULT". */
static bool scan_result(const char **p, const char *end,
                        struct format_event *e) {
    return format_scan_text(p, end, ") = ") &&
           format_scan_pointer(p, end, &e->id);
}

/* Takes "NUMBER, SIZE) = RESULT". */
static bool scan_pair(const char **p, const char *end, uint64_t *number,
                      struct format_event *e) {
    return format_scan_u64(p, end, number) && format_scan_text(p, end, ", ") &&
           format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
}

static bool scan_call(const char **p, const char *end, struct format_event *e) {
    static const struct {
        const char *name;
        uint8_t call;
    } aligned[] = {
        {"memalign(", MTF_CALL_MEMALIGN},
        {"aligned_alloc(", MTF_CALL_ALIGNED_ALLOC},
        {"posix_memalign(", MTF_CALL_POSIX_MEMALIGN},
    };
    uint64_t number;
    e->kind = FORMAT_ALLOC;
    if (format_scan_text(p, end, "malloc(")) {
        e->call = MTF_CALL_MALLOC;
        return format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
    }
    if (format_scan_text(p, end, "free(")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        return format_scan_pointer(p, end, &e->old) &&
               format_scan_char(p, end, ')');
    }
    if (format_scan_text(p, end, "calloc(")) {
        e->call = MTF_CALL_CALLOC;
        if (!scan_pair(p, end, &number, e))
            return false;
        if (!format_scan_product(number, e->size, &e->size))
            e->size = UINT64_MAX;
        return true;
    }
    if (format_scan_text(p, end, "realloc(")) {
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        return format_scan_pointer(p, end, &e->old) &&
               format_scan_text(p, end, ", ") &&
               format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(aligned); i++)
        if (format_scan_bytes(p, end, aligned[i].name,
                              strlen(aligned[i].name))) {
            e->call = aligned[i].call;
            if (!scan_pair(p, end, &number, e))
                return false;
            e->align_log2 = format_align_log2(number);
            return true;
        }
    e->call = MTF_CALL_VALLOC;
    if (!format_scan_text(p, end, "valloc(")) {
        e->call = MTF_CALL_PVALLOC;
        if (!format_scan_text(p, end, "pvalloc("))
            return false;
    }
    e->align_log2 = 12;
    return format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    (void)state;
    *why = "bpftrace lost lines";
    if (format_scan_text(&p, end, "Lost "))
        return FORMAT_BAD;
    *why = "not a line of malloc_calls.bt";
    if (format_scan_at_end(&p, end) || format_scan_text(&p, end, "Attach"))
        return FORMAT_NOTHING;
    if (!format_scan_u64(&p, end, &e->time_ns) ||
        !format_scan_char(&p, end, ' ') ||
        !format_scan_u64(&p, end, &e->thread) || e->thread == UINT64_MAX ||
        !format_scan_char(&p, end, ' ') || !scan_call(&p, end, e) || p != end)
        return FORMAT_BAD;
    e->flags = FORMAT_THREADED | FORMAT_TIMED;
    return FORMAT_EVENT;
}

const struct format_type format_bpftrace = {
    .name = "bpftrace",
    .title = "lines of malloc_calls.bt",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
