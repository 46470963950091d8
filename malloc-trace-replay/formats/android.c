/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * android: text that malloc_debug writes with record_allocs, and that
 * memory_replay reads.
 *
 *     TID: malloc PTR SIZE               [START_NS END_NS [PRESENT]]
 *     TID: calloc PTR NMEMB SIZE
 *     TID: memalign PTR ALIGNMENT SIZE
 *     TID: realloc PTR OLD SIZE
 *     TID: free PTR
 *     TID: thread_done 0x0               [END_NS]
 *
 * START_NS and END_NS tell when the call began and ended. PRESENT, bytes of the
 * block that had memory, is not used: it comes with the free.
 */
#include "formats/format_reader.h"

/* Takes the call up to its last argument. */
static bool read_action(const char **p, const char *end,
                        struct format_event *e) {
    uint64_t ptr, a = 0;
    e->kind = FORMAT_ALLOC;
    if (format_scan_text(p, end, "malloc ")) {
        e->call = MTF_CALL_MALLOC;
        return format_scan_next_hex(p, end, &e->id) &&
               format_scan_next_u64(p, end, &e->size);
    }
    if (format_scan_text(p, end, "free ")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        return format_scan_next_hex(p, end, &e->old);
    }
    if (format_scan_text(p, end, "calloc ")) {
        e->call = MTF_CALL_CALLOC;
        if (!format_scan_next_hex(p, end, &e->id) ||
            !format_scan_next_u64(p, end, &a) ||
            !format_scan_next_u64(p, end, &e->size))
            return false;
        if (format_scan_product(a, e->size, &e->size))
            return true;
        e->size = UINT64_MAX;
        return e->id == 0;
    }
    if (format_scan_text(p, end, "realloc ")) {
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        return format_scan_next_hex(p, end, &e->id) &&
               format_scan_next_hex(p, end, &e->old) &&
               format_scan_next_u64(p, end, &e->size);
    }
    if (format_scan_text(p, end, "memalign ")) {
        e->call = MTF_CALL_MEMALIGN;
        if (!format_scan_next_hex(p, end, &e->id) ||
            !format_scan_next_u64(p, end, &a) ||
            !format_scan_next_u64(p, end, &e->size))
            return false;
        e->align_log2 = format_align_log2(a);
        return true;
    }
    e->kind = FORMAT_THREAD_END;
    return format_scan_text(p, end, "thread_done ") &&
           format_scan_next_hex(p, end, &ptr);
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    uint64_t to, present;
    (void)state;
    *why = "not a line of memory_replay";
    if (format_scan_at_end(&p, end))
        return FORMAT_NOTHING;
    if (!format_scan_u64(&p, end, &e->thread) || e->thread == UINT64_MAX ||
        !format_scan_char(&p, end, ':'))
        return FORMAT_BAD;
    format_scan_blanks(&p, end);
    if (!read_action(&p, end, e))
        return FORMAT_BAD;
    e->flags = FORMAT_THREADED;
    if (format_scan_at_end(&p, end))
        return FORMAT_EVENT;
    if (!format_scan_u64(&p, end, &e->time_ns))
        return FORMAT_BAD;
    if (e->kind == FORMAT_THREAD_END)
        return format_scan_at_end(&p, end) ? FORMAT_EVENT : FORMAT_BAD;
    if (!format_scan_next_u64(&p, end, &to) ||
        (!format_scan_at_end(&p, end) && !format_scan_u64(&p, end, &present)) ||
        !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    e->flags |= FORMAT_TIMED;
    return FORMAT_EVENT;
}

const struct format_type format_android = {
    .name = "android",
    .title = "Android malloc_debug or memory_replay text",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
