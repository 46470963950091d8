/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaks of traces, by the user's function: blocks that are live at the end, or
 * blocks that become more (leaks_growth.h). Blocks that libraries keep on
 * purpose are left out and counted; leaks_find.c has the list.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_LEAKS_LEAKS_FIND_H
#define TOOL_CMD_MALLOC_TRACE_LEAKS_LEAKS_FIND_H

#include "cmd/malloc_trace/leaks/leaks_growth.h"
#include "cmd/malloc_trace/report/report_input.h"
#include "cmd/malloc_trace/report/report_rows.h"
#include "cmd/malloc_trace/report/report_stacks.h"

enum leaks_mode {
    LEAKS_AUTO, /* LEAKS_GROWING for interpreters, else LEAKS_AT_END */
    LEAKS_AT_END,
    LEAKS_GROWING
};

struct leaks_options {
    const struct report_input *in;
    enum leaks_mode mode;
    bool all;      /* also blocks that libraries keep */
    size_t stacks; /* of each function */
};

/* A line of a function that leaks. */
struct leaks_place {
    size_t row; /* index of the function */
    const char *file;
    unsigned line;
    uint64_t bytes, blocks;
};

struct leaks_row {
    const char *function;
    size_t place, places; /* index of the first one, most bytes first; those
                             without a known line are left out */
    uint64_t bytes, blocks;
    size_t row; /* index for report_callers_of */
};

/* All zero before leaks_find. */
struct leaks {
    struct report_tallies t;
    struct symbol_names *names;
    struct report_rows rows;
    struct report_callers callers;
    struct leaks_growth growth;
    bool growing;            /* not live at the end, but growth */
    const char *interpreter; /* why, if that was chosen for one; or NULL */
    struct leaks_row *row;   /* most bytes first */
    size_t count;
    struct leaks_place *place; /* of all rows, in their order */
    size_t places;
    uint64_t bytes, blocks;                       /* sums of the rows */
    uint64_t suppressed_bytes, suppressed_blocks; /* live, or grown */
    uint64_t kept_bytes, kept_blocks; /* of these: kept by libraries */
    uint64_t ended_bytes; /* of growth: freed until the end of the trace */
    const char *reused;   /* function with blocks that Python reuses without
                               malloc; or NULL */
    struct report_suppressions kept; /* patterns of these libraries */
    int status;                      /* enum tool_status */
};

/* Returns false after a message; L->status is TOOL_FAILED then, or TOOL_DAMAGED
   where no call was recorded. Else it may be TOOL_DAMAGED with a message, too.
   L needs leaks_fini in any case. */
bool leaks_find(struct leaks *l, const struct leaks_options *o);
void leaks_fini(struct leaks *l);

#endif
