/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * logalloc: logs of Firefox's logalloc, raw or munged:
 *
 *     PID TID FUNCTION(ARGUMENTS)=RESULT
 *
 * Blocks are pointers (0x...) or, in a munged log, numbers (#N) that are used
 * again; a number that was never a result is NULL. Old logs have no TID.
 * Processes that write one log become one trace with the threads of all.
 */
#include "formats/format_reader.h"

/* Takes a block. *MUNGED: the block is a number. */
static bool scan_block(const char **p, const char *end, uint64_t *v,
                       bool *munged) {
    *munged = format_scan_char(p, end, '#');
    return *munged ? format_scan_u64(p, end, v) : format_scan_hex(p, end, v);
}

static bool scan_result(const char **p, const char *end,
                        struct format_event *e) {
    bool munged;
    if (!format_scan_text(p, end, ")=") || !scan_block(p, end, &e->id, &munged))
        return false;
    e->flags |= munged ? FORMAT_NUMBERED : 0;
    return true;
}

/* Takes the arguments, the parenthesis behind them, and the result. */
static bool scan_arguments(const char **p, const char *end,
                           struct format_event *e) {
    uint64_t a;
    bool munged;
    switch (e->call) {
    case MTF_CALL_FREE:
        e->kind = FORMAT_FREE;
        if (!scan_block(p, end, &e->old, &munged))
            return false;
        e->flags |= munged ? FORMAT_NO_BLOCK_IGNORED | FORMAT_NUMBERED : 0;
        return format_scan_char(p, end, ')');
    case MTF_CALL_REALLOC:
        e->kind = FORMAT_REALLOC;
        if (!scan_block(p, end, &e->old, &munged) ||
            !format_scan_char(p, end, ',') ||
            !format_scan_u64(p, end, &e->size))
            return false;
        e->flags |= munged ? FORMAT_NO_BLOCK_IS_NULL : 0;
        return scan_result(p, end, e);
    case MTF_CALL_MALLOC:
        return format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
    case MTF_CALL_VALLOC:
        e->align_log2 = 12;
        return format_scan_u64(p, end, &e->size) && scan_result(p, end, e);
    default:
        if (!format_scan_u64(p, end, &a) || !format_scan_char(p, end, ',') ||
            !format_scan_u64(p, end, &e->size) || !scan_result(p, end, e))
            return false;
        if (e->call != MTF_CALL_CALLOC)
            e->align_log2 = format_align_log2(a);
        else if (!format_scan_product(a, e->size, &e->size))
            e->size = UINT64_MAX;
        return true;
    }
}

static bool scan_function(const char **p, const char *end,
                          struct format_event *e) {
    static const struct {
        const char *name;
        uint8_t call;
    } functions[] = {
        {"malloc(", MTF_CALL_MALLOC},
        {"free(", MTF_CALL_FREE},
        {"realloc(", MTF_CALL_REALLOC},
        {"calloc(", MTF_CALL_CALLOC},
        {"memalign(", MTF_CALL_MEMALIGN},
        {"posix_memalign(", MTF_CALL_POSIX_MEMALIGN},
        {"aligned_alloc(", MTF_CALL_ALIGNED_ALLOC},
        {"valloc(", MTF_CALL_VALLOC},
    };
    e->kind = FORMAT_ALLOC;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(functions); i++)
        if (format_scan_bytes(p, end, functions[i].name,
                              strlen(functions[i].name))) {
            e->call = functions[i].call;
            return scan_arguments(p, end, e);
        }
    return false;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    uint64_t pid;
    *why = "not a line of logalloc";
    if (format_scan_at_end(&p, end))
        return FORMAT_NOTHING;
    if (!format_scan_u64(&p, end, &pid) || !format_scan_char(&p, end, ' '))
        return FORMAT_BAD;
    if (!format_scan_u64(&p, end, &e->thread))
        e->thread = pid;
    else if (!format_scan_char(&p, end, ' ') || e->thread == UINT64_MAX)
        return FORMAT_BAD;
    e->flags = FORMAT_THREADED;
    if (format_scan_text(&p, end, "jemalloc_stats()"))
        return FORMAT_NOTHING;
    if (!scan_function(&p, end, e) || !format_scan_at_end(&p, end))
        return FORMAT_BAD;
    struct format_processes *processes = state;
    if (format_processes_tag(processes, pid, e, why) != FORMAT_EVENT)
        return FORMAT_BAD;
    /* Munging numbers the threads of each process from 1, and after a fork raw
       numbers may be equal, too. */
    if (e->thread >> FORMAT_ID_BITS == 0)
        e->thread |= processes->bits;
    return FORMAT_EVENT;
}

const struct format_type format_logalloc = {
    .name = "logalloc",
    .title = "Firefox logalloc",
    FORMAT_OF_PROCESSES,
    .line = read_line,
    .state_bytes = sizeof(struct format_processes),
};
