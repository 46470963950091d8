/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files for other programs: stacks for flame graphs, profiles of pprof,
 * speedscope, DHAT's viewer and gperftools, and a CSV of blocks. Functions
 * return false after a message.
 *
 * Threads: the main thread.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_EXPORT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_EXPORT_H

#include "cmd/malloc_trace/report/report_input.h"
#include "cmd/malloc_trace/report/report_stacks.h"

/* Lines of "outermost;...;innermost NUMBER"; NUMBER is the figure that SORT
   compares, as a whole number. S has labels of functions. */
bool report_export_folded(const struct report_stacks *s, enum report_sort sort,
                          const char *file);
/* profile.proto, not compressed: allocated and live objects and bytes. */
bool report_export_pprof(const struct report_tallies *t,
                         struct symbol_names *names, const char *file);
/* A profile for each of several figures, that of SORT first. NAME: of the
   trace. S has labels of functions. */
bool report_export_speedscope(const struct report_stacks *s, const char *name,
                              enum report_sort sort, const char *file);
/* For dh_view. S has labels of places. */
bool report_export_dhat(const struct report_stacks *s,
                        const struct report_tallies *t, const char *name,
                        const char *file);
/* Text with addresses and the list of libraries. */
bool report_export_heap_profile(struct report_tallies *t, const char *file);
/* CSV with a line for each block. Reads the traces of IN, of which T and NAMES
   are, a second time: the definition of a site may follow its use. */
bool report_export_objects(const char *file, const struct report_input *in,
                           const struct report_tallies *t,
                           struct symbol_names *names);

#endif
