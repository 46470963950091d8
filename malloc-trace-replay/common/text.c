/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/text.h"

#include "base/check.h"
#include "base/fmt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Copies of text from outside: length, and how many at a time. */
#define SHOWN_BYTES  4096
#define SHOWN_COPIES 8

const char *tool_text_count(struct tool_text *t, uint64_t n) {
    char *p = t->s + sizeof(t->s);
    unsigned digits = 0;
    *--p = '\0';
    do {
        if (digits != 0 && digits % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + n % 10);
        n /= 10;
        digits++;
    } while (n != 0);
    return p;
}

/* N / UNIT, rounded, halves up; N / UNIT < 2^64 - 1. */
static uint64_t nearest(unsigned __int128 n, uint64_t unit) {
    TCM_ASSERT(unit != 0 && n / unit < UINT64_MAX);
    return (uint64_t)((n + unit / 2) / unit);
}

/* Writes N / UNIT with three digits, or more from 1000 on. The rounded value
   decides how many are decimal places: 9.996 is 10.0. */
static void three_digits(struct tool_text *t, uint64_t n, uint64_t unit,
                         const char *name) {
    uint64_t hundredths = nearest((unsigned __int128)n * 100, unit);
    uint64_t tenths = nearest((unsigned __int128)n * 10, unit);
    if (hundredths < 1000)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 ".%02" PRIu64 " %s",
                 hundredths / 100, hundredths % 100, name);
    else if (tenths < 1000)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 ".%" PRIu64 " %s", tenths / 10,
                 tenths % 10, name);
    else
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " %s", nearest(n, unit), name);
}

const char *tool_text_bytes(struct tool_text *t, uint64_t n) {
    static const char *const names[] = {"KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    if (n < 1024) {
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " B", n);
        return t->s;
    }
    unsigned i = 0;
    uint64_t unit = 1024;
    while (i + 1 < TCM_ARRAY_SIZE(names) && nearest(n, unit) >= 1024) {
        unit *= 1024;
        i++;
    }
    three_digits(t, n, unit, names[i]);
    return t->s;
}

const char *tool_text_ns(struct tool_text *t, uint64_t ns) {
    const uint64_t second = 1000000000u;
    uint64_t seconds = nearest(ns, second);
    uint64_t minutes = nearest(ns, 60 * second);
    if (ns < 1000)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " ns", ns);
    else if (nearest(ns, 1000) < 1000)
        three_digits(t, ns, 1000, "us");
    else if (nearest(ns, 1000000) < 1000)
        three_digits(t, ns, 1000000, "ms");
    else if (nearest((unsigned __int128)ns * 10, second) < 600)
        three_digits(t, ns, second, "s");
    else if (seconds < 3600)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " min %02" PRIu64 " s",
                 seconds / 60, seconds % 60);
    else
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " h %02" PRIu64 " min",
                 minutes / 60, minutes % 60);
    return t->s;
}

uint64_t tool_text_whole(double v) {
    if (!(v > 0))
        return 0;
    return v < 0x1p64 - 2048 ? (uint64_t)(v + .5) : UINT64_MAX;
}

void tool_text_print_row(const char *name, uint64_t n) {
    struct tool_text t;
    if (n != 0)
        fprintf(stderr, "  %-18s %s\n", name, tool_text_count(&t, n));
}

const char *tool_text_percent(struct tool_text *t, uint64_t part,
                              uint64_t whole) {
    snprintf(t->s, sizeof(t->s), "%" PRIu64 " %%",
             nearest((unsigned __int128)part * 100, whole));
    return t->s;
}

/* --- Text from outside ---------------------------------------------------- */

bool tool_text_is_plain(const char *text) {
    for (size_t left = strlen(text), n; left != 0; text += n, left -= n) {
        n = tcm_utf8_plain_length(text, left);
        if (n == 0)
            return false;
    }
    return true;
}

/* Returns "\n" or, in ROOM, "\xNN" for a byte that is not plain. */
static const char *escape(char room[5], char byte) {
    if (byte == '\n')
        return "\\n";
    snprintf(room, 5, "\\x%02x", (unsigned char)byte);
    return room;
}

size_t tool_text_put_shown(char *out, size_t used, size_t room,
                           const char **text) {
    char escaped[5];
    TCM_ASSERT(used <= room);
    for (size_t left = strlen(*text), n; left != 0; *text += n, left -= n) {
        n = tcm_utf8_plain_length(*text, left);
        const char *from = n != 0 ? *text : escape(escaped, **text);
        size_t length = n != 0 ? n : strlen(from);
        if (used + length > room)
            break;
        memcpy(out + used, from, length);
        used += length;
        n = n != 0 ? n : 1;
    }
    return used;
}

const char *tool_text_shown(const char *text) {
    static _Thread_local char copies[SHOWN_COPIES][SHOWN_BYTES];
    static _Thread_local unsigned next;
    static const char cut[] = "...";
    if (tool_text_is_plain(text))
        return text;
    char *copy = copies[next++ % SHOWN_COPIES];
    size_t used =
        tool_text_put_shown(copy, 0, SHOWN_BYTES - sizeof(cut), &text);
    strcpy(copy + used, *text != '\0' ? cut : "");
    return copy;
}

/* --- Lines of a terminal -------------------------------------------------- */

unsigned tool_text_columns(int fd) {
    struct winsize size;
    unsigned columns = 80;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
        columns = size.ws_col;
    return columns < TOOL_TEXT_COLUMNS_LEAST  ? TOOL_TEXT_COLUMNS_LEAST
           : columns > TOOL_TEXT_COLUMNS_MOST ? TOOL_TEXT_COLUMNS_MOST
                                              : columns;
}

static bool continues_character(char byte) {
    return (byte & 0xc0) == 0x80;
}

size_t tool_text_width(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += !continues_character(*text);
    return n;
}

/* The character number COLUMN of TEXT, which has that many. */
static const char *at_column(const char *text, size_t column) {
    for (; column != 0; column--)
        for (text++; continues_character(*text);)
            text++;
    return text;
}

const char *tool_text_middle(struct tool_text_line *room, const char *text,
                             size_t columns) {
    return tool_text_middle_before(room, text, columns, 0);
}

const char *tool_text_middle_before(struct tool_text_line *room,
                                    const char *text, size_t columns,
                                    size_t end) {
    size_t width = tool_text_width(text);
    TCM_ASSERT(columns >= 8 && columns <= TOOL_TEXT_COLUMNS_MOST);
    if (width <= columns)
        return text;
    size_t head = (columns - 3) / 2, tail = columns - 3 - head;
    if (end > tail && end <= columns - 3) {
        tail = end;
        head = columns - 3 - tail;
    }
    snprintf(room->s, sizeof(room->s), "%.*s...%s",
             (int)(at_column(text, head) - text), text,
             at_column(text, width - tail));
    return room->s;
}

void tool_text_put_chain(FILE *f, const char *text, size_t used, size_t indent,
                         size_t columns) {
    struct tool_text_line line;
    char part[4096];
    const char *before = "";
    TCM_ASSERT(indent + 10 <= columns);
    while (*text != '\0') {
        const char *end = strstr(text, " < ");
        size_t n = end == NULL ? strlen(text) : (size_t)(end - text);
        snprintf(part, sizeof(part), "%.*s", (int)n, text);
        size_t sign = *before == '\0' ? 0 : 2;
        const char *shown =
            tool_text_middle(&line, part, columns - indent - sign);
        size_t width = tool_text_width(shown) + sign;
        if (used > indent && used + (sign != 0) + width > columns) {
            fprintf(f, "\n%*s", (int)indent, "");
            used = indent;
        } else if (sign != 0) {
            fputc(' ', f);
            used++;
        }
        fprintf(f, "%s%s", before, shown);
        used += width;
        before = "< ";
        text = end == NULL ? "" : end + 3;
    }
    fputc('\n', f);
}

/* --- Words for a shell ---------------------------------------------------- */

void tool_shell_put_quoted(FILE *f, const char *text) {
    fputc('\'', f);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
    }
    fputc('\'', f);
}

/* Writes text that is not plain in $'' quotes (ksh, bash, zsh, POSIX 2024). */
static void put_escaped(FILE *f, const char *text) {
    fputs("$'", f);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\')
            fprintf(f, "\\%03o", c);
        else
            fputc(c, f);
    }
    fputc('\'', f);
}

void tool_shell_put_word(FILE *f, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-./+,:@%=";
    if (*text != '\0' && text[strspn(text, plain)] == '\0')
        fputs(text, f);
    else if (tool_text_is_plain(text))
        tool_shell_put_quoted(f, text);
    else
        put_escaped(f, text);
}

char *tool_shell_command_line(const char *program, int argc, char **argv) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    fputs(program, f);
    for (int i = 0; i < argc; i++) {
        fputc(' ', f);
        tool_shell_put_word(f, argv[i]);
    }
    return fclose(f) == 0 ? text : NULL;
}

/* --- CSV ------------------------------------------------------------------ */

void tool_csv_put_quoted(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}
