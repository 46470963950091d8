/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a processed trace, counts what is in it, and tells where it contradicts
 * itself.
 */
#ifndef TOOL_MODEL_INFO_PROC_H
#define TOOL_MODEL_INFO_PROC_H

#include "common/input.h"
#include "model/info.h"

/* Takes IN and fills F; messages go to F. */
void info_read_processed(struct info_file *f, struct tool_input *in);

#endif
