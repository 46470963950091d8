/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/page.h"

#include "base/check.h"
#include "base/fmt.h"
#include "common/main.h"

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

static void put_head(struct page_writer *p, const char *title) {
    p->has_data = p->in_data = p->in_plot = false;
    page_put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
    page_put(p, head);
    if (p->script == NULL)
        page_put(p, policy);
    page_element(p, "title", title);
    page_put(p, "\n<style>\n");
    page_put(p, page_css);
    page_put(p, "</style>\n</head>\n<body>\n<main>\n");
}

void page_open_stream(struct page_writer *p, FILE *out, const char *title,
                      const char *script) {
    p->path = "the page";
    p->out = out;
    p->is_stream = true;
    p->script = script;
    p->file.folder = -1;
    put_head(p, title);
}

bool page_open(struct page_writer *p, const char *path, const char *title) {
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

bool page_close(struct page_writer *p, bool good) {
    TCM_ASSERT(!good || (!p->in_data && !p->in_plot));
    page_put(p, "</main>\n");
    if (p->script != NULL) {
        page_putf(p, "<script src=\"%s\"></script>\n", p->script);
    } else {
        page_put(p, "<script>\n");
        page_put(p, page_js);
        page_put(p, "</script>\n");
    }
    page_put(p, "</body>\n</html>\n");
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
    error = error == 0 ? EIO : error;
    if (!written && p->out == stdout)
        tool_stdout_failed(error);
    else if (!written)
        tool_error("cannot write %s: %s", p->path, strerror(error));
    return written && good;
}

/* --- Markup and text ------------------------------------------------------ */

void page_put(struct page_writer *p, const char *markup) {
    TCM_ASSERT(!p->in_data);
    fputs(markup, p->out);
}

void page_putf(struct page_writer *p, const char *fmt, ...) {
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

void page_text(struct page_writer *p, const char *text) {
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

void page_element(struct page_writer *p, const char *tag, const char *text) {
    page_putf(p, "<%s>", tag);
    page_text(p, text);
    page_putf(p, "</%s>", tag);
}

/* --- Figures -------------------------------------------------------------- */

/* Escapes "<", which occurs in strings only, so that no string ends or changes
   the script element ("</script", "<!--"). */
static void put_data(void *ctx, const char *text, size_t length) {
    struct page_writer *p = ctx;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '<')
            fputs("\\u003c", p->out);
        else
            fputc(text[i], p->out);
}

struct tool_json *page_data(struct page_writer *p) {
    page_put(p, "<script type=\"application/json\" id=\"data\">\n");
    TCM_ASSERT(!p->has_data && !p->in_plot);
    p->has_data = p->in_data = true;
    tool_json_open_sink(&p->json, put_data, p);
    return &p->json;
}

void page_data_end(struct page_writer *p) {
    (void)tool_json_close(&p->json);
    TCM_ASSERT(p->in_data);
    p->in_data = false;
    page_put(p, "</script>\n");
}
