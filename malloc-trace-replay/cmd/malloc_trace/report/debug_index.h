/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions and lines of a file's debug information, by address. Only where
 * this program is built with elfutils.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_DEBUG_INDEX_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_DEBUG_INDEX_H

#include "base/compiler.h"

#if TCM_HAVE_LIBDW
#include <elfutils/libdw.h>

/* Functions inlined into each other at one place that are told apart. */
#define DEBUG_INDEX_DEPTH 64u

/* A function at work, and where in it. */
struct debug_frame {
    const char *function; /* as the linker knows it if that is a C++ name;
                             NULL: not known */
    const char *file;     /* NULL: not known */
    unsigned line;        /* 0: not known */
};

struct debug_index;

/* DWARF stays the caller's, for as long. NULL: no memory. */
struct debug_index *debug_index_new(Dwarf *dwarf);
void debug_index_free(struct debug_index *x);
/* What the code at ADDRESS is of, innermost first; returns how many frames, 0:
   nothing is known. Texts are DWARF's. */
unsigned debug_index_find(struct debug_index *x, Dwarf_Addr address,
                          struct debug_frame frame[DEBUG_INDEX_DEPTH]);
#endif

#endif
