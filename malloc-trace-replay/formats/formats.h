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
extern const struct format format_csv;
extern const struct format format_dj;
extern const struct format format_dj_text;
extern const struct format format_dtrace;
extern const struct format format_gperftools;
extern const struct format format_gperftools_raw;
extern const struct format format_kdump;
extern const struct format format_logalloc;
extern const struct format format_malloc_bench;
extern const struct format format_minimalloc;
extern const struct format format_mwrap;
extern const struct format format_rep;
extern const struct format format_text;
extern const struct format format_webkit_ops;
extern const struct format format_wee_alloc;
extern const struct format format_wl;

#endif
