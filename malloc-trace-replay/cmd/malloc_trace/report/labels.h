/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What frames and stacks are called in rows of one kind.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_LABELS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_LABELS_H

#include "cmd/malloc_trace/report/rows.h"

struct labels {
    struct texts *texts;
    struct names *names;
    const struct tool_sites *sites;
    enum rows_by by;
    uint32_t *of_name; /* by number of the name: that of its text plus 1 */
    uint8_t *match;    /* by place of the frame, with those that called it: 1
                          no, 2 yes, 3 being looked at */
    size_t name_room;
    char *stack; /* being made */
    size_t stack_room;
};

void labels_init(struct labels *l, struct texts *texts, struct names *names,
                 const struct tool_sites *sites, enum rows_by by);
void labels_fini(struct labels *l);
/* The number of the text of SITE's innermost line, or else name, or of all of
   its stack ("innermost < ... < outermost"). TEXTS_NONE: no memory. */
uint32_t labels_site(struct labels *l, uint32_t site);
uint32_t labels_stack(struct labels *l, uint32_t site);
/* Whether function, file or module of a frame of SITE's stack is suppressed, by
   what are always the same suppressions. */
bool labels_match(struct labels *l, const struct suppressions *s,
                  uint32_t site);

/* The text of one name; the caller frees. NULL: no memory. */
char *labels_name(const struct name *name, enum rows_by by);

/* TEXT, in which a line's end and other control characters are "?". */
char *labels_one_line(char *text);

#endif
