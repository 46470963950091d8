/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that recorded programs and libraries lay in, found again, and what
 * they say of an address: where they were, in the folder that the user names,
 * and by build id. Without elfutils nothing is found.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_MODULES_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_MODULES_H

#include "cmd/malloc_trace/report/debug_index.h"
#include "model/sites.h"

#if TCM_HAVE_LIBDW
struct modules;

/* FOLDER NULL: none. NULL: no memory. */
struct modules *modules_new(const struct tool_sites *sites, const char *folder);
void modules_free(struct modules *m);
/* What lies OFFSET into module NUMBER, innermost first; returns how many
   frames, 0: nothing is known. Texts are good until modules_free. */
unsigned modules_find(struct modules *m, uint32_t number, uint64_t offset,
                      struct debug_frame frame[DEBUG_INDEX_DEPTH]);
#endif

#endif
