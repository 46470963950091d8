/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/json.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_file.h"
#include "base/fmt.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void flush(struct tool_json *j) {
    if (j->sink != NULL)
        j->sink(j->ctx, j->buf, j->used);
    else if (j->error == 0 && j->used != 0 &&
             !tcm_io_write_all(j->fd, j->buf, j->used))
        j->error = errno;
    j->used = 0;
}

static void put(struct tool_json *j, const char *text, size_t length) {
    while (length != 0) {
        TCM_ASSERT(j->used < sizeof(j->buf));
        size_t n = sizeof(j->buf) - j->used;
        if (n > length)
            n = length;
        memcpy(j->buf + j->used, text, n);
        j->used += n;
        text += n;
        length -= n;
        if (j->used == sizeof(j->buf))
            flush(j);
    }
}

static void put_text(struct tool_json *j, const char *text) {
    put(j, text, strlen(text));
}

static void prepare(struct tool_json *j, const char *path) {
    j->path = path;
    j->fd = -1;
    j->sink = NULL;
    j->error = 0;
    j->depth = 0;
    j->dense = false;
    j->used = 0;
    j->has_items[0] = false;
    j->in_array[0] = false;
}

void tool_json_open_sink(struct tool_json *j,
                         void (*sink)(void *ctx, const char *text,
                                      size_t length),
                         void *ctx) {
    prepare(j, "");
    j->sink = sink;
    j->ctx = ctx;
}

bool tool_json_open(struct tool_json *j, const char *path) {
    prepare(j, path);
    if (tool_file_is_stdout(path)) {
        j->path = "standard output";
        j->fd = 1;
        return true;
    }
    if (tool_file_is_trace(path)) {
        tool_error("%s: is a trace, and is not replaced by JSON", path);
        return false;
    }
    j->fd = tool_file_open_output(path);
    if (j->fd >= 0)
        return true;
    tool_error("cannot write %s: %s", path, tool_file_error_text(errno));
    return false;
}

void tool_json_drop(struct tool_json *j) {
    struct stat is, named;
    TCM_CHECK(j->depth == 0 && j->used == 0);
    if (j->fd == 1)
        return;
    /* only the file that was opened: not a link, not a successor of its name */
    if (fstat(j->fd, &is) == 0 && S_ISREG(is.st_mode) &&
        lstat(j->path, &named) == 0 && named.st_dev == is.st_dev &&
        named.st_ino == is.st_ino)
        (void)unlink(j->path);
    close(j->fd);
    j->fd = -1;
}

bool tool_json_close(struct tool_json *j) {
    TCM_CHECK(j->depth == 0);
    TCM_ASSERT(j->fd >= 0 || j->sink != NULL);
    put_text(j, "\n");
    /* text that was printed on stdout comes first */
    if (j->fd == 1)
        fflush(stdout);
    flush(j);
    if (j->fd > 1 && close(j->fd) != 0 && j->error == 0)
        j->error = errno;
    j->fd = -1;
    if (j->error == 0)
        return true;
    tool_error("cannot write %s: %s", j->path, strerror(j->error));
    return false;
}

/* --- Text --------------------------------------------------------------- */

static void put_quoted(struct tool_json *j, const void *text, size_t left) {
    const unsigned char *p = text;
    put_text(j, "\"");
    while (left != 0) {
        size_t n = tcm_utf8_length(p, left);
        char escape[8];
        if (n == 0) {
            put_text(j, "\\ufffd");
            n = 1;
        } else if (*p == '"' || *p == '\\') {
            put_text(j, "\\");
            put(j, (const char *)p, 1);
        } else if (*p < 0x20 || *p == 0x7f) {
            snprintf(escape, sizeof(escape), "\\u%04x", *p);
            put_text(j, escape);
        } else if (tcm_utf8_plain_length((const char *)p, n) == 0) {
            /* characters that are not plain have two or three bytes here */
            unsigned code = n == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                                   : (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 |
                                         (p[2] & 0x3fu);
            snprintf(escape, sizeof(escape), "\\u%04x", code);
            put_text(j, escape);
        } else {
            put(j, (const char *)p, n);
        }
        p += n;
        left -= n;
    }
    put_text(j, "\"");
}

/* --- Structure ---------------------------------------------------------- */

void tool_json_dense(struct tool_json *j, bool dense) {
    j->dense = dense;
}

static void new_line(struct tool_json *j) {
    if (j->dense)
        return;
    put_text(j, "\n");
    for (unsigned i = 0; i < j->depth; i++)
        put_text(j, "  ");
}

/* Writes the comma, new line and key before a value. */
static void before_value(struct tool_json *j, const char *key) {
    TCM_CHECK((key != NULL) == (j->depth != 0 && !j->in_array[j->depth]));
    TCM_CHECK(j->depth != 0 || !j->has_items[0]);
    if (j->has_items[j->depth])
        put_text(j, ",");
    j->has_items[j->depth] = true;
    if (j->depth != 0)
        new_line(j);
    if (key == NULL)
        return;
    put_quoted(j, key, strlen(key));
    put_text(j, ": ");
}

static void begin(struct tool_json *j, const char *key, bool array) {
    before_value(j, key);
    TCM_CHECK(j->depth + 1 < TOOL_JSON_DEPTH);
    j->depth++;
    j->in_array[j->depth] = array;
    j->has_items[j->depth] = false;
    put_text(j, array ? "[" : "{");
}

static void end(struct tool_json *j, bool array) {
    TCM_CHECK(j->depth != 0 && j->in_array[j->depth] == array);
    TCM_ASSERT(j->depth < TOOL_JSON_DEPTH);
    bool empty = !j->has_items[j->depth];
    j->depth--;
    if (!empty)
        new_line(j);
    put_text(j, array ? "]" : "}");
}

void tool_json_begin_object(struct tool_json *j, const char *key) {
    begin(j, key, false);
}

void tool_json_end_object(struct tool_json *j) {
    end(j, false);
}

void tool_json_begin_array(struct tool_json *j, const char *key) {
    begin(j, key, true);
}

void tool_json_end_array(struct tool_json *j) {
    end(j, true);
}

/* --- Values ------------------------------------------------------------- */

void tool_json_bytes(struct tool_json *j, const char *key, const void *text,
                     size_t length) {
    before_value(j, key);
    put_quoted(j, text, length);
}

void tool_json_string(struct tool_json *j, const char *key, const char *text) {
    tool_json_bytes(j, key, text, strlen(text));
}

void tool_json_u64(struct tool_json *j, const char *key, uint64_t v) {
    char text[24];
    before_value(j, key);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
    put_text(j, text);
}

void tool_json_bool(struct tool_json *j, const char *key, bool v) {
    before_value(j, key);
    put_text(j, v ? "true" : "false");
}

void tool_json_null(struct tool_json *j, const char *key) {
    before_value(j, key);
    put_text(j, "null");
}

void tool_json_double(struct tool_json *j, const char *key, double v) {
    char text[40];
    if (!isfinite(v)) {
        tool_json_null(j, key);
        return;
    }
    before_value(j, key);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    put_text(j, text);
}

void tool_json_document(struct tool_json *j, const char *key,
                        const char *text) {
    before_value(j, key);
    for (;;) {
        size_t n = strcspn(text, "\n");
        put(j, text, n);
        text += n;
        if (text[0] == '\0' || text[1] == '\0')
            return;
        new_line(j);
        text++;
    }
}

/* --- Reading -------------------------------------------------------------- */

enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
};

struct tool_json_value {
    enum json_kind kind;
    uint32_t count;  /* of elements or members */
    const char *key; /* of a member; else NULL */
    const struct tool_json_value *next;
    union {
        double number;
        const char *text;
        const struct tool_json_value *first;
    };
};

/* Start of a document's mapping. Behind VALUE, whose first entry is the
   outermost value, come the table of members and the text. */
struct json_document {
    size_t bytes; /* of the mapping */
    struct tool_json_value value[];
};

struct json_parser {
    struct tool_json_value *value;
    size_t values, room;
    /* Table of members by object and name, to find duplicates: indices in
       VALUE, 0 and 0 in an empty place. Linear probing in MASK + 1 places, at
       most half of which are taken. */
    struct json_place {
        uint32_t member, object;
    } * place;
    size_t mask;
    uint64_t seed;
    char *begin, *at, *end; /* the text; *END is 0 */
    unsigned depth;
    const char *problem; /* the first fault, or NULL */
};

static bool fail(struct json_parser *p, const char *problem) {
    if (p->problem == NULL)
        p->problem = problem;
    return false;
}

static void skip_blanks(struct json_parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

/* Skips blanks and takes the character C. false: another one follows. */
static bool take(struct json_parser *p, char c) {
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

/* --- Strings -------------------------------------------------------------- */

/* Takes four hexadecimal digits. 0: other characters, or the number 0. */
static uint32_t take_hex(struct json_parser *p) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = *p->at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return 0;
        code = code << 4 | digit;
    }
    return code;
}

static char *put_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(lead[more] | code >> 6 * more);
    while (more-- > 0)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return to;
}

/* Takes the digits behind "\u", or a pair of surrogates, and stores the
   character at TO. */
static char *take_code(struct json_parser *p, char *to) {
    uint32_t code = take_hex(p);
    if (code >= 0xd800 && code < 0xdc00 && p->at[0] == '\\' &&
        p->at[1] == 'u') {
        p->at += 2;
        uint32_t low = take_hex(p);
        code = low >= 0xdc00 && low < 0xe000
                   ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
                   : 0;
    }
    if (code != 0 && (code < 0xd800 || code >= 0xe000))
        return put_utf8(to, code);
    fail(p, "a string has an escape of no character");
    return NULL;
}

static char *take_escape(struct json_parser *p, char *to) {
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *letter = *p->at == '\0' ? NULL : strchr(letters, *p->at);
    if (letter == NULL && *p->at != 'u') {
        fail(p, "a string has an unknown escape");
        return NULL;
    }
    p->at++;
    if (letter == NULL)
        return take_code(p, to);
    *to++ = means[letter - letters];
    return to;
}

/* Takes a string and decodes it in place, which never makes it longer. NULL: a
   fault. */
static const char *take_text(struct json_parser *p) {
    if (!take(p, '"')) {
        fail(p, "a string is missing");
        return NULL;
    }
    char *text = p->at, *to = p->at;
    while (*p->at != '"') {
        const uint8_t *from = (const uint8_t *)p->at;
        size_t n = tcm_utf8_length(from, (size_t)(p->end - p->at) + 1);
        if (*from < 0x20 || n == 0) {
            fail(p, p->at == p->end ? "the text ends in a string"
                    : n == 0        ? "a string is no UTF-8"
                                    : "a string has a control character");
            return NULL;
        }
        if (*from != '\\') {
            memmove(to, from, n);
            to += n;
            p->at += n;
            continue;
        }
        p->at++;
        to = take_escape(p, to);
        if (to == NULL)
            return NULL;
    }
    TCM_ASSERT(to <= p->at);
    p->at++;
    *to = '\0';
    return text;
}

/* --- Numbers -------------------------------------------------------------- */

static bool skip_digits(struct json_parser *p) {
    char *begin = p->at;
    while (*p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at != begin;
}

static bool take_number(struct json_parser *p, struct tool_json_value *v) {
    const char *begin = p->at;
    p->at += *p->at == '-';
    bool good = *p->at == '0' ? p->at++ != NULL : skip_digits(p);
    if (good && *p->at == '.') {
        p->at++;
        good = skip_digits(p);
    }
    if (good && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        p->at += *p->at == '-' || *p->at == '+';
        good = skip_digits(p);
    }
    if (!good)
        return fail(p, "a value is missing");
    /* no program here sets a locale, so strtod expects a point */
    v->kind = JSON_NUMBER;
    v->number = strtod(begin, NULL);
    return isfinite(v->number) || fail(p, "a number is too large");
}

/* --- Values --------------------------------------------------------------- */

static uint64_t hash_key(uint64_t seed, const char *key) {
    uint64_t h = seed;
    for (; *key != '\0'; key++)
        h = tool_hash((uint8_t)*key, h);
    return h;
}

/* Adds MEMBER to the table. false: OBJECT has another member of its name. */
static bool note_member(struct json_parser *p,
                        const struct tool_json_value *object,
                        const struct tool_json_value *member) {
    struct json_place new = {(uint32_t)(member - p->value),
                             (uint32_t)(object - p->value)};
    size_t i = hash_key(p->seed + new.object, member->key) & p->mask;
    for (; p->place[i].member != 0; i = (i + 1) & p->mask)
        if (p->place[i].object == new.object &&
            strcmp(p->value[p->place[i].member].key, member->key) == 0)
            return fail(p, "an object has two members of one name");
    p->place[i] = new;
    return true;
}

static struct tool_json_value *new_value(struct json_parser *p) {
    TCM_CHECK(p->values < p->room);
    return &p->value[p->values++];
}

static bool take_value(struct json_parser *p, struct tool_json_value *v);

/* Takes the elements or members of LIST, behind its opening bracket. */
static bool take_list(struct json_parser *p, struct tool_json_value *list) {
    char close = list->kind == JSON_OBJECT ? '}' : ']';
    const struct tool_json_value **link = &list->first;
    if (p->depth == TOOL_JSON_READ_DEPTH)
        return fail(p, "values are nested too deeply");
    if (take(p, close))
        return true;
    p->depth++;
    do {
        struct tool_json_value *v = new_value(p);
        if (list->kind == JSON_OBJECT) {
            v->key = take_text(p);
            if (v->key == NULL || !note_member(p, list, v))
                return false;
            if (!take(p, ':'))
                return fail(p, "a colon is missing");
        }
        if (!take_value(p, v))
            return false;
        *link = v;
        link = &v->next;
        list->count++;
    } while (take(p, ','));
    p->depth--;
    return take(p, close) || fail(p, "a comma or closing bracket is missing");
}

static bool take_word(struct json_parser *p, const char *word) {
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0)
        return fail(p, "a value is missing");
    p->at += n;
    return true;
}

static bool take_value(struct json_parser *p, struct tool_json_value *v) {
    skip_blanks(p);
    switch (*p->at) {
    case '{':
    case '[':
        v->kind = *p->at++ == '{' ? JSON_OBJECT : JSON_ARRAY;
        return take_list(p, v);
    case '"':
        v->kind = JSON_TEXT;
        v->text = take_text(p);
        return v->text != NULL;
    case 't':
        v->kind = JSON_TRUE;
        return take_word(p, "true");
    case 'f':
        v->kind = JSON_FALSE;
        return take_word(p, "false");
    case 'n':
        return take_word(p, "null");
    default:
        return take_number(p, v);
    }
}

/* --- Documents ------------------------------------------------------------ */

/* Bounds the number of values in TEXT, and so of members: each value but the
   first comes after one of these characters. */
static size_t count_values(const char *text, size_t n) {
    size_t count = 1;
    for (size_t i = 0; i < n; i++)
        count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return count;
}

static struct json_document *new_document(struct json_parser *p,
                                          const char *text, size_t n) {
    p->room = count_values(text, n);
    for (p->mask = 1; p->mask < 2 * p->room;)
        p->mask = 2 * p->mask + 1;
    size_t values =
        sizeof(struct json_document) + p->room * sizeof(struct tool_json_value);
    size_t places = (p->mask + 1) * sizeof(*p->place);
    size_t bytes = tcm_align_up(values + places + n + 1, tcm_os_page_size());
    struct json_document *d = tcm_os_map(bytes);
    if (d == NULL)
        return NULL;
    d->bytes = bytes;
    p->value = d->value;
    p->place = (struct json_place *)((char *)d + values);
    p->begin = p->at = (char *)d + values + places;
    p->end = p->begin + n;
    p->seed = tool_hash_seed();
    memcpy(p->begin, text, n);
    return d;
}

const struct tool_json_value *
tool_json_read(const char *text, size_t n,
               char problem[TOOL_JSON_READ_PROBLEM]) {
    struct json_parser p = {0};
    if (n > TOOL_JSON_READ_BYTES) {
        snprintf(problem, TOOL_JSON_READ_PROBLEM, "it is longer than %zu bytes",
                 TOOL_JSON_READ_BYTES);
        return NULL;
    }
    struct json_document *d = new_document(&p, text, n);
    if (d == NULL) {
        snprintf(problem, TOOL_JSON_READ_PROBLEM, "out of memory");
        return NULL;
    }
    if (take_value(&p, new_value(&p))) {
        skip_blanks(&p);
        if (p.at == p.end)
            return d->value;
        fail(&p, "something follows the document");
    }
    TCM_ASSERT(p.problem != NULL && p.at <= p.end);
    size_t line = 1;
    for (const char *at = text; at < text + (p.at - p.begin); at++)
        line += *at == '\n';
    snprintf(problem, TOOL_JSON_READ_PROBLEM, "line %zu: %s", line, p.problem);
    tcm_os_unmap(d, d->bytes);
    return NULL;
}

const struct tool_json_value *tool_json_read_file(const char *path) {
    const struct tool_json_value *root = NULL;
    char problem[TOOL_JSON_READ_PROBLEM];
    size_t n, bytes = TOOL_JSON_READ_BYTES + tcm_os_page_size();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : tcm_os_map(bytes);
    if (fd >= 0 && text == NULL) {
        tool_error("%s: out of memory", path);
    } else if (fd < 0 || !tcm_io_read_full(fd, text, bytes, &n)) {
        tool_error("%s: %s", path, strerror(errno));
    } else {
        root = tool_json_read(text, n, problem);
        if (root == NULL)
            tool_error("%s: %s", path, problem);
    }
    if (text != NULL)
        tcm_os_unmap(text, bytes);
    if (fd >= 0)
        close(fd);
    return root;
}

void tool_json_read_free(const struct tool_json_value *root) {
    if (root == NULL)
        return;
    struct json_document *d =
        (void *)((uintptr_t)root - offsetof(struct json_document, value));
    tcm_os_unmap(d, d->bytes);
}

/* --- Lookups -------------------------------------------------------------- */

static bool is_kind(const struct tool_json_value *v, enum json_kind kind) {
    return v != NULL && v->kind == kind;
}

const struct tool_json_value *
tool_json_member(const struct tool_json_value *object, const char *key) {
    const struct tool_json_value *v =
        is_kind(object, JSON_OBJECT) ? object->first : NULL;
    while (v != NULL && strcmp(v->key, key) != 0)
        v = v->next;
    return v;
}

const struct tool_json_value *tool_json_first(const struct tool_json_value *v) {
    return is_kind(v, JSON_ARRAY) || is_kind(v, JSON_OBJECT) ? v->first : NULL;
}

const struct tool_json_value *tool_json_next(const struct tool_json_value *v) {
    return v == NULL ? NULL : v->next;
}

const char *tool_json_key(const struct tool_json_value *v) {
    return v == NULL ? NULL : v->key;
}

size_t tool_json_count(const struct tool_json_value *v) {
    return v == NULL ? 0 : v->count;
}

double tool_json_number(const struct tool_json_value *v) {
    return is_kind(v, JSON_NUMBER) ? v->number : NAN;
}

const char *tool_json_text(const struct tool_json_value *v) {
    return is_kind(v, JSON_TEXT) ? v->text : NULL;
}

bool tool_json_is_true(const struct tool_json_value *v) {
    return is_kind(v, JSON_TRUE);
}

bool tool_json_is_false(const struct tool_json_value *v) {
    return is_kind(v, JSON_FALSE);
}

bool tool_json_is_object(const struct tool_json_value *v) {
    return is_kind(v, JSON_OBJECT);
}
