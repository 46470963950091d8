/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first lines of `malloc-trace info`: what was recorded, how much was asked
 * for, what it cost, and the sizes as bars.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_SUMMARY_H
#define TOOL_CMD_MALLOC_TRACE_INFO_SUMMARY_H

#include "model/info.h"

void info_summary(const struct info_file *f);

#endif
