/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats, each in the file of its name.
 */
#ifndef TOOL_FORMATS_FORMATS_H
#define TOOL_FORMATS_FORMATS_H

#include "formats/format.h"

extern const struct format format_android;
extern const struct format format_cmt;
extern const struct format format_cmt_text;
extern const struct format format_text;

#endif
