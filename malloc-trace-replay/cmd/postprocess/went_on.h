/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the process of a raw trace recorded on: a program that it became by
 * exec, or a recording that was started again, has the trace OUTPUT.1, OUTPUT.2
 * and so on.
 */
#ifndef TOOL_CMD_POSTPROCESS_WENT_ON_H
#define TOOL_CMD_POSTPROCESS_WENT_ON_H
#include "traceformat/raw_reader.h"

/* Says so on stderr if it did behind the trace NAME, whose header is OWN. */
void went_on_tell(const char *name, const struct mtf_raw_header *own);

#endif
