/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drawings of a comparison's page are made of. A contestant has one
 * colour in all of them; the baseline's is grey, and where there are more than
 * the palette has, the slower ones share a pale grey.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PARTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PARTS_H

#include "cmd/malloc_trace/compare/sheet.h"
#include "pages/page.h"

enum { COMPARE_PAGE_COLOURS = 8, COMPARE_PAGE_OTHER = 8 };

struct compare_page {
    const struct comparison *c;
    struct tool_page *page;
    struct sheet sheet;
    unsigned *colour; /* of each contestant: 0 to COMPARE_PAGE_OTHER */
};

/* "0.852 (0.840 to 0.861)"; of the baseline "1". */
const char *compare_page_ratio_text(const struct compare_page *h, char text[64],
                                    size_t who, enum compare_metric m);
/* The verdict as a coloured word; nothing for the baseline. */
void compare_page_says(struct compare_page *h, size_t who,
                       enum compare_metric m);

const char *compare_page_name(const struct compare_page *h, size_t i);
const char *compare_page_short_name(const struct compare_page *h, size_t i,
                                    char text[64], size_t most);

/* Texts of ticks (pages/plot.h). */
const char *compare_page_tick_ratio(char text[32], double v);

void compare_page_begin_card(struct compare_page *h, const char *title,
                             const char *note);
void compare_page_end_card(struct compare_page *h);
/* A list with a row for each contestant. */
void compare_page_begin_rows(struct compare_page *h, const char *tag,
                             const char *class_name);

/* Names at the right end of lines, where Y per cent from the top, each with its
   contestant. */
struct compare_page_labels {
    double *y;
    size_t *who, *room;
    size_t count;
};
/* false: out of memory. */
bool compare_page_labels_make(struct compare_page_labels *l, size_t most);
/* Draws and frees them. */
void compare_page_labels_put(struct compare_page *h,
                             struct compare_page_labels *l);

#endif
