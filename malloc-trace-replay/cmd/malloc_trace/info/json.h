/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a file as JSON.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_INFO_JSON_H
#define TOOL_CMD_MALLOC_TRACE_INFO_JSON_H

#include "common/json.h"
#include "model/info.h"

void info_json(struct tool_json *j, const struct info_file *f);

#endif
