/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other programs read: folded stacks for flame graphs, and the profile of
 * pprof.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_EXPORT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_EXPORT_H

#include "cmd/malloc_trace/report/rows.h"

/* "outermost;...;innermost NUMBER" a line; NUMBER is what SORT goes by, in
   whole numbers. False: a message is out. */
bool export_folded(const struct tallies *t, struct names *names,
                   enum rows_sort sort, const char *file);
/* profile.proto, not compressed: allocated and live objects and bytes. */
bool export_pprof(const struct tallies *t, struct names *names,
                  const char *file);

#endif
