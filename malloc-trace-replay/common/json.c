/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/json.h"

#include "base/check.h"
#include "base/raw_io.h"
#include "base/utf8.h"
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
        tool_error("%s: is a trace, and not replaced by JSON", path);
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
    /* not a link, nor what took its place meanwhile */
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
    /* Text that others printed there stands before. */
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
            /* of two or three bytes */
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

/* What stands before a value: comma, line, key. */
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
