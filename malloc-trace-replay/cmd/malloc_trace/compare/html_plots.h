/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page: ratios and single runs.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PLOTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_PLOTS_H

#include "cmd/malloc_trace/compare/html_parts.h"

/* Bars of ratios to the baseline with intervals, the least first. */
void html_bars(struct html *h, enum compare_metric m);
/* Every run as a dot; of several traces, every trace. */
void html_dots(struct html *h, enum compare_metric m);
/* Time against peak memory. */
void html_scatter(struct html *h);

#endif
