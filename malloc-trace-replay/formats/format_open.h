/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens what any tool reads: a trace of ours as it is, one of another program
 * as the processed trace that is made of it on the way.
 */
#ifndef TOOL_FORMATS_FORMAT_OPEN_H
#define TOOL_FORMATS_FORMAT_OPEN_H

#include "common/input.h"
#include "formats/format_import.h"

/* As tool_input_open. */
struct tool_input *format_open(const char *name);

/* The same of IN, of which nothing was read, with a format that is known (NULL:
   found by content) and the import at hand (*IMPORT; NULL: it is no foreign
   trace and the input is IN). It frees IN and the import when it is closed.
   NULL: out of memory; IN is closed. */
struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format *format,
                                     struct format_import **import);

#endif
