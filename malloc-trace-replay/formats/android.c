/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Android: what malloc_debug's record_allocs writes and memory_replay reads.
 *
 *     TID: malloc PTR SIZE               [START_NS END_NS [PRESENT]]
 *     TID: calloc PTR NMEMB SIZE
 *     TID: memalign PTR ALIGNMENT SIZE
 *     TID: realloc PTR OLD SIZE
 *     TID: free PTR
 *     TID: thread_done 0x0               [END_NS]
 *
 * START_NS and END_NS are when the call began and ended. PRESENT comes with the
 * free of a block, too late to be of use here.
 */
#include "formats/format_scan.h"
#include "formats/formats.h"

/* What follows the pointer of each action. */
static bool read_action(const char **p, const char *end,
                        struct format_event *e) {
    uint64_t ptr, a = 0;
    e->kind = FORMAT_ALLOC;
    if (scan_text(p, end, "malloc ")) {
        e->call = MTF_CALL_MALLOC;
        return scan_next_hex(p, end, &e->id) && scan_next_u64(p, end, &e->size);
    }
    if (scan_text(p, end, "free ")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        return scan_next_hex(p, end, &e->old);
    }
    if (scan_text(p, end, "calloc ")) {
        e->call = MTF_CALL_CALLOC;
        if (!scan_next_hex(p, end, &e->id) || !scan_next_u64(p, end, &a) ||
            !scan_next_u64(p, end, &e->size))
            return false;
        if (scan_product(a, e->size, &e->size))
            return true;
        e->size = UINT64_MAX;
        return e->id == 0;
    }
    if (scan_text(p, end, "realloc ")) {
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        return scan_next_hex(p, end, &e->id) &&
               scan_next_hex(p, end, &e->old) &&
               scan_next_u64(p, end, &e->size);
    }
    if (scan_text(p, end, "memalign ")) {
        e->call = MTF_CALL_MEMALIGN;
        if (!scan_next_hex(p, end, &e->id) || !scan_next_u64(p, end, &a) ||
            !scan_next_u64(p, end, &e->size))
            return false;
        e->align_log2 = format_align_log2(a);
        return true;
    }
    e->kind = FORMAT_THREAD_END;
    return scan_text(p, end, "thread_done ") && scan_next_hex(p, end, &ptr);
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    uint64_t to, present;
    (void)state;
    *why = "no line of memory_replay";
    if (scan_at_end(&p, end))
        return FORMAT_NOTHING;
    if (!scan_u64(&p, end, &e->thread) || e->thread == UINT64_MAX ||
        !scan_char(&p, end, ':'))
        return FORMAT_BAD;
    scan_blanks(&p, end);
    if (!read_action(&p, end, e))
        return FORMAT_BAD;
    e->flags = FORMAT_THREADED;
    if (scan_at_end(&p, end))
        return FORMAT_EVENT;
    if (!scan_u64(&p, end, &e->time_ns))
        return FORMAT_BAD;
    if (e->kind == FORMAT_THREAD_END)
        return scan_at_end(&p, end) ? FORMAT_EVENT : FORMAT_BAD;
    if (!scan_next_u64(&p, end, &to) ||
        (!scan_at_end(&p, end) && !scan_u64(&p, end, &present)) ||
        !scan_at_end(&p, end))
        return FORMAT_BAD;
    e->flags |= FORMAT_TIMED;
    return FORMAT_EVENT;
}

const struct format format_android = {
    .name = "android",
    .title = "Android malloc_debug or memory_replay text",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
};
