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
 *     --PID-- realloc(POINTER,0)free(POINTER)    then a line " = 0"
 *     --PID-- free(POINTER)
 *
 * NAME is malloc or an operator, mangled; operators for aligned blocks have
 * arguments like memalign's. With --time-stamp=yes PID has a time before it.
 * Other lines are skipped.
 *
 * valgrind runs one thread at a time, so calls are in order; their threads are
 * not told. A process is a thread of the trace and has its own addresses.
 */
#include "formats/format_reader.h"

struct state {
    struct format_processes processes;
    /* A call whose result is in a later line of its process, if there is one:
       its call is 0 in a realloc to 0, whose result tells nothing. */
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

/* Takes "SIZE)", "size SIZE, al ALIGNMENT)" or "al ALIGNMENT, size SIZE)". */
static bool scan_request(const char **p, const char *end,
                         struct format_event *e) {
    uint64_t align_bytes = 0;
    if (format_scan_text(p, end, "size ")) {
        if (!format_scan_u64(p, end, &e->size) ||
            !format_scan_text(p, end, ", al ") ||
            !format_scan_u64(p, end, &align_bytes))
            return false;
    } else if (format_scan_text(p, end, "al ")) {
        if (!format_scan_u64(p, end, &align_bytes) ||
            !format_scan_text(p, end, ", size ") ||
            !format_scan_u64(p, end, &e->size))
            return false;
    } else if (!format_scan_u64(p, end, &e->size)) {
        return false;
    }
    if (mtf_call_is_aligned_alloc(e->call))
        e->align_log2 = format_align_log2(align_bytes);
    return format_scan_char(p, end, ')');
}

/* Takes " = POINTER", the block of E. */
static bool scan_result(const char **p, const char *end,
                        struct format_event *e) {
    return format_scan_text(p, end, " = ") &&
           format_scan_pointer(p, end, &e->id);
}

/* Takes the end of a realloc, behind "realloc(POINTER,SIZE)". */
static bool scan_realloc(const char **p, const char *end,
                         struct format_event *e, bool *frees) {
    uint64_t again;
    *frees = format_scan_text(p, end, "free(");
    if (*frees)
        return format_scan_pointer(p, end, &again) && again == e->old &&
               e->size == 0 && format_scan_char(p, end, ')');
    if (e->old == 0 && format_scan_text(p, end, "malloc(") &&
        !(format_scan_u64(p, end, &again) && again == e->size &&
          format_scan_char(p, end, ')')))
        return false;
    return scan_result(p, end, e);
}

/* Takes the arguments and the result of E->call. *FREES: a realloc to 0, whose
   result is in a line of its own. *SPLIT: an allocation of which that is so. */
static bool scan_call(const char **p, const char *end, struct format_event *e,
                      bool *frees, bool *split) {
    uint64_t number;
    e->kind = FORMAT_ALLOC;
    if (!format_scan_char(p, end, '('))
        return false;
    if (mtf_call_is_free(e->call)) {
        e->kind = FORMAT_FREE;
        return format_scan_pointer(p, end, &e->old) &&
               format_scan_char(p, end, ')');
    }
    if (mtf_call_is_realloc(e->call)) {
        e->kind = FORMAT_REALLOC;
        return format_scan_pointer(p, end, &e->old) &&
               format_scan_char(p, end, ',') &&
               format_scan_u64(p, end, &e->size) &&
               format_scan_char(p, end, ')') && scan_realloc(p, end, e, frees);
    }
    if (e->call == MTF_CALL_CALLOC) {
        if (!format_scan_u64(p, end, &number) ||
            !format_scan_char(p, end, ',') ||
            !format_scan_u64(p, end, &e->size) ||
            !format_scan_char(p, end, ')'))
            return false;
        if (!format_scan_product(number, e->size, &e->size))
            e->size = UINT64_MAX;
    } else if (!scan_request(p, end, e)) {
        return false;
    }
    /* valgrind 3.24 breaks the line of posix_memalign here, and prints
       no result where it refuses the alignment. */
    *split = e->call == MTF_CALL_POSIX_MEMALIGN && *p == end;
    return *split || scan_result(p, end, e);
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
    bool frees = false, split = false;
    e->call = format_scan_call(&p, end);
    if (e->call == 0 || p == end || *p != '(')
        return FORMAT_NOTHING; /* of -v */
    *why = "unreadable call, or two in one line";
    if (s->requested_by == pid)
        s->requested_by = 0;
    if (!scan_call(&p, end, e, &frees, &split) || p != end)
        return FORMAT_BAD;
    e->thread = pid;
    e->flags |= FORMAT_THREADED;
    if (frees || split) {
        s->requested_by = pid;
        s->request = *e;
        if (frees)
            s->request.call = 0;
    }
    return split ? FORMAT_NOTHING : FORMAT_EVENT;
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
