/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drawings of a comparison's page: lines.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_LINES_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_LINES_H

#include "cmd/malloc_trace/compare/html_parts.h"

/* Memory over time. false: there is none. */
bool html_course(struct html *h);
/* Curves of latency. false: there are none. */
bool html_latency(struct html *h);
/* Their data, for the script. */
void html_course_data(struct html *h, struct tool_json *j);
void html_latency_data(struct html *h, struct tool_json *j);

#endif
