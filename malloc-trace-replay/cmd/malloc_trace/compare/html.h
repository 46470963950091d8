/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comparison as a page for people (common/page.h).
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_HTML_H

#include "cmd/malloc_trace/compare/comparison.h"

/* After verdict_settle. false: a message is out. */
bool compare_html(const struct comparison *c, const char *path);

#endif
