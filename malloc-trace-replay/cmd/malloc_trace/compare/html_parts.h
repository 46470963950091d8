/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drawings of a comparison's page are made of.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PARTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PARTS_H

#include "cmd/malloc_trace/compare/html_plots.h"

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
