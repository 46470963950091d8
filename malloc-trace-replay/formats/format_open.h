/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens any trace that the tools read. One of another program becomes a
 * processed trace as it is read.
 */
#ifndef TOOL_FORMATS_FORMAT_OPEN_H
#define TOOL_FORMATS_FORMAT_OPEN_H

#include "common/input.h"
#include "formats/format_import.h"

/* As tool_input_open. */
struct tool_input *format_open(const char *name);

/* The same for IN, of which nothing was read yet. FORMAT NULL: found by
   content. *IMPORT is the import, or NULL if the trace is not foreign; then IN
   itself is returned. Closing the result frees IN and the import. NULL: out of
   memory; IN is closed. */
struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format_type *format,
                                     struct format_import **import);

#endif
