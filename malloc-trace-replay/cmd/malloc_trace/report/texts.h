/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts, each once, numbered from 0 in the order in which they came.
 *
 * Threads: none shared. A text stays where it is until texts_fini.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_TEXTS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_TEXTS_H

#include "common/collections.h"

#define TEXTS_NONE UINT32_MAX

/* All zero is empty. */
struct texts {
    char **text;
    size_t count, room;
    struct tool_map place; /* hash of a text: its number plus 1 */
    uint64_t seed;
};

/* The number of TEXT, of which a copy is kept. TEXTS_NONE: out of memory. */
uint32_t texts_number(struct texts *t, const char *text);
void texts_fini(struct texts *t);

#endif
