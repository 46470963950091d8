/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suppressions of leaks, as LeakSanitizer reads them: a line "leak:PATTERN", a
 * part of the name of a function, file or module, in which "*" stands for
 * anything, "^" before and "$" behind for the ends.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SUPPRESS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SUPPRESS_H

#include "base/compiler.h"

#include <stdio.h>

/* All zero is empty. */
struct suppressions {
    char **pattern;
    size_t count, room;
};

/* Adds those of the file NAME, or of F, which NAME is of. Returns an enum
   tool_status; a message is out. */
int suppressions_read(struct suppressions *s, const char *name);
int suppressions_read_from(struct suppressions *s, FILE *f, const char *name);
/* TEXT NULL: no. In steps that grow with the lengths' product at most. */
bool suppressions_match(const struct suppressions *s, const char *text);
void suppressions_fini(struct suppressions *s);

#endif
