/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suppressions of leaks in LeakSanitizer's format: lines of "leak:PATTERN". A
 * pattern is a part of the name of a function, file or module, in which "*"
 * stands for any text, a leading "^" and a trailing "$" for the ends.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SUPPRESS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SUPPRESS_H

#include "base/compiler.h"

#include <stdio.h>

/* BLOCKS and BYTES: live ones that it left out of rows. */
struct report_suppression {
    char *pattern;
    uint64_t blocks, bytes;
};

/* All zero is empty. */
struct report_suppressions {
    struct report_suppression *at;
    size_t count, room;
};

/* Adds a copy of PATTERN. False: out of memory. */
bool report_suppressions_add(struct report_suppressions *s,
                             const char *pattern);
/* Adds the patterns of the file NAME. Returns an enum tool_status; messages
   were printed. */
int report_suppressions_read(struct report_suppressions *s, const char *name);
/* Like report_suppressions_read, from the open file F. */
int report_suppressions_read_from(struct report_suppressions *s, FILE *f,
                                  const char *name);
/* The first one whose pattern matches TEXT, or NULL; none matches a NULL TEXT.
   Takes time that grows at most with the product of the lengths. */
struct report_suppression *
report_suppressions_match(const struct report_suppressions *s,
                          const char *text);
void report_suppressions_fini(struct report_suppressions *s);

#endif
