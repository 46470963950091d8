/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page. A contestant has one colour in all of
 * them; the baseline's is grey, and where there are more than the palette has,
 * the slower ones share a pale grey.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PLOTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PLOTS_H

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

/* Bars of ratios to the baseline with intervals, the least first. */
void html_bars(struct html *h, enum compare_metric m);
/* Every run as a dot; of several traces, every trace. */
void html_dots(struct html *h, enum compare_metric m);
/* Time against peak memory. */
void html_scatter(struct html *h);
/* Memory over time. false: there is none. */
bool html_course(struct html *h);
/* Curves of latency. false: there are none. */
bool html_latency(struct html *h);
/* Of the latter two, for the script. */
void html_course_data(struct html *h, struct tool_json *j);
void html_latency_data(struct html *h, struct tool_json *j);

#endif
