/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether an input is a processed trace, also one that has lost its first LZ4
 * frame and its magic with it.
 */
#ifndef TOOL_TRACE_PROC_KIND_H
#define TOOL_TRACE_PROC_KIND_H

#include "common/input.h"

/* Nothing was read of IN yet. NAME: as given to tool_input_open; NULL for
   stdin, of which only the first bytes can be seen. */
bool proc_kind_is_processed(struct tool_input *in, const char *name);

#endif
