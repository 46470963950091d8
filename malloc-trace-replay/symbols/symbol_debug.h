/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions and lines of a file's debug information (DWARF), by address.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SYMBOLS_SYMBOL_DEBUG_H
#define TOOL_SYMBOLS_SYMBOL_DEBUG_H

#include "base/compiler.h"

/* Most frames at one address: functions inlined into each other. */
#define SYMBOL_DEPTH 64u

/* A function that runs, and the line that it has reached. */
struct symbol_frame {
    const char *function; /* the linker's name if that is C++ or Rust; NULL:
                             not known */
    const char *file;     /* NULL: not known */
    unsigned line;        /* 0: not known */
};

struct Dwarf; /* libdw's */
struct symbol_debug;

/* DWARF stays the caller's and outlives the index. NULL: out of memory. */
struct symbol_debug *symbol_debug_new(struct Dwarf *dwarf);
void symbol_debug_free(struct symbol_debug *x);
/* Fills FRAME, innermost function first; returns the number of frames, 0 if
   nothing is known of ADDRESS. Texts belong to DWARF. */
unsigned symbol_debug_find(struct symbol_debug *x, uint64_t address,
                           struct symbol_frame frame[SYMBOL_DEPTH]);

#endif
