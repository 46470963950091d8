/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page, and the parts that they share with its
 * tables. A contestant has one colour in all of them; the baseline's is grey,
 * and where there are more than the palette has, the slower ones share a pale
 * grey.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PLOTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PLOTS_H

#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "pages/page.h"

enum { COMPARE_PAGE_COLOURS = 8, COMPARE_PAGE_OTHER = 8 };

struct compare_page {
    const struct comparison *c;
    struct page_writer *page;
    struct compare_sheet sheet;
    unsigned *colour; /* of each contestant: 0 to COMPARE_PAGE_OTHER */
};

/* --- Parts ---------------------------------------------------------------- */

/* "0.852 (0.840 to 0.861)"; of the baseline "1". */
const char *compare_page_ratio_text(const struct compare_page *h, char text[64],
                                    size_t contestant, enum compare_metric m);
/* The verdict as a coloured word; nothing for the baseline. */
void compare_page_says(struct compare_page *h, size_t contestant,
                       enum compare_metric m);

/* --- Drawings ------------------------------------------------------------- */

/* Bars of ratios to the baseline with intervals, the least first. */
void compare_page_bars(struct compare_page *h, enum compare_metric m);
/* Every run as a dot; of several traces, every trace. */
void compare_page_dots(struct compare_page *h, enum compare_metric m);
/* Time against peak memory. */
void compare_page_scatter(struct compare_page *h);
/* Memory over time. false: there is none. */
bool compare_page_course(struct compare_page *h);
/* Curves of latency. false: there are none. */
bool compare_page_latency(struct compare_page *h);
/* Their data, for the script. */
void compare_page_course_data(struct compare_page *h, struct tool_json *j);
void compare_page_latency_data(struct compare_page *h, struct tool_json *j);

#endif
