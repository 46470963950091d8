/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drawings of a comparison's page are made of. A contestant has one
 * colour in all of them; the baseline's is grey, and where there are more than
 * the palette has, the slower ones share a pale grey.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PARTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PARTS_H

#include "cmd/malloc_trace/compare/sheet.h"
#include "common/page.h"

enum { HTML_COLOURS = 8, HTML_OTHER = 8 };

struct html {
    const struct comparison *c;
    struct tool_page *page;
    struct sheet sheet;
    unsigned *colour; /* of each contestant: 0 to HTML_OTHER */
};

/* "0.852 (0.840 to 0.861)"; of the baseline "1". */
const char *html_ratio_text(const struct html *h, char text[64], size_t who,
                            enum compare_metric m);
/* The verdict as a coloured word; nothing for the baseline. */
void html_says(struct html *h, size_t who, enum compare_metric m);

const char *html_name(const struct html *h, size_t i);
const char *html_short_name(const struct html *h, size_t i, char text[64],
                            size_t most);

/* Texts of ticks (common/plot.h). */
const char *html_tick_ratio(char text[32], double v);

void html_begin_card(struct html *h, const char *title, const char *note);
void html_end_card(struct html *h);
/* A list with a row for each contestant. */
void html_begin_rows(struct html *h, const char *tag, const char *class_name);

/* Names at the right end of lines, where Y per cent from the top, each with its
   contestant. */
struct html_labels {
    double *y;
    size_t *who, *room;
    size_t count;
};
/* false: out of memory. */
bool html_labels_make(struct html_labels *l, size_t most);
/* Draws and frees them. */
void html_labels_put(struct html *h, struct html_labels *l);

#endif
