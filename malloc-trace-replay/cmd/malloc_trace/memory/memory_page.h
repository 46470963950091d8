/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page of malloc-trace memory.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_PAGE_H
#define TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_PAGE_H

#include "cmd/malloc_trace/memory/memory_model.h"

/* Writes the page of M to PATH, "-" for standard output. false: a message was
   printed. */
bool memory_page(const struct memory_report *m, const char *path);

#endif
