/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ltrace: calls of the malloc family in a log of ltrace.
 *
 *     [TID] [TIME] [IP] [MODULE->]NAME[@MODULE](ARGUMENTS) = RESULT
 *     [TID] [TIME] [IP] [MODULE->]NAME[@MODULE](ARGUMENTS <unfinished ...>
 *     [TID] [TIME] [IP] <... NAME resumed> [ARGUMENTS]) = RESULT
 *
 * Other lines are skipped, and so are arguments that NAME does not have: ltrace
 * prints four for a function without a prototype.
 *
 * Another thread's end interrupts a call by "<no return ...>", but it resumes.
 *
 * An allocation or realloc counts where it returns, a free where it begins. A
 * call inside of another one, such as malloc in operator new, is not a call of
 * the program and is skipped.
 */
#include "common/collections.h"
#include "formats/format_reader.h"

#include <stdlib.h>

#define NS_PER_SECOND 1000000000u
#define NS_PER_DAY    (UINT64_C(86400) * NS_PER_SECOND)
/* A time of fewer seconds is a difference, of -r; any other a date, of -ttt. */
#define DIFFERENCE_MAX 10000000u

/* The outermost call of a thread that has begun and not returned. */
struct ltrace_call {
    uint8_t call; /* enum mtf_call */
    uint8_t kind; /* FORMAT_ALLOC, FORMAT_FREE or FORMAT_REALLOC */
    uint8_t align_log2;
    bool has_block; /* posix_memalign: `block` is known */
    uint64_t block, old, size;
};

struct ltrace_thread {
    uint32_t depth; /* calls of the family that have not returned */
    struct ltrace_call outer;
};

struct state {
    struct tool_ids ids;
    struct ltrace_thread *thread; /* number 0: lines without a thread */
    uint64_t now_ns, day_ns;
};

/* --- Start of a line ------------------------------------------------------ */

/* Takes TID, or [pid TID]. False: the line has none. */
static bool scan_thread(const char **p, const char *end, uint64_t *tid) {
    const char *at = *p;
    bool bracket = format_scan_text(&at, end, "[pid ");
    if (!format_scan_u64(&at, end, tid) || *tid == 0 || *tid >= UINT32_MAX ||
        (bracket && !format_scan_char(&at, end, ']')) || at == end ||
        *at != ' ')
        return false;
    *p = at;
    return true;
}

/* Takes HH:MM:SS, with or without a fraction. */
static bool scan_clock(const char **p, const char *end, uint64_t *ns) {
    uint64_t hours, minutes, seconds;
    const char *from;
    if (!format_scan_u64(p, end, &hours) || !format_scan_char(p, end, ':') ||
        !format_scan_u64(p, end, &minutes) || !format_scan_char(p, end, ':') ||
        hours > 23 || minutes > 59)
        return false;
    from = *p;
    if (!format_scan_seconds(p, end, ns)) {
        *p = from;
        if (!format_scan_u64(p, end, &seconds) || seconds > 60)
            return false;
        *ns = seconds * NS_PER_SECOND;
    }
    *ns += (hours * 3600 + minutes * 60) * NS_PER_SECOND;
    return *ns <= NS_PER_DAY;
}

/* Takes the time of -t, -tt, -ttt or -r. False: the line has none. */
static bool scan_time(struct state *s, const char **p, const char *end) {
    const char *at = *p;
    uint64_t ns;
    if (scan_clock(&at, end, &ns)) {
        ns += s->day_ns;
        if (ns + NS_PER_DAY / 2 < s->now_ns) { /* midnight */
            s->day_ns += NS_PER_DAY;
            ns += NS_PER_DAY;
        }
    } else {
        at = *p;
        if (!format_scan_seconds(&at, end, &ns) ||
            (ns / NS_PER_SECOND < DIFFERENCE_MAX &&
             __builtin_add_overflow(ns, s->now_ns, &ns)))
            return false;
    }
    if (at == end || *at != ' ')
        return false;
    s->now_ns = ns;
    *p = at;
    return true;
}

/* Takes the columns before the call. False: out of memory. */
static bool scan_columns(struct state *s, const char **p, const char *end,
                         struct format_event *e, struct ltrace_thread **t) {
    uint64_t tid = 0, ip;
    format_scan_blanks(p, end);
    if (scan_thread(p, end, &tid)) {
        e->thread = tid;
        e->flags |= FORMAT_THREADED;
    } else {
        tid = 0;
    }
    format_scan_blanks(p, end);
    if (scan_time(s, p, end)) {
        e->time_ns = s->now_ns;
        e->flags |= FORMAT_TIMED;
    }
    format_scan_blanks(p, end);
    const char *at = *p;
    if (format_scan_text(&at, end, "[0x") && format_scan_hex(&at, end, &ip) &&
        format_scan_text(&at, end, "] "))
        *p = at;
    format_scan_blanks(p, end);
    *t = tool_ids_get(&s->ids, &s->thread, sizeof(*s->thread), (uint32_t)tid);
    return *t != NULL;
}

/* --- Arguments and result ------------------------------------------------- */

/* Takes a number: decimal, hexadecimal with 0x, or nil. */
static bool scan_number(const char **p, const char *end, uint64_t *v) {
    format_scan_blanks(p, end);
    *v = 0;
    if (format_scan_text(p, end, "nil"))
        return true;
    bool negative = format_scan_char(p, end, '-');
    bool hex = end - *p >= 2 && memcmp(*p, "0x", 2) == 0;
    if (!(hex ? format_scan_hex(p, end, v) : format_scan_u64(p, end, v)))
        return false;
    *v = negative ? 0 - *v : *v;
    return true;
}

/* Takes a comma and a number. */
static bool scan_next_number(const char **p, const char *end, uint64_t *v) {
    format_scan_blanks(p, end);
    return format_scan_char(p, end, ',') && scan_number(p, end, v);
}

/* Takes a number and a product that follows it. */
static bool scan_product(const char **p, const char *end, uint64_t *v) {
    uint64_t count;
    if (!scan_number(p, end, &count) || !scan_next_number(p, end, v))
        return false;
    if (!format_scan_product(count, *v, v))
        *v = UINT64_MAX;
    return true;
}

/* Takes the arguments of posix_memalign. ltrace prints the block only if it has
   the prototype, and then no fourth argument. */
static bool scan_posix_memalign(const char **p, const char *end,
                                struct ltrace_call *c) {
    uint64_t align_bytes, fourth;
    if (!scan_number(p, end, &c->block) ||
        !scan_next_number(p, end, &align_bytes) ||
        !scan_next_number(p, end, &c->size))
        return false;
    c->align_log2 = format_align_log2(align_bytes);
    c->has_block = !scan_next_number(p, end, &fourth);
    return true;
}

/* Takes the arguments of C->call. */
static bool scan_arguments(const char **p, const char *end,
                           struct ltrace_call *c) {
    uint64_t align_bytes;
    c->kind = FORMAT_ALLOC;
    switch (c->call) {
    case MTF_CALL_CALLOC:
        return scan_product(p, end, &c->size);
    case MTF_CALL_REALLOC:
        c->kind = FORMAT_REALLOC;
        return scan_number(p, end, &c->old) &&
               scan_next_number(p, end, &c->size);
    case MTF_CALL_REALLOCARRAY:
        c->kind = FORMAT_REALLOC;
        return scan_number(p, end, &c->old) && format_scan_char(p, end, ',') &&
               scan_product(p, end, &c->size);
    case MTF_CALL_MEMALIGN:
    case MTF_CALL_ALIGNED_ALLOC:
        if (!scan_number(p, end, &align_bytes) ||
            !scan_next_number(p, end, &c->size))
            return false;
        c->align_log2 = format_align_log2(align_bytes);
        return true;
    case MTF_CALL_POSIX_MEMALIGN:
        return scan_posix_memalign(p, end, c);
    case MTF_CALL_VALLOC:
    case MTF_CALL_PVALLOC:
        c->align_log2 = 12;
        return scan_number(p, end, &c->size);
    default:
        break;
    }
    if (mtf_call_is_free(c->call)) {
        c->kind = FORMAT_FREE;
        return scan_number(p, end, &c->old);
    }
    if (!scan_number(p, end, &c->size))
        return false;
    if (!mtf_call_is_aligned_alloc(c->call))
        return true;
    if (!scan_next_number(p, end, &align_bytes))
        return false;
    c->align_log2 = format_align_log2(align_bytes);
    return true;
}

/* Takes ") = RESULT", behind the arguments, and the time that -T adds. */
static bool scan_result(const char **p, const char *end, uint64_t *v) {
    uint64_t ns;
    const char *at = memchr(*p, ')', (size_t)(end - *p));
    if (at == NULL)
        return false;
    *p = at + 1;
    format_scan_blanks(p, end);
    if (!format_scan_char(p, end, '='))
        return false;
    format_scan_blanks(p, end);
    *v = 0;
    if (!format_scan_text(p, end, "<void>") && !scan_number(p, end, v))
        return false;
    format_scan_blanks(p, end);
    return *p == end ||
           (format_scan_char(p, end, '<') && format_scan_seconds(p, end, &ns) &&
            format_scan_char(p, end, '>') && *p == end);
}

/* --- Calls ---------------------------------------------------------------- */

/* Makes an event of C, which returned RESULT. */
static enum format_result emit_call(const struct ltrace_call *c,
                                    uint64_t result, struct format_event *e,
                                    const char **why) {
    e->kind = c->kind;
    e->call = c->call;
    e->align_log2 = c->align_log2;
    e->old = c->old;
    if (c->kind == FORMAT_FREE)
        return FORMAT_EVENT;
    e->size = c->size;
    e->id = result;
    if (c->call == MTF_CALL_POSIX_MEMALIGN) {
        *why = "posix_memalign without its block: ltrace needs a prototype";
        if (result == 0 && !c->has_block)
            return FORMAT_BAD;
        e->id = result == 0 ? c->block : 0;
    }
    return FORMAT_EVENT;
}

static bool ends_with(const char *p, const char *end, const char *text) {
    size_t n = strlen(text);
    return (size_t)(end - p) >= n && memcmp(end - n, text, n) == 0;
}

/* Tells whether [P, END) may be a call of any other function. */
static bool is_other_call(const char *p, const char *end) {
    size_t n = (size_t)(end - p);
    return memchr(p, '(', n) != NULL &&
           (memmem(p, n, " = ", 3) != NULL || ends_with(p, end, "...>"));
}

/* Skips "MODULE->". False: the call is one of libc.so, of a function in itself,
   for which ltrace prints the name of another one. */
static bool skip_module(const char **p, const char *end) {
    for (const char *at = *p; end - at >= 2 && *at != '(' && *at != ' '; at++)
        if (at[0] == '-' && at[1] == '>') {
            const char *module = *p;
            *p = at + 2;
            return !format_scan_text(&module, at, "libc.so");
        }
    return true;
}

/* Reads a call that begins in this line. */
static enum format_result read_begin(struct ltrace_thread *t, const char *p,
                                     const char *end, struct format_event *e,
                                     const char **why) {
    struct ltrace_call c = {0};
    uint64_t result;
    if (!skip_module(&p, end))
        return FORMAT_NOTHING;
    c.call = format_scan_call(&p, end);
    if (c.call == 0)
        return is_other_call(p, end) ? FORMAT_NOTHING : FORMAT_BAD;
    p = memchr(p, '(', (size_t)(end - p));
    if (p++ == NULL)
        return FORMAT_BAD;
    /* no allocation calls free: the outer call was left by an exception */
    if (t->depth != 0 && t->outer.kind == FORMAT_ALLOC &&
        mtf_call_is_free(c.call))
        t->depth = 0;
    bool unfinished = ends_with(p, end, "<unfinished ...>") ||
                      ends_with(p, end, "<no return ...>");
    bool nested = t->depth != 0;
    t->depth += unfinished && t->depth != UINT32_MAX;
    if (nested)
        return FORMAT_NOTHING;
    *why = "unreadable call";
    if (!scan_arguments(&p, end, &c) &&
        !(unfinished && c.call == MTF_CALL_POSIX_MEMALIGN)) {
        t->depth = 0;
        return FORMAT_BAD;
    }
    if (unfinished) {
        t->outer = c;
        return c.kind == FORMAT_FREE ? emit_call(&c, 0, e, why)
                                     : FORMAT_NOTHING;
    }
    return scan_result(&p, end, &result) ? emit_call(&c, result, e, why)
                                         : FORMAT_BAD;
}

/* Reads the end of a call, behind "<... ". */
static enum format_result read_resumed(struct ltrace_thread *t, const char *p,
                                       const char *end, struct format_event *e,
                                       const char **why) {
    uint64_t result;
    uint8_t call = format_scan_call(&p, end);
    if (call == 0)
        return FORMAT_NOTHING;
    if (!format_scan_text(&p, end, " resumed>"))
        return FORMAT_BAD;
    *why = "the beginning of the call is missing";
    if (t->depth == 0)
        return FORMAT_BAD;
    if (--t->depth != 0)
        return FORMAT_NOTHING;
    if (t->outer.call != call)
        return FORMAT_BAD;
    if (t->outer.kind == FORMAT_FREE)
        return FORMAT_NOTHING; /* counted where it began */
    if (call == MTF_CALL_POSIX_MEMALIGN)
        (void)scan_posix_memalign(&p, end, &t->outer);
    *why = "unreadable result";
    return scan_result(&p, end, &result) ? emit_call(&t->outer, result, e, why)
                                         : FORMAT_BAD;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    struct ltrace_thread *t;
    *why = "out of memory";
    if (!scan_columns(s, &p, end, e, &t))
        return FORMAT_BAD;
    *why = "not a line of ltrace";
    if (p == end)
        return FORMAT_NOTHING;
    if (format_scan_text(&p, end, "--- ")) {
        *why = "another program is executed, and the blocks of this one end";
        return format_scan_text(&p, end, "Called exec()") ? FORMAT_BAD
                                                          : FORMAT_NOTHING;
    }
    if (format_scan_text(&p, end, "+++ ")) { /* the thread ended */
        t->depth = 0;
        e->kind = FORMAT_THREAD_END;
        return (e->flags & FORMAT_THREADED) != 0 ? FORMAT_EVENT
                                                 : FORMAT_NOTHING;
    }
    if (format_scan_text(&p, end, "<... "))
        return read_resumed(t, p, end, e, why);
    return read_begin(t, p, end, e, why);
}

static void fini(void *state) {
    struct state *s = state;
    free(s->thread);
    tool_ids_fini(&s->ids);
}

const struct format_type format_ltrace = {
    .name = "ltrace",
    .title = "ltrace log",
    .has_kernel_ids = true,
    .has_addresses = true,
    .line = read_line,
    .fini = fini,
    .state_bytes = sizeof(struct state),
};
