/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page: lines.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_LINES_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_LINES_H

#include "cmd/malloc_trace/compare/compare_page_parts.h"

/* Memory over time. false: there is none. */
bool compare_page_course(struct compare_page *h);
/* Curves of latency. false: there are none. */
bool compare_page_latency(struct compare_page *h);
/* Their data, for the script. */
void compare_page_course_data(struct compare_page *h, struct tool_json *j);
void compare_page_latency_data(struct compare_page *h, struct tool_json *j);

#endif
