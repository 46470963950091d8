/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valgrind: log of valgrind --trace-malloc=yes, with any tool that replaces
 * malloc: memcheck, dhat, massif, helgrind, drd.
 *
 *     --PID-- NAME(SIZE) = POINTER
 *     --PID-- calloc(NUMBER,SIZE) = POINTER
 *     --PID-- memalign(al ALIGNMENT, size SIZE) = POINTER
 *     --PID-- posix_memalign(al ALIGNMENT, size SIZE)    then " = POINTER"
 *     --PID-- realloc(POINTER,SIZE) = POINTER
 *     --PID-- realloc(0x0,SIZE)malloc(SIZE) = POINTER
 *     --PID-- realloc(POINTER,0)free(POINTER)    then " = 0"
 *     --PID-- reallocarray(POINTER,NUMBER,SIZE) = POINTER    and again
 *     --PID-- free(POINTER)
 *
 * NAME is malloc or an operator, mangled; operators for aligned blocks have
 * arguments like memalign's, in the other order. Since release 3.27 the numbers
 * stand without words, posix_memalign has its first argument and deletes have
 * all of theirs. A tool's message may be in place of the result, which then
 * follows in a line of its own, behind "--PID--" like all of them. With
 * --time-stamp=yes PID has a time before it. Other lines are skipped.
 *
 * valgrind runs one thread at a time, so calls are in order; their threads are
 * not told. A process is a thread of the trace and has its own addresses.
 */
#include "formats/format_reader.h"

enum result { RESULT_HERE, RESULT_FOLLOWS, RESULT_TWICE };

struct state {
    struct format_processes processes;
    /* A call of which a later line of its process has the result, perhaps once
       more: then its call is 0. */
    struct format_event request;
    uint64_t requested_by; /* process, or 0 */
};
TCM_STATIC_ASSERT(offsetof(struct state, processes) == 0,
                  "format_processes_fini takes the state");

/* Takes DAYS:HOURS:MINUTES:SECONDS.MILLISECONDS. */
static bool scan_time(const char **p, const char *end, uint64_t *ns) {
    uint64_t v[3], hours;
    for (unsigned i = 0; i < 3; i++)
        if (!format_scan_u64(p, end, &v[i]) || v[i] > 1000000 ||
            !format_scan_char(p, end, ':'))
            return false;
    if (!format_scan_seconds(p, end, ns))
        return false;
    hours = v[0] * 24 + v[1];
    return !__builtin_add_overflow(
        *ns, (hours * 60 + v[2]) * 60 * UINT64_C(1000000000), ns);
}

/* Takes "--PID-- " or "--TIME PID-- ". */
static bool scan_columns(const char **p, const char *end, uint64_t *pid,
                         struct format_event *e) {
    const char *at;
    if (!format_scan_text(p, end, "--"))
        return false;
    at = *p;
    if (scan_time(&at, end, &e->time_ns)) {
        *p = at;
        e->flags |= FORMAT_TIMED;
        if (!format_scan_char(p, end, ' '))
            return false;
    }
    return format_scan_u64(p, end, pid) && *pid != 0 && *pid < UINT32_MAX &&
           format_scan_text(p, end, "-- ");
}

/* Takes "SIZE, ALIGNMENT)" of an operator, or "ALIGNMENT, SIZE)" of a function
   of C, with or without words before the numbers. */
static bool scan_aligned(const char **p, const char *end,
                         struct format_event *e) {
    uint64_t first, second, place;
    bool size_first = e->call >= MTF_CALL_NEW_ALIGNED;
    bool has_words = size_first ? format_scan_text(p, end, "size ")
                                : format_scan_text(p, end, "al ");
    if (!has_words && e->call == MTF_CALL_POSIX_MEMALIGN &&
        !(format_scan_pointer(p, end, &place) &&
          format_scan_text(p, end, ", ")))
        return false;
    if (!format_scan_u64(p, end, &first) || !format_scan_text(p, end, ", ") ||
        (has_words && !(size_first ? format_scan_text(p, end, "al ")
                                   : format_scan_text(p, end, "size "))) ||
        !format_scan_u64(p, end, &second))
        return false;
    e->size = size_first ? first : second;
    e->align_log2 = format_align_log2(size_first ? second : first);
    return format_scan_char(p, end, ')');
}

/* Takes "NUMBER,SIZE)". */
static bool scan_product(const char **p, const char *end, uint64_t *product) {
    uint64_t number, size;
    if (!format_scan_u64(p, end, &number) || !format_scan_char(p, end, ',') ||
        !format_scan_u64(p, end, &size) || !format_scan_char(p, end, ')'))
        return false;
    if (!format_scan_product(number, size, product))
        *product = UINT64_MAX;
    return true;
}

/* Takes "POINTER)", or sizes and alignments behind the pointer, too. */
static bool scan_free(const char **p, const char *end, struct format_event *e) {
    uint64_t number;
    if (!format_scan_pointer(p, end, &e->old))
        return false;
    while (format_scan_text(p, end, ", "))
        if (!format_scan_u64(p, end, &number))
            return false;
    return format_scan_char(p, end, ')');
}

/* Takes " = POINTER", the block of E, or " = 0" where valgrind refuses. */
static bool scan_result(const char **p, const char *end,
                        struct format_event *e) {
    if (!format_scan_text(p, end, " = "))
        return false;
    e->id = 0;
    return (end - *p == 1 && format_scan_char(p, end, '0')) ||
           format_scan_pointer(p, end, &e->id);
}

/* Takes the call within a realloc, if the line has one. */
static bool scan_inner(const char **p, const char *end,
                       const struct format_event *e, bool *frees) {
    uint64_t again;
    *frees = format_scan_text(p, end, "free(");
    if (*frees)
        return format_scan_pointer(p, end, &again) && again == e->old &&
               e->size == 0 && format_scan_char(p, end, ')');
    return e->old != 0 || !format_scan_text(p, end, "malloc(") ||
           (format_scan_u64(p, end, &again) && again == e->size &&
            format_scan_char(p, end, ')'));
}

/* Takes a message of the tool, and the rest of the line. */
static bool scan_message(const char **p, const char *end) {
    if (!format_scan_text(p, end, "Argument 'size' of ") &&
        !format_scan_text(p, end, "Invalid free()") &&
        !format_scan_text(p, end, "realloc() with size 0"))
        return false;
    *p = end;
    return true;
}

/* Takes the arguments and the result of E->call. */
static bool scan_call(const char **p, const char *end, struct format_event *e,
                      enum result *result) {
    bool scanned, frees = false;
    *result = RESULT_HERE;
    e->kind = FORMAT_ALLOC;
    if (!format_scan_char(p, end, '('))
        return false;
    if (mtf_call_is_free(e->call)) {
        e->kind = FORMAT_FREE;
        return scan_free(p, end, e);
    }
    if (mtf_call_is_realloc(e->call)) {
        e->kind = FORMAT_REALLOC;
        if (!format_scan_pointer(p, end, &e->old) ||
            !format_scan_char(p, end, ','))
            return false;
    }
    if (e->call == MTF_CALL_CALLOC || e->call == MTF_CALL_REALLOCARRAY)
        scanned = scan_product(p, end, &e->size);
    else if (mtf_call_is_aligned_alloc(e->call))
        scanned = scan_aligned(p, end, e);
    else
        scanned =
            format_scan_u64(p, end, &e->size) && format_scan_char(p, end, ')');
    if (!scanned ||
        (e->call == MTF_CALL_REALLOC && !scan_inner(p, end, e, &frees)))
        return false;
    /* Release 3.24 breaks the line of posix_memalign here, and prints
       no result where it refuses the alignment. */
    if (frees || (e->call == MTF_CALL_POSIX_MEMALIGN && *p == end) ||
        scan_message(p, end)) {
        *result = RESULT_FOLLOWS;
        return true;
    }
    if (e->call == MTF_CALL_REALLOCARRAY)
        *result = RESULT_TWICE;
    return scan_result(p, end, e);
}

/* Reads a result in a line of its own, behind "--PID--". */
static enum format_result read_result(struct state *s, uint64_t pid,
                                      const char *p, const char *end,
                                      struct format_event *e,
                                      const char **why) {
    bool requested = s->requested_by == pid;
    *why = "result without a call";
    if (!requested)
        return FORMAT_BAD;
    s->requested_by = 0;
    if (s->request.call == 0)
        return FORMAT_NOTHING;
    *e = s->request;
    return scan_result(&p, end, e) && p == end ? FORMAT_EVENT : FORMAT_BAD;
}

/* Reads a call, behind "--PID--". */
static enum format_result read_call(struct state *s, uint64_t pid,
                                    const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    enum result result;
    e->call = format_scan_call(&p, end);
    if (e->call == 0 || p == end || *p != '(')
        return FORMAT_NOTHING; /* of -v */
    *why = "unreadable call, or two in one line";
    if (s->requested_by == pid)
        s->requested_by = 0;
    if (!scan_call(&p, end, e, &result) || p != end)
        return FORMAT_BAD;
    e->thread = pid;
    e->flags |= FORMAT_THREADED;
    if (result != RESULT_HERE) {
        s->requested_by = pid;
        s->request = *e;
        if (result == RESULT_TWICE)
            s->request.call = 0;
    }
    return result == RESULT_FOLLOWS ? FORMAT_NOTHING : FORMAT_EVENT;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    uint64_t pid;
    *why = "not a line of valgrind";
    if (format_scan_text(&p, end, "==") || format_scan_text(&p, end, "**"))
        return FORMAT_NOTHING;
    if (!scan_columns(&p, end, &pid, e))
        return FORMAT_BAD;
    bool result = end - p >= 3 && memcmp(p, " = ", 3) == 0;
    enum format_result r = result ? read_result(s, pid, p, end, e, why)
                                  : read_call(s, pid, p, end, e, why);
    return r == FORMAT_EVENT ? format_processes_tag(&s->processes, pid, e, why)
                             : r;
}

const struct format_type format_valgrind = {
    .name = "valgrind",
    .title = "valgrind --trace-malloc=yes",
    FORMAT_OF_PROCESSES,
    .line = read_line,
    .state_bytes = sizeof(struct state),
};
