/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the readers of `malloc-trace dump` share: the state of the run, and the
 * lines that both print.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_H
#define TOOL_CMD_MALLOC_TRACE_DUMP_DUMP_H

#include "cmd/malloc_trace/dump/line.h"
#include "common/input.h"
#include "traceformat/raw_reader.h"

struct dump {
    struct dump_lines lines;
    const char *name; /* of the trace, for messages */
    int status;       /* enum tool_status */
    uint64_t damages; /* lines that tell of damage */
};

/* A line that something is damaged begins; the caller ends it. */
void dump_damage(struct dump *d, uint64_t offset, uint64_t thread);
/* Of a header: process, executable, recorder, as far as it names them. */
void dump_origin(struct dump_lines *l, const struct mtf_raw_info *info);
/* Notes on stderr what the trace lacks; the exit status becomes 3. */
void dump_lacks(struct dump *d, const char *what);

/* Both take IN, and print until the end or until the lines are over. NAME: as
   given to tool_input_open, NULL for stdin. */
void dump_raw(struct dump *d, struct tool_input *in, const char *name);
void dump_processed(struct dump *d, struct tool_input *in, const char *name);

#endif
