/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a raw trace and counts what is in it.
 */
#ifndef TOOL_MODEL_INFO_RAW_H
#define TOOL_MODEL_INFO_RAW_H

#include "common/input.h"
#include "model/info.h"

/* Takes IN, NULL for a file that is not there, and fills F; messages go to F.
   NAME: as given to tool_input_open. */
void info_read_raw(struct info_file *f, struct tool_input *in,
                   const char *name);

#endif
