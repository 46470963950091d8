/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other programs read: stacks for flame graphs, and the profiles of
 * pprof, speedscope, DHAT's viewer and gperftools. All are false when a message
 * is out.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_EXPORT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_EXPORT_H

#include "cmd/malloc_trace/report/stacks.h"

/* "outermost;...;innermost NUMBER" a line; NUMBER is what SORT goes by, in
   whole numbers. S has functions. */
bool export_folded(const struct stacks *s, enum rows_sort sort,
                   const char *file);
/* profile.proto, not compressed: allocated and live objects and bytes. */
bool export_pprof(const struct tallies *t, struct names *names,
                  const char *file);
/* A profile for each of several measures, what SORT goes by first. NAME: of the
   trace. S has functions. */
bool export_speedscope(const struct stacks *s, const char *name,
                       enum rows_sort sort, const char *file);
/* For dh_view. S has places. */
bool export_dhat(const struct stacks *s, const struct tallies *t,
                 const char *name, const char *file);
/* As text, with addresses and the list of libraries. */
bool export_heap_profile(struct tallies *t, const char *file);

#endif
