/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text: a processed trace as text, a line for each record, for people and
 * scripts to read and write; doc/formats.md describes all lines. Nothing but
 * addresses, header and the recorder's account is lost: text, processed trace,
 * text gives the same text.
 */
#include "formats/format_export.h"
#include "formats/format_reader.h"

#include <stdlib.h>

static const char first_line[] = "malloc-trace text 1";

/* Bytes of the longest text of a mark or name. */
#define TEXT_MAX ((size_t)16 << 10)

struct state {
    bool headed; /* the first line was there, so a last line has to come */
    bool ended;
    bool begun;
    uint64_t ops, live; /* so far */
    char text[TEXT_MAX];
};

/* --- Words ---------------------------------------------------------------- */

/* Takes the name of a call, which stands before a "(". Returns the call; 0:
   none. Some names have parentheses and begin with another name: the longest
   one counts. */
static unsigned scan_call(const char **p, const char *end) {
    static const struct {
        const char *name;
        uint8_t length, call;
    } calls[] = {
#define X(id, number, text) {text, sizeof(text) - 1, number},
        MTF_CALLS(X)
#undef X
    };
    unsigned best = 0;
    size_t length = 0;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(calls); i++) {
        size_t n = calls[i].length;
        if (*p < end && **p == calls[i].name[0] && n > length &&
            (size_t)(end - *p) > n && (*p)[n] == '(' &&
            memcmp(*p, calls[i].name, n) == 0) {
            best = calls[i].call;
            length = n;
        }
    }
    *p += length;
    return best;
}

static bool scan_slot(const char **p, const char *end, uint64_t *id) {
    uint64_t slot;
    if (!format_scan_text(p, end, "slot ") || !format_scan_u64(p, end, &slot) ||
        slot >= UINT32_MAX)
        return false;
    *id = slot + 1;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes a text in quotes, with \", \\ and \xNN. */
static bool scan_quoted(struct state *s, const char **p, const char *end,
                        struct format_event *e) {
    size_t n = 0;
    if (!format_scan_char(p, end, '"'))
        return false;
    while (*p < end && **p != '"') {
        char c = *(*p)++;
        if (n == TEXT_MAX)
            return false;
        if (c == '\\') {
            if (*p == end)
                return false;
            c = *(*p)++;
            if (c == 'x') {
                if (end - *p < 2 || hex_digit((*p)[0]) < 0 ||
                    hex_digit((*p)[1]) < 0)
                    return false;
                c = (char)(hex_digit((*p)[0]) << 4 | hex_digit((*p)[1]));
                *p += 2;
            }
        }
        s->text[n++] = c;
    }
    e->text = s->text;
    e->length = n;
    return format_scan_char(p, end, '"');
}

/* --- Calls ---------------------------------------------------------------- */

/* Takes "SIZE)" or "SIZE, align N)". */
static bool scan_request(const char **p, const char *end,
                         struct format_event *e) {
    uint64_t align;
    if (!format_scan_u64(p, end, &e->size))
        return false;
    if (format_scan_char(p, end, ')'))
        return true;
    if (!format_scan_text(p, end, ", align "))
        return false;
    e->align_log2 = 255;
    if (format_scan_text(p, end, "?)"))
        return true;
    if (!format_scan_u64(p, end, &align) || (align & (align - 1)) != 0)
        return false;
    e->align_log2 = format_align_log2(align);
    return format_scan_char(p, end, ')');
}

/* Takes the first argument of a realloc. */
static bool scan_old(const char **p, const char *end, struct format_event *e) {
    if (format_scan_text(p, end, "NULL, "))
        return true;
    if (format_scan_text(p, end, "unknown, ")) {
        e->flags |= FORMAT_OLD_UNKNOWN;
        return true;
    }
    if (format_scan_text(p, end, "known, ")) {
        e->old = UINT64_MAX; /* the failed call kept some block */
        return true;
    }
    return scan_slot(p, end, &e->old) && format_scan_text(p, end, ", ");
}

/* Takes CALL(...). E has the id of the result already, if the line has one. */
static bool scan_call_arguments(const char **p, const char *end,
                                struct format_event *e) {
    e->call = (uint8_t)scan_call(p, end);
    if (e->call == 0 || !format_scan_char(p, end, '('))
        return false;
    if (mtf_call_is_free(e->call)) {
        e->kind = FORMAT_FREE;
        if (e->id != 0 || !scan_slot(p, end, &e->old))
            return false;
        if (format_scan_text(p, end, ", ")) {
            e->flags |= FORMAT_SIZED;
            if (!format_scan_u64(p, end, &e->size))
                return false;
        }
        return format_scan_char(p, end, ')');
    }
    if (mtf_call_is_realloc(e->call)) {
        e->kind = FORMAT_REALLOC;
        if (!scan_old(p, end, e))
            return false;
    } else {
        e->kind = FORMAT_ALLOC;
    }
    return scan_request(p, end, e);
}

static bool scan_call_line(struct state *s, const char **p, const char *end,
                           struct format_event *e) {
    const char *from = *p;
    if (format_scan_text(p, end, "slot ")) {
        *p = from;
        if (!scan_slot(p, end, &e->id) || !format_scan_text(p, end, " = "))
            return false;
    }
    if (!scan_call_arguments(p, end, e))
        return false;
    if (format_scan_text(p, end, " moved"))
        e->flags |= FORMAT_MOVED;
    else if (e->kind == FORMAT_REALLOC && e->old != 0)
        e->flags |= FORMAT_STAYED;
    if (format_scan_text(p, end, " failed"))
        e->flags |= FORMAT_FAILED;
    else if (e->kind == FORMAT_REALLOC && e->id == 0 &&
             (e->size != 0 || !format_scan_text(p, end, " freed it")))
        return false;
    if (e->old == UINT64_MAX && (e->id != 0 || (e->flags & FORMAT_FAILED) == 0))
        return false;
    /* allocations succeed or fail */
    if (e->kind != FORMAT_FREE &&
        (e->id == 0) == ((e->flags & FORMAT_FAILED) == 0) &&
        !(e->kind == FORMAT_REALLOC && e->id == 0 && e->size == 0))
        return false;
    if (e->kind == FORMAT_ALLOC && (e->flags & FORMAT_FAILED) == 0 &&
        (e->align_log2 > 63 ||
         (e->align_log2 != 0 && !mtf_call_is_aligned_alloc(e->call))))
        return false;
    if (!format_scan_at_end(p, end))
        return false;
    if ((e->flags & FORMAT_FAILED) == 0) {
        s->ops++;
        s->live += (e->id != 0) - (uint64_t)(e->old != 0);
    }
    return true;
}

/* --- Other lines ---------------------------------------------------------- */

static bool scan_thread(struct state *s, const char **p, const char *end,
                        struct format_event *e) {
    if (!format_scan_u64(p, end, &e->thread) || e->thread == 0 ||
        e->thread > UINT32_MAX)
        return false;
    e->flags = FORMAT_THREADED;
    e->kind = FORMAT_SWITCH;
    if (format_scan_at_end(p, end))
        return true;
    if (format_scan_text(p, end, "starts, kernel id ")) {
        e->kind = FORMAT_THREAD_START;
        return format_scan_u64(p, end, &e->number) && e->number <= UINT32_MAX;
    }
    e->kind = FORMAT_THREAD_END;
    return format_scan_text(p, end, "ends, name ") && scan_quoted(s, p, end, e);
}

/* Takes NUMBER(ARGUMENT) of a plain kind; an extension has a name instead of
   the number, if it has one. */
static bool scan_pair(const char **p, const char *end, struct format_event *e) {
#define X(name, value, word)                                                   \
    if (e->op == MTF_OP_EXTENSION && format_scan_text(p, end, word "(")) {     \
        e->number = (value);                                                   \
        return format_scan_u64(p, end, &e->size) &&                            \
               format_scan_char(p, end, ')');                                  \
    }
    MTF_EXTENSIONS(X)
#undef X
    return format_scan_u64(p, end, &e->number) && e->number <= 255 &&
           format_scan_char(p, end, '(') && format_scan_u64(p, end, &e->size) &&
           format_scan_char(p, end, ')');
}

/* Takes NAME "TEXT" or NAME NUMBER(ARGUMENT). *KNOWN: NAME is a plain kind. */
static bool scan_plain(struct state *s, const char **p, const char *end,
                       struct format_event *e, bool *known) {
    e->kind = FORMAT_PLAIN;
    *known = true;
#define NONE(...)
#define BOTH(name, word, raw, proc, form)                                      \
    if (MTF_FORM_##form != MTF_FORM_OWN &&                                     \
        format_scan_text(p, end, word " ")) {                                  \
        e->op = MTF_OP_##name;                                                 \
        return MTF_FORM_##form == MTF_FORM_TEXT ? scan_quoted(s, p, end, e)    \
                                                : scan_pair(p, end, e);        \
    }
#define PROC(name, word, proc, form) BOTH(name, word, 0, proc, form)
    MTF_EVENTS(BOTH, NONE, PROC)
#undef NONE
#undef BOTH
#undef PROC
    *known = false;
    return false;
}

/* Takes TIME FIELD=VALUE..., where FIELD is a number. */
static bool scan_sample(struct state *s, const char **p, const char *end,
                        struct format_event *e) {
    e->kind = FORMAT_SAMPLE;
    e->text = s->text;
    if (!format_scan_u64(p, end, &e->time_ns))
        return false;
    while (!format_scan_at_end(p, end)) {
        struct mtf_account_value v;
        uint64_t field;
        if (e->length + MTF_ACCOUNT_BYTES > TEXT_MAX / 2 ||
            !format_scan_u64(p, end, &field) || field > UINT16_MAX ||
            !format_scan_char(p, end, '=') ||
            !format_scan_u64(p, end, &v.value))
            return false;
        v.field = (uint16_t)field;
        mtf_put_account((uint8_t *)s->text + e->length, v);
        e->length += MTF_ACCOUNT_BYTES;
    }
    return true;
}

static bool scan_loss(const char **p, const char *end, struct format_event *e) {
    e->kind = FORMAT_LOSS;
    return format_scan_u64(p, end, &e->thread) && e->thread <= UINT32_MAX &&
           format_scan_text(p, end, ": ") &&
           format_scan_u64(p, end, &e->size) &&
           format_scan_text(p, end, " events, ") &&
           format_scan_u64(p, end, &e->id) &&
           format_scan_text(p, end, " to ") &&
           format_scan_u64(p, end, &e->old) && e->id <= e->old &&
           format_scan_text(p, end, " ns");
}

/* Takes any line that is no call. False: the line is a call, or invalid. */
static bool scan_other(struct state *s, const char **p, const char *end,
                       struct format_event *e) {
    if (format_scan_text(p, end, "thread "))
        return scan_thread(s, p, end, e);
    if (format_scan_text(p, end, "time ")) {
        e->kind = FORMAT_TIME;
        return format_scan_u64(p, end, &e->time_ns) &&
               format_scan_text(p, end, " ns");
    }
    bool known, good = scan_plain(s, p, end, e, &known);
    if (known)
        return good;
    if (format_scan_text(p, end, "sample "))
        return scan_sample(s, p, end, e);
    if (format_scan_text(p, end, "loss of thread "))
        return scan_loss(p, end, e);
    if (format_scan_text(p, end, "phase ")) {
        e->kind = FORMAT_PHASE;
        return format_scan_u64(p, end, &e->number) && e->number <= 255;
    }
    e->kind = FORMAT_PRESENT;
    return format_scan_text(p, end, "present bytes ") &&
           format_scan_u64(p, end, &e->size);
}

/* Takes the last line: N operations, N live */
static enum format_result scan_end(struct state *s, const char *p,
                                   const char *end, const char **why) {
    uint64_t ops, live;
    s->ended = true;
    *why = "wrong number of operations or live blocks in the last line";
    if (!format_scan_u64(&p, end, &ops) ||
        !format_scan_text(&p, end, " operations, ") ||
        !format_scan_u64(&p, end, &live) ||
        !format_scan_text(&p, end, " live") || ops != s->ops || live != s->live)
        return FORMAT_BAD;
    return FORMAT_NOTHING;
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    struct state *s = state;
    const char *from;
    format_scan_blanks(&p, end);
    if (p == end || *p == '#')
        return FORMAT_NOTHING;
    from = p;
    if (!s->begun && format_scan_text(&p, end, first_line)) {
        s->begun = s->headed = true;
        return FORMAT_NOTHING;
    }
    s->begun = true;
    p = from;
    *why = "line behind the end line";
    if (s->ended)
        return FORMAT_BAD;
    if (format_scan_text(&p, end, "end: "))
        return scan_end(s, p, end, why);
    *why = "not a line of a malloc-trace text";
    if (scan_other(s, &p, end, e) && format_scan_at_end(&p, end))
        return FORMAT_EVENT;
    p = from;
    memset(e, 0, sizeof(*e));
    return scan_call_line(s, &p, end, e) ? FORMAT_EVENT : FORMAT_BAD;
}

/* Tells whether the first line is there. A text without it is known by its
   other lines. */
static bool is_text(const uint8_t *p, size_t n, bool whole) {
    const char *from = (const char *)p, *end = from + n;
    (void)whole;
    from = format_reader_skip_mark(from, end);
    return format_scan_text(&from, end, first_line) &&
           (from == end || *from == '\n' || *from == '\r');
}

static const char *ends_early(void *state) {
    const struct state *s = state;
    return s->headed && !s->ended ? "the last line is missing" : NULL;
}

/* --- Writing -------------------------------------------------------------- */

struct put_state {
    uint64_t time_ns; /* of the last record */
};

static void put_quoted(struct format_out *out, const uint8_t *p, size_t n) {
    static const char hex[] = "0123456789abcdef";
    format_out_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        bool plain = p[i] >= 0x20 && p[i] < 0x7F;
        if (!plain || p[i] == '"' || p[i] == '\\')
            format_out_char(out, '\\');
        if (plain) {
            format_out_char(out, (char)p[i]);
            continue;
        }
        format_out_char(out, 'x');
        format_out_char(out, hex[p[i] >> 4]);
        format_out_char(out, hex[p[i] & 15]);
    }
    format_out_char(out, '"');
}

static void put_number(struct format_out *out, const char *before, uint64_t v) {
    format_out_str(out, before);
    format_out_u64(out, v);
}

static void put_call(struct format_out *out, const struct format_put *p) {
    const struct format_event *e = &p->e;
    bool failed = (e->flags & FORMAT_FAILED) != 0;
    if (e->id != 0) {
        put_number(out, "slot ", p->slot);
        format_out_str(out, " = ");
    }
    format_out_str(out, mtf_call_name(e->call));
    format_out_char(out, '(');
    if (e->old != 0)
        put_number(out, "slot ", p->slot);
    else if (e->kind == FORMAT_REALLOC)
        format_out_str(out, (e->flags & FORMAT_OLD_UNKNOWN) == 0 ? "NULL"
                            : failed                             ? "known"
                                                                 : "unknown");
    if (e->kind == FORMAT_REALLOC || (e->flags & FORMAT_SIZED) != 0)
        format_out_str(out, ", ");
    if (e->kind != FORMAT_FREE || (e->flags & FORMAT_SIZED) != 0)
        format_out_u64(out, e->size);
    if (mtf_call_is_aligned_alloc(e->call)) {
        format_out_str(out, ", align ");
        if (e->align_log2 < 64)
            format_out_u64(out, (uint64_t)1 << e->align_log2);
        else
            format_out_char(out, '?');
    }
    format_out_char(out, ')');
    if (failed)
        format_out_str(out, " failed");
    else if ((e->flags & FORMAT_MOVED) != 0)
        format_out_str(out, " moved");
    else if (e->kind == FORMAT_REALLOC && e->id == 0)
        format_out_str(out, " freed it");
}

/* Writes the name of an extension, or its number if it has no name. */
static void put_extension(struct format_out *out, uint64_t number) {
    switch (number) {
#define X(name, value, word)                                                   \
    case value:                                                                \
        format_out_str(out, word);                                             \
        return;
        MTF_EXTENSIONS(X)
#undef X
    default:
        format_out_u64(out, number);
    }
}

static void put_plain(struct format_out *out, const struct format_event *e) {
    format_out_str(out, mtf_op_name(e->op));
    format_out_char(out, ' ');
    if (mtf_op_is_text(e->op)) {
        put_quoted(out, e->text, e->length);
        return;
    }
    if (e->op == MTF_OP_EXTENSION)
        put_extension(out, e->number);
    else
        format_out_u64(out, e->number);
    put_number(out, "(", e->size);
    format_out_char(out, ')');
}

static void put_sample(struct format_out *out, const struct format_event *e) {
    const uint8_t *p = e->text;
    put_number(out, "sample ", e->time_ns);
    for (size_t i = 0; i + MTF_ACCOUNT_BYTES <= e->length;
         i += MTF_ACCOUNT_BYTES) {
        struct mtf_account_value v = mtf_get_account(p + i);
        put_number(out, " ", v.field);
        put_number(out, "=", v.value);
    }
}

static void put_time(struct format_out *out, uint64_t ns) {
    put_number(out, "time ", ns);
    format_out_str(out, " ns\n");
}

static void put_event(void *state, struct format_out *out,
                      const struct format_put *p) {
    struct put_state *s = state;
    const struct format_event *e = &p->e;
    /* a change of time may come without a record, as in a block's header */
    if (p->time_ns != s->time_ns || e->kind == FORMAT_TIME)
        put_time(out, p->time_ns);
    s->time_ns = p->time_ns;
    switch (e->kind) {
    case FORMAT_TIME:
        return;
    case FORMAT_SWITCH:
        put_number(out, "thread ", e->thread);
        break;
    case FORMAT_THREAD_START:
        put_number(out, "thread ", e->thread);
        put_number(out, " starts, kernel id ", e->number);
        break;
    case FORMAT_THREAD_END:
        put_number(out, "thread ", e->thread);
        format_out_str(out, " ends, name ");
        put_quoted(out, e->text, e->length);
        break;
    case FORMAT_PLAIN:
        put_plain(out, e);
        break;
    case FORMAT_SAMPLE:
        put_sample(out, e);
        break;
    case FORMAT_LOSS:
        put_number(out, "loss of thread ", e->thread);
        put_number(out, ": ", e->size);
        put_number(out, " events, ", e->id);
        put_number(out, " to ", e->old);
        format_out_str(out, " ns");
        break;
    case FORMAT_PHASE:
        put_number(out, "phase ", e->number);
        break;
    case FORMAT_PRESENT:
        put_number(out, "present bytes ", e->size);
        break;
    default:
        put_call(out, p);
        break;
    }
    format_out_char(out, '\n');
}

static void put_begin(void *state, struct format_out *out) {
    (void)state;
    format_out_str(out, first_line);
    format_out_char(out, '\n');
}

static void put_end(void *state, struct format_out *out) {
    (void)state;
    put_number(out, "end: ", out->ops);
    put_number(out, " operations, ", out->live);
    format_out_str(out, " live\n");
}

const struct format_type format_text = {
    .name = "text",
    .title = "malloc-trace text",
    .line = read_line,
    .ends_early = ends_early,
    .state_bytes = sizeof(struct state),
    .matches = is_text,
    .is_native = true,
    .ids = FORMAT_IDS_FROM_0,
    .put = put_event,
    .put_state_bytes = sizeof(struct put_state),
    .put_begin = put_begin,
    .put_end = put_end,
};
