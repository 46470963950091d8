/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page: ratios and single runs.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PLOTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_PLOTS_H

#include "cmd/malloc_trace/compare/compare_page_parts.h"

/* Bars of ratios to the baseline with intervals, the least first. */
void compare_page_bars(struct compare_page *h, enum compare_metric m);
/* Every run as a dot; of several traces, every trace. */
void compare_page_dots(struct compare_page *h, enum compare_metric m);
/* Time against peak memory. */
void compare_page_scatter(struct compare_page *h);

#endif
