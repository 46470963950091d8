/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTML pages for people: a page holds its style, its script and, once, its
 * figures as JSON for the script and for other programs. It fetches nothing,
 * follows the reader's choice of light or dark, prints, and can be read without
 * the script.
 *
 * The style defines the classes that a page is built of: `lead`, `card`,
 * `grid`, `key`, `scroll` and `plot` (pages/plot.h); and the colours --p0 to
 * --p7 of series, which the classes k0 to k7 assign to --c. Elements of one
 * class w0, w1, ... belong to one thing that is drawn in several places: the
 * script highlights all of them under the pointer, and a `key` hides and shows
 * them. A <title> in an element is shown at the pointer.
 *
 * Invariants: text may be any bytes; what is not UTF-8, not allowed in HTML, or
 * changes the direction of text becomes U+FFFD. Markup comes from callers,
 * never from outside. The file gets its name when the page is complete, where
 * that is possible.
 * Threads: one.
 */
#ifndef TOOL_PAGES_PAGE_H
#define TOOL_PAGES_PAGE_H

#include "common/files.h"
#include "common/json.h"

#include <stdio.h>

struct page_writer {
    const char *path;
    FILE *out;
    bool is_stream;     /* OUT belongs to the caller */
    const char *script; /* address of the script; NULL: it is in the page */
    struct tool_file_new file;
    struct tool_json json;
    bool has_data; /* page_data was called */
    bool in_data;  /* and page_data_end was not */
    bool in_plot;  /* between plot_begin and plot_end */
};

/* Opens PATH, "-" for stdout, and writes the page's head. PATH must stay valid.
   false: a message was printed. */
bool page_open(struct page_writer *p, const char *path, const char *title);

/* Writes the head of a page to OUT. The server of the page delivers its script,
   page_js, at the address SCRIPT, and decides what the page may fetch. */
void page_open_stream(struct page_writer *p, FILE *out, const char *title,
                      const char *script);

/* Write markup, unescaped. */
void page_put(struct page_writer *p, const char *markup);
void page_putf(struct page_writer *p, const char *fmt, ...) TCM_PRINTF(2, 3);
/* Writes text of an element, or of an attribute in double quotes, escaped. */
void page_text(struct page_writer *p, const char *text);
/* Writes <TAG>text</TAG>. */
void page_element(struct page_writer *p, const char *tag, const char *text);

/* Begins the page's figures: returns the JSON to write them to, until
   page_data_end. Once a page. */
struct tool_json *page_data(struct page_writer *p);
void page_data_end(struct page_writer *p);

/* Ends the page. GOOD false: discards it, and a file of its name stays. Returns
   false if GOOD is, or if something was not written, with a message. */
bool page_close(struct page_writer *p, bool good);

/* --- Style and scripts ---------------------------------------------------- */

/*
 * Styles and scripts: the files of these names in this folder, which the build
 * embeds (embed.awk).
 */
extern const char memory_page_css[];
extern const char memory_page_js[];
extern const char page_css[];
extern const char page_js[];
extern const char report_live_js[];
extern const char report_page_css[];
extern const char report_page_js[];

#endif
