/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comparison as a page for people (pages/page.h).
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PAGE_H

#include "cmd/malloc_trace/compare/comparison.h"

/* After verdict_settle. false: a message is out. */
bool compare_page_write(const struct comparison *c, const char *path);

#endif
