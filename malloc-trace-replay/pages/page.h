/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes one page for people: HTML with its style and script in it, which
 * fetches nothing, follows the reader's choice of light and dark, prints, and
 * can be read without the script. The figures of a page stand in it once as
 * JSON, for the script and for other programs.
 *
 * The style names what pages are made of: `lead`, `card`, `grid`, `key`,
 * `scroll` and `plot` (pages/plot.h); and the colours --p0 to --p7 of series,
 * which classes k0 to k7 give to --c. Elements of class w0, w1, ... belong to
 * one thing that is drawn in several places: the script lights up all where the
 * pointer is on one, and a `key` hides and shows them. A <title> in an element
 * is shown at the pointer.
 *
 * Invariants: text may be any bytes; what is no UTF-8, may not stand in HTML,
 * or turns the text around it, becomes U+FFFD. Markup is what callers write
 * themselves, never text from outside. The file gets its name when the page is
 * whole, where that is possible.
 * Threads: one.
 */
#ifndef TOOL_PAGES_PAGE_H
#define TOOL_PAGES_PAGE_H

#include "common/files.h"
#include "common/json.h"

#include <stdio.h>

struct tool_page {
    const char *path;
    FILE *out;
    bool is_stream;     /* OUT is the caller's */
    const char *script; /* where the scripts are; NULL: in the page */
    struct tool_file_new file;
    struct tool_json json;
};

/* Opens PATH, "-" for stdout, and writes the head. PATH must live on. false: a
   message is out. */
bool tool_page_open(struct tool_page *p, const char *path, const char *title);

/* The same for a page that goes to OUT, whose script, page_js, the
   server of the page gives at the address SCRIPT; it says what the page may
   fetch, too. */
void tool_page_open_stream(struct tool_page *p, FILE *out, const char *title,
                           const char *script);

/* Markup as it is. */
void tool_page_put(struct tool_page *p, const char *markup);
void tool_page_putf(struct tool_page *p, const char *fmt, ...) TCM_PRINTF(2, 3);
/* Text of elements and of attributes in double quotes. */
void tool_page_text(struct tool_page *p, const char *text);
/* <TAG>text</TAG> */
void tool_page_element(struct tool_page *p, const char *tag, const char *text);

/* The page's figures: what is put into the JSON that is returned, until
   tool_page_data_end. Once a page. */
struct tool_json *tool_page_data(struct tool_page *p);
void tool_page_data_end(struct tool_page *p);

/* Ends the page. GOOD false: it is given up, and what had the name stays.
   false: something was not written, a message is out. */
bool tool_page_close(struct tool_page *p, bool good);

/* --- Style and scripts ---------------------------------------------------- */

/*
 * Style and script of pages: the files of these names in this folder, which the
 * build embeds (embed.awk).
 */
extern const char page_css[];
extern const char page_js[];
extern const char report_live_js[];
extern const char report_page_css[];
extern const char report_page_js[];

#endif
