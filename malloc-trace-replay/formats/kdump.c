/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kdump: FreeBSD's kdump of the utrace records that malloc writes
 * (MALLOC_CONF=utrace:true, ktrace -t u):
 *
 *     PID [TID] COMMAND [TIME] USER  RESULT = malloc(SIZE)
 *     PID [TID] COMMAND [TIME] USER  RESULT = realloc(OLD, SIZE)
 *     PID [TID] COMMAND [TIME] USER  free(PTR)
 *
 * Other lines are skipped: ktrace records more than malloc. TIME is in seconds,
 * with a decimal point. Processes become threads of one trace.
 */
#include "formats/format_reader.h"

/* Finds the column "USER" and the two blanks behind it; NULL: there is none. */
static const char *find_user(const char *p, const char *end) {
    const char *found;
    while ((found = memmem(p, (size_t)(end - p), " USER  ", 7)) != NULL) {
        if (found > p)
            return found;
        p = found + 1;
    }
    return NULL;
}

/* Reads the columns between PID and USER: the thread is the first one, the time
   the last one. */
static void read_columns(const char *p, const char *end,
                         struct format_event *e) {
    const char *from = p;
    uint64_t tid;
    format_scan_blanks(&p, end);
    if (format_scan_u64(&p, end, &tid) && p < end && *p == ' ' &&
        tid != UINT64_MAX)
        e->thread = tid;
    for (p = end; p > from && p[-1] != ' '; p--)
        ;
    if (p > from && format_scan_seconds(&p, end, &e->time_ns) &&
        (p == end || *p == ' '))
        e->flags |= FORMAT_TIMED;
}

static enum format_result read_call(const char *p, const char *end,
                                    struct format_event *e) {
    format_scan_blanks(&p, end);
    if (format_scan_text(&p, end, "free(")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        return format_scan_hex(&p, end, &e->old) &&
                       format_scan_char(&p, end, ')') &&
                       format_scan_at_end(&p, end)
                   ? FORMAT_EVENT
                   : FORMAT_BAD;
    }
    if (end - p < 2 || memcmp(p, "0x", 2) != 0 ||
        !format_scan_hex(&p, end, &e->id) || !format_scan_text(&p, end, " = "))
        return FORMAT_NOTHING;
    if (format_scan_text(&p, end, "malloc(")) {
        e->kind = FORMAT_ALLOC;
        e->call = MTF_CALL_MALLOC;
    } else if (format_scan_text(&p, end, "realloc(")) {
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        if (!format_scan_hex(&p, end, &e->old) ||
            !format_scan_text(&p, end, ", "))
            return FORMAT_BAD;
    } else {
        return FORMAT_NOTHING;
    }
    return format_scan_u64(&p, end, &e->size) &&
                   format_scan_char(&p, end, ')') && format_scan_at_end(&p, end)
               ? FORMAT_EVENT
               : FORMAT_BAD;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    uint64_t pid;
    *why = "not a line of kdump";
    const char *user = find_user(p, end);
    if (!format_scan_next_u64(&p, end, &pid) || pid == UINT64_MAX)
        return format_scan_at_end(&p, end) ? FORMAT_NOTHING : FORMAT_BAD;
    if (p == end || *p != ' ')
        return FORMAT_BAD;
    if (user == NULL || user < p)
        return FORMAT_NOTHING;
    e->thread = pid;
    e->flags = FORMAT_THREADED;
    read_columns(p, user, e);
    *why = "unreadable call";
    enum format_result r = read_call(user + 7, end, e);
    return r == FORMAT_EVENT ? format_processes_tag(state, pid, e, why) : r;
}

const struct format_type format_kdump = {
    .name = "kdump",
    .title = "FreeBSD kdump of utrace",
    FORMAT_OF_PROCESSES,
    .line = read_line,
    .state_bytes = sizeof(struct format_processes),
};
