/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/page.h"

#include "base/check.h"
#include "base/utf8.h"
#include "common/main.h"
#include "pages/page.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static const char head[] =
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, "
    "initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

/* Keeps a page from fetching anything, whatever its texts hold. */
static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";

static void put_head(struct tool_page *p, const char *title) {
    p->has_data = p->in_data = p->in_plot = false;
    tool_page_put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
    tool_page_put(p, head);
    if (p->script == NULL)
        tool_page_put(p, policy);
    tool_page_element(p, "title", title);
    tool_page_put(p, "\n<style>\n");
    tool_page_put(p, page_css);
    tool_page_put(p, "</style>\n</head>\n<body>\n");
}

void tool_page_open_stream(struct tool_page *p, FILE *out, const char *title,
                           const char *script) {
    p->path = "the page";
    p->out = out;
    p->is_stream = true;
    p->script = script;
    p->file.folder = -1;
    put_head(p, title);
}

bool tool_page_open(struct tool_page *p, const char *path, const char *title) {
    p->path = path;
    p->is_stream = false;
    p->script = NULL;
    p->file.folder = -1;
    if (tool_file_is_stdout(path)) {
        p->path = "standard output";
        p->out = stdout;
    } else if (tool_file_is_trace(path)) {
        tool_error("%s: is a trace, and is not replaced by a page", path);
        return false;
    } else {
        int fd = tool_file_open_new(&p->file, path);
        p->out = fd < 0 ? NULL : fdopen(fd, "w");
        if (p->out == NULL) {
            tool_error("cannot write %s: %s", path,
                       tool_file_error_text(errno));
            if (fd >= 0)
                close(fd);
            tool_file_drop(&p->file);
            return false;
        }
    }
    put_head(p, title);
    return true;
}

bool tool_page_close(struct tool_page *p, bool good) {
    TCM_ASSERT(!good || (!p->in_data && !p->in_plot));
    if (p->script != NULL) {
        tool_page_putf(p, "<script src=\"%s\"></script>\n", p->script);
    } else {
        tool_page_put(p, "<script>\n");
        tool_page_put(p, page_js);
        tool_page_put(p, "</script>\n");
    }
    tool_page_put(p, "</body>\n</html>\n");
    int error = fflush(p->out) != 0 ? errno : 0;
    bool written = error == 0 && !ferror(p->out);
    if (p->out != stdout && !p->is_stream && fclose(p->out) != 0 && written) {
        written = false;
        error = errno;
    }
    if (!written || !good) {
        tool_file_drop(&p->file);
    } else if (!tool_file_keep(&p->file)) {
        written = false;
        error = errno;
    }
    if (!written)
        tool_error("cannot write %s: %s", p->path,
                   strerror(error == 0 ? EIO : error));
    return written && good;
}

/* --- Markup and text ------------------------------------------------------ */

void tool_page_put(struct tool_page *p, const char *markup) {
    TCM_ASSERT(!p->in_data);
    fputs(markup, p->out);
}

void tool_page_putf(struct tool_page *p, const char *fmt, ...) {
    va_list list;
    TCM_ASSERT(!p->in_data);
    va_start(list, fmt);
    vfprintf(p->out, fmt, list);
    va_end(list);
}

static const char *escape_of(unsigned char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        break;
    }
    return NULL;
}

void tool_page_text(struct tool_page *p, const char *text) {
    size_t left = strlen(text);
    TCM_ASSERT(!p->in_data);
    for (const unsigned char *at = (const unsigned char *)text; left != 0;) {
        size_t n = tcm_utf8_length(at, left);
        bool is_plain = *at == '\n' || *at == '\t' ||
                        tcm_utf8_plain_length((const char *)at, left) != 0;
        const char *escape = is_plain ? escape_of(*at) : "\xef\xbf\xbd";
        n = n == 0 ? 1 : n;
        if (escape != NULL)
            fputs(escape, p->out);
        else
            fwrite(at, 1, n, p->out);
        at += n;
        left -= n;
    }
}

void tool_page_element(struct tool_page *p, const char *tag, const char *text) {
    tool_page_putf(p, "<%s>", tag);
    tool_page_text(p, text);
    tool_page_putf(p, "</%s>", tag);
}

/* --- Figures -------------------------------------------------------------- */

/* Escapes "<", which occurs in strings only, so that no string ends or changes
   the script element ("</script", "<!--"). */
static void put_data(void *ctx, const char *text, size_t length) {
    struct tool_page *p = ctx;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '<')
            fputs("\\u003c", p->out);
        else
            fputc(text[i], p->out);
}

struct tool_json *tool_page_data(struct tool_page *p) {
    tool_page_put(p, "<script type=\"application/json\" id=\"data\">\n");
    TCM_ASSERT(!p->has_data && !p->in_plot);
    p->has_data = p->in_data = true;
    tool_json_open_sink(&p->json, put_data, p);
    return &p->json;
}

void tool_page_data_end(struct tool_page *p) {
    (void)tool_json_close(&p->json);
    TCM_ASSERT(p->in_data);
    p->in_data = false;
    tool_page_put(p, "</script>\n");
}
